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
    """

    def __init__(self, manifest: Manifest, arrays: Mapping[str, np.ndarray]):
        """Build the policy, or raise if the arrays do not fit the manifest.

        The arrays are `q`, the model's `successors`, `visits` and `likely`, and, for a table over
        states and queues, `keys`.
        """
        if not manifest.states:
            raise ValueError(
                "a TablePolicy observes numbered states; got an observation of shape "
                f"{manifest.observation_shape}: use NetworkPolicy"
            )
        self._describe(manifest)
        self._predicts = manifest.predicts
        self._sees_law = manifest.sees == "law"
        with fitting():
            self._check(arrays)
            self._q = arrays["q"]
            self._likely = arrays["likely"]
            self._successors = arrays["successors"]
            self._visits = arrays["visits"]
            self._pairs = KeyIndex(arrays["keys"]) if self.sees_queue else None
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

    def at_delay(self, delay: Delay | str) -> Self:
        """Return a copy of the policy for another delay, with a fresh generator for ties."""
        twin = super().at_delay(delay)
        twin._rng = _ties(self._manifest.seed)
        return twin

    def act(self, observation: int, pending_actions: ArrayLike = ()) -> int:
        """Return the action to choose now, which is executed after the pending actions."""
        return best_action(self.q_values(observation, pending_actions), self._rng.random())

    def q_values(
        self, observation: int, pending_actions: ArrayLike = ()
    ) -> Float[np.ndarray, " A"]:
        """Return the value of each action."""
        if self._sees_law:
            return self.predicted_law(observation, pending_actions) @ self._q
        if self._pairs is not None:
            state, queue = self._checked(observation, pending_actions)
            return self._q[self._pairs.row(key_of(state, queue, self.num_actions))].copy()
        return self._q[self.predicted_state(observation, pending_actions)].copy()

    def predicted_state(self, observation: int, pending_actions: ArrayLike = ()) -> int:
        """Return the state predicted for the time when the next action is executed.

        A policy without a forward model returns the present state.
        """
        state, queue = self._checked(observation, pending_actions)
        if self._predicts:
            for action in queue:
                state = int(self._likely[state, action])
        return state

    def predicted_law(
        self, observation: int, pending_actions: ArrayLike = ()
    ) -> Float[np.ndarray, " S"]:
        """Return the probability of each state at the time when the next action is executed."""
        state, queue = self._checked(observation, pending_actions)
        if self._predicts:
            return rolled_law(self._successors, self._visits, state, queue)
        law = np.zeros(self.num_states)
        law[state] = 1.0
        return law

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
