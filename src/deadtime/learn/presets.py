"""Presets of deep agents: `paper` is the protocol of the paper's authors, `best` is our own.

docs/deviations.md lists every difference.
"""

from __future__ import annotations

from typing import Any

from deadtime.envs.family import ActionKind, Family, ObservationKind
from deadtime.learn.learners import learners_of
from deadtime.learn.settings import DoubleQ

PRESETS = ("paper", "best")
_EPSILON_DECAY = {"cartpole": 0.999}
"""The decay by family; other families have that of Acrobot, 0.9999."""
BEST: dict[str, dict[str, Any]] = {
    "double-q": {
        "hidden": (64, 64),
        "learning_rate": 3e-4,
        "learning_rate_fall": 0.95,
        "adam_epsilon": 1e-4,
        "batch_size": 128,
        "gamma": 0.98,
        "buffer_size": 50_000,
        "target_period_updates": 0,
        "scaled": True,
        "shaped_bonus": 1.3,
        "model": "change",
        "skipped_delays": 1,
        "one_hot_queue": True,
    },
    "a2c": {"hidden": (64,), "lstm": 64, "rms_start": 0.0, "reward_scale": 0.05},
    "pixel-q": {
        "epsilon_floor": 0.01,
        "buffer_size": 100_000,
        "target_period_updates": 2000,
        "adam_epsilon": 1.5e-4,
    },
    "pixel-a2c": {"rms_start": 0.0},
}
"""The settings that `best` changes, by the learner's kind; the defaults are the authors'."""


def preset(
    name: str,
    family: Family,
    agent: str = "delayed",
    action_kind: ActionKind | None = None,
    observation_kind: ObservationKind | None = None,
) -> Any:
    """Return the settings of an agent's learner in environments of a family.

    By default their actions and observations are of the family's usual kinds.
    """
    kinds = action_kind or family.action_kinds[0], observation_kind
    settings = learners_of(family, *kinds)[agent].settings
    chosen = BEST.get(settings.kind, {}) if name == "best" else {}
    if settings is DoubleQ:
        chosen = {"epsilon_decay": _EPSILON_DECAY.get(family.name, 0.9999)} | chosen
    return settings(**chosen)
