"""What a compiled training program is made for, what its runs are told, and what they carry from step to step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
from jaxtyping import Array, Float, Int

from deadtime.learn.forward_model import ForwardModel
from deadtime.learn.networks import MLP
from deadtime.learn.replay import Replay
from deadtime.learn.settings import DoubleQ
from deadtime.learn.views import View

compiled = partial(jax.jit, compiler_options={"xla_gpu_autotune_level": 0})
"""`jax.jit` to the same bits in every process: on a GPU no kernel is chosen by timing it."""
compiled_products = partial(jax.jit, compiler_options={"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False})
"""The same for large products: of those that are not chosen by timing, the vendor's kernels are the faster ones."""


@dataclass(frozen=True)
class Program:
    """What is compiled once."""

    env: Any
    """A functional environment with its default parameters; runs bring their own."""
    view: View | None
    """None: each run has its own, told by its flags."""
    settings: DoubleQ
    capacity: int

    stride: ClassVar[int] = 1
    """Environment steps of a run that are taken together."""

    @property
    def observation(self) -> int:
        """Numbers in an observation."""
        return int(self.env.observation_space(self.env.default_params).shape[0])

    @property
    def predicts(self) -> bool:
        """Whether there is a forward model."""
        return self.view is None or self.view.predicts

    @property
    def queue_room(self) -> int:
        """Pending actions among Q's inputs."""
        return self.capacity if self.view is None or self.view.sees == "queue" else 0


class Numbers(NamedTuple):
    """The settings that may differ between runs of one program, named as in `DoubleQ`."""

    learning_rate: Any
    learning_rate_fall: Any
    discount: Any
    target_period_updates: Any
    target_rate: Any
    epsilon_decay: Any
    epsilon_floor: Any
    shaped: Any
    shaped_bonus: Any
    centre: Any
    scaled: Any
    double: Any
    terminals: Any
    skipped_delays: Any


class Flags(NamedTuple):
    """A view as numbers."""

    predicts: Any
    sees_queue: Any
    executed: Any
    """Whether the executed action's transition is learned from, else the chosen one's."""


def flags_of(view: View) -> Flags:
    """Those of a view."""
    return Flags(view.predicts, view.sees == "queue", view.credits == "executed")


class Setup(NamedTuple):
    """What differs between runs."""

    key: Array
    delay: Int[Array, ""]
    params: Any
    steps: Int[Array, ""]
    numbers: Any
    flags: Any


def split_settings(settings: Any, told: Any = Numbers) -> tuple[Any, Any]:
    """What a program is compiled for (the rest at its default), and what it is told."""
    numbers = told(*(getattr(settings, name) for name in told._fields))
    return replace(settings, **{name: getattr(type(settings), name) for name in told._fields}), numbers


class Learner(NamedTuple):
    """All that learning changes."""

    q: MLP
    target: MLP
    model: ForwardModel
    moments: Any
    """Adam's, of all weights that learn."""
    updates: Int[Array, ""]


class Run(NamedTuple):
    """One run between two steps."""

    env: Any
    obs: Float[Array, " D"]
    queue: Int[Array, " C"]
    history: Float[Array, "past D"]
    """The last C + 1 observations, newest last, where the view credits shifted transitions."""
    age: Int[Array, ""]
    earned: Float[Array, ""]
    learner: Learner
    replay: Replay
    diverged_at: Int[Array, ""]
    """The step at which a loss was no longer finite; -1 if it never happened."""
