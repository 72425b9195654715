"""Forged states of the Atari emulator are refused."""

import json
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from deadtime._support import files
from deadtime.envs.atari.games import Game, installed
from deadtime.envs.atari.lane import Lane
from tests.forgery import (
    CONTENTS,
    changed,
    npz,
    refused,
)


@pytest.fixture(scope="module")
def lane():
    if not installed():
        pytest.skip("ale-py is not installed")
    lane = Lane(Game("Pong", 2, look_ahead="kept"))
    lane.reset()
    lane.step(1)
    return lane


def lane_with(lane, numbers=lambda numbers: numbers, **changes):
    """Return a lane's saved state with changed arrays and numbers."""
    arrays = files.arrays(lane.saved())
    text = json.dumps(numbers(json.loads(arrays["said"].tobytes()))).encode()
    return npz(**changed(arrays, **changes) | {"said": np.frombuffer(text, np.uint8)})


LANES = {
    "another queue": {"queue": lambda a: a[:1]},
    "actions that there are not": {"queue": lambda a: a + 100},
    "no queue": {"queue": None},
    "other screens": {"emulator_screens": lambda a: a[:1]},
    "frames of another kind": {"paths_stack": lambda a: a.astype(np.int64)},
    "a state that is too short": {"emulator_state": lambda a: a[:4000]},
    "a state that is too long": {"paths_state": lambda a: np.tile(a, 100)},
    "a state of other numbers": {"emulator_state": lambda a: a.astype(np.int64)},
    "no path": {"paths_path_0": None},
    "another action": {"numbers": lambda numbers: numbers | {"emulator": [99, 0, 0]}},
    "too few numbers": {"numbers": lambda numbers: numbers | {"emulator": [0]}},
    "no numbers": {"numbers": lambda numbers: numbers | {"paths": None}},
    "steps that are none": {"numbers": lambda numbers: numbers | {"steps": "5"}},
    "a return that is none": {"numbers": lambda numbers: numbers | {"earned": []}},
    "too few generators": {"numbers": lambda numbers: numbers | {"rngs": numbers["rngs"][:1]}},
    "another generator": {
        "numbers": lambda numbers: numbers | {"rngs": [{"bit_generator": "MT19937"}] * 3}
    },
    "no generator": {"numbers": lambda numbers: numbers | {"rngs": [{}] * 3}},
    "a state too large": {
        "numbers": lambda numbers: (
            numbers | {"rngs": [one | {"has_uint32": 10**30} for one in numbers["rngs"]]}
        )
    },
    "a list": {"numbers": lambda numbers: []},
}


@pytest.mark.slow
@pytest.mark.parametrize("what", [*LANES, *CONTENTS])
def test_no_emulator_goes_on_from_what_is_not_its_own(what, lane, marker):
    content = CONTENTS[what](marker) if what in CONTENTS else lane_with(lane, **LANES[what])
    refused(lambda: lane.restore(content))


PRESENT = {
    "too few frames": {"present_frames": lambda a: a[:1]},
    "no frames": {"present_frames": None},
    "a state at the time limit that is too short": {"present_limit": lambda a: a[:100]},
    **{
        f"{name}: {value}": {
            "numbers": lambda numbers, name=name, value=value: (
                numbers | {"present": numbers["present"] | {name: value}}
            )
        }
        for name, value in (("rewards", [0.0] * 9), ("rewards", ["a"]), ("now", [0]), ("overs", 0))
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("what", PRESENT)
def test_steps_that_are_due_are_checked_too(what):
    """The emulator has played beyond the time limit, where its state is kept."""
    if not installed():
        pytest.skip("ale-py is not installed")
    ahead = Lane(Game("Pong", 3, 0.0, "fresh", max_steps=8))
    ahead.reset()
    for _ in range(6):
        ahead.step(1)
    ahead.restore(lane_with(ahead))
    refused(lambda: ahead.restore(lane_with(ahead, **PRESENT[what])))


@pytest.mark.slow
def test_a_pool_says_so_too(lane):
    from deadtime.envs.atari.pool import AtariPool
    from deadtime.learn.host_loop import HostGroup

    good, bad = lane_with(lane), lane_with(lane, queue=lambda a: a + 100)
    for content, why in (
        (good, "turn/0 is uint8 of shape"),
        (bytes(10**6), "at most 320000"),
        (bad, "restored from its saved state .pending actions are from 0"),
    ):
        group = object.__new__(HostGroup)
        group.pairs = [0]
        group._thread = ThreadPoolExecutor(1)
        group.program = SimpleNamespace(lanes=1, capacity=2, env=None, stacked=True)
        with pytest.raises(ValueError, match=why):
            group._load_pool(
                AtariPool([lane.game], 1), {"lane/0": np.frombuffer(content, np.uint8)}
            )
