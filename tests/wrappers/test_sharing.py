"""No two calls of `reset` and `step` return the same object or memory: Gymnasium 1.4's `check_env`
asks for it.

The rule is checked here for every Gymnasium, and for vector environments, which `check_env` does
not take.
"""

from itertools import combinations, product

import gymnasium as gym
import numpy as np
import pytest
from echo import EchoEnv
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from deadtime import (
    ActionDelay,
    AugmentObservation,
    ObservationDelay,
    VectorActionDelay,
    VectorAugmentObservation,
    VectorObservationDelay,
)
from deadtime.delays import Uniform

ACTION_SPACES = [
    spaces.Discrete(3),
    spaces.Box(-1, 1, (2,), np.float32),
    spaces.MultiDiscrete([2, 3]),
    spaces.Dict(turn=spaces.Discrete(3), speed=spaces.Box(-1, 1, (2,), np.float32)),
]
SCALAR = {
    "action": ActionDelay,
    "observation": ObservationDelay,
    "augment": lambda env, delay: AugmentObservation(ActionDelay(env, delay)),
    "augment-flat": lambda env, delay: AugmentObservation(ActionDelay(env, delay), flat=True),
    "both": lambda env, delay: ObservationDelay(ActionDelay(env, delay), delay),
    "augment-both": lambda env, delay: AugmentObservation(
        ObservationDelay(ActionDelay(env, Uniform(0, delay)), Uniform(0, delay))
    ),
}
VECTOR = {
    "action": VectorActionDelay,
    "observation": VectorObservationDelay,
    "augment": lambda envs, delay: VectorAugmentObservation(VectorActionDelay(envs, delay)),
    "augment-flat": lambda envs, delay: VectorAugmentObservation(
        VectorActionDelay(envs, delay), flat=True
    ),
    "both": lambda envs, delay: VectorObservationDelay(VectorActionDelay(envs, delay), delay),
    "augment-both": lambda envs, delay: VectorAugmentObservation(
        VectorObservationDelay(VectorActionDelay(envs, Uniform(0, delay)), Uniform(0, delay))
    ),
}

pytestmark = [
    pytest.mark.parametrize("space", ACTION_SPACES, ids=str),
    pytest.mark.parametrize("delay", [0, 1, 2, 5]),
]


def parts(data):
    """Yield every dict and array in the data that `reset` or `step` returned."""
    if isinstance(data, dict):
        yield data
        for value in data.values():
            yield from parts(value)
    elif isinstance(data, list | tuple) or (isinstance(data, np.ndarray) and data.dtype == object):
        for value in data:
            yield from parts(value)
    elif isinstance(data, np.ndarray):
        yield data


def check_nothing_is_shared(calls):
    for earlier, later in combinations(calls, 2):
        for a, b in product(parts(earlier), parts(later)):
            assert a is not b
            if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
                assert not np.shares_memory(a, b), (a, b)


class Repeating(EchoEnv):
    """The same observations in each episode."""

    def _obs(self):
        return np.array([0, self.time], np.float64)


@pytest.mark.parametrize("wrapper", SCALAR.values(), ids=SCALAR.keys())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_check_env(wrapper, delay, space):
    check_env(wrapper(Repeating(action_space=space), delay), skip_render_check=True)


@pytest.mark.parametrize("wrapper", SCALAR.values(), ids=SCALAR.keys())
def test_scalar(wrapper, delay, space):
    env = wrapper(EchoEnv(action_space=space), delay)
    check_nothing_is_shared(
        [env.reset(seed=0), *(env.step(space.sample()) for _ in range(8)), env.reset()]
    )


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=str)
@pytest.mark.parametrize("wrapper", VECTOR.values(), ids=VECTOR.keys())
def test_vector(wrapper, mode, delay, space):
    lengths = [[9]] if mode == AutoresetMode.DISABLED else [[4, 2], [3]]
    makers = [lambda own=own: EchoEnv(own, action_space=space) for own in lengths]
    envs = wrapper(gym.vector.SyncVectorEnv(makers, autoreset_mode=mode), delay)
    check_nothing_is_shared(
        [
            envs.reset(seed=0),
            *(envs.step(envs.action_space.sample()) for _ in range(8)),
            envs.reset(),
        ]
    )
