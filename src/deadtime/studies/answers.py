"""Answers of an experiment whose cases are no runs, in one JSON file beside the records."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from deadtime._support.files import from_json, plain, whole
from deadtime.runs.provenance import current_provenance


class Case(Protocol):
    """A question with a name of its own."""

    @property
    def id(self) -> str:
        """The name of the case in the file."""


@dataclass(frozen=True)
class Answers:
    """Cases, the function that answers one, and the file of answers."""

    file: str
    cases: Callable[[], Sequence[Any]]
    """The function that returns the cases."""
    answer: Callable[[Any, Path], dict[str, Any]]
    """The function that returns the answer to a case, as data for JSON, from the case and the
    folder of records."""

    def kept(self, root: Path) -> dict[str, dict[str, Any]]:
        """Return the answers that a folder has, by the id of the case."""
        known = self._read(root)["cases"]
        return {case.id: known[case.id] for case in self.cases() if case.id in known}

    def make(self, root: Path) -> None:
        """Answer the cases that a folder has no answer to, and write each answer at once."""
        found = self._read(root)
        for case in self.cases():
            if case.id not in found["cases"]:
                found["cases"][case.id] = self.answer(case, root)
                found["provenance"] = current_provenance()
                with whole(root / self.file) as part:
                    part.write_text(json.dumps(found, indent=1), encoding="utf-8")

    def _read(self, root: Path) -> dict[str, Any]:
        path = root / self.file
        return from_json(plain(path)) if path.exists() else {"provenance": None, "cases": {}}
