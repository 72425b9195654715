"""What a tabular run learned, as something that acts."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from deadtime.agents.exploration import epsilon_greedy
from deadtime.agents.table import by_queue, by_state, find, pack, with_room
from deadtime.agents.tabular import Agent, new_agent
from deadtime.agents.views import VIEWS, View
from deadtime.delay import check_delay
from deadtime.envs.finite import Finite
from deadtime.files import check_fit
from deadtime.models.counts import roll_law


class TabularPolicy:
    """Acts on a state and its pending actions; where actions are equally good, as in a pair never visited, it draws one."""

    def __init__(self, agent: Agent, view: View, states: int, seed: int = 0):
        """`seed` decides ties."""
        self.delay, self._agent, self._view, self._states = agent.delay, agent, view, states
        self._rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))

    def at_delay(self, delay: int) -> TabularPolicy:
        """The same policy under another delay than it was trained for; one that sees the queue can't do that."""
        if self._view.sees == "queue" and delay != self.delay:
            raise ValueError(
                f"this agent's values are of queues of {self.delay} actions; got a delay of {delay}: train it for that"
            )
        return TabularPolicy(self._agent._replace(delay=check_delay(delay)), self._view, self._states)

    def act(self, observation: int, pending_actions: Any = ()) -> int:
        """The action to choose now, which is executed after the pending ones."""
        values = self.q_values(observation, pending_actions)[None]
        return int(epsilon_greedy(values, 0, 0.0, self._rng.random()))

    def q_values(self, observation: int, pending_actions: Any = ()) -> Float[np.ndarray, " A"]:
        """The value of each action as this agent sees it."""
        agent = self._agent
        if self._view.sees == "law":
            return self.predicted_law(observation, pending_actions) @ agent.table.q
        if self._view.sees == "queue":
            state, queue = self._checked(observation, pending_actions)
            key = np.zeros(agent.table.keys.shape[1], np.uint64)
            pack(key, state, queue, len(queue), agent.bits)
            return agent.table.q[find(agent.table.slots, agent.table.keys, agent.table.used, key, False)].copy()
        return agent.table.q[self.predicted_state(observation, pending_actions)].copy()

    def predicted_state(self, observation: int, pending_actions: Any = ()) -> int:
        """Where it believes to be when the next action is executed: the present state, if it has no forward model."""
        state, queue = self._checked(observation, pending_actions)
        if self._view.predicts:
            for action in queue:
                state = int(self._agent.model.likely[state, action])
        return state

    def predicted_law(self, observation: int, pending_actions: Any = ()) -> Float[np.ndarray, " S"]:
        """The probability of each state then."""
        state, queue = self._checked(observation, pending_actions)
        model, law = self._agent.model, np.zeros((2, self._states))
        if not self._view.predicts:
            law[0, state] = 1.0
            return law[0]
        roll_law(model.successors, model.visits, state, queue, 0, len(queue), law, np.zeros((2, self._states), np.int32))
        return law[0]

    def _checked(self, observation: Any, pending_actions: Any) -> tuple[int, np.ndarray]:
        """A state and a queue of the right length that compiled code can take, or an error."""
        queue, actions = np.asarray(pending_actions), self._agent.table.q.shape[1]
        if queue.size == 0:
            queue = queue.reshape(-1).astype(np.int64)
        if queue.shape != (self.delay,) or queue.dtype.kind not in "iu" or ((queue < 0) | (queue >= actions)).any():
            raise ValueError(
                f"pending_actions are the {self.delay} chosen last, oldest first, each from 0 to {actions - 1}; "
                f"got {pending_actions!r}: pass info['pending_actions']"
            )
        state = np.asarray(observation)
        if state.shape != () or state.dtype.kind not in "iu" or not 0 <= state < self._states:
            raise ValueError(f"an observation is the number of a state, 0 to {self._states - 1}; got {observation!r}: pass one")
        return int(state), queue.astype(np.int64)


def to_arrays(agent: Agent) -> dict[str, np.ndarray]:
    """All that acting needs."""
    used = int(agent.table.used[0])
    kept = {"q": agent.table.q[:used], "keys": agent.table.keys[:used]}
    return kept | {name: getattr(agent.model, name) for name in ("successors", "visits", "likely")}


def from_arrays(arrays: dict[str, np.ndarray], env: Finite, agent: str, delay: int, seed: int) -> TabularPolicy:
    """The policy of an agent that was saved with `to_arrays`."""
    view = VIEWS[agent]
    bare = new_agent(env, view, delay)
    _check(arrays, bare, view)
    table, model = bare.table, bare.model._replace(**{name: arrays[name] for name in ("successors", "visits", "likely")})
    if view.sees == "queue":
        table = with_room(by_queue(env.successors.shape[1], delay), len(arrays["q"]))
        for key in arrays["keys"][1:]:
            find(table.slots, table.keys, table.used, key, True)
        table.q[: len(arrays["q"])] = arrays["q"]
    else:
        table = by_state(*arrays["q"].shape)._replace(q=arrays["q"])
    return TabularPolicy(bare._replace(table=table, model=model), view, len(env.terminal), seed)


def _check(arrays: dict[str, np.ndarray], bare: Agent, view: View) -> None:
    """Refuse what compiled code, which checks no index, would read or write outside of."""
    wanted = {name: getattr(bare.model, name) for name in ("successors", "visits", "likely")} | {"q": bare.table.q}
    if view.sees == "queue":
        wanted["keys"] = bare.table.keys
    check_fit(arrays, wanted, ("q", "keys") if view.sees == "queue" else ())
    states = len(bare.model.likely)
    for name, least in (("successors", -1), ("likely", 0)):
        if ((arrays[name] < least) | (arrays[name] >= states)).any():
            raise ValueError(f"{name} are numbers of states, 0 to {states - 1}; this policy has others: train it again")
    if view.sees == "queue" and (len(arrays["keys"]) != len(arrays["q"]) or len(arrays["q"]) < 1):
        raise ValueError("a policy has values for each of its keys; this one has not: train it again")
