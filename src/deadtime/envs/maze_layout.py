"""The layout of a maze: its walls, its exact transition probabilities and its pictures.

A maze of size N has N² cells, numbered row by row. The start is the top left cell, the goal the
bottom right cell. The maze is perfect: exactly one path joins any two cells. An action into a wall
leaves the agent in its cell.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from deadtime.envs.finite import Finite, one_start

if TYPE_CHECKING:
    from jaxtyping import Float, Int

LARGEST = 1000
"""The largest number of cells on a side. Carving a million cells takes seconds."""
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""The row and column step of each action: up, right, down, left."""


def check_size(size: object) -> int:
    """Return `size` as an int, or raise if it is not a valid size."""
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 2:
        raise ValueError(
            f"size is the number of cells on a side, 2 or more; got {size!r}: "
            "pass a whole number such as 10"
        )
    if size > LARGEST:
        raise ValueError(
            f"a maze has at most {LARGEST} cells on a side; got {size!r:.50}: pass a smaller size"
        )
    return int(size)


def check_maze_seed(seed: object) -> int:
    """Return `seed` as an int, or raise if it is not a valid seed."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(
            f"maze_seed is a whole number, 0 or more; got {seed!r}: each number gives one maze"
        )
    return int(seed)


def carve(size: int, seed: int) -> Int[np.ndarray, "S 4"]:
    """Return the cell that each action leads to, in a random spanning tree grown depth first."""
    return _carve(check_size(size), check_maze_seed(seed)).copy()


@lru_cache(maxsize=64)
def _carve(size: int, seed: int) -> Int[np.ndarray, "S 4"]:
    rng = np.random.default_rng(seed)
    leads_to = np.repeat(np.arange(size * size)[:, None], 4, axis=1)
    visited = {0}
    path = [0]
    while path:
        cell = path[-1]
        row, column = divmod(cell, size)
        open_ways = []
        for action, (down, right) in enumerate(MOVES):
            if 0 <= row + down < size and 0 <= column + right < size:
                neighbour = (row + down) * size + column + right
                if neighbour not in visited:
                    open_ways.append((action, neighbour))
        if not open_ways:
            path.pop()
            continue
        action, neighbour = open_ways[rng.integers(len(open_ways))]
        leads_to[cell, action] = neighbour
        leads_to[neighbour, (action + 2) % 4] = cell
        visited.add(neighbour)
        path.append(neighbour)
    return leads_to


def model(
    leads_to: Int[np.ndarray, "S 4"], noise: float
) -> tuple[Float[np.ndarray, "S 4 S"], Float[np.ndarray, "S 4"]]:
    """Return the exact (P, r) of a maze whose actions are random with probability `noise`.

    The goal leads to itself and pays nothing, so the return of an episode is the sum of r.
    """
    return finite(leads_to, noise).model()


def finite(leads_to: Int[np.ndarray, "S 4"], noise: float) -> Finite:
    """Return a maze as arrays. The first outcome is that the chosen action is executed."""
    cells = len(leads_to)
    orders = np.array(
        [[action, *(other for other in range(4) if other != action)] for action in range(4)]
    )
    successors = leads_to[:, orders] if noise else leads_to[:, :, None]
    shares = np.cumsum([1 - 3 * noise / 4, noise / 4, noise / 4, noise / 4])[: successors.shape[2]]
    shares[-1] = 1.0
    return Finite(
        np.ascontiguousarray(successors, np.int32),
        np.ascontiguousarray(np.broadcast_to(shares, successors.shape)),
        np.where(successors == cells - 1, 1.0, -1 / (10 * cells)),
        np.arange(cells) == cells - 1,
        *one_start(0),
        10 * cells,
    )


def draw_text(leads_to: Int[np.ndarray, "S 4"], cell: int) -> str:
    """Return the maze as text, with A for the agent and G for the goal."""
    size = round(len(leads_to) ** 0.5)
    inside = {cell: "A", **({} if cell == size * size - 1 else {size * size - 1: "G"})}
    lines = ["+" + "---+" * size]
    for row in range(size):
        cells = range(row * size, (row + 1) * size)
        lines.append(
            "|"
            + "".join(
                f" {inside.get(c, ' ')} " + (" " if leads_to[c, 1] != c else "|") for c in cells
            )
        )
        lines.append("+" + "".join("   +" if leads_to[c, 2] != c else "---+" for c in cells))
    return "\n".join(lines)


def draw_image(leads_to: Int[np.ndarray, "S 4"], cell: int, pixels: int = 24) -> np.ndarray:
    """Return the maze as an RGB array, with a green goal, a blue agent and dark walls."""
    size = round(len(leads_to) ** 0.5)
    wall = max(pixels // 12, 1)
    image = np.full((size * pixels + wall, size * pixels + wall, 3), 255, np.uint8)

    def paint(c: int, color: tuple[int, int, int], margin: int) -> None:
        top, left = (c // size) * pixels + wall, (c % size) * pixels + wall
        image[
            top + margin : top + pixels - wall - margin,
            left + margin : left + pixels - wall - margin,
        ] = color

    paint(size * size - 1, (120, 190, 120), 0)
    paint(cell, (0, 90, 181), pixels // 6)
    dark = (40, 40, 40)
    image[:wall] = dark
    image[:, :wall] = dark
    for c in range(size * size):
        top, left = (c // size) * pixels, (c % size) * pixels
        if leads_to[c, 1] == c:
            image[top : top + pixels + wall, left + pixels : left + pixels + wall] = dark
        if leads_to[c, 2] == c:
            image[top + pixels : top + pixels + wall, left : left + pixels + wall] = dark
    return image
