"""Q-learning under delay, compiled: episodes of one run for any view.

Time within an episode is absolute, and everything is logged by it: `actions[k]` is executed at step k (the warm-up fills
the first m), `believed[k]` is the state predicted for step k. A new decision therefore needs one more prediction, unless
what happened or what was learned contradicts the rest of the path; then the path is rolled again. The result is that of
rolling the whole queue at every step.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from jaxtyping import Float, Float32, Int, Int32, UInt64

from deadtime.envs.finite import Finite
from deadtime.learn.counts import Counts, empty, observe, roll, roll_law, roll_on
from deadtime.learn.exploration import best_value, epsilon_greedy, uniform
from deadtime.learn.q_table import Table, by_queue, by_state, find, pack, push_key, with_room
from deadtime.learn.settings import QLearning
from deadtime.runtime.queue_keys import bits_of
from deadtime.runtime.views import (
    CHOSEN,
    EXECUTED,
    LAW,
    PREDICTION,
    QUEUE,
    SEES,
    View,
)

_ENVIRONMENT, _EXPLORATION = 0, 1


class Memory(NamedTuple):
    """Logs of one episode, and room for one law."""

    actions: Int[np.ndarray, " steps"]
    rows: Int[np.ndarray, " steps"]
    believed: Int32[np.ndarray, " steps"]
    law: Float[np.ndarray, "2 S"]
    members: Int32[np.ndarray, "2 S"]
    averages: Float[np.ndarray, "1 A"]
    key: UInt64[np.ndarray, " words"]


class Agent(NamedTuple):
    """All that a run learns, and how it sees."""

    table: Table
    model: Counts
    sees: int
    credits: int
    delay: int
    bits: int


def new_agent(env: Finite, view: View, delay: int) -> Agent:
    """Return an agent that knows nothing: every value is 0, which is optimistic where steps cost."""
    kinds = SEES[: LAW + 1]
    if view.sees not in kinds:
        raise ValueError(
            f"a table is asked by {', '.join(kinds)}; got a view that sees {view.sees}: choose another"
        )
    states, actions, outcomes = env.successors.shape
    table = by_queue(actions, delay) if view.sees == "queue" else by_state(states, actions)
    model = empty(states, actions, outcomes) if view.predicts else empty(1, actions, 1)
    return Agent(table, model, *view.code, delay, bits_of(actions))


def to_arrays(agent: Agent) -> dict[str, np.ndarray]:
    """Return the arrays that a `TablePolicy` needs to act as this agent does."""
    used = int(agent.table.used[0])
    kept = {"q": agent.table.q[:used], "keys": agent.table.keys[:used]}
    model = agent.model
    return kept | {"successors": model.successors, "visits": model.visits, "likely": model.likely}


def _memory(env: Finite, agent: Agent) -> Memory:
    states, actions, _ = env.successors.shape
    steps, width = env.max_steps + agent.delay + 1, states if agent.sees == LAW else 1
    return Memory(
        np.zeros(steps, np.int64),
        np.zeros(steps, np.int64),
        np.zeros(steps, np.int32),
        np.zeros((2, width)),
        np.zeros((2, width), np.int32),
        np.zeros((1, actions)),
        np.zeros(agent.table.keys.shape[1], np.uint64),
    )


def run_episodes(
    env: Finite,
    agent: Agent,
    settings: QLearning,
    streams: UInt64[np.ndarray, " 2"],
    episodes: int,
    learn: bool,
) -> tuple[Agent, Float32[np.ndarray, " episodes"]]:
    """Run whole episodes, learning or not; returns the agent (its table may have moved) and each episode's return."""
    returns = np.empty(episodes, np.float32)
    numbers = (settings.learning_rate, settings.gamma, settings.epsilon if learn else 0.0)
    table = _run(env, agent, numbers, streams, _memory(env, agent), returns, learn)
    return agent._replace(table=table), returns


