"""Training under a delay that nobody tells the agent.

1. The agent explores: it acts at random in the environment, whose delay it does not know, and sees
   neither ages nor executed actions. `identify_delay` reads its log, which doubles until two
   answers in a row agree.
2. The agent is trained under the law that it found, and never observes an age. Its queue is as long
   as the longest age of this law.
3. The policy is played under the true delay, which it is still not told.

In step 2 the agent goes on in the channel itself, and learns from what it can know of it. Under a
constant delay of m steps, each step executes the action that was chosen m steps before. So an agent
that found the true constant equals the agent that was told it, but for rounding. Agents that learn
from chosen actions, such as `augmented`, need no more than the length of the queue, under any law.
If the law that was found varies, agents that learn from executed actions infer the age of each step
(see `learn.inferred_ages`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from deadtime.delays import DelayProcess, as_delay, as_process
from deadtime.envs.families import family_of
from deadtime.identify import Identification, identify_delay
from deadtime.learn.evaluate import evaluate
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.result import Result
from deadtime.runs.specs import Spec, make_spec
from deadtime.runs.tabular_specs import check_seeds
from deadtime.runs.training import train_spec

if TYPE_CHECKING:
    import gymnasium as gym
    from jaxtyping import Float

    from deadtime.runtime.policy import Policy

LOG_STEPS = (250, 500, 1000, 2000, 4000, 8000, 16_000)
"""The lengths of the log at which it is read."""
SAME_LAW = 0.1
"""The largest distance of two laws of ages, in total variation, that count as one answer."""


MOST_OTHERS = 0.1
"""The largest share of steps with other ages that a log may leave open if a delay is constant."""


@dataclass(frozen=True)
class Found:
    """The delay that an agent found, and the answers on the way."""

    steps: int
    """The number of random steps that it took."""
    answer: Identification
    """The last answer, with the delay as `answer.process`."""
    tried: tuple[Identification, ...]
    """The answers at the lengths of `LOG_STEPS`, the last one included."""


@dataclass(frozen=True)
class Untold:
    """A training without knowledge of the delay; each seed has found a law of its own."""

    found: tuple[Found, ...]
    """What each seed found."""
    results: tuple[Result, ...]
    """The training of each seed in the true channel; its score is under the law that it found."""
    scores: Float[np.ndarray, " seeds"]
    """The mean greedy return of each seed under the true delay."""


class Blind:
    """A policy that is played under a delay it is not told: it keeps the queue of its training."""

    observed = "never"

    def __init__(self, policy: Policy):
        """Take a policy of a training in which ages were never observed."""
        self._policy = policy
        self._log: list[Any] = []

    def reset(self) -> None:
        """Start an episode."""
        self._log = []
        self._policy.reset()

    def act(self, observation: ArrayLike, pending_actions: np.ndarray) -> Any:
        """Return the action to choose; the pending actions are read at the first step only."""
        room = self._policy.delay
        if not self._log:
            before = np.zeros((room, *self._policy.action_shape), np.asarray(pending_actions).dtype)
            self._log = [*before, *pending_actions]
        action = self._policy.act(observation, np.array(self._log[len(self._log) - room :]))
        self._log.append(action)
        return action


def find_delay(
    env: str,
    delay: int | str | DelayProcess,
    seed: int = 0,
    *,
    max_delay: int = 20,
    env_kwargs: Mapping[str, Any] | None = None,
    **options: object,
) -> Found:
    """Find the delay of an environment from random actions; `delay` is the true one.

    Options are those of `train`; only the environment's own options have an effect here.
    """
    return _found(_told(env, "oblivious", delay, options, env_kwargs), seed, max_delay)


def train_untold(
    env: str,
    agent: str = "delayed",
    delay: int | str | DelayProcess = 0,
    seeds: int | Sequence[int] = 1,
    *,
    max_delay: int = 20,
    env_kwargs: Mapping[str, Any] | None = None,
    **options: object,
) -> Untold:
    """Train an agent that is not told the delay; `delay` is the true one.

    Each seed finds its own law from its own random actions, and goes on in the same channel. The
    other arguments are those of `train`, and `max_delay` is the longest delay that is considered.
    """
    told = _told(env, agent, delay, options, env_kwargs)
    chosen = check_seeds(seeds)
    found = tuple(_found(told, seed, max_delay) for seed in chosen)
    results = []
    for seed, one in zip(chosen, found, strict=True):
        assert one.answer.process is not None
        believed = as_delay(one.answer.process)
        spec = make_spec(env, agent, believed, {**options, "observed": "never"}, env_kwargs)
        assert isinstance(spec, DeepSpec)
        ages = one.answer.ages if spec.infers else None
        spec = replace(spec, hidden=as_process(delay), ages=ages)
        results.append(train_spec(spec, (seed,)))
    scores = [played(result, told, seed) for result, seed in zip(results, chosen, strict=True)]
    return Untold(found, tuple(results), np.array(scores))


def played(result: Result, told: Spec, seed: int) -> float:
    """Return the mean return of a seed's policy under the delay of the spec `told`."""
    blind = Blind(result.policy(seed))
    held_out = int(np.random.SeedSequence([seed, 0xB11D]).generate_state(1)[0])
    with closing(_environment(told, seed)) as env:
        returns = evaluate(blind, env, episodes=told.evaluation_episodes, seed=held_out)
    return float(returns.mean())


