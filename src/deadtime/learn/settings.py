"""Settings of the learners, as plain data.

Nothing here imports JAX, so that specs and records can be read without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Protocol

FORWARD_MODELS: dict[str, str] = {
    "learned": "deadtime.learn.forward_model:LEARNED",
    "change": "deadtime.learn.forward_model:CHANGE",
    "simulator": "deadtime.learn.forward_model:SIMULATOR",
}
"""Forward models of agents that see numbers, as "module:name" (see `forward_model`)."""
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
"""Former names of settings, each with its present name, by the learner's kind.

Old records and sweep files may have the former names. Ids are computed from them, so that renaming
a setting keeps every id."""


def with_names_of_today(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return a learner's settings with former names replaced."""
    today = FORMER_NAMES.get(kind, {})
    return {today.get(name, name): value for name, value in settings.items()}


def with_former_names(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return a learner's settings with the names that ids are computed from."""
    former = {new: old for old, new in FORMER_NAMES.get(kind, {}).items()}
    return {former.get(name, name): value for name, value in settings.items()}


def forward_model(name: str) -> Any:
    """Import and return the code of a forward model."""
    module, _, attribute = FORWARD_MODELS[name].partition(":")
    return getattr(import_module(module), attribute)


class Settings(Protocol):
    """The settings of a learner: a frozen dataclass, with the learner's kind."""

    kind: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]


@dataclass(frozen=True)
class QLearning:
    """The settings of tabular Q-learning, the same for every view."""

    kind: ClassVar[str] = "q-table"

    learning_rate: float = 0.1
    gamma: float = 0.99
    epsilon: float = 0.0
    """The probability of a random action in training. Mazes need none: their steps have costs, so
    initial values of 0 are optimistic and make the agent explore."""

    def __post_init__(self) -> None:
        """Raise if a setting is out of range."""
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
    """The settings of Double DQN and its forward model, the same for every view."""

    kind: ClassVar[str] = "double-q"

    hidden: tuple[int, ...] = (24, 24)
    learning_rate: float = 0.005
    learning_rate_fall: float = 0.0
    """The fraction by which the learning rate has fallen, linearly, at the last step."""
    adam_epsilon: float = 1e-8
    """Adam's epsilon. A larger one limits the update when large gradients follow small ones."""
    batch_size: int = 32
    gamma: float = 0.95
    buffer_size: int = 2000
    target_period_updates: int = 300
    """The number of updates between copies to the target network; 0: it moves by `tau` at each."""
    tau: float = 0.005
    epsilon_decay: float = 0.999
    """The factor by which exploration shrinks at each update, from 1 on."""
    epsilon_floor: float = 0.001
    model: str = "learned"
    """learned, change or simulator."""
    members: int = 1
    """The number of forward models, or draws of the simulator; Q is averaged over them."""
    one_hot_queue: bool = False
    """Whether Q sees pending actions as one-hot vectors; otherwise as numbers."""
    shaped: bool = True
    """Whether CartPole is trained on the authors' shaped reward (it is scored on the plain one)."""
    shaped_bonus: float = 0.0
    """The number that is added to the shaped reward. Without it the reward is negative far from
    balance, so that falling early is best there."""
    centre: float = 0.0
    """The number that is subtracted from rewards. The greedy policy stays the same."""
    scaled: bool = False
    """Whether rewards are multiplied by 1 - gamma, so that Q is about as large as one reward. The
    greedy policy stays the same."""
    double: bool = True
    """Whether Q chooses the action of the target (Double DQN); otherwise the target network does,
    as in the authors' code."""
    terminals: bool = True
    """Whether the target has no value after the end of an episode. In the authors' code, Delayed-Q
    under a delay never learns that an episode ended."""
    skipped_delays: int = 2
    """The first `skipped_delays` · m steps of an episode are not stored. With 1, these are the m
    steps that execute the warm-up. Under a delay that varies, m is the age of the step's action."""
    projection_weight: float = 10.0
    """The weight of the squared error of projected's F beside the loss of Q (see `projection`)."""


