"""The channel of a delay in the form that compiled tabular code reads, and its functions.

What an agent knows of the ages is a whole number, its *code*: 0 if it knows none, else 1 + the age.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from jaxtyping import Float, Int

from deadtime.delays import Delay, as_process
from deadtime.delays.waits import OBSERVED, Observed, Waits, pending_counts, waits_of
from deadtime.learn.exploration import uniform

AGES = 2
"""The random stream of the ages, beside those of the environment and of exploration."""

_GUIDES = 64
NOW, HINDSIGHT, NEVER = range(len(OBSERVED))


class Channel(NamedTuple):
    """The Markov chain of the ages, and what an agent knows and expects of them.

    A constant delay has one state and needs no random numbers.
    """

    first: Int[np.ndarray, " F"]
    """The states in which an episode can start."""
    first_cumulative: Float[np.ndarray, " F-1"]
    successors: Int[np.ndarray, "N B"]
    cumulative: Float[np.ndarray, "N B-1"]
    ages: Int[np.ndarray, " N"]
    observed: int
    """NOW, HINDSIGHT or NEVER; a constant delay has NEVER, since the agent knows it anyway."""
    pending: Int[np.ndarray, " codes"]
    """How many of the last actions may still be executed, by the code."""
    steps: Int[np.ndarray, "codes ways"]
    """The number of steps to the first execution of the action chosen now (see `waits`)."""
    weights: Float[np.ndarray, "codes ways"]
    on_the_way: Int[np.ndarray, "codes ways K"]
    """The places of the actions that `steps` execute, from the oldest of the last K actions on."""
    guide: Int[np.ndarray, "N G"]
    """The successor at which a draw begins its search, for each of G parts of the unit interval."""


def channel_of(delay: Delay, observed: Observed, every: bool) -> Channel:
    """Return the channel of a delay; with `every`, agents average over all possible waits."""
    process = as_process(delay)
    longest = process.longest
    tables = process.chain.host_tables
    size = process.chain.size
    shape = size, tables.width
    cumulative = np.array(tables.cumulative, np.float64).reshape(size, tables.width - 1)
    if process.constant is not None:
        observed = "never"
        ages = np.full((1, 1, longest), longest)
        waits = Waits(np.full((1, 1), longest), np.ones((1, 1)), ages)
    else:
        waits = waits_of(process, observed, likely=True, every=every)
    return Channel(
        np.array(tables.first, np.int64),
        np.array(tables.first_cumulative, np.float64),
        np.array(tables.successors, np.int64).reshape(shape),
        cumulative,
        np.array(tables.ages, np.int64),
        OBSERVED.index(observed),
        pending_counts(process, observed),
        waits.steps,
        waits.weights,
        np.arange(longest) + longest - waits.ages,
        _guide(cumulative),
    )


def unexpected(channel: Channel, delay: Delay) -> Channel:
    """Return the channel of another delay, for an agent that still expects the old one."""
    other = channel_of(delay, "never", every=False)
    return other._replace(
        observed=channel.observed,
        pending=channel.pending,
        steps=channel.steps,
        weights=channel.weights,
        on_the_way=channel.on_the_way,
    )


def _guide(cumulative: Float[np.ndarray, "N B-1"]) -> Int[np.ndarray, "N G"]:
    """Return the successor at which a draw begins its search, by state and part (see `guide`)."""
    if not cumulative.shape[1]:
        return np.zeros((1, 1), np.int64)
    parts = np.arange(_GUIDES) / _GUIDES
    return np.array([np.searchsorted(row, parts, "right") for row in cumulative])


@numba.njit(cache=True)
def next_state(successors, cumulative, guide, state, streams):  # type: ignore[no-untyped-def]
    """Return the channel's state one step later."""
    last = cumulative.shape[1]
    if last == 0:
        return successors[state, 0]
    u = uniform(streams, AGES)
    place = guide[state, int(u * guide.shape[1])]
    while place < last and u >= cumulative[state, place]:
        place += 1
    return successors[state, place]
