"""Exact planning on distinct predictions instead of distinct queues.

Two augmented states with the same future have the same delayed value. The same future means more
than the same law of s_{t+m}. It means the same *nested* law, which also states what the agent will
learn on the way:

    L_0(s) = s,        L_k(s; a_1 … a_k) = the law of L_{k-1}(s'; a_2 … a_k) for s' ~ P(· | s, a_1).

The classes of L_m are the states of an ordinary MDP. Adding the new action a to L_m gives a law
over classes, which is where the next step leads; its reward is E r(s_{t+m}, a). So the delayed
problem of any m is solved as an undelayed one, with at most S classes where the dynamics are
deterministic. The rewards of the pending actions are added back afterwards.

Level k is built from level k - 1 by adding one action to every class, so queues are never
enumerated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, eye_array, vstack

from deadtime.planning.iteration import METHODS
from deadtime.planning.mdp import MDP, Queue, check_augmented_state
from deadtime.planning.solution import Solution, check_time, described, solve_augmented

if TYPE_CHECKING:
    from jaxtyping import Float, Int

SAME = 1e-12
"""Two laws are the same when they have the same outcomes and probabilities that agree after
rounding to this multiple.
"""


@dataclass(frozen=True)
class Beliefs:
    """The classes of each level 0 … m.

    `extend[k][c, a]` is the class of level k + 1 that c becomes when a is added.

    `laws` are the plain laws of s_{t+m}, and `problem` is the MDP on classes. `moved` bounds the
    distance between a law and the law of its class.
    """

    extend: list[Int[np.ndarray, "n A"]]
    laws: csr_array
    problem: MDP
    moved: float

    def find(self, state: int, queue: Queue) -> int:
        """Return the class of an augmented state."""
        found = state
        for step, action in zip(self.extend, queue, strict=True):
            found = int(step[found, action])
        return found


@dataclass(frozen=True)
class BeliefSolution:
    """The optimum on classes, with the answers for any state and queue."""

    solution: Solution
    beliefs: Beliefs
    mdp: MDP
    delay: int
    tol: float
    horizon: int | None

    def __repr__(self) -> str:
        """Return the size of the problem, the delay and how the solver ended."""
        return described(self)

    @property
    def classes(self) -> int:
        """The number of distinct predictions."""
        return self.beliefs.problem.states

    @property
    def converged(self) -> bool:
        """Whether the values are within the tolerance."""
        return bool(
            self.solution.converged and self.error_bound <= max(self.tol, self.solution.error_bound)
        )

    @property
    def iterations(self) -> int:
        """The number of iterations of the merged problem's solver."""
        return self.solution.iterations

    @property
    def residual(self) -> float:
        """The residual of the merged problem."""
        return self.solution.residual

    @property
    def error_bound(self) -> float:
        """A bound on the error of every delayed value.

        It includes the error of merging laws that agree to `SAME` only.
        """
        worth = float(
            np.abs(self.mdp.r).max() + self.mdp.gamma * np.abs(self.solution.values).max()
        )
        steps = self.horizon if self.horizon is not None else 1 / (1 - self.mdp.gamma)
        return float(self.solution.error_bound + self.beliefs.moved * worth * steps)

    @property
    def message(self) -> str:
        """A sentence on how the solver ended."""
        if self.solution.converged and not self.converged:
            return (
                "not converged: merging may have moved a value by "
                f"{self.error_bound:.3g}, above tol: raise tol"
            )
        return f"{self.classes} classes; {self.solution.message}"

    def delayed_value(self, state: int, queue: Queue = ()) -> float:
        """Return the optimal value from the first reward that the agent can still decide."""
        return float(self.solution.values[self._find(state, queue)])

    def _find(self, state: int, queue: Queue) -> int:
        first, *pending = check_augmented_state(self.mdp, self.delay, state, queue)
        return self.beliefs.find(first, pending)

    def action(self, state: int, queue: Queue = (), time: int = 0) -> int:
        """Return the action to choose (at step `time` of a problem with a horizon)."""
        found = self._find(state, queue)
        if self.horizon is None:
            return int(self.solution.policy[found])
        time = check_time(time, self.horizon)
        return (
            int(self.solution.policy[time, found]) if time < len(self.solution.policy) else 0
        )  # never executed

    def value(self, state: int, queue: Queue = ()) -> float:
        """Return the optimal value with the pending actions' own rewards, like `Solution.value`."""
        state, *queue = check_augmented_state(self.mdp, self.delay, state, queue)
        law = np.eye(self.mdp.states)[state]
        earned = 0.0
        discount = 1.0
        steps = len(queue) if self.horizon is None else min(len(queue), self.horizon)
        for action in queue[:steps]:
            earned += discount * float(law @ self.mdp.r[:, action])
            law = law @ self.mdp.P[action :: self.mdp.actions]
            discount *= self.mdp.gamma
        return earned + (
            discount * self.delayed_value(state, queue) if steps == len(queue) else 0.0
        )


