"""Delays for agents and environments of other libraries; each module imports its library."""

__all__: list[str] = []
