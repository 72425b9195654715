"""An episode of a maze agent as an animated GIF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from deadtime.agents.tabular_policy import TabularPolicy
from deadtime.envs.gym import ActionDelay
from deadtime.envs.maze_layout import MOVES, carve, draw_image
from deadtime.pictures import whole

_CELL, _SLOT, _INK, _GHOST = 36, 22, (40, 40, 40), (213, 94, 0)


def watch_maze(environment: Any, policy: TabularPolicy, episode: int, path: Path) -> tuple[int, float]:
    """Run one greedy episode, write its frames, and return its steps and return."""
    kept = {"size": environment.size, "noise": environment.noise, "maze_seed": environment.maze_seed}
    env = ActionDelay(gym.make("deadtime/Maze-v0", **kept), policy.delay)
    leads_to = carve(environment.size, environment.maze_seed)
    cell, info = env.reset(seed=episode)
    frames: list[Image.Image] = []
    earned, ended = 0.0, False
    while not ended:
        pending = info["pending_actions"]
        frames.append(_frame(leads_to, cell, pending, policy.predicted_state(cell, pending), len(frames), earned))
        cell, reward, terminated, truncated, info = env.step(policy.act(cell, pending))
        earned, ended = earned + float(reward), terminated or truncated
    frames.append(_frame(leads_to, cell, info["pending_actions"], cell, len(frames), earned))
    path.parent.mkdir(parents=True, exist_ok=True)
    times = [140] * (len(frames) - 1) + [2000]
    with whole(path) as part:
        frames[0].save(part, format="GIF", save_all=True, append_images=frames[1:], duration=times, loop=0, optimize=True)
    return len(frames) - 1, earned


def _frame(leads_to: np.ndarray, cell: int, pending: np.ndarray, ghost: int, step: int, earned: float) -> Image.Image:
    size = round(len(leads_to) ** 0.5)
    maze = Image.fromarray(draw_image(leads_to, cell, _CELL))
    a_row = max(maze.width // _SLOT, 1)
    rows = -(-len(pending) // a_row)
    image = Image.new("RGB", (maze.width, maze.height + 44 + rows * _SLOT), "white")
    image.paste(maze)
    draw = ImageDraw.Draw(image)
    if ghost != cell:
        top, left = (ghost // size) * _CELL + 3, (ghost % size) * _CELL + 3
        draw.ellipse((left + 6, top + 6, left + _CELL - 9, top + _CELL - 9), outline=_GHOST, width=3)
    font = ImageFont.load_default(13)
    draw.text((4, maze.height + 4), f"step {step}   return {earned:+.3f}", _INK, font)
    words = "pending, next one first:" if len(pending) else "no delay"
    draw.text((4, maze.height + 22), words, _INK, font)
    for i, action in enumerate(pending):
        x, y = (i % a_row + 0.5) * _SLOT, maze.height + 44 + (i // a_row + 0.5) * _SLOT
        _arrow(draw, x, y, *MOVES[action], color=_GHOST if i else _INK)
    return image


def _arrow(draw: ImageDraw.ImageDraw, x: float, y: float, down: int, right: int, color: tuple[int, int, int]) -> None:
    long, wide = _SLOT * 0.36, _SLOT * 0.22
    tip = (x + right * long, y + down * long)
    draw.line((x - right * long, y - down * long, *tip), fill=color, width=2)
    side = [(x + down * w, y + right * w) for w in (wide, -wide)]
    draw.polygon([tip, *side], fill=color)