@dataclass(frozen=True)
class SAC:
    """The settings of soft actor-critic and its forward model, the same for every view."""

    kind: ClassVar[str] = "sac"

    hidden: tuple[int, ...] = (256, 256)
    """The hidden layers of the actor, the critics and the forward model."""
    learning_rate: float = 3e-4
    batch_size: int = 256
    gamma: float = 0.99
    tau: float = 0.005
    buffer_size: int = 1_000_000
    """The largest number of transitions that are kept; never more than the steps of the run."""
    random_steps: int = 5000
    """The number of steps with uniformly random actions, before the first update."""
    target_entropy: float = -1.0
    """The entropy that the temperature aims at, for each number of an action from -1 to 1."""
    model: str = "change"
    """learned, change or simulator."""
    members: int = 1
    """The number of forward models; the actor's outputs are averaged over them."""


@dataclass(frozen=True)
class _Recurrent:
    """The settings that the recurrent agents share; the defaults are those of Stable-Baselines."""

    lstm: int = 256
    layer_norm: bool = True
    """Whether the inputs and the cell of the LSTM are normalized."""
    rollout: int = 5
    """The number of steps of each environment between two updates; gradients go through all."""
    learning_rate: float = 7e-4
    gamma: float = 0.99
    value_weight: float = 0.25
    entropy_weight: float = 0.01
    gradient_norm: float = 0.5
    """The norm to which longer gradients are clipped."""
    rms_decay: float = 0.99
    rms_epsilon: float = 1e-5
    rms_start: float = 1.0
    """The initial mean square of RMSprop. TensorFlow has 1, which makes the first hundreds of
    updates small."""


@dataclass(frozen=True)
class A2C(_Recurrent):
    """The settings of the recurrent agent."""

    kind: ClassVar[str] = "a2c"

    hidden: tuple[int, ...] = (64, 64)
    """The layers between the observation and the LSTM."""
    actors: int = 16
    """The environments of a run; steps are counted over all of them."""
    learning_rate_fall: float = 0.0
    """The fraction by which the learning rate has fallen, linearly, at the last step."""
    reward_scale: float = 1.0
    """The factor of rewards in learning."""
    shaped: bool = False
    """Whether CartPole is trained on the authors' shaped reward (it is scored on the plain one)."""


@dataclass(frozen=True)
class PixelQ:
    """The settings of Double DQN on frames, the same for every view; the emulator predicts."""

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
    """Whether the hidden layer is normalized."""
    learning_rate: float = 1e-4
    adam_epsilon: float = 1e-8
    batch_size: int = 32
    gamma: float = 0.99
    double: bool = True
    """Whether Q chooses the target's action (Double DQN); otherwise the target network does."""
    buffer_size: int = 50_000
    learning_starts: int = 10_000
    """The number of environment steps before the first update."""
    update_period: int = 4
    """The number of environment steps between two updates."""
    target_period_updates: int = 250
    epsilon_floor: float = 0.001
    exploration: float = 0.1
    """The part of the steps in which exploration falls linearly from 1 to its floor."""
    clip_rewards: bool = True
    """Whether learning uses only the sign of rewards; scores are of the game itself."""
    life_loss: bool = True
    """Whether learning treats a lost life as the end of an episode; the game continues."""
    model: str = "fresh"
    """The prediction: "fresh", a new path for each decision; "kept", the same path for as long as
    it comes true."""


@dataclass(frozen=True)
class PixelA2C(_Recurrent):
    """The settings of the recurrent agent on frames; its actors are the environments of the run."""

    kind: ClassVar[str] = "pixel-a2c"

    channels: tuple[int, ...] = (32, 64, 64)
    hidden: int = 512
    """The number of units between the convolutions and the LSTM."""
    clip_rewards: bool = True
    """Whether learning uses only the sign of rewards; scores are of the game itself."""
    life_loss: bool = True
    """Whether learning treats a lost life as the end of an episode; the game continues."""
