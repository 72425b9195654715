"""The interface of a family of environments.

A family is one file that knows all about its members: their names and settings, how they are made,
which loop trains agents on them, how they look to Gymnasium and how they are drawn. Nothing else
in the library asks for an environment's name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from deadtime._support.names import nearest

if TYPE_CHECKING:
    import gymnasium as gym
    from PIL.Image import Image

    from deadtime.envs.pools import Lane, Pool

Loop = Literal["tabular", "compiled", "host"]
"""Where an environment runs: as a table, inside the compiled program, or outside it in a pool."""
Limits = tuple[float, float]
ANY_RETURN: Limits = (-math.inf, math.inf)
Draw = Callable[[Any, Any], "Image"]
"""A function from an observation and the predicted one to a picture."""
Arrows = Sequence[tuple[int, ...]] | None
"""The direction of each action's arrow as (down, right), and 1 after it if it fires; None: actions are numbers."""


class Family(Protocol):
    """A kind of environments; subclasses say how their members differ from these defaults."""

    name: ClassVar[str]
    """The family's name, which component versions and files of records carry."""
    version: ClassVar[int] = 1
    """The version of the dynamics; raise it when a change of them changes results."""
    loop: ClassVar[Loop]
    """The loop that trains agents on its members."""
    members: ClassVar[Mapping[str, dict[str, Any]]] = {}
    """The members' names and the settings that are usual for each."""
    prefix: ClassVar[str] = ""
    """The beginning of the members' names, where there are too many to list."""
    word: ClassVar[str] = ""
    """The rest of such a name in messages: ID in gym:ID."""
    frames: ClassVar[bool] = False
    """Whether observations are stacks of frames; else they are numbers."""
    continuous: ClassVar[bool] = False
    """Whether actions are real vectors; else they are numbered."""
    looks_ahead: ClassVar[bool] = False
    """Whether environments of a pool can look ahead through the queue."""
    in_processes: ClassVar[bool] = False
    """Whether a pool has processes of its own, which take all cores; else it steps in this one."""
    seed_stream: ClassVar[int] = 0x905
    """The stream of random numbers that gives the seeds of a pool's lanes."""
    shaped: ClassVar[bool] = False
    """Whether there is a shaped reward to train on."""
    frame_milliseconds: ClassVar[int] = 40
    """The time that `watch` shows each step for."""
    most_drawn: ClassVar[int | None] = None
    """The most steps that `watch` draws; None: a whole episode."""
    usual_steps: ClassVar[int | None] = None
    """Environment steps of a training; None: 100,000 and 10,000 more for each step of delay."""
    usual_evaluation_episodes: ClassVar[int] = 100

    def owns(self, name: str) -> bool:
        """Return whether `name` is a member's."""
        return name in self.members or bool(self.prefix and name.startswith(self.prefix))

    @property
    def shown(self) -> tuple[str, ...]:
        """The members' names for messages and help."""
        return (f"{self.prefix}{self.word}",) if self.prefix else tuple(self.members)

    def setting_names(self, name: str) -> list[str] | None:
        """Return the settings that a member takes; None: any."""
        raise NotImplementedError

    def describe(self, name: str, settings: dict[str, Any]) -> Any:
        """Return a member as checked data, or None if only the environment itself knows it.

        Nothing is built, imported or started, so that records from elsewhere can be described.
        """
        return None

    def make(self, name: str, settings: dict[str, Any]) -> Any:
        """Make a member, for the loop that the family needs."""
        raise NotImplementedError

    def check_name(self, name: str) -> None:
        """Raise if a record has a name of the wrong form."""
        return

    def check_import(self, name: str, allowed: Collection[str] = ()) -> None:
        """Raise if a name from a file asks for a module that the user neither imported nor allowed."""
        return

    def check_settings(
        self, name: str, settings: Mapping[str, Any], others: Collection[str] = ()
    ) -> None:
        """Raise if a setting is neither a member's nor among `others`."""
        own = self.setting_names(name)
        if own is None:
            return
        known = [*own, *sorted(others)]
        for setting in settings:
            if setting not in known:
                takes = ", ".join(known)
                raise ValueError(
                    f"{name} has no setting {setting!r}{nearest(setting, known)}: it takes {takes}"
                )

    def return_limits(self, settings: Mapping[str, Any]) -> Limits:
        """Return the least and the largest return of an episode, infinite where they are not known."""
        return ANY_RETURN

    def longest_episode(self, environment: Any) -> int:
        """Return the most steps of an evaluated episode."""
        return int(getattr(environment.default_params, "max_steps_in_episode", 500))

    def paper_settings(self, environment: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that the authors' protocol has, where they differ from the usual ones."""
        return {}

    def gymnasium_form(
        self, environment: Any, delay: int, policy: Any = None, **making: Any
    ) -> gym.Env:
        """Return a member as a Gymnasium environment under a delay, with the warm-up that training uses."""
        raise NotImplementedError

    def pool(self, lanes: Sequence[Lane], name: str) -> Pool:
        """Start environments outside the compiled program, a lane each; `name` is for errors."""
        raise ValueError(
            f"environments of {self.name} do not run outside a program; got {name}: choose another"
        )

    def can_draw(self, environment: Any) -> bool:
        """Return whether `watch` can draw a member."""
        return False

    def scene(self, environment: Any, env: Any) -> tuple[Draw, Arrows]:
        """Return the function that draws a step of `env`, and the actions' arrows."""
        raise ValueError(f"watch draws no environment of {self.name}: name another")
