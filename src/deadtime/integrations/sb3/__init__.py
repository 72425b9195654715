"""Stable-Baselines3 under delay: learners, replay rows and forward models (extra `sb3`)."""

from deadtime._support.extras import extras_needed

with extras_needed("sb3"):
    from deadtime.integrations.sb3.algorithms import ProjectedDQN, ProjectedSAC, ProjectedTD3
    from deadtime.integrations.sb3.forward_model import ForwardModel, LearnForwardModel
    from deadtime.integrations.sb3.replay import ExecutedReplayBuffer, ProjectedReplayBuffer

__all__ = [
    "ExecutedReplayBuffer",
    "ForwardModel",
    "LearnForwardModel",
    "ProjectedDQN",
    "ProjectedReplayBuffer",
    "ProjectedSAC",
    "ProjectedTD3",
]
