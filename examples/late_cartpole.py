"""Three agents learn to balance a pole whose masses are uncertain and whose pushes land late.

Delayed-Q learns a model of one step, and acts on the state that it predicts for the time its action
lands. Augmented-Q sees the state and the pending actions. Oblivious-Q sees the state alone. The
example prints their returns (500 is the most). It writes their learning curves and an episode of
Delayed-Q, with its prediction as a ghost, to out/.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import deadtime

DELAY = 8
STEPS = 40_000
SEEDS = 4
AGENTS = {"delayed": "Delayed-Q", "augmented": "Augmented-Q", "oblivious": "Oblivious-Q"}
WINDOW = 5
"""Blocks of training that a point of a learning curve is the mean of."""
OUT = Path("out")


def main() -> None:
    results = {
        agent: deadtime.train("noisy-cartpole", agent, delay=DELAY, steps=STEPS, seeds=SEEDS)
        for agent in AGENTS
    }

    table = Table("agent", "mean return", "of each seed", title=f"Noisy CartPole, delay {DELAY}")
    for agent, result in results.items():
        each = ", ".join(f"{score:.0f}" for score in result.scores)
        table.add_row(AGENTS[agent], f"{result.scores.mean():.0f}", each)
    Console().print(table)

    OUT.mkdir(exist_ok=True)
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axes = figure.subplots()
    for agent, result in results.items():
        steps, returns = result.curve
        ended = ~np.isnan(returns).all(axis=0)  # blocks of steps in which an episode ended
        mean = np.nanmean(returns[:, ended], axis=0)
        smooth = np.convolve(mean, np.ones(WINDOW) / WINDOW, "valid")
        axes.plot(steps[ended][WINDOW - 1 :] / 1000, smooth, label=AGENTS[agent])
    axes.set(xlabel="thousand steps", ylabel="return in training", ylim=(0, 510))
    axes.set_title(f"Noisy CartPole, delay {DELAY}, mean of {SEEDS} seeds", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    picture = OUT / "late_cartpole.png"
    figure.savefig(picture, dpi=130)
    print(f"wrote {picture}")

    record = results["delayed"].save(OUT / "late_cartpole")
    best = results["delayed"].seeds[int(results["delayed"].scores.argmax())]
    watch = ["watch", str(record), "--seed", str(best), "--out", str(OUT / "late_cartpole.gif")]
    subprocess.run([sys.executable, "-m", "deadtime", *watch], check=True)


if __name__ == "__main__":
    main()
