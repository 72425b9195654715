"""What a tabular run learned, as something that acts."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from deadtime.agents.exploration import epsilon_greedy
from deadtime.agents.table import by_queue, by_state, find, pack, with_room
from deadtime.agents.tabular import Agent, new_agent
from deadtime.agents.views import VIEWS, View
from deadtime.envs.finite import Finite
from deadtime.models.counts import roll_law


class TabularPolicy:
    """Acts on a state and its pending actions; where actions are equally good, as in a pair never visited, it draws one."""

    def __init__(self, agent: Agent, view: View, seed: int = 0):
        """`seed` decides ties."""
        self.delay, self._agent, self._view = agent.delay, agent, view
        self._rng = np.random.default_rng(seed)

    def act(self, observation: int, pending_actions: Any = ()) -> int:
        """The action to choose now, which is executed after the pending ones."""
        values = self.q_values(observation, pending_actions)[None]
        return int(epsilon_greedy(values, 0, 0.0, self._rng.random()))

    def q_values(self, observation: int, pending_actions: Any = ()) -> Float[np.ndarray, " A"]:
        """The value of each action as this agent sees it."""
        agent, queue = self._agent, self._queue(pending_actions)
        if self._view.sees == "law":
            return self.predicted_law(observation, queue) @ agent.table.q
        if self._view.sees == "queue":
            key = np.zeros(agent.table.keys.shape[1], np.uint64)
            pack(key, observation, queue, len(queue), agent.bits)
            return agent.table.q[find(agent.table.slots, agent.table.keys, agent.table.used, key, False)]
        return agent.table.q[self.predicted_state(observation, queue)]

    def predicted_state(self, observation: int, pending_actions: Any = ()) -> int:
        """Where it believes to be when the next action is executed: the present state, if it has no forward model."""
        state = int(observation)
        if self._view.predicts:
            for action in self._queue(pending_actions):
                state = int(self._agent.model.likely[state, action])
        return state

    def predicted_law(self, observation: int, pending_actions: Any = ()) -> Float[np.ndarray, " S"]:
        """The probability of each state then."""
        states, law = len(self._agent.table.q), np.zeros((2, len(self._agent.table.q)))
        model, queue = self._agent.model, self._queue(pending_actions)
        roll_law(model.successors, model.visits, int(observation), queue, 0, len(queue), law, np.zeros((2, states), np.int32))
        return law[0]

    def _queue(self, pending_actions: Any) -> np.ndarray:
        queue = np.asarray(pending_actions, np.int64).reshape(-1)
        if len(queue) != self.delay and self._view.sees == "queue":
            raise ValueError(
                f"this agent was trained with {self.delay} pending actions; got {len(queue)}: pass the whole queue"
            )
        return queue


def to_arrays(agent: Agent) -> dict[str, np.ndarray]:
    """All that acting needs."""
    used = int(agent.table.used[0])
    kept = {"q": agent.table.q[:used], "keys": agent.table.keys[:used]}
    return kept | {name: getattr(agent.model, name) for name in ("successors", "visits", "likely")}


def from_arrays(arrays: dict[str, np.ndarray], env: Finite, agent: str, delay: int, seed: int) -> TabularPolicy:
    """The policy of an agent that was saved with `to_arrays`."""
    view = VIEWS[agent]
    bare = new_agent(env, view, delay)
    table, model = bare.table, bare.model._replace(**{name: arrays[name] for name in ("successors", "visits", "likely")})
    if view.sees == "queue":
        table = with_room(by_queue(env.successors.shape[1], delay), len(arrays["q"]))
        for key in arrays["keys"][1:]:
            find(table.slots, table.keys, table.used, key, True)
        table.q[: len(arrays["q"])] = arrays["q"]
    else:
        table = by_state(*arrays["q"].shape)._replace(q=arrays["q"])
    return TabularPolicy(bare._replace(table=table, model=model), view, seed)
