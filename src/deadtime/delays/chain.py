"""A delay as a finite Markov chain of the channel: the form of every delay process.

The channel has N states. In state i, a step reads the item (action or observation) of age
``ages[i]``. Between two steps the channel moves to another state. All else follows from the chain:
random draws in JAX and in NumPy, the longest age, the law of the ages, and the state that an exact
planner adds to the problem.

One uniform number in [0, 1) decides a move, through the cumulative probabilities of the present
state's row. So the same numbers give the same ages in every form.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from deadtime._support.machine import free_memory
from deadtime.delays.convention import ArrayT

END = -1
"""The successor that marks the end of a chain, such as the end of a trace."""

_SMALL_BYTES = 2**26  # no need to look up the free memory for less
_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Chain:
    """A Markov chain of N channel states.

    `ages`, shape (N,), is the age that a step reads in each state. `transitions`, shape (N, N), has
    a law of the next state in each row. `start`, shape (N,), is the law of the first state of an
    episode.

    Where few states can follow another, `successors`, shape (N, B), lists them. `transitions` then
    has shape (N, B) too and gives the probability of each listed state. So a trace of 10^5 ages
    needs no square matrix.
    """

    ages: np.ndarray
    transitions: np.ndarray
    start: np.ndarray
    successors: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Check the arrays and make them read-only."""
        arrays = {
            "ages": _whole(self.ages, "ages"),
            "transitions": np.array(self.transitions, np.float64),
            "start": np.array(self.start, np.float64),
        }
        if self.successors is not None:
            arrays["successors"] = _whole(self.successors, "successors")
        for name, values in arrays.items():
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        self._check()

    def _check(self) -> None:
        states = self.size
        if self.ages.ndim != 1 or not states or self.ages.min() < 0:
            raise ValueError(
                f"a chain has one age, 0 or more, for each of its states; got {_short(self.ages)}: "
                "pass a list of ages"
            )
        shape = (states, states) if self.successors is None else self.successors.shape
        if self.transitions.shape != shape or shape[0] != states:
            raise ValueError(
                f"a chain of {states} states has transitions of shape {shape}; "
                f"got {self.transitions.shape}: give each state one row"
            )
        check_law(self.start, "start", states)
        check_law(self.transitions, "each row of transitions", shape[1])
        listed = self.successors
        if listed is not None and (listed.min() < END or listed.max() >= states):
            raise ValueError(
                f"successors are states, 0 to {states - 1}, or {END} for the end of the chain; "
                f"got {_short(listed)}: list existing states"
            )

    @classmethod
    def from_matrix(cls, ages: np.ndarray, transitions: ArrayLike) -> Chain:
        """Return the chain that starts in its stationary law, which must be unique."""
        matrix = np.array(transitions, np.float64)
        check_law(matrix, "each row of transitions", len(matrix))
        flow = matrix.T - np.eye(len(matrix))
        if np.linalg.matrix_rank(flow) != len(matrix) - 1:
            raise ValueError(
                "a chain without a start law must have one stationary law; got a chain that has "
                "several: "
                "pass start, Chain(ages, transitions, start)"
            )
        flow[-1] = 1.0
        law = np.linalg.solve(flow, np.eye(len(matrix))[-1])
        law = np.clip(law, 0.0, None)
        return cls(ages, matrix, law / law.sum())

    def __deepcopy__(self, memo: dict[int, Any]) -> Chain:
        """Return the chain itself, which never changes."""
        return self

    @property
    def size(self) -> int:
        """The number of channel states, N."""
        return len(self.ages)

    @cached_property
    def longest(self) -> int:
        """The longest age, K."""
        return int(self.ages.max())

    @cached_property
    def age_law(self) -> np.ndarray:
        """The probability of each age 0 … K at the start; the stationary law, if the chain starts
        in it.
        """
        check_size(self.longest + 1, 1)
        return np.bincount(self.ages, self.start, minlength=self.longest + 1)

    @cached_property
    def endless(self) -> bool:
        """True if every state has a next one; False for a trace that is not repeated."""
        return self.successors is None or bool((self.successors != END).all())

    @property
    def deterministic(self) -> bool:
        """True if each state has exactly one next state, so that no random number is needed after
        the start.
        """
        return self.transitions.shape[1] == 1

    @property
    def starts_randomly(self) -> bool:
        """True if an episode can start in several states."""
        return len(self._first) > 1

    def matrix(self) -> np.ndarray:
        """Return the transitions as one (N, N) matrix; raise if it does not fit in memory or the
        chain ends.
        """
        if self.successors is None:
            return self.transitions
        if not self.endless:
            raise ValueError(
                "a transition matrix needs a next state for each state; got a trace that ends "
                "after "
                f"{self.size} steps: pass repeat=True to the trace"
            )
        check_size(self.size, self.size)
        matrix = np.zeros((self.size, self.size))
        rows = np.repeat(np.arange(self.size), self.successors.shape[1])
        np.add.at(matrix, (rows, self.successors.ravel()), self.transitions.ravel())
        return matrix

    # The pure form: arrays of JAX (under jit, vmap, scan) or NumPy.

    def initial(self, u: ArrayT) -> ArrayT:
        """Return the first state that the uniform number `u` in [0, 1) gives; `u` may have any
        shape.
        """
        xp = u.__array_namespace__()
        place = _passed(xp, xp.asarray(self._first_cumulative, dtype=u.dtype), u)
        return xp.asarray(self._first)[place]

    def next(self, state: ArrayT, u: Any) -> ArrayT:
        """Return the state after `state` that the uniform number `u` in [0, 1) gives; both have the
        same shape.
        """
        xp = state.__array_namespace__()
        if self.deterministic:
            return xp.asarray(self._listed)[:, 0][state]
        column = _passed(xp, xp.asarray(self._cumulative, dtype=u.dtype)[state], u)
        return column if self.successors is None else xp.asarray(self._listed)[state, column]

    def age(self, state: ArrayT) -> ArrayT:
        """Return the age that a step reads in `state`."""
        xp = state.__array_namespace__()
        return xp.asarray(self._ages)[state]

    # Tables of both forms. The last cumulative probability of a row is 1 and is left out.

    @cached_property
    def _ages(self) -> np.ndarray:
        return self.ages.astype(np.int32)

    @cached_property
    def _listed(self) -> np.ndarray:
        if self.successors is not None:
            return self.successors.astype(np.int32)
        return np.broadcast_to(np.arange(self.size, dtype=np.int32), (self.size, self.size))

    @cached_property
    def _cumulative(self) -> np.ndarray:
        return _cumulated(self.transitions)

    @cached_property
    def _first(self) -> np.ndarray:
        return np.flatnonzero(self.start).astype(np.int32)

    @cached_property
    def _first_cumulative(self) -> np.ndarray:
        return _cumulated(self.start[self._first])

    @cached_property
    def host_tables(self) -> HostTables:
        """The tables that a host loop reads, one number at a time."""
        return HostTables(
            array("q", self._first.tolist()),
            array("d", self._first_cumulative.tolist()),
            self.transitions.shape[1],
            array("q", self._listed.ravel().tolist()),
            array("d", self._cumulative.ravel().tolist()),
            array("q", self.ages.tolist()),
        )

    # What the agent can conclude about the queue.

    @cached_property
    def _readable(self) -> np.ndarray:
        """The age, by state, of the oldest action that this step or a later one may read.

        The age is the action's age at this step.
        """
        oldest = self.ages.astype(np.int64)
        rows, columns = self._possible
        for _ in range(self.longest):
            later = oldest.copy()
            np.maximum.at(later, rows, oldest[columns] - 1)
            if np.array_equal(later, oldest):
                break
            oldest = later
        return oldest

    @cached_property
    def _possible(self) -> tuple[np.ndarray, np.ndarray]:
        """The pairs (state, next state) of positive probability."""
        rows, places = np.nonzero(self.transitions)
        columns = self._listed[rows, places]
        return rows[columns != END], columns[columns != END]

    @cached_property
    def in_order(self) -> bool:
        """True if no step ever goes back to an older action: the age grows by at most one."""
        rows, columns = self._possible
        return bool((self.ages[columns] <= self.ages[rows] + 1).all())

    @cached_property
    def pending_now(self) -> np.ndarray:
        """How many of the last K actions step t or a later one may still read, by the age z_t.

        The shape is (K + 1,).
        """
        counts = np.zeros(self.longest + 1, np.int64)
        np.maximum.at(counts, self.ages, self._readable)
        return counts

    @cached_property
    def pending_after(self) -> np.ndarray:
        """How many of the last K actions step t or a later one may still read, by the age z_{t-1}.

        The shape is (K + 1,).
        """
        counts = np.zeros(self.longest + 1, np.int64)
        rows, columns = self._possible
        np.maximum.at(counts, self.ages[rows], self._readable[columns])
        return counts


