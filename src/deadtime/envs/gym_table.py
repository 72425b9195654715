"""Gymnasium environments whose transitions are all known: FrozenLake, Taxi, CliffWalking.

Such an environment has a table ``P``: ``P[s][a]`` lists the outcomes of action a in state s, each
as (probability, next state, reward, terminated). ``initial_state_distrib`` has the probability of
each first state. The table is read once, then tabular agents step through arrays.

An outcome keeps its own reward, so a sampled transition has the reward that belongs to it. States
that no episode reaches lead to themselves.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from deadtime.envs.finite import Finite
from deadtime.envs.gym_outside import LONGEST_EPISODE, Common, Outside, read_once

PREFIX = "table:"
_NEUTRAL = (OrderEnforcing, PassiveEnvChecker, TimeLimit)
"""The wrappers that change no transition before the time limit."""
_PLAYED = 10_000
"""The number of steps that compare the environment with its table."""
_ROUNDING = 1e-6
"""The largest error of a sum of probabilities."""


class Outcome(NamedTuple):
    """An outcome of an action in a state."""

    probability: float
    after: int
    reward: float
    terminated: bool


Rows = list[list[list[Outcome]]]
"""The possible outcomes of each action in each state."""


@dataclass(frozen=True)
class Table(Outside):
    """A Gymnasium environment and its transitions as arrays."""

    arrays: Finite = field(default=None, compare=False)  # type: ignore[assignment]

    @property
    def max_steps(self) -> int:
        """The step limit of an episode."""
        return self.arrays.max_steps

    def observation_space(self, params: object = None) -> spaces.Discrete:
        """Return the space of observations: the number of the state."""
        return spaces.Discrete(self.numbers)

    def finite(self) -> Finite:
        """Return the environment as arrays, for tabular learners."""
        return self.arrays

    def model(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the exact transition probabilities P and mean rewards r."""
        return self.arrays.model()

    def shown(self, env: gym.Env) -> gym.Env:
        """Return the environment itself: tabular agents observe the number of the state."""
        return env

    def provenance(self) -> dict[str, str]:
        """Return what made the environment, its spaces, and a digest of its table."""
        parts = [np.ascontiguousarray(part).tobytes() for part in self.arrays]
        return super().provenance() | {"table": hashlib.sha256(b"".join(parts)).hexdigest()[:12]}


def table(name: str, settings: dict[str, Any]) -> Table:
    """Return the environment ``table:ID`` with its transitions; it is made once to read them."""
    return read_once(name, settings, PREFIX, _read)


def _read(env: gym.Env, common: Common) -> Table:
    name = f"{PREFIX}{common['id']}"
    states, actions = _sizes(name, env)
    rows = _rows(name, env, states, actions)
    starts = _start_law(name, env, states)
    limit = common["limit"] or LONGEST_EPISODE
    ends = _check_ends(name, rows, starts)
    _check_played(name, env, rows, starts, limit)
    arrays = _arrays(rows, starts, ends, limit)
    return Table(num_actions=actions, numbers=states, arrays=arrays, **common)


def _wrong(name: str, rule: str, got: object) -> ValueError:
    """Return the error for an environment that tabular agents can't be trained in."""
    known = name.removeprefix(PREFIX)
    return ValueError(
        f"{rule}; {name} has {got}: train a deep agent on gym:{known:.100}, where numbered states "
        "are one-hot"
    )


def _sizes(name: str, env: gym.Env) -> tuple[int, int]:
    """Return the numbers of states and of actions."""
    layer = env
    while isinstance(layer, gym.Wrapper):
        if type(layer) not in _NEUTRAL:
            rule = "a table describes an environment without wrappers that change it"
            raise _wrong(name, rule, f"the wrapper {type(layer).__name__}")
        layer = layer.env
    found = []
    for what, space in (("observations", env.observation_space), ("actions", env.action_space)):
        if not isinstance(space, spaces.Discrete) or space.start != 0:
            raise _wrong(name, f"tabular agents need {what} that are numbers from 0", space)
        found.append(int(space.n))
    return found[0], found[1]


