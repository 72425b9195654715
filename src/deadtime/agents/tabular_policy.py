"""What a tabular run learned, as something that acts."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from jaxtyping import Float

from deadtime.agents.exploration import epsilon_greedy
from deadtime.agents.policy import Policy
from deadtime.agents.table import Table, bits_of, by_state, find, pack, with_rows, words_of
from deadtime.agents.tabular import Agent
from deadtime.agents.views import CREDITS, SEES, VIEWS, View
from deadtime.files import check_fit
from deadtime.models.counts import empty, roll_law

_MODEL = ("successors", "visits", "likely")
"""The arrays of a forward model that acting needs."""


class TabularPolicy(Policy):
    """Acts on a state and its pending actions; among equally good actions, as in a pair never visited, it draws one."""

    def __init__(self, agent: Agent, view: View, states: int, seed: int = 0):
        """`seed` decides ties."""
        self.delay, self.agent, self.sees_queue = agent.delay, view.name, view.sees == "queue"
        self.num_states, self.num_actions = states, agent.table.q.shape[1]
        self._learned, self._view, self._seed = agent, view, seed
        self._rng = _ties(seed)

    def at_delay(self, delay: int) -> Self:
        """Return the same policy under another delay, whose ties are drawn from the beginning."""
        twin = super().at_delay(delay)
        twin._rng = _ties(self._seed)
        return twin

    def act(self, observation: int, pending_actions: Any = ()) -> int:
        """Return the action to choose now, which is executed after the pending ones."""
        values = self.q_values(observation, pending_actions)[None]
        return int(epsilon_greedy(values, 0, 0.0, self._rng.random()))

    def q_values(self, observation: int, pending_actions: Any = ()) -> Float[np.ndarray, " A"]:
        """Return the value of each action as this agent sees it."""
        agent = self._learned
        if self._view.sees == "law":
            return self.predicted_law(observation, pending_actions) @ agent.table.q
        if self.sees_queue:
            state, queue = self._checked(observation, pending_actions)
            key = np.zeros(agent.table.keys.shape[1], np.uint64)
            pack(key, state, queue, len(queue), agent.bits)
            return agent.table.q[find(agent.table.slots, agent.table.keys, agent.table.used, key, False)].copy()
        return agent.table.q[self.predicted_state(observation, pending_actions)].copy()

    def predicted_state(self, observation: int, pending_actions: Any = ()) -> int:
        """Return the state predicted for the next action's execution; without a forward model, the present one."""
        state, queue = self._checked(observation, pending_actions)
        if self._view.predicts:
            for action in queue:
                state = int(self._learned.model.likely[state, action])
        return state

    def predicted_law(self, observation: int, pending_actions: Any = ()) -> Float[np.ndarray, " S"]:
        """Return the probability of each state at the next action's execution."""
        state, queue = self._checked(observation, pending_actions)
        model, law = self._learned.model, np.zeros((2, self.num_states))
        if not self._view.predicts:
            law[0, state] = 1.0
            return law[0]
        roll_law(model.successors, model.visits, state, queue, 0, len(queue), law, np.zeros((2, self.num_states), np.int32))
        return law[0]

    def _checked(self, observation: Any, pending_actions: Any) -> tuple[int, np.ndarray]:
        """Return a state and a queue of the right length that compiled code can take, or raise."""
        queue, actions = np.asarray(pending_actions), self.num_actions
        if queue.size == 0:
            queue = queue.reshape(-1).astype(np.int64)
        if queue.shape != (self.delay,) or queue.dtype.kind not in "iu" or ((queue < 0) | (queue >= actions)).any():
            raise ValueError(
                f"pending_actions are the {self.delay} chosen last, oldest first, each from 0 to {actions - 1}; "
                f"got {pending_actions!r}: pass info['pending_actions']"
            )
        state = np.asarray(observation)
        if state.shape != () or state.dtype.kind not in "iu" or not 0 <= state < self.num_states:
            raise ValueError(
                f"an observation is the number of a state, 0 to {self.num_states - 1}; got {observation!r}: pass one"
            )
        return int(state), queue.astype(np.int64)


def to_arrays(agent: Agent) -> dict[str, np.ndarray]:
    """Return all that acting needs."""
    used = int(agent.table.used[0])
    kept = {"q": agent.table.q[:used], "keys": agent.table.keys[:used]}
    return kept | {name: getattr(agent.model, name) for name in _MODEL}


def from_arrays(arrays: dict[str, np.ndarray], agent: str, delay: int, states: int, seed: int) -> TabularPolicy:
    """Return the policy of an agent that was saved with `to_arrays`, in an environment of so many states."""
    view, actions = VIEWS[agent], arrays["q"].shape[1]
    _check(arrays, view, delay, states, actions)
    model = empty(1, actions, 1)._replace(**{name: arrays[name] for name in _MODEL})
    learned = Agent(_table(arrays, view), model, SEES.index(view.sees), CREDITS.index(view.credits), delay, bits_of(actions))
    return TabularPolicy(learned, view, states, seed)


def _table(arrays: dict[str, np.ndarray], view: View) -> Table:
    if view.sees == "queue":
        return with_rows(arrays["keys"], arrays["q"])
    return by_state(*arrays["q"].shape)._replace(q=arrays["q"])


def _ties(seed: int) -> np.random.Generator:
    """Return the generator that decides ties."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))


def _check(arrays: dict[str, np.ndarray], view: View, delay: int, states: int, actions: int) -> None:
    """Raise if compiled code, which checks no index, would read or write outside the arrays; nothing large is built."""
    rows, outcomes = (states, arrays["successors"].shape[2]) if view.predicts else (1, 1)
    wanted = {
        "q": _shaped(np.float64, states, actions),
        "successors": _shaped(np.int32, rows, actions, outcomes),
        "visits": _shaped(np.int64, rows, actions, outcomes),
        "likely": _shaped(np.int32, rows, actions),
    }
    if view.sees == "queue":
        wanted["keys"] = _shaped(np.uint64, 0, words_of(actions, delay))
    check_fit(arrays, wanted, ("q", "keys") if view.sees == "queue" else ())
    for name, least in (("successors", -1), ("likely", 0)):
        if ((arrays[name] < least) | (arrays[name] >= rows)).any():
            raise ValueError(f"{name} are numbers of states, 0 to {rows - 1}; this policy has others: train it again")
    if view.sees == "queue" and (len(arrays["keys"]) != len(arrays["q"]) or len(arrays["q"]) < 1):
        raise ValueError("a policy has values for each of its keys; this one has not: train it again")
    if actions < 1 or outcomes < 1:
        raise ValueError("a policy has one action or more, and outcomes of each; this one has none: train it again")


def _shaped(kind: type, *shape: int) -> np.ndarray:
    """Return an array of this kind and shape that takes no memory."""
    return np.broadcast_to(np.zeros((), kind), shape)
