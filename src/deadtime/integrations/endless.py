"""A check of processes that run on a device, where the end of a trace can't raise an error."""

from __future__ import annotations

from deadtime.delays import DelayProcess


def check_endless(process: DelayProcess) -> None:
    """Raise if a process can end."""
    if not process.chain.endless:
        raise ValueError(
            "a device draws ages and can't report the end of a trace, so a delay has no end; got "
            f"{process}: pass repeat=True to the trace"
        )
