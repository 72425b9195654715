"""An episode of a trained agent as an animated GIF.

A frame shows the environment, the state that the agent predicts, and the pending actions.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from PIL import Image, ImageDraw, ImageFont

from deadtime._support.files import whole
from deadtime.envs.families import family_of
from deadtime.envs.family import Arrows
from deadtime.envs.scenes import GHOST, INK
from deadtime.learn.evaluate import act, forget, known_ages
from deadtime.runtime.network_policy import NetworkPolicy
from deadtime.runtime.policy import Policy, check_place
from deadtime.runtime.table_policy import TablePolicy

_SLOT = 22
_LAST_MILLISECONDS = 2000


def watch(
    name: str, environment: object, policy: Policy, episode: int, path: Path
) -> tuple[int, float]:
    """Run one greedy episode, write its frames, and return its number of steps and its return."""
    family = family_of(name)
    if not family.can_draw(environment):
        raise ValueError(
            "watch draws mazes, cartpole, acrobot, Atari, and gym:ID that render rgb_array; got a "
            f"policy of {name}: name another"
        )
    env = family.gymnasium_form(environment, policy.channel, policy, render_mode="rgb_array")
    check_place(policy, env, name)
    believe: Callable[..., Any] = (
        policy.predicted_state
        if isinstance(policy, TablePolicy)
        else cast("NetworkPolicy", policy).predicted_observation
    )
    draw, arrows = family.scene(environment, env)
    shown = _shares(env.action_space)
    obs, info = env.reset(seed=episode)
    forget(policy)
    frames: list[Image.Image] = []
    earned = 0.0
    ended = False
    while not ended and len(frames) != family.most_drawn:
        pending = info["pending_actions"]
        scene = draw(obs, believe(obs, pending, **known_ages(policy, info)))
        frames.append(_frame(scene, shown(pending), arrows, len(frames), earned))
        obs, reward, terminated, truncated, info = env.step(act(policy, obs, info))
        earned += float(reward)
        ended = terminated or truncated
    pending = shown(info["pending_actions"])
    frames.append(_frame(draw(obs, obs), pending, arrows, len(frames), earned))
    env.close()
    path.parent.mkdir(parents=True, exist_ok=True)
    times = [family.frame_milliseconds] * (len(frames) - 1) + [_LAST_MILLISECONDS]
    with whole(path) as part:
        frames[0].save(
            part,
            "GIF",
            save_all=True,
            append_images=frames[1:],
            duration=times,
            loop=0,
            optimize=True,
        )
    return len(frames) - 1, earned


def _shares(space: spaces.Space) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that scales the actions of a box to flat vectors from 0 to 1."""
    if not isinstance(space, spaces.Box):
        return lambda pending: pending

    def scaled(pending: np.ndarray) -> np.ndarray:
        shares = (pending - space.low) / (space.high - space.low)
        return shares.reshape(len(pending), -1)

    return scaled


def _frame(
    scene: Image.Image, pending: np.ndarray, arrows: Arrows, step: int, earned: float
) -> Image.Image:
    """Return a frame: the scene, the step and the return so far, and the pending actions."""
    a_row = max(scene.width // _SLOT, 1)
    rows = -(-len(pending) // a_row)
    image = Image.new("RGB", (scene.width, scene.height + 44 + rows * _SLOT), "white")
    image.paste(scene)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(13)
    draw.text((4, scene.height + 4), f"step {step}   return {earned:+.3f}", INK, font)
    words = "pending, next one first:" if len(pending) else "no delay"
    draw.text((4, scene.height + 22), words, INK, font)
    for i, action in enumerate(pending):
        x = (i % a_row + 0.5) * _SLOT
        y = scene.height + 44 + (i // a_row + 0.5) * _SLOT
        if pending.ndim > 1:
            _bars(draw, (x, y), action, GHOST if i else INK)
        elif arrows is None:
            draw.text((x, y), str(action), GHOST if i else INK, font, anchor="mm")
        else:
            _arrow(draw, (x, y), arrows[action], GHOST if i else INK)
    return image


def _bars(
    draw: ImageDraw.ImageDraw,
    at: tuple[float, float],
    shares: np.ndarray,
    color: tuple[int, int, int],
) -> None:
    """Draw a bar for each number of an action, up or down from the middle of its bounds."""
    x, y = at
    side = 0.8 * _SLOT
    wide = side / len(shares)
    for k, share in enumerate(shares):
        left = x - side / 2 + k * wide
        end = y + (0.5 - share) * side
        draw.rectangle((left, min(y, end), left + max(wide - 1, 1), max(y, end)), fill=color)


def _arrow(
    draw: ImageDraw.ImageDraw,
    at: tuple[float, float],
    direction: tuple[int, ...],
    color: tuple[int, int, int],
) -> None:
    """Draw an arrow, or a dot for an action without direction; a ring marks firing."""
    x, y = at
    down, right, *fires = direction
    long = _SLOT * 0.36
    wide = _SLOT * 0.22
    if any(fires):
        radius = _SLOT * 0.45
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), outline=color)
    if not down and not right:
        draw.ellipse((x - 3, y - 3, x + 3, y + 3), fill=color)
        return
    tip = (x + right * long, y + down * long)
    draw.line((x - right * long, y - down * long, *tip), fill=color, width=2)
    side = [(x + down * w, y - right * w) for w in (wide, -wide)]
    draw.polygon([tip, *side], fill=color)
