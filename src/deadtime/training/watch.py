"""An episode of a trained agent as an animated GIF: the real thing, what is pending, and where it is believed to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import error
from PIL import Image, ImageDraw, ImageFont

from deadtime.agents.policy import check_place
from deadtime.agents.tabular_policy import TabularPolicy
from deadtime.envs.maze_layout import MOVES, carve, draw_image
from deadtime.envs.outside import ATARI, Outside
from deadtime.files import whole
from deadtime.training.evaluate import act, delayed_gym, forget

_CELL, _SLOT, _INK, _GHOST, _FADED, _SOLID = 36, 22, (40, 40, 40), (213, 94, 0), (240, 180, 130), (0, 90, 181)
_WIDEST, _MOST_RENDERED = 400, 1000
Draw = Callable[[Any, Any], Image.Image]
"""From what is seen and what is believed to the picture above the queue."""
Arrows = Sequence[tuple[int, ...]] | None
"""The direction of each action's arrow as (down, right), and 1 after it if it fires; None: actions are shown as numbers."""


def watch(name: str, environment: Any, policy: Any, episode: int, path: Path) -> tuple[int, float]:
    """Run one greedy episode, write its frames, and return its steps and return."""
    if not can_draw(name, environment):
        raise ValueError(
            f"watch draws mazes, cartpole, acrobot, Atari, and gym:ID that render rgb_array; this is of {name}: name another"
        )
    making = {"render_mode": "rgb_array"} if isinstance(environment, Outside) else {}
    env, most = delayed_gym(name, environment, policy.delay, policy, **making), None
    check_place(policy, env, name)
    believe = policy.predicted_state if isinstance(policy, TabularPolicy) else policy.predicted_observation
    if name.startswith(ATARI):
        (draw, arrows), most = _screens(env), _MOST_RENDERED
    elif isinstance(environment, Outside):
        (draw, arrows), most = _rendered(env), _MOST_RENDERED
    else:
        draw, arrows = _SCENES[name.removeprefix("noisy-")](environment)
    obs, info = env.reset(seed=episode)
    forget(policy)
    frames: list[Image.Image] = []
    earned, ended = 0.0, False
    while not ended and len(frames) != most:
        pending = info["pending_actions"]
        frames.append(_frame(draw(obs, believe(obs, pending)), pending, arrows, len(frames), earned))
        obs, reward, terminated, truncated, info = env.step(act(policy, obs, info))
        earned, ended = earned + float(reward), terminated or truncated
    frames.append(_frame(draw(obs, obs), info["pending_actions"], arrows, len(frames), earned))
    env.close()
    path.parent.mkdir(parents=True, exist_ok=True)
    each = 140 if isinstance(policy, TabularPolicy) else 70 if name.startswith(ATARI) else 40
    with whole(path) as part:
        times = [each] * (len(frames) - 1) + [2000]
        frames[0].save(part, format="GIF", save_all=True, append_images=frames[1:], duration=times, loop=0, optimize=True)
    return len(frames) - 1, earned


def can_draw(name: str, environment: Any) -> bool:
    """Whether `watch` knows how to draw an environment, or it draws itself."""
    return getattr(environment, "draws", name.removeprefix("noisy-") in _SCENES)


def _rendered(env: Any) -> tuple[Draw, Arrows]:
    """What a Gymnasium environment draws of itself, at most `_WIDEST` wide; no ghost, and actions by their numbers."""

    def draw(obs: Any, ghost: Any) -> Image.Image:
        try:
            image = Image.fromarray(np.asarray(env.render(), np.uint8))
        except (error.Error, ImportError) as problem:
            raise ValueError(f"{env} can't draw itself ({problem}): install what it names") from problem
        return image.resize((_WIDEST, round(image.height * _WIDEST / image.width))) if image.width > _WIDEST else image

    return draw, None


def _screens(env: Any) -> tuple[Draw, Arrows]:
    """A game's screen and, where the agent looks ahead, the one that its next action is expected to meet."""
    lane, foresees = env.lane, env.lane.ahead is not env.lane.real
    size, font = (240, 210), ImageFont.load_default(13)

    def draw(obs: Any, ghost: Any) -> Image.Image:
        image = Image.new("RGB", (2 * size[0] + 8 if foresees else size[0], size[1] + 20), "white")
        words = ImageDraw.Draw(image)
        for i, (emulator, about) in enumerate([(lane.real, "now"), (lane.ahead, "when the queue is done")][: 1 + foresees]):
            words.text((i * (size[0] + 8) + 4, 2), about, _GHOST if i else _INK, font)
            image.paste(
                Image.fromarray(emulator.ale.getScreenRGB()).resize(size, Image.Resampling.NEAREST), (i * (size[0] + 8), 20)
            )
        return image

    return draw, [_pushed(meaning) for meaning in lane.meanings]


