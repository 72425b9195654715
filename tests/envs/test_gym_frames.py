"""Images as frames: equal to the mean over each pixel's part of the image, written by hand."""

import re
from collections import deque

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from deadtime.envs import adapted
from deadtime.envs.atari.shrinking import pixel_weights, shrink
from deadtime.envs.gym_spaces import check_spaces

SHAPES = [(36, 40), (20, 97), (97, 20, 1), (50, 30, 3), (100, 12, 3)]


class Shows(gym.Env):
    """Shows a list of images, one after the other."""

    action_space = spaces.Discrete(2)

    def __init__(self, images, low=0, high=255, space=None):
        self.images = images
        image = np.asarray(images[0])
        box = spaces.Box(low, high, image.shape, image.dtype.type)
        self.observation_space = box if space is None else space

    def reset(self, *, seed=None, options=None):
        self.left = deque(self.images)
        return self.left.popleft(), {}

    def step(self, action):
        return self.left.popleft(), 1.0, False, not self.left, {}


def random_image(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def frame_by_hand(image):
    """Every pixel repeated 84 times in each direction, then means over blocks of the image's size.

    All numbers are whole: the sums are 1000 times as large, and halves are rounded up.
    """
    red, green, blue = (image[..., 0 if image.shape[-1] == 1 else i] for i in range(3))
    grey = 299 * red.astype(int) + 587 * green.astype(int) + 114 * blue.astype(int)
    height, width = grey.shape
    large = grey.repeat(84, axis=0).repeat(84, axis=1)
    sums = large.reshape(84, height, 84, width).sum(axis=(1, 3))
    whole = 1000 * height * width
    return ((2 * sums + whole) // (2 * whole)).astype(np.uint8)


def first(env):
    return adapted(env).reset()[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_frame_is_the_rule_to_the_byte(shape):
    image = random_image(shape)
    seen = first(Shows([image]))
    assert (seen.shape, seen.dtype) == ((4, 84, 84), np.uint8)
    expected = frame_by_hand(image if len(shape) == 3 else image[..., None])
    for frame in seen:
        np.testing.assert_array_equal(frame, expected)


def test_whole_factors_are_means_over_blocks():
    image = random_image((252, 336))
    means = image.reshape(84, 3, 84, 4).mean(axis=(1, 3))
    np.testing.assert_array_equal(first(Shows([image]))[0], np.floor(means + 0.5))
    small = random_image((42, 28))
    np.testing.assert_array_equal(first(Shows([small]))[0], np.kron(small, np.ones((2, 3))))
    np.testing.assert_array_equal(first(Shows([random_image((84, 84))]))[0], random_image((84, 84)))


@pytest.mark.slow
def test_a_screen_of_atari_is_shrunk_as_its_emulator_does():
    """Up to the last bit: the emulator rounds in single precision."""
    image = random_image((210, 160))
    theirs = np.zeros((84, 84), np.uint8)
    shrink(np.stack([image, 0 * image]), theirs, *pixel_weights(210, 160))
    difference = first(Shows([image]))[0].astype(int) - theirs
    assert np.abs(difference).max() <= 1
    assert (difference != 0).mean() < 0.02


def test_the_place_of_the_channels_and_the_type_do_not_matter():
    image = random_image((50, 30, 3))
    usual = first(Shows([image]))
    channels_first = np.moveaxis(image, -1, 0)
    scaled = image / 255
    for same, low, high in (
        (channels_first, 0, 255),
        (scaled.astype(np.float32), 0, 1),
        (np.moveaxis(scaled, -1, 0), 0, 1),
        ((2 * scaled - 1).astype(np.float32), -1, 1),
        (image.astype(np.float32), 0, 255),
        (image.astype(np.int64), 0, 255),
    ):
        np.testing.assert_array_equal(first(Shows([same], low, high)), usual)


def test_an_observation_is_the_last_four_frames():
    images = [random_image((36, 36), i) for i in range(7)]
    frames = [frame_by_hand(image[..., None]) for image in images]
    env = adapted(Shows(images))
    for _ in range(2):
        seen, _ = env.reset()
        shown = [seen]
        shown += [env.step(0)[0] for _ in images[1:]]
        for t, seen in enumerate(shown):
            stack = [frames[max(i, 0)] for i in range(t - 3, t + 1)]
            np.testing.assert_array_equal(seen, stack)
            assert env.observation_space.contains(seen)


def test_frames_stay_as_they_are():
    env = Shows([random_image((4, 84, 84))])
    assert adapted(env) is env
    once = adapted(Shows([random_image((40, 40))]))
    assert adapted(once) is once


def test_small_images_are_flattened():
    assert adapted(Shows([random_image((7, 7, 3))])).observation_space.shape == (147,)


def box(low, high, shape=(40, 40), kind=np.float32):
    return spaces.Box(low, high, shape, kind)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (box(0, 1, (40, 40, 4)), "an image has the shape H×W, or H×W×C or C×H×W with 1 or 3"),
        (box(0, 1, (4, 84, 84)), "leave out a stack, which deadtime makes"),
        (box(0, 1, (2, 40, 40, 3)), "an image has the shape H×W"),
        (box(-np.inf, np.inf), "finite bounds, which become black and white; it has Box(-inf"),
        (box(0, 0), "finite bounds"),
        (
            spaces.Dict({"a": box(0, 1)}),
            "1,000 numbers, and an image is the whole observation",
        ),
    ],
)
def test_refused_spaces(space, words):
    env = Shows([np.zeros((2, 2))], space=space)
    with pytest.raises(ValueError, match=re.escape(words)):
        check_spaces("it", env)


@pytest.mark.parametrize("bad", [np.nan, 1.5, -0.1])
def test_values_outside_the_bounds_are_reported(bad):
    image = np.zeros((40, 40), np.float32)
    image[3, 3] = bad
    with pytest.raises(ValueError, match="an image lies within its space, Box.*: fix the environ"):
        first(Shows([image], 0, 1))


def test_another_shape_is_reported():
    with pytest.raises(ValueError, match=r"gave shape \(40, 41\) with"):
        first(Shows([np.zeros((40, 41), np.float32)], space=box(0, 1)))
