"""Programs: the static part of a training, and the setups of the runs that share one program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from deadtime.delays import DelayProcess
from deadtime.delays.waits import Observed
from deadtime.identify.age_model import AgeModel
from deadtime.learn.box_scale import BoxScale
from deadtime.learn.learners import LEARNERS
from deadtime.learn.settings import Settings
from deadtime.runtime.views import Code, View

compiled = partial(jax.jit, compiler_options={"xla_gpu_autotune_level": 0})
"""`jax.jit` with the same bits in every process: on a GPU, no kernel is chosen by timing it."""
compiled_products = partial(
    jax.jit, compiler_options={"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
)
"""`compiled` for large matrix products, where the vendor's kernels are faster."""

SettingsT = TypeVar("SettingsT", bound=Settings)


@dataclass(frozen=True)
class Program:
    """The static part of a training: a learner, its settings, its view and its environment."""

    env: Any
    """The environment with default parameters; setups have those of runs. None for frames."""
    view: View | None
    """The view of all runs; None if each setup has its own. Then values and decisions may have
    different inputs if the runs are trained `together`."""
    settings: Any
    """The learner's settings, with defaults for those that a setup holds."""
    capacity: int
    """The largest number of pending actions."""
    lanes: int = 1
    """The number of environments of a run, if they are outside the program."""
    process: DelayProcess | None = None
    """The process of the ages; None for constant delays, which each setup holds."""
    observed: Observed = "now"
    """When an agent that uses ages learns the age of a step."""
    together: bool = False
    """Whether runs on numbers whose environments are outside the program are trained together."""
    may_predict: bool = True
    """Whether runs of a program for all views may have a forward model."""
    hidden: DelayProcess | None = None
    """The process by which the environment executes actions, if the agent is not told it.

    The delay and the process are then what the agent believes. None: they are true."""
    ages: AgeModel | None = None
    """The model by which such an agent infers ages, if it needs them and they vary."""

    @property
    def channel(self) -> DelayProcess | None:
        """The process by which the environment executes actions; None for a told constant."""
        return self.process if self.hidden is None else self.hidden

    @property
    def infers(self) -> bool:
        """Whether the agent infers which actions were executed."""
        return self.ages is not None

    @property
    def stacked(self) -> bool:
        """Whether the host loop's arrays have an axis of runs first."""
        return self.env is None or self.together

    @cached_property
    def learner(self) -> Any:
        """The code of the learner (see `learner_code`)."""
        return LEARNERS[self.settings.kind].load()

    @cached_property
    def observation(self) -> int:
        """The length of an observation."""
        return int(self.env.observation_space(self.env.default_params).shape[0])

    @cached_property
    def box(self) -> Any:
        """The space of actions that are real vectors, with `low` and `high`; None if numbered."""
        space = self.env.action_space(self.env.default_params)
        return space if hasattr(space, "low") else None

    @cached_property
    def actions(self) -> int | BoxScale:
        """The number of actions, or the scale of actions within a box."""
        return self.env.num_actions if self.box is None else BoxScale(self.box)

    @property
    def action_shape(self) -> tuple[int, ...]:
        """The shape of one action; () if actions are numbered."""
        return () if self.box is None else tuple(self.box.shape)

    @property
    def action_type(self) -> Any:
        """The type of an action's numbers."""
        return jnp.int32 if self.box is None else jnp.float32

    @property
    def predicts(self) -> bool:
        """Whether there is a forward model."""
        return self.may_predict if self.view is None else self.view.predicts

    @property
    def follows_ways(self) -> bool:
        """Whether predictions depend on the ages that the agent knows."""
        return self.process is not None and self.predicts

    @property
    def age_inputs(self) -> int:
        """A network's inputs for the known age: K + 2 (no age, or 0 … K); 0 if it sees no ages."""
        shown = self.view is not None and self.view.shows_ages
        if self.process is None or self.observed == "never" or not shown:
            return 0
        return self.process.longest + 2

    @property
    def uses_ages(self) -> bool:
        """Whether decisions depend on the ages that the agent knows."""
        return self.follows_ways or self.age_inputs > 0

    @property
    def projects(self) -> bool:
        """Whether values of some runs are of states, and their decisions of other inputs."""
        return self.together if self.view is None else self.view.projects

    @property
    def queue_room(self) -> int:
        """The largest number of pending actions that the learner sees."""
        return self.capacity if self.view is None or self.view.sees_queue else 0

    def code(self, setup: Setup) -> Code:
        """Return the view of a run as numbers: the program's, or the run's in a shared program."""
        return setup.view if self.view is None else self.view.code


class Setup(NamedTuple):
    """The part of a run that differs between the runs of one program."""

    key: Array
    delay: Int[Array, ""]
    params: Any
    """The environment's parameters."""
    steps: Int[Array, ""]
    numbers: Any
    """The settings that may differ between runs, with the names of the settings."""
    view: Code
    actions: Any = ()
    """The number of a game's actions, if games share the program."""


def split_settings(settings: SettingsT) -> tuple[SettingsT, Any]:
    """Return the settings that a program is compiled for, and those that its setups hold."""
    numbers_type = LEARNERS[settings.kind].load().numbers
    numbers = numbers_type(*(getattr(settings, name) for name in numbers_type._fields))
    defaults = {name: getattr(type(settings), name) for name in numbers_type._fields}
    return replace(settings, **defaults), numbers


def bounded_by(steps: int, settings: SettingsT) -> SettingsT:
    """Return settings whose replay buffer has no more rows than a run has steps."""
    rows = getattr(settings, "buffer_size", 0)
    return replace(settings, buffer_size=steps) if rows > steps else settings


class History(NamedTuple):
    """The recent past of an episode, newest last, for views that learn from it."""

    obs: Float[Array, "past D"]
    """The last C + 1 observations, the present one included; empty if the view needs none."""
    actions: Any = ()
    """The last 2C actions; () if the view does not project."""
    executed: Any = ()
    """Whether each of the last C actions, and the one chosen next, was executed before.

    () if the view does not project, or if the delay is constant."""
    known: Any = ()
    """What the agent knew of ages at each of the last C + 1 steps (see `Actor.known`).

    () unless the view projects and its networks see ages."""


Known = Array | tuple[()] | None
"""1 + the age that an agent knows, 0 for none; () or None if it needs none (see `ways`)."""


class Actor(NamedTuple):
    """One environment of a run between two steps."""

    env: Any
    obs: Float[Array, " D"]
    queue: Int[Array, " C"]
    history: History
    age: Int[Array, ""]
    """Steps since the episode began."""
    memory: Any
    """The learner's memory of the episode; () if there is none."""
    channel: Any = ()
    """The state of the delay process (see `envs.channel`); () outside the program."""
    known: Any = ()
    """1 + the age that the agent knows, 0 if none; () if it needs none (see `ways`)."""
    trail: Any = ()
    """The step before, if ages are inferred (see `inferred_ages`)."""


class Done(NamedTuple):
    """One step of an actor: its action and the outcome, before any reset."""

    action: Array
    executed: Array
    reward: Float[Array, ""]
    terminated: Array
    ended: Array
    """Whether the episode was terminated or truncated."""
    obs: Float[Array, " D"]
    queue: Int[Array, " C"]
    memory: Any
    action_age: Any
    """The age of the executed action."""
    next_age: Any = None
    """The age of the action that the next step executes, or would execute in the same episode."""
