"""Stable-Baselines3 under delay: learners, replay rows and forward models (extra `sb3`)."""

from deadtime._support.extras import extras_needed

with extras_needed("sb3"):
    from deadtime.integrations.forward_model import ForwardModel
    from deadtime.integrations.sb3.algorithms import ProjectedDQN, ProjectedSAC, ProjectedTD3
    from deadtime.integrations.sb3.callback import LearnForwardModel
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
