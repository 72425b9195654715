"""The paper's numbers, claims, experiments and report."""

__all__: list[str] = []
