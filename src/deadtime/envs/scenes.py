"""Drawings of environments for animations, with the state that an agent predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from gymnasium import error
from PIL import Image, ImageDraw, ImageFont

from deadtime.envs.family import Arrows, Draw
from deadtime.envs.maze_layout import draw_image
from deadtime.envs.opengl import opengl_remedy

if TYPE_CHECKING:
    import gymnasium as gym

CELL = 36
INK = (40, 40, 40)
GHOST = (213, 94, 0)
FADED = (240, 180, 130)
SOLID = (0, 90, 181)
WIDEST = 400


def rendered(env: gym.Env) -> tuple[Draw, Arrows]:
    """Return a function that renders `env`, at most `WIDEST` pixels wide; actions are numbers."""

    def draw(obs: object, ghost: object) -> Image.Image:
        try:
            image = Image.fromarray(np.asarray(env.render(), np.uint8))
        except Exception as problem:
            remedy = opengl_remedy(problem)
            if remedy is None and not isinstance(problem, error.Error | ImportError):
                raise
            remedy = remedy or "install the package that it needs"
            raise ValueError(f"{env} can't be rendered ({problem}): {remedy}") from problem
        if image.width <= WIDEST:
            return image
        return image.resize((WIDEST, round(image.height * WIDEST / image.width)))

    return draw, None


class Screen(Protocol):
    """A game whose screen can be drawn."""

    def screen(self) -> np.ndarray:
        """Return the screen as an RGB array."""


class Screens(Protocol):
    """A game at present, and after its pending actions."""

    @property
    def real(self) -> Screen:
        """The game at present."""

    @property
    def ahead(self) -> Screen:
        """The game after the pending actions; without a look-ahead, at present."""

    meanings: list[str]
    """The names of the actions."""


def screens(lane: Screens) -> tuple[Draw, Arrows]:
    """Return a function that draws a game's screen and, with a look-ahead, the expected one."""
    foresees = lane.ahead is not lane.real
    size = (240, 210)
    font = ImageFont.load_default(13)

    def draw(obs: object, ghost: object) -> Image.Image:
        image = Image.new("RGB", (2 * size[0] + 8 if foresees else size[0], size[1] + 20), "white")
        words = ImageDraw.Draw(image)
        for i, (game, about) in enumerate(
            [(lane.real, "now"), (lane.ahead, "when the queue is done")][: 1 + foresees]
        ):
            words.text((i * (size[0] + 8) + 4, 2), about, GHOST if i else INK, font)
            image.paste(
                Image.fromarray(game.screen()).resize(size, Image.Resampling.NEAREST),
                (i * (size[0] + 8), 20),
            )
        return image

    return draw, [_pushed(meaning) for meaning in lane.meanings]


def _pushed(meaning: str) -> tuple[int, ...]:
    """Return the direction of a joystick action as (down, right), and 1 if it fires."""
    return (
        ("DOWN" in meaning) - ("UP" in meaning),
        ("RIGHT" in meaning) - ("LEFT" in meaning),
        int("FIRE" in meaning),
    )


def maze(leads_to: np.ndarray) -> Draw:
    """Return a function that draws a maze, its agent and a ring around the predicted cell."""
    size = round(len(leads_to) ** 0.5)

    def draw(cell: int, ghost: int) -> Image.Image:
        image = Image.fromarray(draw_image(leads_to, cell, CELL))
        if ghost != cell:
            top, left = (ghost // size) * CELL + 3, (ghost % size) * CELL + 3
            ImageDraw.Draw(image).ellipse(
                (left + 6, top + 6, left + CELL - 9, top + CELL - 9), outline=GHOST, width=3
            )
        return image

    return draw


def cartpole(obs: np.ndarray, ghost: np.ndarray) -> Image.Image:
    """Draw the cart and its pole, and their predicted state."""
    image = Image.new("RGB", (480, 240), "white")
    draw = ImageDraw.Draw(image)
    draw.line((0, 190, 480, 190), fill=INK, width=1)
    for (x, _, angle, _), solid in ((obs, True), (ghost, False)):
        middle = 240 + float(np.clip(x, -5, 5)) * 90
        draw.rectangle(
            (middle - 26, 176, middle + 26, 204),
            fill=INK if solid else None,
            outline=INK if solid else FADED,
        )
        tip = (middle + 140 * np.sin(float(angle)), 176 - 140 * np.cos(float(angle)))
        draw.line((middle, 176, *tip), fill=SOLID if solid else FADED, width=9 if solid else 4)
    return image


def pendulum(obs: np.ndarray, ghost: np.ndarray) -> Image.Image:
    """Draw the rod, and its predicted state."""
    image = Image.new("RGB", (400, 400), "white")
    draw = ImageDraw.Draw(image)
    for (cos, sin, *_), solid in ((obs, True), (ghost, False)):
        tip = 200 - 150 * float(sin), 200 - 150 * float(cos)
        draw.line((200, 200, *tip), fill=SOLID if solid else FADED, width=14 if solid else 5)
    draw.ellipse((192, 192, 208, 208), fill=INK)
    return image


def acrobot(obs: np.ndarray, ghost: np.ndarray) -> Image.Image:
    """Draw the two links, and their predicted state."""
    image = Image.new("RGB", (480, 480), "white")
    draw = ImageDraw.Draw(image)
    draw.line((0, 140, 480, 140), fill=(120, 190, 120), width=2)
    for (cos_1, sin_1, cos_2, sin_2, *_), solid in ((obs, True), (ghost, False)):
        first = np.arctan2(sin_1, cos_1)
        second = first + np.arctan2(sin_2, cos_2)
        elbow = np.array([240 + 100 * np.sin(first), 240 + 100 * np.cos(first)])
        hand = elbow + 100 * np.array([np.sin(second), np.cos(second)])
        for a, b, color in ((np.array([240, 240]), elbow, INK), (elbow, hand, SOLID)):
            draw.line(
                (*map(float, a), *map(float, b)),
                fill=color if solid else FADED,
                width=10 if solid else 4,
            )
    return image
