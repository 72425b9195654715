"""deadtime's own DQN with all that Stable-Baselines3's has in examples/sb3_under_delay.py.

The settings of deadtime's learner do not cover these parts, so this script replaces them:

- random actions at the start of each episode, instead of those of CartPole's expert;
- one update in two steps, from step 1000 on, and a target network copied every 250 updates;
- random actions alone until then, and after that with a probability that falls linearly;
- initial weights and biases of PyTorch's layers;
- gradients of each network clipped to a norm of 10.

The queue is shown as one-hot vectors, as in deadtime's preset `best`. The forward model of
`predicted` is deadtime's own, updated with the agent. Each run adds one line of JSON to the record.
The table is in docs/sb3.md.
"""

import argparse
import json
import platform
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import jax
import jax.numpy as jnp

import deadtime
from deadtime.envs.start_queue import start_queue
from deadtime.learn import compiled_loop, deep_q
from deadtime.learn.double_q import Adam
from deadtime.learn.learner_code import kept
from deadtime.learn.networks import MLP
from deadtime.learn.projection import Projected
from deadtime.learn.replay import layout_of, store

AGENTS = {
    "plain": "oblivious",
    "queue": "augmented",
    "predicted": "delayed",
    "projected": "projected",
}
"""The names in examples/sb3_under_delay.py, and deadtime's."""
FIRST_UPDATE = 1000
EXPLORED = 10_000
"""The step at which the probability of random actions has fallen to its last value."""
SETTINGS = {
    "hidden": (64, 64),
    "learning_rate": 1e-3,
    "learning_rate_fall": 0.0,
    "adam_epsilon": 1e-8,
    "batch_size": 64,
    "gamma": 0.99,
    "buffer_size": 50_000,
    "target_period_updates": 250,
    "epsilon_floor": 0.04,
    "double": False,
    "scaled": False,
    "shaped": False,
}
OTHERS = {
    "plain": {"skipped_delays": 0},
    "queue": {"skipped_delays": 0},
    "projected": {"projection_weight": 1.0},
}
"""Settings of one agent. Those that learn from chosen actions store the first steps too."""


def new_mlp(key, widths, used_inputs):
    """Return a network with the initial weights of PyTorch's layers."""
    weights, biases = [], []
    for i, (inputs, outputs) in enumerate(pairwise(widths)):
        limit = 1 / jnp.sqrt(used_inputs if i == 0 else inputs)
        of_weights, of_biases = jax.random.split(jax.random.fold_in(key, i))
        weights.append(limit * jax.random.uniform(of_weights, (outputs, inputs), minval=-1.0))
        biases.append(limit * jax.random.uniform(of_biases, (outputs,), minval=-1.0))
    return MLP(weights, biases)


def clipped(gradient):
    """Return the gradient of Q with a norm of at most 10, and apart from it that of F."""
    if isinstance(gradient, Projected):
        return Projected(*map(clipped, gradient))
    norm = jnp.sqrt(sum(jnp.sum(part**2) for part in jax.tree.leaves(gradient)))
    return jax.tree.map(lambda part: part * jnp.minimum(1.0, 10.0 / (norm + 1e-6)), gradient)


class ClippingAdam(Adam):
    """Adam with clipped gradients; those of the forward model stay as they are."""

    def descend(self, weights, gradient, moments, rate):
        """Return weights and moments after an update with a clipped gradient."""
        with_model = type(gradient) is tuple
        cut = (clipped(gradient[0]), gradient[1]) if with_model else clipped(gradient)
        return super().descend(weights, cut, moments, rate)


def explored(updates, floor):
    """Return the probability of a random action after a number of updates."""
    step = jnp.where(updates == 0, 0, FIRST_UPDATE + 2 * updates)
    return jnp.maximum(floor, 1.0 - (1.0 - floor) * step / EXPLORED)


class SameDeepQ(deep_q.DeepQ):
    """Deep Q-learning with the schedule of Stable-Baselines3's settings."""

    def act(self, program, setup, state, actor, keys):
        """Return a random action before the first update, then ever more often the best one."""
        best = deep_q.greedy(program, setup, state, actor, keys["model"])
        draw = jax.random.uniform(keys["explore"], (2,))
        epsilon = explored(state.updates, setup.numbers.epsilon_floor)
        random = (draw[1] * program.env.num_actions).astype(jnp.int32)
        return jnp.where(draw[0] < epsilon, random, best), ()

    def update(self, program, setup, state, replay, step, t, keys):
        """Store a transition, and update at every second step."""
        live = t < setup.steps
        keep = step.valid & (step.age >= setup.numbers.skipped_delays * step.action_age) & live
        replay = store(replay, step.item, keep, layout_of(program))
        given = program, setup, state, replay, step.item, keep, t, keys["batch"]
        new, finite = deep_q.updated(*given)
        usable = live & (t >= FIRST_UPDATE) & (t % 2 == 0)
        return kept(new, state, finite, t, usable), replay


def replace_parts() -> None:
    """Replace the parts of deadtime's learner and of its CartPole that differ."""
    deep_q.DEEP_Q, deep_q.Adam, deep_q.new_mlp = SameDeepQ(), ClippingAdam, new_mlp
    compiled_loop.start_queue = partial(start_queue, warmup="random")


def run(agent: str, delay: int, steps: int, seed: int) -> dict:
    """Train one run, and return its line of the record."""
    settings = SETTINGS | OTHERS.get(agent, {})
    start = perf_counter()
    options = {"delay": delay, "steps": steps, "seeds": [seed], **settings}
    result = deadtime.train("cartpole", AGENTS[agent], **options)
    return {
        "agent": agent,
        "delay": delay,
        "steps": steps,
        "seed": seed,
        "return": round(float(result.scores[0]), 2),
        "seconds": round(perf_counter() - start, 1),
        "settings": settings,
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("jax", "numpy")},
    }


def main() -> None:
    """Train the runs that the words ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", nargs="+", default=[*AGENTS], choices=AGENTS)
    parser.add_argument("--delay", type=int, default=8)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--record", type=Path, default=Path("out/sb3_settings.jsonl"))
    arguments = parser.parse_args()
    replace_parts()
    arguments.record.parent.mkdir(parents=True, exist_ok=True)
    for seed in arguments.seeds:
        for agent in arguments.agents:
            found = run(agent, arguments.delay, arguments.steps, seed)
            print(f"{agent}, seed {seed}: mean return {found['return']:.0f}", flush=True)
            with arguments.record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
