"""The family `table:ID`: Gymnasium environments with a table of transitions, for tabular agents."""

from __future__ import annotations

from typing import Any

from deadtime.envs.gym_family import GymFamily
from deadtime.envs.gym_table import PREFIX, Table, table


class TableFamily(GymFamily):
    """Gymnasium environments that hold all their transitions in ``env.unwrapped.P``."""

    name = "table"
    loop = "tabular"
    prefix = PREFIX
    action_kinds = ("numbered",)
    observation_kinds = ("numbers",)
    frame_milliseconds = 250

    def make(self, name: str, settings: dict[str, Any]) -> Table:
        """Return an environment as arrays; it is made once to read its table, then closed."""
        return table(name, settings)
