"""Learning under a delay: learners, forward models, loops and the trainer.

`deadtime.train` and `deadtime.evaluate` are the functions to train and evaluate an agent. This
package lists the learners and forward models, to which you can add your own, and their settings.
The other modules are internal.
"""

from deadtime.learn.learners import LEARNERS, Learner, agents_of, learners_of
from deadtime.learn.presets import PRESETS, preset
from deadtime.learn.settings import A2C, FORWARD_MODELS, DoubleQ, PixelA2C, PixelQ, QLearning

__all__ = [
    "A2C",
    "FORWARD_MODELS",
    "LEARNERS",
    "PRESETS",
    "DoubleQ",
    "Learner",
    "PixelA2C",
    "PixelQ",
    "QLearning",
    "agents_of",
    "learners_of",
    "preset",
]
