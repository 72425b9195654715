"""`deadtime status`: show the progress of a sweep."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from deadtime._support.progress import about
from deadtime._support.terminal import console, counted
from deadtime.cli.option_types import Flag, Place
from deadtime.runs.driven import is_driven, last_status
from deadtime.runs.places import is_url


@dataclass(frozen=True)
class Status:
    """Show which runs of a sweep are done, running or failed.

    Call it from another terminal. It also estimates the time left. The exit status is 1 if a run
    has failed.
    """

    records: tyro.conf.Positional[Place] = "results/paper"
    """Folder or URL of records that the sweep writes to."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        """Read the status, and print it."""
        status = _status(self.records)
        if "units" not in status:
            wrong = f"no status file found in {self.records}"
            raise ValueError(f"{wrong}: start `deadtime sweep` or `reproduce` there first")
        left = status["work"] - status["work_done"]
        begun = status["work_done"] and status["driven"]
        seconds = round(status["seconds"] * left / status["work_done"]) if begun else None
        status["seconds_left"] = seconds
        if self.json:
            print(json.dumps(status))
        else:
            _print(status)
        return 1 if status["failed"] else 0


def _print(status: dict[str, Any]) -> None:
    """Print a status as lines of text."""
    driven = status["driven"]
    shown = console()
    share = _percent(status["work_done"], status["work"])
    units = counted(status["units"], "unit")
    shown.print(f"{status['done']} of {units} done, {share}% of the work")
    for one in status["running"] if driven else []:
        again = f", attempt {one['attempt']}" if one["attempt"] > 1 else ""
        share = _percent(one["done"], one["work"])
        shown.print(f"running: {one['name']}: {share}% in {one['since']:.0f} s{again}")
    for one in status["failed"]:
        shown.print(f"failed: {one['name']}: {one['reason']}", soft_wrap=True)
    state = "stopped; run the same command again to resume it"
    if driven:
        state = "running"
    elif status["done"] == status["units"]:
        state = "finished"
    seconds = status["seconds_left"]
    left = f", {about(seconds)} left" if seconds is not None else ""
    shown.print(f"{state}{left}")


def _percent(part: int, whole: int) -> int:
    """Return a part in whole percent; 100 where there is nothing to do."""
    return 100 * part // whole if whole else 100


def _status(place: str | Path) -> dict[str, Any]:
    """Return the status that a driver last wrote there, and whether it still works."""
    if is_url(place):
        from deadtime.runs.store import Store  # noqa: PLC0415  (a folder needs no store)

        store = Store(str(place))
        alive = store.alive()
        return (alive or store.status()) | {"driven": bool(alive)}
    return last_status(Path(place)) | {"driven": is_driven(Path(place))}
