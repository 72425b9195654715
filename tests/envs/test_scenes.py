"""Pictures of environments that can't be rendered, and of pending actions within a box."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from PIL import Image

from deadtime.envs.scenes import rendered
from deadtime.runs import watch


class Broken(gym.Env):
    """An environment whose picture fails."""

    problem = RuntimeError

    def render(self):
        raise self.problem("no OpenGL")


ROBOT = {"__name__": "gymnasium.envs.mujoco.robot", "Broken": Broken}
exec("class Robot(Broken):\n    def render(self):\n        super().render()\n", ROBOT)


def test_a_missing_renderer_is_an_error_with_a_remedy():
    draw, _ = rendered(ROBOT["Robot"]())
    with pytest.raises(ValueError, match=r"can't be rendered \(no OpenGL\): .*set MUJOCO_GL=egl"):
        draw(None, None)
    env = Broken()
    draw, _ = rendered(env)
    with pytest.raises(RuntimeError, match="no OpenGL"):  # an error of its own
        draw(None, None)
    env.problem = ImportError
    with pytest.raises(ValueError, match=r"\(no OpenGL\): install the package that it needs"):
        draw(None, None)


@pytest.mark.parametrize("shape", [(), (2,)])
def test_pending_actions_within_a_box_are_bars_between_its_bounds(shape):
    space = spaces.Box(-1.0, 3.0, shape)
    pending = np.stack([np.full(shape, value, np.float32) for value in (3.0, -1.0, 1.0)])
    shares = watch._shares(space)(pending)
    np.testing.assert_array_equal(shares[:, 0], [1.0, 0.0, 0.5])
    frame = np.asarray(watch._frame(Image.new("RGB", (80, 40)), shares, None, 0, 0.0))
    inked = (frame[84:] < 250).any(axis=2)
    above, below = inked[:11].sum(axis=0), inked[12:].sum(axis=0)
    slots = [slice(watch._SLOT * i, watch._SLOT * (i + 1)) for i in range(3)]
    assert [above[slot].max() > 5 for slot in slots] == [True, False, False]
    assert [below[slot].max() > 5 for slot in slots] == [False, True, False]
