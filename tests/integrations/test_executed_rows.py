"""The index of executed actions against a log that is searched step by step."""

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


def brute(lane, at, size, known):
    """Return the row of step `at`, as places in the whole log, or None."""
    log = lane.log
    here = log[at]
    if here["age"] > here["t"]:
        return None
    chosen = at - here["age"]
    first = all(
        not (step["age"] <= step["t"] and when - step["age"] == chosen)
        for when, step in enumerate(log[:at])
    )
    oldest = len(log) - size
    if here["end"] == "terminated":
        return (chosen, None, False, first) if chosen >= oldest else None
    last = at == len(log) - 1 or here["end"] == "truncated"
    if last and not known:
        return None
    following = here["next"]
    if following > here["t"] + 1:
        return None
    next_chosen = at + 1 - following
    if min(chosen, next_chosen) < oldest:
        return None
    return chosen, next_chosen, next_chosen == chosen, first


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("process", PROCESSES, ids=str)
@pytest.mark.parametrize("size", [7, 200])
def test_every_row_is_the_log_s(process, known, size):
    """Several environments, resets, truncation, held and overtaken actions, a full buffer."""
    lanes = [Lane(as_process(process), seed) for seed in range(3)]
    rows = ExecutedRows(size, len(lanes))
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
                wanted = brute(lane, at, size, known)
                place, index = np.array([at % size]), np.array([i])
                assert rows.usable(place, index).item() == (wanted is not None), (at, i)
                if wanted is None:
                    continue
                found += 1
                entries = rows.entries(place, index)
                chosen, next_chosen, held, first = wanted
                assert entries.chosen.item() == chosen % size
                assert entries.held.item() == held
                assert entries.first.item() == first
                if next_chosen is not None:
                    assert entries.next_is_now.item() == (next_chosen == at + 1)
                    if next_chosen <= at:
                        assert entries.next_chosen.item() == next_chosen % size
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


def test_a_buffer_without_rows_says_what_to_do():
    rows = ExecutedRows(20, 1)
    constant(rows, 5, 5)
    with pytest.raises(ValueError, match="raise learning_starts"):
        rows.draw(4)
