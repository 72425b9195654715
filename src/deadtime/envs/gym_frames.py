"""Images of Gymnasium environments as agents on frames see them: small, grey, and stacked.

The rules are these:

- An image is a Box of more than 1,000 numbers: H×W, or H×W×C or C×H×W with 1 or 3 channels.
- The values from the least to the greatest bound of the Box become the bytes 0 to 255, rounded. So
  a float image and its bytes give the same frames.
- Grey is 0.299 red + 0.587 green + 0.114 blue. Colour is lost, since networks on frames have one
  channel for each of the last four frames.
- A frame has 84 by 84 pixels. Each is the mean of the part of the image that it covers, where a
  pixel on the edge counts by its covered area. Smaller images are enlarged by the same rule.
- An observation is the last four frames, oldest first. An episode begins with four equal ones.

All sums are of whole numbers, so every machine gives the same bytes.
"""

from __future__ import annotations

from math import prod
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from deadtime.runtime.frame_layers import FRAMES

MOST_FLATTENED = 1000
"""The largest observation that is worth flattening; a larger Box is an image."""
_GREY = {1: (1,), 3: (299, 587, 114)}
"""The weight of each channel, by the number of channels."""


def is_image(space: spaces.Space) -> bool:
    """Return whether observations are images, which become frames."""
    large = isinstance(space, spaces.Box) and prod(space.shape) > MOST_FLATTENED
    return large and len(space.shape) > 1  # type: ignore[arg-type]


def is_frames(space: spaces.Space) -> bool:
    """Return whether observations are stacked frames already."""
    return isinstance(space, spaces.Box) and (space.shape, space.dtype) == (FRAMES, np.uint8)


def check_image(name: str, space: spaces.Box) -> None:
    """Raise if the images of an environment can't become frames."""
    if _channel_axis(space.shape) is None:
        raise ValueError(
            "an image has the shape H×W, or H×W×C or C×H×W with 1 or 3 channels; "
            f"{name} has {space}: wrap the environment in "
            "gymnasium.wrappers.TransformObservation, and leave out a stack, which deadtime makes"
        )
    low, high = _bounds_of(space)
    if not np.isfinite([low, high]).all() or not low < high:
        raise ValueError(
            f"an image has finite bounds, which become black and white; {name} has {space}: "
            "wrap the environment in gymnasium.wrappers.TransformObservation, and pass it a Box "
            "with bounds"
        )


class Frames(gym.Wrapper, gym.utils.RecordConstructorArgs):
    """The last four images of an environment, each as a small grey frame."""

    def __init__(self, env: gym.Env):
        """Take an environment whose observations are images."""
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        space: Any = env.observation_space
        check_image(str(env), space)
        self._image = space
        self._bounds = _bounds_of(space)
        self._axis: Any = _channel_axis(space.shape)
        height, width, channels = self._channels_last(np.empty(space.shape)).shape
        self._grey = _GREY[channels]
        self._whole = height * width * sum(self._grey)
        self._stack = np.zeros(FRAMES, np.uint8)
        self.observation_space = spaces.Box(0, 255, FRAMES, np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode, with four equal frames."""
        image, info = self.env.reset(seed=seed, options=options)
        self._stack[:] = self.frame(image)
        return self._stack.copy(), info

    def step(self, action: object) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        """Make a step, and append its frame."""
        image, *rest = self.env.step(action)
        self._stack[:-1] = self._stack[1:]
        self._stack[-1] = self.frame(image)
        return (self._stack.copy(), *rest)  # type: ignore[return-value]

    def frame(self, image: ArrayLike) -> np.ndarray:
        """Return an image as a frame."""
        channels = np.moveaxis(self._channels_last(self._as_bytes(np.asarray(image))), -1, 0)
        light: Any = sum(
            weight * one.astype(np.int64) for weight, one in zip(self._grey, channels, strict=True)
        )
        total = _parts(_parts(light, FRAMES[1]).T, FRAMES[2]).T
        return ((2 * total + self._whole) // (2 * self._whole)).astype(np.uint8)

    def _channels_last(self, image: np.ndarray) -> np.ndarray:
        return image[..., None] if self._axis == image.ndim else np.moveaxis(image, self._axis, -1)

    def _as_bytes(self, image: np.ndarray) -> np.ndarray:
        """Return an image with values from 0 to 255, or raise if it is not within its bounds."""
        low, high = self._bounds
        fits = image.shape == self._image.shape and image.dtype.kind in "biuf"
        if not fits or not low <= image.min() <= image.max() <= high:
            got = f"values from {image.min()} to {image.max()}" if fits else f"{image!r:.200}"
            raise ValueError(
                f"an image lies within its space, {self._image}; {self.env} gave shape "
                f"{image.shape} with {got}: fix the environment, or wrap it"
            )
        if image.dtype == np.uint8 and (low, high) == (0, 255):
            return image
        return np.rint((image.astype(np.float64) - low) * (255 / (high - low)))


def _channel_axis(shape: tuple[int, ...]) -> int | None:
    """Return the axis of the channels, 2 for H×W; None if an array of this shape is no image."""
    if len(shape) == 2:
        return 2
    if len(shape) != 3:
        return None
    return next((axis for axis in (2, 0) if shape[axis] in _GREY), None)


def _bounds_of(space: spaces.Box) -> tuple[float, float]:
    return float(space.low.min()), float(space.high.max())


def _parts(rows: np.ndarray, count: int) -> np.ndarray:
    """Return the sums of rows over `count` equal parts of them, times `count`.

    A row on the edge between two parts counts in each by its share.
    """
    place, share = np.divmod(np.arange(count + 1) * len(rows), count)
    before = np.zeros((len(rows) + 1, rows.shape[1]), np.int64)
    np.cumsum(rows, axis=0, out=before[1:])
    cut = rows[np.minimum(place, len(rows) - 1)]  # where `place` is the end, the share is 0
    return np.diff(count * before[place] + share[:, None] * cut, axis=0)
