"""`deadtime verify`: check the claims of the paper."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from deadtime.cli.option_types import Flag

if TYPE_CHECKING:
    from deadtime.studies.paper.claims import Claim
    from deadtime.studies.paper.claims_optima import Finding

_COLOURS = {"holds": "green", "fails as written": "yellow", "unproven": "magenta"}
"""The colour of each verdict."""


@dataclass(frozen=True)
class Verify:
    """Check each claim of the paper numerically.

    The exit status is 1 if a verdict differs from the one in docs/claims.md.
    """

    only: Annotated[
        tuple[str, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="(default: all)")
    ] = ()
    """Names of the claims to check, in quotes where they have spaces."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        """Check the claims, and print what was found."""
        from rich.progress import track  # noqa: PLC0415  (help needs none of these)

        from deadtime._support.terminal import console  # noqa: PLC0415
        from deadtime.studies.paper.claims import CLAIMS  # noqa: PLC0415

        names = [claim.name for claim in CLAIMS]
        for name in self.only:
            if name not in names:
                raise ValueError(f"no claim is called {name!r}: choose from {', '.join(names)}")
        chosen = [claim for claim in CLAIMS if not self.only or claim.name in self.only]
        shown = console(stderr=True)
        steps = chosen if self.json else track(chosen, "checking", console=shown, transient=True)
        found = [(claim, claim.check()) for claim in steps]
        if self.json:
            print(json.dumps({"claims": [_row(claim, finding) for claim, finding in found]}))
        else:
            _print(found)
        return 0 if all(finding.verdict == claim.expected for claim, finding in found) else 1


def _row(claim: Claim, finding: Finding) -> dict[str, Any]:
    """Return a claim and its finding as a dictionary."""
    about = {"claim": claim.name, "where": claim.where, "statement": claim.statement}
    return {**about, **vars(finding), "as_expected": finding.verdict == claim.expected}


def _print(found: list[tuple[Claim, Finding]]) -> None:
    """Print one block per claim, wrapped to the console's width, and the number of each verdict."""
    from textwrap import TextWrapper  # noqa: PLC0415  (JSON and help need none of these)

    from rich.text import Text  # noqa: PLC0415

    from deadtime._support.terminal import console  # noqa: PLC0415
    from deadtime.studies.paper.claims import tally  # noqa: PLC0415

    shown = console()
    wrapper = TextWrapper(shown.width, "  ", "    ", break_on_hyphens=False)
    for claim, finding in found:
        verdict = (str(finding.verdict), _COLOURS[finding.verdict])
        head = Text.assemble((f"{claim.name:<18}", "bold"), f"  {claim.where:<9}  ", verdict)
        if finding.verdict != claim.expected:
            head.append(f" (expected: {claim.expected})", "red")
        shown.print(head.append(f", {finding.cases} case{'s' * (finding.cases > 1)}"))
        for text in (f"Claim: {claim.statement}", f"Found: {finding.detail}"):
            shown.print(Text(wrapper.fill(text)))
        shown.print()
    shown.print(tally(finding.verdict for _, finding in found))
