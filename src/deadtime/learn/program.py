"""Programs: what a training is compiled for, and what differs between the runs of one program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from deadtime.learn.learners import LEARNERS
from deadtime.runtime.views import Code, View

compiled = partial(jax.jit, compiler_options={"xla_gpu_autotune_level": 0})
"""`jax.jit` to the same bits in every process: on a GPU no kernel is chosen by timing it."""
compiled_products = partial(
    jax.jit, compiler_options={"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
)
"""The same for large products: without timing, the vendor's kernels are the faster ones."""


@dataclass(frozen=True)
class Program:
    """What is compiled once: a learner with its settings, its view and its environment's form."""

    env: Any
    """An environment with its default parameters, of which runs bring their own; for frames None."""
    view: View | None
    """None: each run has its own, as its setup says."""
    settings: Any
    """The learner's settings; those that a setup carries are at their defaults here."""
    capacity: int
    """The room for pending actions."""
    lanes: int = 1
    """Environments of a run, where they are outside the program."""

    @cached_property
    def learner(self) -> Any:
        """The code of the learner (see `learner_code`)."""
        return LEARNERS[self.settings.kind].load()

    @cached_property
    def observation(self) -> int:
        """The number of numbers in an observation."""
        return int(self.env.observation_space(self.env.default_params).shape[0])

    @cached_property
    def box(self) -> Any:
        """The space of actions that are real vectors, with `low` and `high`; None for numbered ones."""
        space = self.env.action_space(self.env.default_params)
        return space if hasattr(space, "low") else None

    @property
    def action_shape(self) -> tuple[int, ...]:
        """The shape of one action: () for numbered ones."""
        return () if self.box is None else tuple(self.box.shape)

    @property
    def action_type(self) -> Any:
        """The type of an action's numbers."""
        return jnp.int32 if self.box is None else jnp.float32

    @property
    def predicts(self) -> bool:
        """Whether there is a forward model."""
        return self.view is None or self.view.predicts

    @property
    def queue_room(self) -> int:
        """The pending actions that the learner is shown at most."""
        return self.capacity if self.view is None or self.view.sees_queue else 0

    def code(self, setup: Setup) -> Code:
        """Return the view of a run as numbers: the program's, or its own in a shared program."""
        return setup.view if self.view is None else self.view.code


class Setup(NamedTuple):
    """What differs between the runs of one program."""

    key: Array
    delay: Int[Array, ""]
    params: Any
    """The environment's parameters."""
    steps: Int[Array, ""]
    numbers: Any
    """The settings that may differ between runs of a program, named as in the settings."""
    view: Code
    actions: Any = ()
    """The number of a game's actions, where games share a program."""


def split_settings(settings: Any) -> tuple[Any, Any]:
    """Return the settings that a program is compiled for, and those that its setups carry."""
    told = LEARNERS[settings.kind].load().numbers
    numbers = told(*(getattr(settings, name) for name in told._fields))
    usual = {name: getattr(type(settings), name) for name in told._fields}
    return replace(settings, **usual), numbers


class Actor(NamedTuple):
    """One environment of a run between two steps."""

    env: Any
    obs: Float[Array, " D"]
    queue: Int[Array, " C"]
    history: Float[Array, "past D"]
    """The last C + 1 observations, newest last, where the view credits shifted transitions."""
    age: Int[Array, ""]
    """Steps since the episode began."""
    memory: Any
    """The learner's memory of the episode; () if it has none."""


class Done(NamedTuple):
    """One step of an actor: what it did and what came of it, before any reset."""

    action: Array
    executed: Array
    reward: Float[Array, ""]
    terminated: Array
    ended: Array
    """Whether the episode is over, terminated or cut off."""
    obs: Float[Array, " D"]
    queue: Int[Array, " C"]
    memory: Any
