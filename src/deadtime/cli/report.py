"""`deadtime report`: make one page from records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from os.path import relpath
from pathlib import Path
from typing import Annotated

import tyro

from deadtime.cli.option_types import Place


@dataclass(frozen=True)
class Report:
    """Make one HTML page from the records in a folder.

    The page has figures, tables and learning curves of your own runs. Experiments of the paper
    are shown beside the paper's numbers. Nothing is trained.
    """

    records: tyro.conf.Positional[Place] = "results/paper"
    """Folder or URL of records."""
    out: Annotated[
        Path | None,
        tyro.conf.arg(
            metavar="PATH", help_behavior_hint="(default: report.html in the folder of records)"
        ),
    ] = None
    """HTML file to write."""

    def run(self) -> int:
        """Read the records, draw the figures, and write the page."""
        from deadtime._support.files import whole  # noqa: PLC0415  (help needs none of these)
        from deadtime.runs.places import is_url  # noqa: PLC0415
        from deadtime.runs.store import copied  # noqa: PLC0415
        from deadtime.studies.report import check_replaced, page  # noqa: PLC0415

        if self.out is not None and self.out.suffix != ".html":
            raise ValueError(f"a report is one HTML page; got {self.out}: end the name in .html")
        with copied(self.records) as folder:
            if not folder.is_dir():
                rule = f"records are in a folder; {folder} is not a folder"
                small = "`deadtime reproduce all --smoke` makes a small one, results/paper/smoke"
                raise ValueError(f"{rule}: {small}")
            usual = Path("report.html") if is_url(self.records) else folder / "report.html"
            out = self.out or usual
            check_replaced(out)
            today = datetime.now(UTC).date().isoformat()
            text = page(folder, today, _claims(folder, out), str(self.records))
        out.parent.mkdir(parents=True, exist_ok=True)
        with whole(out) as part:
            part.write_text(text, encoding="utf-8")
        print(out)
        return 0


def _claims(folder: Path, out: Path) -> str:
    """Return the link from a page to docs/claims.md, if that is near the folder of records."""
    near = [parent / "docs" / "claims.md" for parent in folder.resolve().parents[:2]]
    return next((relpath(path, out.resolve().parent) for path in near if path.exists()), "")
