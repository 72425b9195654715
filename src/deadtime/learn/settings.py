"""Settings of the learners, as plain data.

Nothing here imports JAX, so that specs and records can be read without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

FORWARD_MODELS: dict[str, str] = {
    "learned": "deadtime.learn.forward_model:LEARNED",
    "change": "deadtime.learn.forward_model:CHANGE",
    "simulator": "deadtime.learn.forward_model:SIMULATOR",
}
"""Forward models of agents that see numbers, as "module:name" (see `forward_model.ForwardModel`)."""
PIXEL_MODELS = ("fresh", "kept")
"""Forward models of agents that see frames (see `envs.atari.emulator`)."""

_FORMER = {
    "discount": "gamma",
    "batch": "batch_size",
    "replay_transitions": "buffer_size",
    "target_rate": "tau",
}
FORMER_NAMES: dict[str, dict[str, str]] = {
    "q-table": {"discount": "gamma", "step_size": "learning_rate"},
    "double-q": _FORMER,
    "a2c": _FORMER,
    "pixel-q": _FORMER,
    "pixel-a2c": _FORMER,
}
"""Former names of settings and their names of today, by the learner's kind. Old records and sweep
files may have the former ones, and ids are computed from them, so that a renaming keeps every id."""


def with_names_of_today(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a learner with no former name."""
    today = FORMER_NAMES.get(kind, {})
    return {today.get(name, name): value for name, value in settings.items()}


