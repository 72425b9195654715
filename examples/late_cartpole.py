"""Three agents learn to balance a pole whose masses are uncertain and whose pushes land late.

Delayed-Q learns a model of one step and acts on the state it predicts for the time its action lands; Augmented-Q sees the
state and the pending actions; Oblivious-Q sees the state alone. Prints their returns (500 is the most) and writes their
learning curves and an episode of the first, with its prediction as a ghost, into out/.
"""

from pathlib import Path

from rich.console import Console
from rich.table import Table

import deadtime
from deadtime._support.pictures import save_picture
from deadtime.envs import make
from deadtime.runs.figures import NAMES, learning_curves, new_figure
from deadtime.runs.statistics import mean
from deadtime.runs.watch import watch

DELAY, STEPS, SEEDS = 8, 40_000, 4
AGENTS = ("delayed", "augmented", "oblivious")


def main() -> None:
    results = {
        agent: deadtime.train("noisy-cartpole", agent, delay=DELAY, steps=STEPS, seeds=SEEDS)
        for agent in AGENTS
    }

    table = Table(
        "agent",
        "greedy return, mean and 95% interval",
        "seed by seed",
        title=f"Noisy CartPole, delay {DELAY}",
    )
    for agent, result in results.items():
        table.add_row(
            NAMES[agent],
            str(mean(result.scores)),
            ", ".join(f"{score:.0f}" for score in result.scores),
        )
    Console().print(table)

    figure, axes = new_figure(6.4, 4)
    learning_curves(
        axes,
        {agent: (result.curve[0] / 1000, result.curve[1]) for agent, result in results.items()},
        None,
    )
    axes.set(xlabel="thousand steps", ylabel="return in training", ylim=(0, 510))
    axes.set_title(f"Noisy CartPole, delay {DELAY}, {SEEDS} seeds: make demo", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    picture, film = (
        save_picture(figure, Path("out/late_cartpole.png")),
        Path("out/late_cartpole.gif"),
    )

    best = int(results["delayed"].scores.argmax())
    steps, _ = watch(
        "noisy-cartpole",
        make("noisy-cartpole"),
        results["delayed"].policy(best),
        episode=0,
        path=film,
    )
    print(f"wrote {picture} and {film} ({steps} steps of Delayed-Q)")


if __name__ == "__main__":
    main()