@dataclass(frozen=True)
class HostTables:
    """A chain as flat tables, with `width` successors for each state."""

    first: array[int]
    first_cumulative: array[float]
    width: int
    successors: array[int]
    cumulative: array[float]
    ages: array[int]


def check_size(states: int, width: int) -> None:
    """Raise if a chain of `states` states with `width` successors each does not fit in the free
    memory.
    """
    size = 40 * states * width  # a law, its sums, and the host's tables
    if size > _SMALL_BYTES and size > (free := free_memory()):
        raise ValueError(
            f"the chain of a delay must fit in memory; got {states} states with {width} successors "
            "each, "
            f"which need {size / 1e9:.1f} GB with {free / 1e9:.1f} GB free: pass a smaller longest "
            "age"
        )


def check_law(law: np.ndarray, what: str, size: int) -> None:
    """Raise if the last axis of `law` is not a probability law on `size` outcomes."""
    if law.shape[-1:] != (size,) or not size:
        raise ValueError(
            f"{what} is a law on {size} outcomes; got shape {law.shape}: pass one probability for "
            "each"
        )
    if not np.isfinite(law).all() or (law < 0).any():
        raise ValueError(
            f"{what} has probabilities, 0 or more; got {_short(law)}: pass none that is negative"
        )
    sums = law.sum(-1)
    if (abs(sums - 1) > _TOLERANCE).any():
        wrong = np.ravel(sums)[np.argmax(np.ravel(abs(sums - 1)))]
        raise ValueError(
            f"{what} sums to 1; got a sum of {wrong:.12g}: divide the probabilities by their sum"
        )


def _whole(values: ArrayLike, what: str) -> np.ndarray:
    given = np.asarray(values)
    if given.dtype.kind not in "iu" and given.size:
        raise ValueError(
            f"{what} are whole numbers; got {_short(given)}: pass an array of whole numbers"
        )
    return given.astype(np.int64)


def _short(values: np.ndarray) -> str:
    return np.array2string(values, threshold=20, edgeitems=5, separator=", ").replace("\n", "")


def _cumulated(law: np.ndarray) -> np.ndarray:
    """Return the cumulative probabilities of a law, without the last one.

    They are exactly 1 from the last positive probability on.
    """
    sums = np.cumsum(law, axis=-1)
    possible = law > 0
    more = np.flip(np.cumsum(np.flip(possible, -1), axis=-1), -1) > possible  # outcomes after it
    return np.where(more, sums, 1.0)[..., :-1]


def _passed(xp: ModuleType, cumulative: ArrayT, u: ArrayT) -> ArrayT:
    """Return the index of the outcome: how many cumulative probabilities of its row `u` reaches."""
    return xp.sum(u[..., None] >= cumulative, axis=-1, dtype=xp.int32)
