"""The paper's numbers, claims, experiments and report."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deadtime.studies.paper.experiments import EXPERIMENTS

__all__ = ["EXPERIMENTS"]


def __getattr__(name: str) -> Any:
    """Return `EXPERIMENTS`: hundreds of specs, made when they are first asked for."""
    if name == "EXPERIMENTS":
        from deadtime.studies.paper import experiments  # noqa: PLC0415

        return experiments.EXPERIMENTS
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
