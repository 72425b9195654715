"""The paper's tabular experiments as data.

Step size and exploration were chosen once, by `tuning`, on mazes that no other experiment uses.
They are the same for every agent (`QLearning`), except in `whole-law`, which is about exploration.
All other experiments run on the mazes of seeds 0 … 19.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from deadtime.learn.settings import QLearning
from deadtime.runs.tabular_specs import TabularSpec
from deadtime.studies.experiment import Experiment
from deadtime.studies.paper import published
from deadtime.studies.paper import tabular_figures as show
from deadtime.studies.paper.walk import POINT_ESTIMATES

SEEDS = range(20)
TUNING_SEEDS = range(1000, 1006)


def maze(agent: str, delay: int, noise: float = 0.0, size: int = 10, **options: Any) -> TabularSpec:
    """Return a run on mazes; `options` are other fields of the spec."""
    return TabularSpec("maze", agent, delay, settings={"noise": noise, "size": size}, **options)


_TUNING = {
    (s, e, agent, p, m): maze(agent, m, p, learner=QLearning(learning_rate=s, epsilon=e))
    for s, e, agent, p, m in product(
        show.STEP_SIZES, show.EPSILONS, published.AGENTS, (0.0, 0.1), (5, 15)
    )
}
_WHOLE_LAW = {
    (a, p, m): maze(a, m, p, learner=QLearning(epsilon=show.LAW_EPSILON))
    for p, m, a in product(show.LAW_NOISES, show.DELAYS, ("delayed", "distribution"))
}
EXPERIMENTS = [
    Experiment(
        "whole-law",
        "Noisy Maze with exploration: the most likely state against the whole law",
        _WHOLE_LAW,
        SEEDS[:5],
        show.draw_whole_law,
        show.whole_law_table,
    ),
    Experiment(
        "tuning",
        "Step size and exploration, on other mazes",
        _TUNING,
        TUNING_SEEDS,
        show.draw_tuning,
        lambda results, root: show.estimates(
            results, ("step_size", "epsilon", "agent", "noise", "delay")
        ),
    ),
    Experiment(
        "convergence",
        "Maze and Noisy Maze: learning curves and final returns",
        {(a, p, m): maze(a, m, p) for p, m, a in product(show.NOISES, show.DELAYS, show.AGENTS)},
        SEEDS,
        show.draw_convergence,
        show.convergence_table,
    ),
    Experiment(
        "complexity",
        "Episodes to reach a return of 0.5 against the delay",
        {
            (a, m): maze(a, m, episodes=show.BUDGET, until_return=0.5)
            for a, ms in show.GROWTH.items()
            for m in ms
        },
        SEEDS,
        show.draw_growth,
        show.growth_table,
    ),
    Experiment(
        "heatmap-maze",
        "Delayed-Q: return over delay and noise",
        {
            ("delayed", p, m): maze("delayed", m, p)
            for p, m in product(show.MAP_NOISES, show.MAP_DELAYS)
        },
        SEEDS,
        show.draw_heat_map,
        lambda results, root: show.estimates(results, ("agent", "noise", "delay")),
    ),
    Experiment(
        "maze-size",
        "Return over maze sizes at delay 5",
        {(a, p, n): maze(a, 5, p, n) for p, n, a in product((0.0, 0.1), show.SIZES, show.SIZED)},
        SEEDS,
        show.draw_sizes,
        lambda results, root: show.estimates(results, ("agent", "noise", "size")),
    ),
    Experiment(
        "delay-sweep",
        "Maze and Noisy Maze: return against the delay",
        {(a, p, m): maze(a, m, p) for p, m, a in product((0.0, 0.1), show.SWEPT, show.AGENTS)},
        SEEDS,
        show.draw_sweep,
        lambda results, root: show.estimates(results, ("agent", "noise", "delay")),
    ),
    POINT_ESTIMATES,
]
