"""The interface of a learner's code, and functions that all learners share.

A learner is written for one run. `init` makes its state, `act` chooses for one actor, `record`
selects the parts of a step to learn from, and `update` learns from them. Loops map these functions
over actors, lanes and runs. The state of every learner has `updates` and `diverged_at`.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from deadtime.learn.program import Actor, Done, Program, Setup

StateT = TypeVar("StateT", bound=Any)
Keys = dict[str, Array]


class LearnerCode(Protocol):
    """The functions of a learner, each for one run."""

    keys: tuple[str, ...]
    """The uses of a step's random keys; one of them is "environment"."""
    numbers: Any
    """A NamedTuple of the settings that may differ between runs of one program."""
    updates_once: bool
    """Whether an update takes a rollout of all actors; otherwise it takes one step of one actor."""

    def actors(self, program: Program) -> int:
        """Return the number of environments of a run inside the program."""

    def rollout(self, program: Program) -> int:
        """Return the steps of each actor between two updates."""

    def init(self, program: Program, setup: Setup, key: Array) -> Any:
        """Return the state of a new learner."""

    def new_replay(self, program: Program) -> Any:
        """Return the empty replay buffer of a run; () if there is none."""

    def new_memory(self, program: Program) -> Any:
        """Return the memory of an actor at the start of an episode; () if it has none."""

    def act(
        self, program: Program, setup: Setup, state: PyTree, actor: Actor, keys: Keys
    ) -> tuple[Array, Any]:
        """Return an action for training, and the actor's next memory."""

    def decide(
        self, program: Program, setup: Setup, state: PyTree, actor: Actor, key: Array
    ) -> tuple[Array, Any]:
        """Return the best action, without exploration, and the actor's next memory."""

    def record(
        self, program: Program, setup: Setup, state: PyTree, actor: Actor, done: Done
    ) -> Any:
        """Return the parts of a step that `update` needs."""

    def update(
        self,
        program: Program,
        setup: Setup,
        state: PyTree,
        replay: PyTree,
        kept: PyTree,
        t: Int[Array, ""],
        keys: Keys,
    ) -> tuple[Any, Any]:
        """Return state and replay buffer after learning from a record, at environment step t.

        With `updates_once`, `kept` is a pair: the actors' memories before the rollout, and their
        records with the axes (step, actor).
        """

    def policy_arrays(self, program: Program, state: PyTree) -> dict[str, np.ndarray]:
        """Return the arrays of a policy."""


def kept(
    new: StateT, old: StateT, finite: Array, t: Int[Array, ""], usable: bool | Array = True
) -> StateT:
    """Return the new state of a learner, or the old one if it diverged or can't learn yet."""
    going = usable & (old.diverged_at < 0)
    state = jax.tree.map(lambda a, b: jnp.where(going & finite, a, b), new, old)
    return state._replace(diverged_at=jnp.where(going & ~finite, t, old.diverged_at))


def learning_rate(setup: Setup, t: Int[Array, ""]) -> Any:
    """Return the learning rate at step t; it falls linearly (see `learning_rate_fall`)."""
    return setup.numbers.learning_rate * (1.0 - setup.numbers.learning_rate_fall * t / setup.steps)


def never() -> Int[Array, ""]:
    """Return the `diverged_at` of a learner that has not diverged."""
    return jnp.full((), -1, jnp.int32)
