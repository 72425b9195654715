"""`deadtime plan`: solve a finite MDP with execution delay."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from deadtime.cli.problems import Problem


@dataclass(frozen=True)
class Plan:
    """Solve a finite MDP with execution delay exactly.

    The delay is a number of steps, or varies from step to step: --delay walk:0-3.
    """

    problem: Problem

    def run(self) -> int:
        """Solve and print; exits with 1 if the solver did not converge."""
        from deadtime.cli.planned import solved  # noqa: PLC0415  (help needs no solver)

        answer = solved(self.problem)
        if self.problem.solving.json:
            print(json.dumps(answer))
        else:
            _print(answer)
        return 0 if answer["converged"] else 1


_LABELS = {
    "value_age_seen_now": "value, age seen now",
    "value_age_seen_later": "value, age seen later",
    "value_age_never_seen_at_least": "value, age never seen, at least",
    "value_waiting_for_longest_age": "value, waiting for longest age",
    "closed_form": "closed form of delayed value",
}
"""Labels in the table that differ from the names in JSON."""


def _print(answer: dict[str, Any]) -> None:
    """Print an answer as a table, without the values of all augmented states."""
    from rich.table import Table  # noqa: PLC0415  (help needs neither)

    from deadtime._support.terminal import console  # noqa: PLC0415

    table = Table("", "", show_header=False)
    for name, value in answer.items():
        if value is not None and name != "optimal_augmented_values":
            table.add_row(_LABELS.get(name, name.replace("_", " ")), _shown(name, value))
    console().print(table)


def _shown(name: str, value: object) -> str:
    """Return a value of an answer as text: numbers with 10 digits, laws with 4, errors with 3."""
    if isinstance(value, dict):
        parts = (f"{k}: {v:.4g}" if isinstance(v, float) else f"{k}: {v}" for k, v in value.items())
        return "\n".join(parts)
    digits = 3 if name.endswith(("error_bound", "residual")) else 10
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