def _rows(name: str, env: gym.Env, states: int, actions: int) -> Rows:
    """Return the outcomes with a probability above 0."""
    P: Any = getattr(env.unwrapped, "P", None)
    if P is None:
        raise _wrong(name, "tabular agents need a table of transitions, env.unwrapped.P", "none")
    try:
        listed = [
            [[_outcome(one, states) for one in P[s][a]] for a in range(actions)]
            for s in range(states)
        ]
    except (LookupError, TypeError, ValueError) as problem:
        rule = "P[s][a] lists outcomes (probability, next state, reward, terminated)"
        raise _wrong(name, rule, f"another form ({problem!r:.100})") from problem
    for s, a in np.ndindex(states, actions):
        total = math.fsum(one.probability for one in listed[s][a])
        if not abs(total - 1) <= _ROUNDING:
            rule = "the probabilities of the outcomes of an action have the sum 1"
            raise _wrong(name, rule, f"{total:g} in P[{s}][{a}]")
    return [[[one for one in row if one.probability > 0] for row in of] for of in listed]


def _outcome(given: Sequence[Any], states: int) -> Outcome:
    probability, after, reward, terminated = given
    found = Outcome(float(probability), int(after), float(reward), bool(terminated))
    good = found.probability >= 0 and 0 <= found.after < states and after == found.after
    if not good or not math.isfinite(found.reward):
        raise ValueError(f"the outcome {given!r:.100}")
    return found


def _start_law(name: str, env: gym.Env, states: int) -> np.ndarray:
    """Return the probability of each state at the start of an episode."""
    law = np.asarray(getattr(env.unwrapped, "initial_state_distrib", ()), float)
    if law.shape != (states,) or not (law >= 0).all() or not abs(law.sum() - 1) <= _ROUNDING:
        rule = "env.unwrapped.initial_state_distrib has the probability of each first state"
        raise _wrong(name, rule, f"numbers of shape {law.shape} with the sum {law.sum():g}")
    return law


def _check_ends(name: str, rows: Rows, starts: np.ndarray) -> np.ndarray:
    """Return a code of each state: 0 if no episode reaches it, 1 inside one, 2 at its end.

    Raise if a state may be at an end or inside an episode: its number would not tell which.
    """
    code = np.where(starts > 0, 1, 0)
    left = [*np.flatnonzero(starts > 0)]
    while left:
        s = left.pop()
        for one in (one for row in rows[s] for one in row):
            wanted = 2 if one.terminated else 1
            if code[one.after] not in (0, wanted):
                rule = "a tabular agent needs states that always end the episode or never do"
                got = f"state {one.after}, which ends some episodes and not others"
                raise _wrong(name, rule, got)
            if code[one.after] == 0:
                code[one.after] = wanted
                left += [one.after] * (wanted == 1)
    return code


def _arrays(rows: Rows, starts: np.ndarray, code: np.ndarray, limit: int) -> Finite:
    states, actions = len(rows), len(rows[0])
    most = max(len(row) for s in np.flatnonzero(code == 1) for row in rows[s])
    successors = np.empty((states, actions, most), np.int32)
    successors[:] = np.arange(states)[:, None, None]
    cumulative = np.ones(successors.shape)
    rewards = np.zeros(successors.shape)
    for s, a in ((s, a) for s in np.flatnonzero(code == 1) for a in range(actions)):
        row = rows[s][a]
        n = len(row)
        successors[s, a, :n] = [one.after for one in row]
        rewards[s, a, :n] = [one.reward for one in row]
        cumulative[s, a, : n - 1] = np.cumsum([one.probability for one in row])[:-1]
    first = np.flatnonzero(starts)
    chances = np.cumsum(starts[first])
    chances[-1] = 1.0
    return Finite(successors, cumulative, rewards, code == 2, first, chances, limit)


def _check_played(name: str, env: gym.Env, rows: Rows, starts: np.ndarray, limit: int) -> None:
    """Raise if a step of the environment is not in its table; actions of a state take turns."""
    rule = "an environment moves as its table P says"
    tried = np.zeros((len(rows), len(rows[0])), int)
    over, seed, state, steps = True, 0, 0, 0
    for _ in range(_PLAYED):
        if over:
            state = int(env.reset(seed=seed)[0])
            seed += 1
            steps = 0
            if not starts[state]:
                raise _wrong(
                    name, rule, f"an episode that starts in state {state}, of probability 0"
                )
        action = int(tried[state].argmin())
        tried[state, action] += 1
        after, reward, terminated, truncated, _ = env.step(action)
        steps += 1
        found = int(after), float(reward), bool(terminated)
        if found not in [one[1:] for one in rows[state][action]]:
            step = "(next state, reward, terminated)"
            raise _wrong(name, rule, f"{step} = {found}, which is not in P[{state}][{action}]")
        if truncated and steps < limit:
            got = f"an episode truncated after {steps}"
            raise _wrong(name, f"an episode is truncated after {limit} steps, its limit", got)
        state = found[0]
        over = terminated or truncated
