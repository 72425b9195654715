"""Q-learning under delay, compiled: episodes of one run for any view.

Logs have the step of the episode as their index: `actions[k]` is executed at step k (the warm-up
fills the first m), and `believed[k]` is the state predicted for step k. A decision therefore needs
only one more prediction. If the state or the model has changed the path, it is predicted again as a
whole. The result is the same as predicting the whole path at every step.

Under a delay that varies, K is the longest age, the warm-up fills the first K entries of `actions`,
and step k executes `actions[k + K - z]`, z being its age. The key of a pair also has what the agent
knows of the age, and leaves out the actions that can't be executed any more. Where the next step
executes the same action again, a target over states has the value of that action and not the best
one.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from jaxtyping import Float, Float32, Int, Int32, UInt64

from deadtime.delays import Delay
from deadtime.delays.waits import Observed
from deadtime.envs.finite import Finite
from deadtime.learn.counts import Counts, empty, observe, roll, roll_law, roll_on, roll_way
from deadtime.learn.exploration import best_value, draw, epsilon_greedy, uniform
from deadtime.learn.q_table import (
    Table,
    by_queue,
    by_state,
    find,
    known_key,
    pack,
    push_key,
    with_room,
)
from deadtime.learn.settings import QLearning
from deadtime.learn.table_projection import project
from deadtime.learn.tabular_channel import (
    AGES,
    HINDSIGHT,
    NEVER,
    NOW,
    Channel,
    channel_of,
    next_state,
)
from deadtime.runtime.queue_keys import bits_of
from deadtime.runtime.views import (
    CHOSEN,
    EXECUTED,
    LAW,
    PREDICTION,
    QUEUE,
    SEES,
    SHIFTED,
    View,
)

_ENVIRONMENT, _EXPLORATION = 0, 1


class Memory(NamedTuple):
    """The logs of one episode, and arrays for one law."""

    actions: Int[np.ndarray, " steps"]
    rows: Int[np.ndarray, " steps"]
    believed: Int32[np.ndarray, " steps"]
    law: Float[np.ndarray, "2 S"]
    members: Int32[np.ndarray, "2 S"]
    averages: Float[np.ndarray, "1 A"]
    key: UInt64[np.ndarray, " words"]
    known: UInt64[np.ndarray, " words"]


class Agent(NamedTuple):
    """The table and the model of a run, and its view as numbers."""

    table: Table
    model: Counts
    sees: int
    credits: int
    delay: int
    """The longest age."""
    bits: int
    channel: Channel
    values: Float[np.ndarray, "S A"]
    """Q over states, if the view projects and there is a delay; else empty."""


def new_agent(env: Finite, view: View, delay: Delay, observed: Observed = "now") -> Agent:
    """Return a new agent; its values are 0, which is optimistic if steps have costs."""
    kinds = SEES[: LAW + 1]
    if view.sees not in kinds:
        raise ValueError(
            f"tabular Q-learning has views that see {', '.join(kinds)}; got one that sees "
            f"{view.sees}: choose another view"
        )
    states, actions, outcomes = env.successors.shape
    if view.sees == "queue" and view.credits != "chosen" and not view.projects:
        raise ValueError(
            "a table over queues learns from chosen actions, or projects values of states; got a "
            f'view that credits {view.credits} actions: choose "chosen" or values="state"'
        )
    channel = channel_of(delay, observed, every=view.sees == "law")
    longest = int(channel.pending[0])
    if view.projects and not longest:  # Q is its own projection
        view = View("queue", "chosen")
    table = by_queue(actions, longest) if view.sees == "queue" else by_state(states, actions)
    model = empty(states, actions, outcomes) if view.predicts else empty(1, actions, 1)
    values = np.zeros((states if view.projects else 0, actions))
    code = view.code
    return Agent(table, model, code.sees, code.credits, longest, bits_of(actions), channel, values)


def to_arrays(agent: Agent) -> dict[str, np.ndarray]:
    """Return the arrays of the `TablePolicy` of an agent."""
    used = int(agent.table.used[0])
    kept = {"q": agent.table.q[:used], "keys": agent.table.keys[:used]}
    if agent.sees == QUEUE and agent.channel.observed != NEVER:
        kept["pending"] = agent.channel.pending
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
        np.zeros(agent.table.keys.shape[1], np.uint64),
    )


def run_episodes(
    env: Finite,
    agent: Agent,
    settings: QLearning,
    streams: UInt64[np.ndarray, " 3"],
    episodes: int,
    learn: bool,
) -> tuple[Agent, Float32[np.ndarray, " episodes"]]:
    """Run episodes, with or without learning; return the agent and the return of each episode.

    `streams` are the random streams of the environment, of exploration and, under a delay that
    varies, of the ages. The returned agent may have a new table.
    """
    returns = np.empty(episodes, np.float32)
    numbers = (settings.learning_rate, settings.gamma, settings.epsilon if learn else 0.0)
    table = _run(env, agent, numbers, streams, _memory(env, agent), returns, learn)
    return agent._replace(table=table), returns


@numba.njit(cache=True, nogil=True)
def _run(
    env: Finite,
    agent: Agent,
    numbers: tuple[float, float, float],
    streams: UInt64[np.ndarray, " 3"],
    memory: Memory,
    returns: Float32[np.ndarray, " episodes"],
    learn: bool,
) -> Table:
    """Run one episode after the other, and return the table.

    Arrays are passed one by one: compiled code would count references to arrays in tuples.
    """
    table, model, channel = agent.table, agent.model, agent.channel
    for episode in range(returns.shape[0]):
        if learn and agent.sees == QUEUE:
            table = with_room(table, env.max_steps + 2)
        for k in range(agent.delay):
            memory.actions[k] = int(uniform(streams, _ENVIRONMENT) * table.q.shape[1])
        state = draw(channel.first, channel.first_cumulative, streams, AGES)
        start = draw(env.starts, env.start_cumulative, streams, _ENVIRONMENT)
        # fmt: off
        returns[episode] = _episode(
            env.successors, env.cumulative, env.rewards, env.terminal, start, env.max_steps,
            table.slots, table.keys, table.q, table.used,
            model.successors, model.visits, model.likely, model.rewards, model.terminal,
            agent.values, state,
            channel.successors, channel.cumulative, channel.ages, channel.observed, channel.pending,
            channel.steps, channel.weights, channel.on_the_way, channel.guide,
            memory.actions, memory.rows, memory.believed, memory.law, memory.members,
            memory.averages, memory.key, memory.known,
            agent.sees, agent.credits, agent.delay, agent.bits,
            numbers[0], numbers[1], numbers[2], streams, learn,
        )
        # fmt: on
    return table


# fmt: off
@numba.njit(cache=True)
def _episode(  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0915
    successors, cumulative, rewards, terminal, s, max_steps,
    slots, keys, q, used,
    seen_after, visits, likely, sums, ends,
    values, channel, moves, chances, ages, observed,
    pending, steps, weights, on_the_way, guide,
    actions, rows, believed, law, members, averages, key, known,
    sees, credit, m, bits, step_size, discount, epsilon, streams, learn,
):
    # fmt: on
    row, t, earned, ended = s, 0, 0.0, False
    age, code, steady = ages[channel], 0, steps.shape[0] == 1
    if observed == NOW:
        code = age + 1
    if sees == QUEUE:
        pack(key, s, actions, m, bits)
        row = _find(
            slots, keys, used, key, known, s, code, successors.shape[0], pending, m, bits, learn
        )
    elif sees == PREDICTION:
        row = (
            roll(likely, believed, actions, s, 0, m)
            if steady
            else roll_way(likely, actions, s, 0, steps, on_the_way, code)
        )
    while not ended and t < max_steps:
        u = uniform(streams, _EXPLORATION)
        if sees == LAW:
            _average(
                seen_after, visits, q, s, actions, t, steps, weights, on_the_way, code, law,
                members, averages,
            )  # fmt: skip
            actions[t + m] = epsilon_greedy(averages, 0, epsilon, u)
        else:
            actions[t + m] = epsilon_greedy(q, row, epsilon, u)
        rows[t], executed, k = row, actions[t + m - age], 0
        if sees == QUEUE:
            believed[t] = 0  # the action chosen now was not executed yet
        if successors.shape[2] > 1:
            u = uniform(streams, _ENVIRONMENT)
            while u >= cumulative[s, executed, k]:
                k += 1
        after, reward = successors[s, executed, k], rewards[s, executed, k]
        ended, earned, changed = terminal[after], earned + reward, False
        if learn and sees >= PREDICTION:
            changed = observe(
                seen_after, visits, likely, sums, ends, s, executed, reward, after, ended
            )
        channel = next_state(moves, chances, guide, channel, streams)
        later = ages[channel]
        if observed == NOW:
            code = later + 1
        elif observed == HINDSIGHT:
            code = age + 1
        then = np.int64(after)
        if sees == QUEUE:
            push_key(key, after, actions, t + 1, m, bits)
            then = _find(
                slots, keys, used, key, known, after, code, successors.shape[0], pending, m, bits,
                learn and not ended,
            )  # fmt: skip
        elif sees == PREDICTION:
            then = (
                roll_on(likely, believed, actions, after, t + 1, m, changed)
                if steady
                else roll_way(likely, actions, after, t + 1, steps, on_the_way, code)
            )
        if learn and credit == CHOSEN:
            _learn(q, row, actions[t + m], reward, then, ended, step_size, discount)
        elif learn and t >= age and sees == QUEUE:
            project(
                q, values, rows, believed, actions, s, executed, reward, after, ended, then,
                t, age, later, m, step_size, discount,
            )  # fmt: skip
        elif learn and t >= age and credit == EXECUTED:
            if later == age + 1 and not ended:  # the next step executes the same action
                target = reward + discount * q[after, executed]
                q[s, executed] += step_size * (target - q[s, executed])
            else:
                _learn(q, s, executed, reward, after, ended, step_size, discount)
        elif learn and t >= age and credit == SHIFTED and (later <= t + 1 or ended):
            chosen_from = rows[t - age]
            if later == age + 1 and not ended:  # the next step executes the same action
                target = reward + discount * q[chosen_from, executed]
                q[chosen_from, executed] += step_size * (target - q[chosen_from, executed])
            else:
                shifted = then if later == 0 or ended else rows[t + 1 - later]
                _learn(q, chosen_from, executed, reward, shifted, ended, step_size, discount)
        s, row, t, age = after, then, t + 1, later
    return earned


@numba.njit(cache=True)
def _find(  # type: ignore[no-untyped-def]
    slots, keys, used, key, known, state, code, states, pending, m, bits, insert
):
    """Return the row of a key; with a code above 0, of the key that also has the known age."""
    if code == 0:
        return find(slots, keys, used, key, insert)
    known_key(key, known, state + states * code, pending[code], m, bits)
    return find(slots, keys, used, known, insert)


@numba.njit(cache=True)
def _learn(q, seen, action, reward, then, ended, step_size, discount):  # type: ignore[no-untyped-def]
    """Make one update of Q-learning."""
    target = reward if ended else reward + discount * best_value(q, then)
    q[seen, action] += step_size * (target - q[seen, action])


@numba.njit(cache=True)
def _average(  # type: ignore[no-untyped-def]
    seen_after, visits, q, s, actions, t, steps, weights, on_the_way, code, law, members,
    averages,
):  # fmt: skip
    """Write the mean value of each action, over the model's law of the state in which it will be
    executed first.
    """
    averages[0] = 0.0
    for way in range(steps.shape[1]):
        weight = weights[code, way]
        if weight == 0.0:
            continue
        n = roll_law(
            seen_after, visits, s, actions, t, steps, on_the_way, code, way, law, members
        )
        for i in range(n):
            state = members[0, i]
            for a in range(q.shape[1]):
                averages[0, a] += weight * law[0, state] * q[state, a]
