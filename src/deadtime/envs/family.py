"""The interface of a family of environments.

A family is one file with all that is special about its environments: their names and settings, how
they are made, which loop trains agents on them, their Gymnasium form and their pictures. No other
code depends on the name of an environment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

from deadtime._support.names import nearest
from deadtime.delays import Delay

if TYPE_CHECKING:
    import gymnasium as gym
    from PIL.Image import Image

    from deadtime.envs.pools import Lane, Pool

Loop = Literal["tabular", "compiled", "host"]
"""The training loop: tabular, inside a compiled program, or on the host with a pool."""
Limits = tuple[float, float]
"""The least and the largest return of an episode."""
ActionKind = Literal["numbered", "box"]
"""The kind of actions of an environment: numbered from 0, or real vectors within bounds."""
ObservationKind = Literal["numbers", "frames"]
"""The kind of observations of an environment: numbers on one axis, or stacks of frames."""
ANY_RETURN: Limits = (-math.inf, math.inf)
Member = TypeVar("Member")
"""The type of a family's environments, as `describe` or `make` returns them."""
Draw = Callable[[Any, Any], "Image"]
"""A function that draws an observation and the predicted one."""
Arrows = Sequence[tuple[int, ...]] | None
"""The arrow of each action as (down, right), then 1 if the action fires; None for numbers."""


class Family(Protocol[Member]):
    """A kind of environment; subclasses override the defaults that differ."""

    name: ClassVar[str]
    """The name of the family in records."""
    version: ClassVar[int] = 1
    """The version of the dynamics. Raise it when a change alters results."""
    loop: ClassVar[Loop]
    """The loop that trains agents on this family."""
    members: ClassVar[Mapping[str, dict[str, Any]]] = {}
    """The names of the environments, each with its default settings."""
    prefix: ClassVar[str] = ""
    """The prefix of the names, for a family with too many environments to list."""
    word: ClassVar[str] = ""
    """The placeholder after the prefix in messages: ID in gym:ID."""
    observation_kinds: ClassVar[tuple[ObservationKind, ...]] = ("numbers",)
    """The kinds of observations that its environments give, the usual one first."""
    action_kinds: ClassVar[tuple[ActionKind, ...]] = ("numbered",)
    """The kinds of actions that its environments have, the usual one first."""
    one_policy_each: ClassVar[bool] = False
    """Whether a policy acts only in its own environment, even if others have the same spaces."""
    looks_ahead: ClassVar[bool] = False
    """Whether a pool can run the pending actions ahead of time."""
    in_processes: ClassVar[bool] = False
    """Whether a pool runs worker processes on all cores instead of in this process."""
    seed_stream: ClassVar[int] = 0x905
    """The random stream of the lanes' seeds."""
    shaped: ClassVar[bool] = False
    """Whether the environment has a shaped reward for training."""
    frame_milliseconds: ClassVar[int] = 40
    """The time for which `watch` shows each step."""
    most_drawn: ClassVar[int | None] = None
    """The largest number of steps that `watch` draws; None for a whole episode."""
    usual_steps: ClassVar[int | None] = None
    """The default number of training steps; None for 100,000 plus 10,000 per step of delay."""

    def owns(self, name: str) -> bool:
        """Return whether this family has an environment called `name`."""
        return name in self.members or bool(self.prefix and name.startswith(self.prefix))

    @property
    def shown(self) -> tuple[str, ...]:
        """The names that messages and help show."""
        return (f"{self.prefix}{self.word}",) if self.prefix else tuple(self.members)

    def setting_names(self, name: str) -> list[str] | None:
        """Return the names of an environment's settings; None if any name is possible."""
        raise NotImplementedError

    def describe(self, name: str, settings: dict[str, Any]) -> Any:
        """Return an environment as checked data; None if only making it shows that it is valid.

        Nothing is built, imported or started, so a record from a stranger is safe to describe.
        """
        return None

    def make(self, name: str, settings: dict[str, Any]) -> Member:
        """Make an environment for this family's training loop."""
        raise NotImplementedError

    def action_kind(self, name: str, settings: dict[str, Any]) -> ActionKind:
        """Return the kind of actions of an environment.

        The environment is made to find out, if the family has several kinds.
        """
        if len(self.action_kinds) == 1:
            return self.action_kinds[0]
        environment: Any = self.make(name, settings)
        space = environment.action_space(environment.default_params)
        return "box" if hasattr(space, "low") else "numbered"

    def observation_kind(self, name: str, settings: dict[str, Any]) -> ObservationKind:
        """Return the kind of observations of an environment.

        The environment is made to find out, if the family has several kinds.
        """
        if len(self.observation_kinds) == 1:
            return self.observation_kinds[0]
        environment: Any = self.make(name, settings)
        space = environment.observation_space(environment.default_params)
        return "frames" if len(space.shape) > 1 else "numbers"

    def check_name(self, name: str) -> None:
        """Raise if a name from a record has the wrong form."""
        return

    def check_import(self, name: str, allowed: Collection[str] = ()) -> None:
        """Raise if a name from a file needs a module that the user neither imported nor allowed."""
        return

    def check_processes(self, name: str) -> None:
        """Raise if runs in this environment can't be sent to other processes."""
        return

    def provenance(self, environment: Member) -> dict[str, str]:
        """Return what a record says about an environment, beside its name and settings."""
        return {}

    def check_settings(
        self, name: str, settings: Mapping[str, Any], others: Collection[str] = ()
    ) -> None:
        """Raise if a setting is neither the environment's nor among `others`."""
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
        """Return the least and the largest return of an episode, infinite if unknown."""
        return ANY_RETURN

    def longest_episode(self, environment: Member) -> int:
        """Return the largest number of steps of an evaluation episode."""
        params = environment.default_params  # type: ignore[attr-defined]  # gymnax's own attribute
        return int(getattr(params, "max_steps_in_episode", 500))

    def paper_settings(self, environment: Member, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of the paper's protocol that differ from the defaults."""
        return {}

    def gymnasium_form(
        self,
        environment: Member,
        delay: Delay,
        policy: object = None,
        render_mode: str | None = None,
    ) -> gym.Env:
        """Return the environment in Gymnasium under a delay, with the warm-up of training.

        `watch` asks for a `render_mode`; families with pictures of their own ignore it.
        """
        raise NotImplementedError

    def pool(self, lanes: Sequence[Lane], name: str) -> Pool:
        """Start environments outside the compiled program, one per lane; `name` is for error
        messages.
        """
        raise ValueError(
            f"environments of {self.name} do not run outside compiled programs; got {name}: "
            "choose another environment"
        )

    def can_draw(self, environment: Member) -> bool:
        """Return whether `watch` can draw the environment."""
        return False

    def scene(self, environment: Member, env: gym.Env) -> tuple[Draw, Arrows]:
        """Return a function that draws a step of `env`, and the arrows of the actions."""
        raise ValueError(
            f"watch can't draw environments of {self.name}: choose another environment"
        )
