"""The returns of random actions in MuJoCo's tasks, from which normalized returns are measured.

`python -m deadtime.studies.mujoco.random_returns` prints the table again.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np

EPISODES = 100
RANDOM: dict[str, float] = {
    "HalfCheetah-v5": -267.7,
    "Hopper-v5": 17.0,
    "Walker2d-v5": 1.9,
    "Ant-v5": -47.5,
}
"""The mean return of uniform actions over 100 episodes, with the seeds 0 to 99.

Measured with Gymnasium 1.3 and MuJoCo 4.0."""


def measured(env: str, episodes: int = EPISODES) -> float:
    """Return the mean return of uniform actions; episode i has the seed i in all random streams."""
    made = gym.make(env)
    returns = []
    for seed in range(episodes):
        made.reset(seed=seed)
        made.action_space.seed(seed)
        earned, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = made.step(made.action_space.sample())
            earned += float(reward)
            over = terminated or truncated
        returns.append(earned)
    made.close()
    return float(np.mean(returns))


if __name__ == "__main__":
    for name in RANDOM:
        print(f"{name}: {measured(name):.1f}")