@numba.njit(cache=True, nogil=True)
def _run(
    env: Finite,
    agent: Agent,
    numbers: tuple[float, float, float],
    streams: UInt64[np.ndarray, " 2"],
    memory: Memory,
    returns: Float32[np.ndarray, " episodes"],
    learn: bool,
) -> Table:
    """One episode after the other. Inside one, arrays go by their own names: compiled tuples of them count references."""
    table, model = agent.table, agent.model
    for episode in range(returns.shape[0]):
        if learn and agent.sees == QUEUE:
            table = with_room(table, env.max_steps + 2)
        for k in range(agent.delay):
            memory.actions[k] = int(uniform(streams, _ENVIRONMENT) * table.q.shape[1])
        # fmt: off
        returns[episode] = _episode(
            env.successors, env.cumulative, env.rewards, env.terminal, env.start, env.max_steps,
            table.slots, table.keys, table.q, table.used,
            model.successors, model.visits, model.likely, model.rewards, model.terminal,
            memory.actions, memory.rows, memory.believed, memory.law, memory.members, memory.averages, memory.key,
            agent.sees, agent.credits, agent.delay, agent.bits, numbers[0], numbers[1], numbers[2], streams, learn,
        )
        # fmt: on
    return table


# fmt: off
@numba.njit(cache=True)
def _episode(  # type: ignore[no-untyped-def]  # noqa: PLR0912
    successors, cumulative, rewards, terminal, s, max_steps,
    slots, keys, q, used,
    seen_after, visits, likely, sums, ends,
    actions, rows, believed, law, members, averages, key,
    sees, credit, m, bits, step_size, discount, epsilon, streams, learn,
):
    # fmt: on
    row, t, earned, ended = s, 0, 0.0, False
    if sees == QUEUE:
        pack(key, s, actions, m, bits)
        row = find(slots, keys, used, key, learn)
    elif sees == PREDICTION:
        row = roll(likely, believed, actions, s, 0, m)
    while not ended and t < max_steps:
        u = uniform(streams, _EXPLORATION)
        if sees == LAW:
            _average(seen_after, visits, q, s, actions, t, m, law, members, averages)
            actions[t + m] = epsilon_greedy(averages, 0, epsilon, u)
        else:
            actions[t + m] = epsilon_greedy(q, row, epsilon, u)
        rows[t], executed, k = row, actions[t], 0
        if successors.shape[2] > 1:
            u = uniform(streams, _ENVIRONMENT)
            while u >= cumulative[s, executed, k]:
                k += 1
        after, reward = successors[s, executed, k], rewards[s, executed, k]
        ended, earned, changed = terminal[after], earned + reward, False
        if learn and sees >= PREDICTION:
            changed = observe(seen_after, visits, likely, sums, ends, s, executed, reward, after, ended)
        then = np.int64(after)
        if sees == QUEUE:
            push_key(key, after, actions, t + 1, m, bits)
            then = find(slots, keys, used, key, learn and not ended)
        elif sees == PREDICTION:
            then = roll_on(likely, believed, actions, after, t + 1, m, changed)
        if learn and credit == CHOSEN:
            _learn(q, row, actions[t + m], reward, then, ended, step_size, discount)
        elif learn and t >= m and credit == EXECUTED:
            _learn(q, s, executed, reward, after, ended, step_size, discount)
        elif learn and t >= m:
            _learn(q, rows[t - m], executed, reward, then if m == 0 else rows[t - m + 1], ended, step_size, discount)
        s, row, t = after, then, t + 1
    return earned


@numba.njit(cache=True)
def _learn(q, seen, action, reward, then, ended, step_size, discount):  # type: ignore[no-untyped-def]
    """One step of Q-learning."""
    target = reward if ended else reward + discount * best_value(q, then)
    q[seen, action] += step_size * (target - q[seen, action])


@numba.njit(cache=True)
def _average(seen_after, visits, q, s, actions, t, m, law, members, averages):  # type: ignore[no-untyped-def]
    """E Q(s_{t+m}, a) for each action, over the model's law."""
    n = roll_law(seen_after, visits, s, actions, t, m, law, members)
    averages[0] = 0.0
    for i in range(n):
        state = members[0, i]
        for a in range(q.shape[1]):
            averages[0, a] += law[0, state] * q[state, a]
