"""Settings of deep agents: `paper` is the authors' protocol, `best` our own. Every deviation is in docs/deviations.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from deadtime.agents.a2c import A2C
from deadtime.agents.pixels import PixelA2C, PixelQ


@dataclass(frozen=True)
class DoubleQ:
    """A Double DQN and its forward model; the same for every view."""

    kind: ClassVar[str] = "double-q"

    hidden: tuple[int, ...] = (24, 24)
    learning_rate: float = 0.005
    learning_rate_fall: float = 0.0
    """The part of it that is gone, linearly, by the last step."""
    adam_epsilon: float = 1e-8
    """What Adam adds to the size of gradients: the larger, the less a surprise after a long calm moves the weights."""
    batch: int = 32
    discount: float = 0.95
    replay_transitions: int = 2000
    target_period_updates: int = 300
    """How often the target network is copied; 0: it follows by `target_rate` at each update."""
    target_rate: float = 0.005
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
    """What is added to the shaped reward; alone it is negative far from balance, where to fall soon is best."""
    centre: float = 0.0
    """What rewards are measured from. The greedy policy stays the same."""
    scaled: bool = False
    """Whether rewards are multiplied by 1 - discount: Q is then of the size of one. The greedy policy stays the same."""
    double: bool = True
    """Whether Q chooses the action that its target network values; else the target network does, as in the authors' code."""
    terminals: bool = True
    """Whether Q knows that nothing follows the end of an episode; the authors' code loses that for Delayed-Q under a delay."""
    skipped_delays: int = 2
    """The first `skipped_delays` × m steps of an episode are not stored. 1 leaves out the m steps that execute the warm-up."""


PRESETS = ("paper", "best")
LEARNERS: dict[str, Any] = {
    "delayed": DoubleQ,
    "augmented": DoubleQ,
    "oblivious": DoubleQ,
    "shifted": DoubleQ,
    "recurrent": A2C,
}
"""How each deep agent learns from numbers. All that depends on it is looked up by the learner's `kind`."""
PIXEL_LEARNERS: dict[str, Any] = {"delayed": PixelQ, "augmented": PixelQ, "oblivious": PixelQ, "recurrent": PixelA2C}
"""How it learns from frames."""
PIXEL_MODELS = ("fresh", "kept")
"""What it can predict them with (see `envs.emulator`)."""
_EPSILON_DECAY = {"cartpole": 0.999}
"""By environment; elsewhere as in Acrobot, 0.9999."""
_SKIPPED_DELAYS = {"cartpole": 1}
"""Preset `best`, by environment; elsewhere 0. An expert chose CartPole's warm-up; elsewhere it is random."""


def learners_of(env: str) -> dict[str, Any]:
    """Return the learner of each agent that works in an environment."""
    if env.startswith("gym:"):
        return {agent: learner for agent, learner in LEARNERS.items() if learner is DoubleQ}
    return PIXEL_LEARNERS if env.startswith("atari:") else LEARNERS


def preset(name: str, env: str, agent: str = "delayed") -> Any:
    """The settings of an agent's learner in an environment."""
    learner, kind = learners_of(env)[agent], env.removeprefix("noisy-")
    chosen: dict[str, Any] = {"paper": {}, "best": _BEST[learner.kind]}[name]
    if learner is DoubleQ:
        chosen = {"epsilon_decay": _EPSILON_DECAY.get(kind, 0.9999)} | chosen
    if learner is DoubleQ and name == "best":
        chosen = {"skipped_delays": _SKIPPED_DELAYS.get(kind, 0)} | chosen
    return learner(**chosen)


_BEST: dict[str, dict[str, Any]] = {
    "double-q": {
        "hidden": (64, 64),
        "learning_rate": 3e-4,
        "learning_rate_fall": 0.95,
        "adam_epsilon": 1e-4,
        "batch": 128,
        "discount": 0.98,
        "replay_transitions": 50_000,
        "target_period_updates": 0,
        "scaled": True,
        "shaped_bonus": 1.3,
        "model": "change",
        "one_hot_queue": True,
    },
    "a2c": {"hidden": (64,), "lstm": 64, "rms_start": 0.0, "reward_scale": 0.05},
    "pixel-q": {"epsilon_floor": 0.01, "replay_transitions": 100_000, "target_period_updates": 2000, "adam_epsilon": 1.5e-4},
    "pixel-a2c": {"rms_start": 0.0},
}
