"""Scores of runs whose environments are outside the compiled program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from threading import Event
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from deadtime.envs.pools import Played
from deadtime.learn.a2c import forget
from deadtime.learn.evaluate import evaluate, play
from deadtime.learn.evaluations import EPISODES
from deadtime.learn.host_programs import Pair, hosted, lanes_of, seen_of
from deadtime.learn.policies import policy_of
from deadtime.learn.program import Program, Setup

Scores = dict[int | None, list[float]]
"""The mean score of each run by delay; the key None stands for the run's own delay."""


def scores_under(
    program: Program, pairs: Sequence[Pair], setups: Setup, learner: PyTree, stop: Event
) -> Scores:
    """Return the scores of runs under their own delay and under the delays in their specs."""
    delays = {m for spec, _ in pairs for m in spec.evaluation_delays}
    if not program.stacked:
        return {
            m: _policy_scores(program, pairs, learner, m, None) for m in (None, *sorted(delays))
        }
    episodes = max(spec.evaluation_episodes for spec, _ in pairs)
    found: Scores = {}
    for delay in (None, *sorted(delays)):
        every = scores_of(program, pairs, setups, learner, episodes, stop, delay)
        rows = zip(every, pairs, strict=True)
        found[delay] = [float(row[: spec.evaluation_episodes].mean()) for row, (spec, _) in rows]
    return found


def present_scores(
    program: Program, pairs: Sequence[Pair], setups: Setup, learner: PyTree
) -> list[float]:
    """Return the mean score of each run on numbers for an evaluation during its training."""
    if not program.stacked:
        return _policy_scores(program, pairs, learner, None, EPISODES)
    return scores_of(program, pairs, setups, learner, EPISODES, Event()).mean(axis=1).tolist()


def _policy_scores(
    program: Program,
    pairs: Sequence[Pair],
    learner: PyTree,
    delay: int | None,
    episodes: int | None,
) -> list[float]:
    """Return the mean score of each run's policy on held-out episodes, by default its spec's.

    A run whose spec does not name a `delay` has NaN there.
    """
    learner = jax.tree.map(np.asarray, learner)
    found = []
    for spec, seed in pairs:
        if delay is not None and delay not in spec.evaluation_delays:
            found.append(math.nan)
            continue
        arrays = program.learner.policy_arrays(program, learner)
        under = spec.channel if delay is None else delay
        policy = policy_of(spec, seed, arrays).at_delay(under)
        held_out = int(np.random.SeedSequence([seed, 0xE7A1]).generate_state(1)[0])
        count = spec.evaluation_episodes if episodes is None else episodes
        with closing(spec.family.gymnasium_form(program.env, under, policy)) as env:
            found.append(float(evaluate(policy, env, episodes=count, seed=held_out).mean()))
    return found


def scores_of(
    program: Program,
    pairs: Sequence[Pair],
    setups: Setup,
    learner: PyTree,
    episodes: int,
    stop: Event,
    delay: int | None = None,
) -> np.ndarray:
    """Return the greedy returns of some episodes of each run; NaN where they were stopped."""
    if delay is not None:
        setups = setups._replace(delay=jnp.full(len(pairs), delay, jnp.int32))
    memory: Any = None
    learner_code = hosted(program)
    shape = () if program.env is None else program.action_shape

    def act(played: Played) -> np.ndarray:
        nonlocal memory
        if memory and played.lost.any():
            memory = forget(memory, played.lost.reshape(len(pairs), episodes, 1).copy())
        seen = seen_of(program, len(pairs), played)
        actions, memory = learner_code.decide(program, setups, learner, memory, seen)
        return np.asarray(actions).reshape(len(played.age), *shape)

    spec = pairs[0][0]
    longest = max(one.family.longest_episode(one.environment(seed)) for one, seed in pairs)
    with closing(spec.family.pool(lanes_of(pairs, episodes, 1, delay), spec.env)) as pool:
        returns = play(pool, act, stop.is_set, longest)
    return returns.reshape(len(pairs), episodes)
