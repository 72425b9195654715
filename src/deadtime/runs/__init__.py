"""Runs: specs, records, the driver and its engines, sweeps and statistics."""

__all__: list[str] = []
