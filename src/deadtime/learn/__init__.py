"""Learning under a delay: learners, forward models, loops and the trainer.

`deadtime.train` and `deadtime.evaluate` are the functions to train and evaluate an agent. This
package lists the learners and forward models, to which you can add your own, and their settings.
`new_agent` and `run_episodes` are tabular Q-learning as two functions, without specs and records.
`groups_of` returns deep runs in the groups in which they are trained, to train them step by step.
The other modules are internal.
"""

from typing import TYPE_CHECKING

from deadtime._support.lazy import lazy_names
from deadtime.learn.learners import LEARNERS, Learner, agents_of, learners_of
from deadtime.learn.presets import PRESETS, preset
from deadtime.learn.settings import A2C, FORWARD_MODELS, SAC, DoubleQ, PixelA2C, PixelQ, QLearning

if TYPE_CHECKING:
    from deadtime.learn.deep_training import groups_of
    from deadtime.learn.tabular_q import new_agent, run_episodes
    from deadtime.learn.trainer import Group

__all__ = [
    "A2C",
    "FORWARD_MODELS",
    "LEARNERS",
    "PRESETS",
    "SAC",
    "DoubleQ",
    "Group",
    "Learner",
    "PixelA2C",
    "PixelQ",
    "QLearning",
    "agents_of",
    "groups_of",
    "learners_of",
    "new_agent",
    "preset",
    "run_episodes",
]
__getattr__ = lazy_names(
    __name__,
    {
        "Group": "deadtime.learn.trainer",
        "groups_of": "deadtime.learn.deep_training",
        "new_agent": "deadtime.learn.tabular_q",
        "run_episodes": "deadtime.learn.tabular_q",
    },
)
"""Names that need the extra `learn` are imported on first use."""


def __dir__() -> list[str]:
    return __all__
