"""The base of all trained policies: their sizes, their delay, and where they were trained."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

from gymnasium import spaces

from deadtime.delays.convention import check_delay

SEES = ("state", "queue", "prediction", "law")
"""What a policy decides from: the state, the state and the queue, a predicted state, or its law."""
NO_FIT = "the layers of a policy fit each other and its environment; these do not: train it again"


def check_sees(sees: str) -> bool:
    """Return whether a policy needs a forward model, or raise if `sees` is not one of `SEES`."""
    if sees not in SEES:
        raise ValueError(f"a policy sees one of {', '.join(SEES)}; got {sees!r}: train it again")
    return sees in ("prediction", "law")


class Policy:
    """A trained policy, which chooses an action from an observation and the pending actions."""

    delay: int
    agent: str
    num_actions: int
    observation_shape: tuple[int, ...] = ()
    num_states: int = 0
    """The number of states, where an observation is the number of one."""
    sees_queue: bool = False
    """Whether the policy was trained to look at the pending actions themselves."""
    plays_one_game: bool = False
    """Whether it acts only in the very environment that it was trained in."""
    env: str = ""
    """The name of the environment of the training, where a record tells it."""

    def act(self, observation: Any, pending_actions: Any = ()) -> int:
        """Return the action to choose now, which is executed after the pending ones."""
        raise NotImplementedError

    def reset(self) -> None:
        """Start an episode: a policy with a memory forgets what it saw."""

    def at_delay(self, delay: int) -> Self:
        """Return the same policy under another delay, at the start of an episode."""
        delay = check_delay(delay)
        if self.sees_queue and delay != self.delay:
            raise ValueError(
                f"{self.agent} has learned only from queues of exactly {self.delay} actions; "
                f"got a delay of {delay}: train it with that delay"
            )
        twin = copy(self)
        twin.delay = delay
        twin.reset()
        return twin

    def fits(self, actions: Any, observations: Any) -> bool:
        """Return whether the policy can act with these Gymnasium spaces."""
        if not isinstance(actions, spaces.Discrete):
            return False
        if (actions.start, actions.n) != (0, self.num_actions):
            return False
        if isinstance(observations, spaces.Discrete):
            return (observations.start, observations.n) == (0, self.num_states)
        return not self.num_states and observations.shape == self.observation_shape

    @property
    def sizes(self) -> str:
        """The policy's inputs and outputs in words."""
        if self.num_states:
            seen = f"{self.num_states} states"
        elif len(self.observation_shape) == 1:
            seen = f"{self.observation_shape[0]} numbers"
        else:
            seen = f"frames of shape {self.observation_shape}"
        return f"{seen} -> {self.num_actions} actions"

    def __repr__(self) -> str:
        """Return the agent, the environment where it is known, the delay and the sizes."""
        where = f" on {self.env}" if self.env else ""
        return f"{type(self).__name__}({self.agent}{where}, delay={self.delay}, {self.sizes})"


def check_game(policy: Any, name: str) -> None:
    """Raise if one of our policies was trained for another Atari game than `name`."""
    if isinstance(policy, Policy) and policy.plays_one_game and policy.env not in ("", name):
        raise ValueError(
            f"a policy of an Atari game plays that game only, this one {policy.env}; got {name}: "
            f"train one there, or name {policy.env}"
        )


def check_place(policy: Any, env: Any, name: str = "") -> None:
    """Raise if one of our policies can't act in a Gymnasium environment.

    `name` is how the environment is named here. Environments of ours may say it themselves, in an
    attribute `deadtime_name`.
    """
    if not isinstance(policy, Policy):
        return
    name = name or str(getattr(env.unwrapped, "deadtime_name", env))
    check_game(policy, name)
    if not policy.fits(env.action_space, env.observation_space):
        raise ValueError(
            f"a policy acts where observations and actions are as in its training, {policy.sizes}; "
            f"{name} has observations {env.observation_space} and actions {env.action_space}: "
            "train one there"
        )
