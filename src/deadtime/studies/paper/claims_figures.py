"""Pictures of plans: the two-state optimum over (p, m), and the path that a maze plan predicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from deadtime._support.pictures import save_picture
from deadtime.envs.maze_layout import draw_image
from deadtime.planning.beliefs import BeliefSolution
from deadtime.planning.examples import two_state
from deadtime.planning.mdp import MDP
from deadtime.planning.policies import best_queue_aware
from deadtime.planning.solution import Solution


def two_state_heat_map(gamma: float, path: Path) -> Path:
    """Draw the optimal delayed value, as a share of the maximum, over p and the delay."""
    ps = np.linspace(0.5, 1, 11)
    delays = range(11)
    best = np.array(
        [[best_queue_aware(two_state(p, gamma), m, 0, [0] * m).value for m in delays] for p in ps]
    ) * (1 - gamma)
    figure = Figure(figsize=(6, 4.6), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(best, origin="lower", aspect="auto", cmap="cividis", vmin=0.5, vmax=1)
    axes.set_xticks(list(delays), [str(m) for m in delays])
    axes.set_yticks(range(len(ps)), [f"{p:.2f}" for p in ps])
    axes.set(
        xlabel="delay m",
        ylabel="probability p of a flip",
        title=f"Two-state MDP: optimal return × (1 - γ), γ = {gamma:g}",
    )
    for (i, j), value in np.ndenumerate(best):
        axes.text(
            j,
            i,
            f"{value:.2f}",
            ha="center",
            va="center",
            fontsize=7,
            color="white" if value < 0.75 else "black",
        )
    figure.colorbar(image, ax=axes)
    return save_picture(figure, path)


def maze_path(
    mdp: MDP,
    solution: Solution | BeliefSolution,
    start: tuple[int, ...],
    leads_to: np.ndarray,
    path: Path,
) -> Path:
    """Draw the most likely path of the optimal policy from a cell and a queue.

    The steps that the queue decides are dashed; those that the policy decides are solid.
    """
    (first, *queue) = start
    size = round(len(leads_to) ** 0.5)
    pixels = 24
    cells = [first]
    pending = list(queue)
    limit = 10 * size**2 if solution.horizon is None else solution.horizon
    while cells[-1] != size**2 - 1 and len(cells) - 1 < limit:
        pending.append(solution.action(cells[-1], tuple(pending), time=len(cells) - 1))
        cells.append(int(np.argmax(mdp.dense[cells[-1], pending.pop(0)])))
    image = draw_image(leads_to, first, pixels)
    figure = Figure(figsize=(5, 5.3), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(image)
    rows, columns = np.divmod(np.array(cells), size)
    x = (columns + 0.5) * pixels
    y = (rows + 0.5) * pixels
    given = len(queue) + 1
    axes.plot(x[:given], y[:given], "--", color="#D55E00", label="pending at the start")
    axes.plot(x[given - 1 :], y[given - 1 :], "-", color="#0072B2", label="chosen by the plan")
    reached = "reaches" if cells[-1] == size**2 - 1 else "has not reached"
    axes.set_title(f"delay {len(queue)}: {reached} the goal after {len(cells) - 1} steps")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.01), ncols=2, frameon=False)
    axes.set_axis_off()
    return save_picture(figure, path)