def _pushed(meaning: str) -> tuple[int, ...]:
    """Where an action of a joystick points to, and whether it fires."""
    return ("DOWN" in meaning) - ("UP" in meaning), ("RIGHT" in meaning) - ("LEFT" in meaning), int("FIRE" in meaning)


def _maze(leads_to: np.ndarray) -> Draw:
    size = round(len(leads_to) ** 0.5)

    def draw(cell: int, ghost: int) -> Image.Image:
        image = Image.fromarray(draw_image(leads_to, cell, _CELL))
        if ghost != cell:
            top, left = (ghost // size) * _CELL + 3, (ghost % size) * _CELL + 3
            ImageDraw.Draw(image).ellipse((left + 6, top + 6, left + _CELL - 9, top + _CELL - 9), outline=_GHOST, width=3)
        return image

    return draw


def _cartpole(obs: np.ndarray, ghost: np.ndarray) -> Image.Image:
    image = Image.new("RGB", (480, 240), "white")
    draw = ImageDraw.Draw(image)
    draw.line((0, 190, 480, 190), fill=_INK, width=1)
    for (x, _, angle, _), solid in ((obs, True), (ghost, False)):
        middle = 240 + float(np.clip(x, -5, 5)) * 90
        draw.rectangle((middle - 26, 176, middle + 26, 204), fill=_INK if solid else None, outline=_INK if solid else _FADED)
        tip = (middle + 140 * np.sin(float(angle)), 176 - 140 * np.cos(float(angle)))
        draw.line((middle, 176, *tip), fill=_SOLID if solid else _FADED, width=9 if solid else 4)
    return image


def _acrobot(obs: np.ndarray, ghost: np.ndarray) -> Image.Image:
    image = Image.new("RGB", (480, 480), "white")
    draw = ImageDraw.Draw(image)
    draw.line((0, 140, 480, 140), fill=(120, 190, 120), width=2)
    for (cos_1, sin_1, cos_2, sin_2, *_), solid in ((obs, True), (ghost, False)):
        first, second = np.arctan2(sin_1, cos_1), np.arctan2(sin_1, cos_1) + np.arctan2(sin_2, cos_2)
        elbow = np.array([240 + 100 * np.sin(first), 240 + 100 * np.cos(first)])
        hand = elbow + 100 * np.array([np.sin(second), np.cos(second)])
        for a, b, color in ((np.array([240, 240]), elbow, _INK), (elbow, hand, _SOLID)):
            draw.line((*map(float, a), *map(float, b)), fill=color if solid else _FADED, width=10 if solid else 4)
    return image


def _frame(scene: Image.Image, pending: np.ndarray, arrows: Arrows, step: int, earned: float) -> Image.Image:
    a_row = max(scene.width // _SLOT, 1)
    rows = -(-len(pending) // a_row)
    image = Image.new("RGB", (scene.width, scene.height + 44 + rows * _SLOT), "white")
    image.paste(scene)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(13)
    draw.text((4, scene.height + 4), f"step {step}   return {earned:+.3f}", _INK, font)
    words = "pending, next one first:" if len(pending) else "no delay"
    draw.text((4, scene.height + 22), words, _INK, font)
    for i, action in enumerate(pending):
        x, y = (i % a_row + 0.5) * _SLOT, scene.height + 44 + (i // a_row + 0.5) * _SLOT
        if arrows is None:
            draw.text((x, y), str(action), _GHOST if i else _INK, font, anchor="mm")
        else:
            _arrow(draw, (x, y), arrows[action], _GHOST if i else _INK)
    return image


def _arrow(draw: ImageDraw.ImageDraw, at: tuple[float, float], direction: tuple[int, ...], color: tuple[int, int, int]) -> None:
    """An arrow, or a dot for an action that pushes nowhere; one that fires has a ring around it."""
    (x, y), (down, right, *fires) = at, direction
    long, wide = _SLOT * 0.36, _SLOT * 0.22
    if any(fires):
        draw.ellipse((x - _SLOT * 0.45, y - _SLOT * 0.45, x + _SLOT * 0.45, y + _SLOT * 0.45), outline=color)
    if not down and not right:
        draw.ellipse((x - 3, y - 3, x + 3, y + 3), fill=color)
        return
    tip = (x + right * long, y + down * long)
    draw.line((x - right * long, y - down * long, *tip), fill=color, width=2)
    side = [(x + down * w, y - right * w) for w in (wide, -wide)]
    draw.polygon([tip, *side], fill=color)


_SCENES: dict[str, Callable[[Any], tuple[Draw, Arrows]]] = {
    "maze": lambda environment: (_maze(carve(environment.size, environment.maze_seed)), list(MOVES)),
    "cartpole": lambda environment: (_cartpole, [(0, -1), (0, 1)]),
    "acrobot": lambda environment: (_acrobot, [(0, -1), (0, 0), (0, 1)]),
}
