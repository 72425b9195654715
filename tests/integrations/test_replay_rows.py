"""The index of executed actions against a log that is searched step by step."""

from typing import NamedTuple

import numpy as np
import pytest

from deadtime.delays import AgeStream, Constant, Held, PerEpisode, Uniform, as_process
from deadtime.integrations.executed_rows import UNKNOWN, ExecutedRows

PROCESSES = [
    Constant(0),
    Constant(3),
    Uniform(1, 4),
    Uniform(0, 3),
    PerEpisode(Uniform(1, 3)),
    Held(0, 3),
]


class Lane:
    """One environment's log: for each step its episode, age, and end."""

    def __init__(self, process, seed):
        self.rng = np.random.default_rng(seed)
        self.stream = AgeStream(process)
        self.stream.seed(seed)
        self.age = self.stream.start()
        self.step_of_episode = 0
        self.log = []

    def step(self):
        end = self.rng.choice(["", "", "", "", "terminated", "truncated"])
        age = self.age
        following = self.stream.advance(bool(end))
        self.log.append({"t": self.step_of_episode, "age": age, "next": following, "end": end})
        self.step_of_episode = 0 if end else self.step_of_episode + 1
        self.age = self.stream.start() if end else following


class Row(NamedTuple):
    """A row, as places in the whole log; without a next action if the episode terminated there."""

    chosen: int
    last: int
    next_chosen: int | None
    held: bool
    first: bool


def following(lane, at, known):
    """Return the place where the action after step `at` was chosen, or None if nobody chose it."""
    here = lane.log[at]
    if (at == len(lane.log) - 1 or here["end"] == "truncated") and not known:
        return None
    return None if here["next"] > here["t"] + 1 else at + 1 - here["next"]


def brute(lane, at, size, known, n_steps):
    """Return the row of step `at`, or None."""
    log = lane.log
    here = log[at]
    if here["age"] > here["t"]:
        return None
    chosen = at - here["age"]
    first = all(
        not (step["age"] <= step["t"] and when - step["age"] == chosen)
        for when, step in enumerate(log[:at])
    )
    row = None
    for last in range(at, min(at + n_steps, len(log))):
        terminated = log[last]["end"] == "terminated"
        next_chosen = None if terminated else following(lane, last, known)
        if next_chosen is None and not terminated:
            break
        held = next_chosen == last - log[last]["age"]
        row = Row(chosen, last, next_chosen, held, first)
        if log[last]["end"]:
            break
    if row is None:
        return None
    oldest = len(log) - size
    used = [chosen] if row.next_chosen is None else [chosen, row.next_chosen]
    return row if min(used) >= oldest else None


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("process", PROCESSES, ids=str)
@pytest.mark.parametrize("size", [7, 200])
def test_every_row_is_the_log_s(process, known, size, n_steps):
    """Several environments, resets, truncation, held and overtaken actions, a full buffer."""
    lanes = [Lane(as_process(process), seed) for seed in range(3)]
    rows = ExecutedRows(size, len(lanes), n_steps)
    found = 0
    for _ in range(60):
        for lane in lanes:
            lane.step()
        last = [lane.log[-1] for lane in lanes]
        rows.add(
            np.array([step["age"] for step in last]),
            np.array([step["next"] if known else UNKNOWN for step in last]),
            np.array([step["end"] == "terminated" for step in last]),
            np.array([step["end"] == "truncated" for step in last]),
        )
        steps = len(lanes[0].log)
        for at in range(max(0, steps - size), steps):
            for i, lane in enumerate(lanes):
                wanted = brute(lane, at, size, known, n_steps)
                place, index = np.array([at % size]), np.array([i])
                assert rows.usable(place, index).item() == (wanted is not None), (at, i)
                if wanted is None:
                    continue
                found += 1
                entries = rows.entries(place, index)
                assert entries.chosen.item() == wanted.chosen % size
                assert entries.steps.item() == wanted.last - at + 1
                assert entries.last.item() == wanted.last % size
                assert entries.held.item() == wanted.held
                assert entries.first.item() == wanted.first
                if wanted.next_chosen is not None:
                    is_now = wanted.next_chosen == wanted.last + 1
                    assert entries.next_is_now.item() == is_now
                    if not is_now:
                        assert entries.next_chosen.item() == wanted.next_chosen % size
    assert found > 60


def constant(rows, delay, steps, ends=()):
    for t in range(steps):
        ended = np.array([t in ends])
        rows.add(np.array([delay]), np.array([delay]), ended, np.array([False]))


def test_draws_are_those_of_a_plain_buffer_without_a_delay():
    rows = ExecutedRows(50, 1)
    constant(rows, 0, 30)
    np.random.seed(0)
    places, lanes = rows.draw(20)
    np.random.seed(0)
    assert (places == np.random.randint(0, 30, size=20)).all()
    assert not lanes.any()


def test_draws_are_rows_and_reach_all_of_them():
    rows = ExecutedRows(20, 1)
    constant(rows, 4, 33, ends=(20,))
    places, lanes = rows.draw(500)
    assert rows.usable(places, lanes).all()
    every = np.arange(20)
    assert {*places} == {*every[rows.usable(every, np.zeros(20, int))]}


def test_a_restart_begins_an_episode():
    rows = ExecutedRows(20, 1)
    constant(rows, 2, 5)
    rows.restart(np.array([True]))
    constant(rows, 2, 3)
    usable = rows.usable(np.arange(8), np.zeros(8, int))
    assert usable.tolist() == [False, False, True, True, True, False, False, True]


def test_a_row_of_several_steps_ends_at_a_restart():
    rows = ExecutedRows(20, 1, n_steps=3)
    constant(rows, 0, 5)
    rows.restart(np.array([True]))
    constant(rows, 0, 3)
    steps = rows.entries(np.arange(8), np.zeros(8, int)).steps
    assert steps.tolist() == [3, 3, 3, 2, 1, 3, 2, 1]


def test_a_buffer_without_rows_says_what_to_do():
    rows = ExecutedRows(20, 1)
    constant(rows, 5, 5)
    with pytest.raises(ValueError, match="raise learning_starts"):
        rows.draw(4)
