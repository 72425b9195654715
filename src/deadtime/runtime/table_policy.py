"""A policy that acts with a table of values and, for some agents, a model of counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from deadtime.delays import Delay
from deadtime.runtime.array_checks import Form, check_arrays
from deadtime.runtime.manifest import Manifest
from deadtime.runtime.policy import Policy, fitting
from deadtime.runtime.queue_keys import KeyIndex, key_of, words_of
from deadtime.runtime.state_laws import rolled_law

if TYPE_CHECKING:
    from jaxtyping import Float


class TablePolicy(Policy):
    """A policy that acts with a table, on the number of a state and the pending actions.

    It draws at random among equally good actions, such as those of a pair that was never visited.

    Under a delay that varies, a policy that sees the queue or predicts needs the age that the agent
    knows, `info["action_age"]` of `ActionDelay`, unless its ages are never observed.
    """

    _likely_ways = True

    def __init__(self, manifest: Manifest, arrays: Mapping[str, np.ndarray]):
        """Build the policy, or raise if the arrays do not fit the manifest.

        The arrays are `q`, the model's `successors`, `visits` and `likely`. A table over states and
        queues also has `keys` and, if its keys contain what was known of the age, `pending`: how
        many of the last actions a key contains, for no known age and for each age from 0 on.
        """
        if not manifest.states:
            raise ValueError(
                "a TablePolicy observes numbered states; got an observation of shape "
                f"{manifest.observation_shape}: use NetworkPolicy"
            )
        self._describe(manifest, arrays)
        self._predicts = manifest.predicts
        self._sees_law = manifest.sees == "law"
        with fitting():
            self._check(arrays)
            self._q = arrays["q"]
            self._likely = arrays["likely"]
            self._successors = arrays["successors"]
            self._visits = arrays["visits"]
            self._pairs = KeyIndex(arrays["keys"]) if self.sees_queue else None
            self._pending = arrays.get("pending") if self.sees_queue else None
        self._waits = self._ways_on()
        self._rng = _ties(manifest.seed)

    def _check(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Raise if the arrays do not fit each other or contain states that do not exist."""
        states, actions = self.num_states, self.num_actions
        rows, outcomes = (states, arrays["successors"].shape[2]) if self._predicts else (1, 1)
        wanted = {
            "q": Form(np.float64, states, actions),
            "successors": Form(np.int32, rows, actions, outcomes),
            "visits": Form(np.int64, rows, actions, outcomes),
            "likely": Form(np.int32, rows, actions),
        }
        if self.sees_queue:
            wanted["keys"] = Form(np.uint64, 0, words_of(actions, self.delay))
        if self.sees_queue and "pending" in arrays:
            wanted["pending"] = Form(np.int64, self.delay + 2)
        check_arrays(arrays, wanted, ("q", "keys") if self.sees_queue else ())
        for name, least in (("successors", -1), ("likely", 0)):
            if ((arrays[name] < least) | (arrays[name] >= rows)).any():
                rule = f"{name} are numbers of states, 0 to {rows - 1}"
                raise ValueError(f"{rule}; got others: train it again")
        if self.sees_queue and not 1 <= len(arrays["q"]) == len(arrays["keys"]):
            rule = "a table has one row of values per key"
            got = f"{len(arrays['q'])} rows and {len(arrays['keys'])} keys"
            raise ValueError(f"{rule}; got {got}: train it again")
        if outcomes < 1:
            rule = "a model has outcomes of each action"
            raise ValueError(f"{rule}; got none: train it again")

    @property
    def sees_ages(self) -> bool:
        """Whether the policy needs the age that the agent knows."""
        if self.sees_queue:
            return self._pending is not None
        return super().sees_ages

    def at_delay(self, delay: Delay | str) -> Self:
        """Return a copy of the policy for another delay, with a fresh generator for ties.

        A policy that predicts expects the ages of that delay. A policy that sees the queue has
        learned its values under the delay of its training.
        """
        twin = super().at_delay(delay)
        twin._rng = _ties(self._manifest.seed)
        return twin

    def act(
        self,
        observation: ArrayLike,
        pending_actions: ArrayLike = (),
        ages: ArrayLike | None = None,
    ) -> int:
        """Return the action to choose now, which is executed after the pending actions.

        `ages` is the age that the agent knows, -1 if it knows none yet.
        """
        return best_action(self.q_values(observation, pending_actions, ages), self._rng.random())

    def q_values(
        self,
        observation: ArrayLike,
        pending_actions: ArrayLike = (),
        ages: ArrayLike | None = None,
    ) -> Float[np.ndarray, " A"]:
        """Return the value of each action."""
        if self._sees_law:
            return self.predicted_law(observation, pending_actions, ages) @ self._q
        if self._pairs is not None:
            state, queue = self._checked(observation, pending_actions)
            code = self._code(ages)
            if self._pending is not None and code:
                kept = int(self._pending[code])
                queue = [0] * (self.delay - kept) + queue[self.delay - kept :]
                state += self.num_states * code
            return self._q[self._pairs.row(key_of(state, queue, self.num_actions))].copy()
        return self._q[self.predicted_state(observation, pending_actions, ages)].copy()

    def predicted_state(
        self,
        observation: ArrayLike,
        pending_actions: ArrayLike = (),
        ages: ArrayLike | None = None,
    ) -> int:
        """Return the state predicted for the time when the next action is executed.

        A policy without a forward model returns the present state.
        """
        state, queue = self._checked(observation, pending_actions)
        if self._predicts:
            for action in self._before(queue, self._code(ages), 0):
                state = int(self._likely[state, action])
        return state

    def predicted_law(
        self,
        observation: ArrayLike,
        pending_actions: ArrayLike = (),
        ages: ArrayLike | None = None,
    ) -> Float[np.ndarray, " S"]:
        """Return the probability of each state at the time when the next action is executed."""
        state, queue = self._checked(observation, pending_actions)
        law = np.zeros(self.num_states)
        if not self._predicts:
            law[state] = 1.0
            return law
        code = self._code(ages)
        if self._waits is None:
            return rolled_law(self._successors, self._visits, state, queue)
        for way in np.flatnonzero(self._waits.weights[code]):
            actions = self._before(queue, code, int(way))
            rolled = rolled_law(self._successors, self._visits, state, actions)
            law += self._waits.weights[code, way] * rolled
        return law

    def _before(self, queue: list[int], code: int, way: int) -> list[int]:
        """Return the actions that are executed before the next action is."""
        if self._waits is None:
            return queue
        return [queue[place] for place in self._places(code, way).tolist()]

    def _checked(self, observation: ArrayLike, pending_actions: ArrayLike) -> tuple[int, list[int]]:
        """Return the state and the queue as whole numbers, or raise if they do not fit."""
        queue = self._checked_queue(pending_actions)
        state = np.asarray(observation)
        whole = state.shape == () and state.dtype.kind in "iu"
        if not whole or not 0 <= state < self.num_states:
            rule = f"an observation is the number of a state, 0 to {self.num_states - 1}"
            raise ValueError(f"{rule}; got {observation!r}: pass one")
        return int(state), queue.tolist()


def best_action(values: Float[np.ndarray, " A"], u: float) -> int:
    """Return an action of the highest value; `u` from [0, 1) decides among equal ones.

    The choice equals that of the compiled training code, also for values that are NaN: such an
    action is chosen only if it is the first.
    """
    numbers = values.tolist()
    best = max(numbers)
    ties = [action for action, value in enumerate(numbers) if value == best]
    return ties[min(int(u * len(ties)), len(ties) - 1)] if ties else 0


def _ties(seed: int) -> np.random.Generator:
    """Return the random generator for ties."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))
