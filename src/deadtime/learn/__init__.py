"""Learning under a delay: views, learners, forward models, loops and the trainer."""

from deadtime.learn.learners import LEARNERS, Learner, learners_of
from deadtime.learn.settings import FORWARD_MODELS

__all__ = ["FORWARD_MODELS", "LEARNERS", "Learner", "learners_of"]
