"""Stable-Baselines3's DQN on CartPole under delay, in four ways.

`plain` sees the observation alone, `queue` also the pending actions. `predicted` acts on the
prediction of a forward model, which it learns. `projected` values states, and acts on a projection
of these values to the observation and the queue. All have the same settings.

Each run adds one line of JSON to the record. The table of the runs in the repository is in
docs/sb3.md.
"""

import argparse
import json
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import gymnasium as gym
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from deadtime import ActionDelay, AugmentObservation, PredictObservation
from deadtime.integrations.sb3 import (
    ExecutedReplayBuffer,
    ForwardModel,
    LearnForwardModel,
    ProjectedDQN,
)

AGENTS = ("plain", "queue", "predicted", "projected")
SETTINGS = {
    "learning_rate": 1e-3,
    "buffer_size": 50_000,
    "learning_starts": 1000,
    "batch_size": 64,
    "gamma": 0.99,
    "train_freq": 4,
    "gradient_steps": 2,
    "target_update_interval": 500,
    "exploration_fraction": 0.2,
    "exploration_final_eps": 0.04,
    "policy_kwargs": {"net_arch": [64, 64]},
}
EPISODES = 20


def trained(agent: str, delay: int, steps: int, seed: int) -> tuple[DQN, gym.Env]:
    env = ActionDelay(gym.make("CartPole-v1"), delay)
    if agent == "predicted":
        forward = ForwardModel(env, seed=seed)
        env = Monitor(PredictObservation(env, forward))
        buffer = {"replay_buffer_class": ExecutedReplayBuffer}
        model = DQN("MlpPolicy", env, seed=seed, device="cpu", **buffer, **SETTINGS)
        return model.learn(steps, callback=LearnForwardModel(forward, steps_per_update=2)), env
    env = Monitor(env if agent == "plain" else AugmentObservation(env, flat=True))
    learner = ProjectedDQN if agent == "projected" else DQN
    return learner("MlpPolicy", env, seed=seed, device="cpu", **SETTINGS).learn(steps), env


def run(agent: str, delay: int, steps: int, seed: int) -> dict:
    start = perf_counter()
    model, env = trained(agent, delay, steps, seed)
    seconds = perf_counter() - start
    env.reset(seed=10_000 + seed)
    mean, _ = evaluate_policy(model, env, n_eval_episodes=EPISODES)
    packages = ("stable-baselines3", "torch", "gymnasium", "numpy")
    return {
        "agent": agent,
        "delay": delay,
        "steps": steps,
        "seed": seed,
        "return": float(mean),
        "seconds": round(seconds, 1),
        "settings": SETTINGS,
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", nargs="+", default=AGENTS, choices=AGENTS)
    parser.add_argument("--delay", type=int, default=8)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--record", type=Path, default=Path("out/sb3_under_delay.jsonl"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.record.parent.mkdir(parents=True, exist_ok=True)
    for seed in arguments.seeds:
        for agent in arguments.agents:
            found = run(agent, arguments.delay, arguments.steps, seed)
            print(f"{agent}, seed {seed}: mean return {found['return']:.0f}", flush=True)
            with arguments.record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