def _told(
    env: str,
    agent: str,
    delay: int | str | DelayProcess,
    options: Mapping[str, Any],
    env_kwargs: Mapping[str, Any] | None,
) -> Spec:
    """Return the run of an agent that is told the delay, or raise if its log can't show one."""
    seen = "cells"
    if family_of(env).loop != "tabular":
        told = make_spec(env, agent, as_delay(delay), {**options, "observed": "never"}, env_kwargs)
        if not getattr(told, "frames", False):
            return told
        seen = "frames"
    raise ValueError(
        f"a delay is found from observations that are vectors; {env} has {seen}: pass the delay "
        "to `deadtime.train`"
    )


def _environment(told: Spec, seed: int) -> gym.Env:
    """Return the environment under the true delay, which shows no ages."""
    return told.family.gymnasium_form(told.environment(seed), told.channel, Blind)


def _found(told: Spec, seed: int, max_delay: int) -> Found:
    """Return what a seed found, or raise if its log does not settle the delay."""
    tried: list[Identification] = []
    with closing(_environment(told, seed)) as env:
        for steps, (seen, chosen) in zip(LOG_STEPS, _logs(env, seed), strict=True):
            answer = identify_delay(seen, chosen, max_delay=max_delay)
            if tried and agree(tried[-1], answer):
                return Found(steps, answer, (*tried, answer))
            tried.append(answer)
    last = tried[-1]
    why = last.headline if not last.identifiable else f"the last two differ, {last.headline}"
    raise ValueError(
        f"two answers in a row agree once a log is long enough; after {LOG_STEPS[-1]:,} random "
        f"steps in {told.env} they do not ({why}): find the delay with `deadtime identify`, and "
        "pass it to `deadtime.train`"
    )


def _logs(env: gym.Env, seed: int) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Act at random; yield the observations and actions of all episodes at each of `LOG_STEPS`."""
    seen: list[list[Any]] = []
    chosen: list[list[Any]] = []
    env.action_space.seed(seed)
    ended = True
    for t in range(LOG_STEPS[-1]):
        if ended:
            observation, _ = env.reset(seed=None if seen else seed)
            seen.append([observation])
            chosen.append([])
        action = env.action_space.sample()
        observation, _, terminated, truncated, _ = env.step(action)
        seen[-1].append(observation)
        chosen[-1].append(action)
        ended = terminated or truncated
        if t + 1 in LOG_STEPS:
            yield [np.array(one) for one in seen], [np.array(one) for one in chosen]


def agree(first: Identification, second: Identification) -> bool:
    """Return whether two answers name one delay.

    A constant delay counts only if the second log excludes that many steps have another age. A
    delay that varies can look constant for long, if the log can't tell which other ages there are.
    """
    if not (first.identifiable and second.identifiable) or first.varies != second.varies:
        return False
    if not first.varies:
        sure = second.others is None or second.others <= MOST_OTHERS
        return first.process == second.process and sure
    laws = np.array([first.posterior, second.posterior])
    return bool(np.abs(laws[0] - laws[1]).sum() / 2 <= SAME_LAW)
