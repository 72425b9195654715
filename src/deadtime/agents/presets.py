"""Settings of deep agents: `paper` is the authors' protocol, `best` our own. Every deviation is in docs/deviations.md."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class DoubleQ:
    """A Double DQN and its forward model; the same for every view."""

    hidden: tuple[int, ...] = (24, 24)
    learning_rate: float = 0.005
    learning_rate_fall: float = 0.0
    """The part of it that is gone, linearly, by the last step."""
    batch: int = 32
    discount: float = 0.95
    replay_transitions: int = 2000
    reservoir: bool = False
    """Whether the replay is a uniform sample of all transitions so far; else the last ones."""
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
    centre: float = 0.0
    """What rewards are measured from; if not 0, Q is also in units of 1 / (1 - discount). Its greedy policy stays the same."""
    skipped_delays: int = 2
    """Transitions of an episode's first this many times m steps are not stored."""


PRESETS = ("paper", "best")
_EPSILON_DECAY = {"cartpole": 0.999}
"""By environment; elsewhere as in Acrobot, 0.9999."""


def preset(name: str, env: str) -> DoubleQ:
    """The settings of a preset in an environment."""
    paper = DoubleQ(epsilon_decay=_EPSILON_DECAY.get(env.removeprefix("noisy-"), 0.9999))
    return {"paper": paper, "best": replace(paper, **_BEST)}[name]


_BEST: dict[str, Any] = {
    "hidden": (64, 64),
    "learning_rate": 0.001,
    "learning_rate_fall": 0.95,
    "batch": 128,
    "discount": 0.98,
    "replay_transitions": 50_000,
    "target_period_updates": 0,
    "model": "change",
    "one_hot_queue": True,
    "skipped_delays": 0,
}
