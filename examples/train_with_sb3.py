"""Stable-Baselines3's PPO on CartPole under delay: an unchanged agent of another library.

The same learner is trained twice at the same delay: on the observation alone, and on the
observation with the pending actions. Install Stable-Baselines3 first: pip install stable-baselines3
"""

import argparse

import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from deadtime import ActionDelay, AugmentObservation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delay", type=int, default=6)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    def delayed() -> gym.Env:
        return ActionDelay(gym.make("CartPole-v1"), delay=arguments.delay)

    environments = {
        "observation alone": delayed,
        "observation and queue": lambda: AugmentObservation(delayed(), flat=True),
    }
    for name, make in environments.items():
        model = PPO("MlpPolicy", Monitor(make()), seed=arguments.seed, device="cpu")
        model.learn(arguments.steps)
        mean, spread = evaluate_policy(model, Monitor(make()), n_eval_episodes=20)
        print(f"PPO, delay {arguments.delay}, {name}: {mean:.0f} ± {spread:.0f}")


if __name__ == "__main__":
    main()