def with_former_names(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a learner by the names that ids are computed from."""
    former = {new: old for old, new in FORMER_NAMES.get(kind, {}).items()}
    return {former.get(name, name): value for name, value in settings.items()}


def forward_model(name: str) -> Any:
    """Import and return the code of a forward model."""
    module, _, attribute = FORWARD_MODELS[name].partition(":")
    return getattr(import_module(module), attribute)


@dataclass(frozen=True)
class QLearning:
    """Settings of the learner, the same for every view."""

    kind: ClassVar[str] = "q-table"

    learning_rate: float = 0.1
    gamma: float = 0.99
    epsilon: float = 0.0
    """How often a training decision is random. Where steps cost, as in mazes, values that begin at
    0 explore by themselves."""

    def __post_init__(self) -> None:
        """Raise if nothing can be learned with these settings."""
        rules = {
            "learning_rate": "above 0, at most 1",
            "gamma": "in [0, 1]",
            "epsilon": "in [0, 1]",
        }
        for name, rule in rules.items():
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 <= value <= 1 or (name == "learning_rate" and value == 0):
                usual = getattr(QLearning, name)
                got = f"{name} is a number {rule}; got {value!r}"
                raise ValueError(f"{got}: leave it out for {usual}")
            object.__setattr__(self, name, float(value))


@dataclass(frozen=True)
class DoubleQ:
    """A Double DQN and its forward model; the same for every view."""

    kind: ClassVar[str] = "double-q"

    hidden: tuple[int, ...] = (24, 24)
    learning_rate: float = 0.005
    learning_rate_fall: float = 0.0
    """The part of it that is gone, linearly, by the last step."""
    adam_epsilon: float = 1e-8
    """What Adam adds to the size of gradients: the larger, the less a surprise after a long calm
    moves the weights."""
    batch_size: int = 32
    gamma: float = 0.95
    buffer_size: int = 2000
    target_period_updates: int = 300
    """How often the target network is copied; 0: it follows by `tau` at each update."""
    tau: float = 0.005
    epsilon_decay: float = 0.999
    """What exploration, 1 at the start, is multiplied with at each update."""
    epsilon_floor: float = 0.001
    model: str = "learned"
    """learned, change or simulator."""
    members: int = 1
    """Forward models, or draws of the simulator: Q is averaged over as many predictions."""
    one_hot_queue: bool = False
    """Whether pending actions are shown to Q as one-hot vectors; else as numbers."""
    shaped: bool = True
    """Whether CartPole is trained on the authors' shaped reward (it is scored on the plain one)."""
    shaped_bonus: float = 0.0
    """What is added to the shaped reward; alone it is negative far from balance, where to fall soon
    is best."""
    centre: float = 0.0
    """What rewards are measured from. The greedy policy stays the same."""
    scaled: bool = False
    """Whether rewards are multiplied by 1 - gamma: Q is then of the size of one. The greedy
    policy stays the same."""
    double: bool = True
    """Whether Q chooses the action that its target network values; else the target network does, as
    in the authors' code."""
    terminals: bool = True
    """Whether Q knows that nothing follows the end of an episode; the authors' code loses that for
    Delayed-Q under a delay."""
    skipped_delays: int = 2
    """The first `skipped_delays` × m steps of an episode are not stored. 1 leaves out the m steps
    that execute the warm-up."""


@dataclass(frozen=True)
class A2C:
    """Settings of the recurrent agent; the defaults are Stable-Baselines' own."""

    kind: ClassVar[str] = "a2c"

    hidden: tuple[int, ...] = (64, 64)
    """Layers between the observation and the LSTM."""
    lstm: int = 256
    layer_norm: bool = True
    """Whether the LSTM's inputs and its cell are normalised."""
    actors: int = 16
    """Environments of one run; steps are counted over all of them."""
    rollout: int = 5
    """Steps of each environment between two updates, through which gradients reach back."""
    learning_rate: float = 7e-4
    learning_rate_fall: float = 0.0
    """The part of it that is gone, linearly, by the last step."""
    gamma: float = 0.99
    value_weight: float = 0.25
    entropy_weight: float = 0.01
    gradient_norm: float = 0.5
    """Longer gradients are shortened to this."""
    rms_decay: float = 0.99
    rms_epsilon: float = 1e-5
    rms_start: float = 1.0
    """What RMSprop's mean square begins at: 1 in TensorFlow, where the first hundreds of updates
    are therefore small."""
    reward_scale: float = 1.0
    """What rewards are multiplied with for learning."""
    shaped: bool = False
    """Whether CartPole is trained on the authors' shaped reward (it is scored on the plain one)."""


@dataclass(frozen=True)
class PixelQ:
    """A Double DQN that sees frames; the same for every view. The forward model is the emulator."""

    kind: ClassVar[str] = "pixel-q"
    learning_rate_fall: ClassVar[float] = 0.0
    centre: ClassVar[float] = 0.0
    scaled: ClassVar[bool] = False
    terminals: ClassVar[bool] = True
    tau: ClassVar[float] = 0.0

    channels: tuple[int, ...] = (32, 64, 64)
    hidden: int = 512
    dueling: bool = True
    layer_norm: bool = True
    """Whether the hidden layer is normalised."""
    learning_rate: float = 1e-4
    adam_epsilon: float = 1e-8
    batch_size: int = 32
    gamma: float = 0.99
    double: bool = True
    """Whether Q chooses the action that its target network values."""
    buffer_size: int = 50_000
    learning_starts: int = 10_000
    """Environment steps before the first update."""
    update_period: int = 4
    """Environment steps of a run for one update."""
    target_period_updates: int = 250
    epsilon_floor: float = 0.001
    exploration: float = 0.1
    """The part of all steps over which exploration falls, linearly, from 1 to its floor."""
    clip_rewards: bool = True
    """Whether learning sees only the sign of rewards; scores are of the game itself."""
    life_loss: bool = True
    """Whether a lost life is the end for learning; the game goes on."""
    model: str = "fresh"
    """What is predicted with: fresh, a new path for each decision; kept, the same for as long as it
    comes true."""


@dataclass(frozen=True)
class PixelA2C:
    """The recurrent agent on frames; the defaults are Stable-Baselines' own.

    Its actors are the run's environments.
    """

    kind: ClassVar[str] = "pixel-a2c"

    channels: tuple[int, ...] = (32, 64, 64)
    hidden: int = 512
    """Between the convolutions and the LSTM."""
    lstm: int = 256
    layer_norm: bool = True
    """Whether the LSTM's inputs and its cell are normalised."""
    rollout: int = 5
    """Steps of each environment between two updates, through which gradients reach back."""
    learning_rate: float = 7e-4
    gamma: float = 0.99
    value_weight: float = 0.25
    entropy_weight: float = 0.01
    gradient_norm: float = 0.5
    """Longer gradients are shortened to this."""
    rms_decay: float = 0.99
    rms_epsilon: float = 1e-5
    rms_start: float = 1.0
    """What RMSprop's mean square begins at: 1 in TensorFlow, where the first hundreds of updates
    are therefore small."""
    clip_rewards: bool = True
    """Whether learning sees only the sign of rewards; scores are of the game itself."""
    life_loss: bool = True
    """Whether a lost life is the end for learning; the game goes on."""