def nested_laws(mdp: MDP, delay: int, max_classes: int) -> Beliefs:
    """Merge all augmented states with the same nested law of the next `delay` steps."""
    members: csr_array | None = None  # members[c] is the law over classes one level below
    ends = eye_array(mdp.states, format="csr")  # ends[c] is the plain law of the state at the end
    extend: list[np.ndarray] = []
    moved = 0.0
    for level in range(delay + 1):
        after = _add_action(mdp, members, extend[-1] if extend else None)
        if level == delay:
            break
        first, labels, distance = _distinct(after)
        moved += distance
        if len(first) > max_classes:
            raise ValueError(
                f"level {level + 1} of {delay} has {len(first):,} distinct nested laws, above "
                f"max_classes = {max_classes:,}: "
                "raise it, shorten the delay, or solve the augmented problem (the dynamics are "
                "too random to merge much)"
            )
        extend.append(labels.reshape(-1, mdp.actions))
        members = csr_array(after[first])
        ends = csr_array(members @ ends)
    return Beliefs(
        extend, csr_array(ends), MDP(after, np.asarray(ends @ mdp.r), mdp.gamma, check=False), moved
    )


def _add_action(mdp: MDP, members: csr_array | None, extend: np.ndarray | None) -> csr_array:
    """Return a matrix: row c·A + a is the law of the next class after class c and action a."""
    if members is None or extend is None:
        return mdp.P
    rows = []
    for a in range(mdp.actions):
        columns = extend[members.indices, a]
        moved = csr_array(
            (members.data.copy(), columns, members.indptr.copy()),
            shape=(members.shape[0], int(extend.max()) + 1),
        )
        moved.sum_duplicates()
        rows.append(moved)
    order = np.arange(members.shape[0] * mdp.actions).reshape(mdp.actions, -1).T.ravel()
    return csr_array(vstack(rows, format="csr")[order])


def _distinct(laws: csr_array) -> tuple[list[int], Int[np.ndarray, " rows"], float]:
    """Return the first row of each distinct law, the class of every row, and an error.

    The error is the largest distance of a row from its class.
    """
    laws = laws.sorted_indices()
    rounded = np.round(laws.data / SAME).astype(np.int64)
    found: dict[bytes, int] = {}
    first: list[int] = []
    labels = np.empty(laws.shape[0], np.int64)
    distance = 0.0
    for row in range(laws.shape[0]):
        part = slice(laws.indptr[row], laws.indptr[row + 1])
        key = laws.indices[part].tobytes() + rounded[part].tobytes()
        labels[row] = found.setdefault(key, len(found))
        if labels[row] == len(first):
            first.append(row)
        else:
            start = laws.indptr[first[labels[row]]]
            gap = laws.data[part] - laws.data[start : start + part.stop - part.start]
            distance = max(distance, float(np.abs(gap).sum()))
    return first, labels, distance


def solve_beliefs(
    mdp: MDP, delay: int, *, tol: float, horizon: int | None, max_iterations: int, max_classes: int
) -> BeliefSolution:
    """Return the optimum by planning on the classes."""
    beliefs = nested_laws(mdp, delay, max_classes)
    left = None if horizon is None else max(horizon - delay, 0)
    solution = solve_augmented(
        beliefs.problem, 0, METHODS[0], tol=tol, horizon=left, max_iterations=max_iterations
    )
    return BeliefSolution(solution, beliefs, mdp, delay, tol, horizon)


def belief_values(solution: BeliefSolution) -> Float[np.ndarray, " *x"]:
    """Return the values of all augmented states as one array, like `Solution.values`."""
    shape = (solution.mdp.states, *([solution.mdp.actions] * solution.delay))
    return np.array([solution.value(x[0], x[1:]) for x in np.ndindex(*shape)]).reshape(shape)
