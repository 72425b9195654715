"""A fixed expert on CartPole under delay, without and with the pending actions.

The expert is a linear controller that never falls when its actions take effect at once. Under a
delay it is run twice: on the state it sees, and on the state that the pending actions lead to. The
example prints a table and writes out/expert_under_delay.png. Delays may be given as arguments.
"""

import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
from rich.console import Console
from rich.progress import track
from rich.table import Table

from deadtime.envs import CartPole, delayed

DELAYS = tuple(map(int, sys.argv[1:])) or (0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 25)
EPISODES = 256
CASES = {
    "acts on what it sees": (False, 0.0),
    "acts on what it predicts": (True, 0.0),
    "acts on what it sees, noisy masses": (False, 0.1),
    "acts on what it predicts, noisy masses": (True, 0.1),
}
CARTPOLE = CartPole()
NOMINAL = CARTPOLE.default_params


def expert(observation: jax.Array) -> jax.Array:
    """Return the action of a linear controller."""
    x, x_dot, theta, theta_dot = observation
    return (0.05 * x + 0.1 * x_dot + theta + 0.3 * theta_dot > 0).astype(jnp.int32)


def predict(observation: jax.Array, queue: jax.Array) -> jax.Array:
    """Return the state that the pending actions lead to, without noise."""
    unused = jax.random.key(0)
    _, start = CARTPOLE.reset_env(unused, NOMINAL)

    def step(state, action):
        return CARTPOLE.step_env(unused, state, action, NOMINAL)[1], None

    return jax.lax.scan(step, start._replace(physics=observation), queue)[0].physics


def warmup(observation: jax.Array, delay: int, key: jax.Array) -> jax.Array:
    """Return the actions pending at the start: those that keep the pole up."""
    return CARTPOLE.warm_up(observation, delay, delay)


@partial(jax.jit, static_argnames=("delay", "predicts"))
def returns(key: jax.Array, delay: int, predicts: bool, noise: float) -> jax.Array:
    """Return the returns of many episodes of the expert at one delay."""
    env = delayed(CARTPOLE, delay, warmup=warmup)
    params = NOMINAL._replace(mass_noise=noise)

    def episode(key: jax.Array) -> jax.Array:
        def step(carry, t):
            obs, state, alive, total = carry
            seen = predict(obs, state.queue) if predicts else obs
            obs, state, reward, terminated, _ = env.step_env(
                jax.random.fold_in(key, t), state, expert(seen), params
            )
            return (obs, state, alive & ~terminated, total + reward * alive), None

        start = (*env.reset(jax.random.fold_in(key, 500), params), jnp.bool_(True), 0.0)
        return jax.lax.scan(step, start, jnp.arange(500))[0][3]

    return jax.vmap(episode)(jax.random.split(key, EPISODES))


def main() -> None:
    curves = {name: [] for name in CASES}
    for delay in track(DELAYS, "running the expert"):
        for name, (predicts, noise) in CASES.items():
            curves[name].append(
                float(returns(jax.random.key(delay), delay, predicts, noise).mean())
            )

    table = Table(
        "delay m",
        *CASES,
        title=f"CartPole: mean return of a fixed expert, {EPISODES} episodes (500 is the most)",
    )
    for i, delay in enumerate(DELAYS):
        table.add_row(str(delay), *(f"{curve[i]:.0f}" for curve in curves.values()))
    Console(width=120).print(table)

    mpl.use("Agg")
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for (name, curve), color, style in zip(
        curves.items(), ["#D55E00", "#0072B2"] * 2, ["o-", "o-", "s--", "s--"], strict=True
    ):
        axes.plot(DELAYS, curve, style, color=color, label=name, markersize=4)
    axes.set(
        xlabel="delay m (steps of 20 ms)",
        ylabel="mean return",
        ylim=(0, 520),
        title="A fixed CartPole expert under delay",
    )
    axes.legend(frameon=False, loc=(0.33, 0.38), fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    path = Path("out/expert_under_delay.png")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
