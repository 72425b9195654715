"""Training of tabular agents: one compiled loop for each seed, with seeds on parallel threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import pairwise
from math import inf
from pathlib import Path
from threading import Event

import numpy as np

from deadtime._support.machine import cores, free_memory
from deadtime.envs.finite import Finite
from deadtime.learn.counts import estimate
from deadtime.learn.outcome import Outcome
from deadtime.learn.run_spec import TabularRun
from deadtime.learn.tabular_channel import unexpected
from deadtime.learn.tabular_q import Agent, new_agent, run_episodes, to_arrays
from deadtime.learn.trainer import Progress, train_groups
from deadtime.planning.solvers import solve
from deadtime.runtime.views import VIEWS

_BLOCKS = 100
"""The number of blocks of episodes; each block is a point of the curve."""
_PLAYED = 3
"""The random streams of episodes under other delays; 0 to 2 are training, evaluation and ties."""
_LAST = 20
"""The number of last episodes whose mean return is compared with `until_return`."""


def run_seeds(
    spec: TabularRun,
    seeds: tuple[int, ...],
    progress: Progress,
    keep_policies: bool = True,
    stopped: Event | None = None,
) -> Iterator[Outcome]:
    """Train seeds, and yield the outcome of each as it is done.

    `progress` is called with the number of new episodes. When `stopped` is set, unfinished seeds
    have no outcome.
    """
    workers = check_workers(spec, len(seeds), keep_policies)
    groups = [TabularGroup(spec, seed) for seed in seeds]
    found = train_groups(groups, workers, progress, keep_policies, stopped=stopped)
    return (outcome for _, outcome in found)


def check_workers(spec: TabularRun, seeds: int, keep_policies: bool) -> int:
    """Return the number of threads that cores and memory allow; raise if not even one fits."""
    pairs, size = table_of(spec)
    threads = min(seeds, cores())
    growing = 3 * size
    held = size * (seeds if keep_policies else 1)
    free = 0.9 * free_memory()
    if growing + held > free:
        raise MemoryError(
            f"{spec.agent} may visit {pairs:.3g} pairs of state and queue per seed, "
            f"{(growing + held) / 2**30:.3g} GiB in all; {free / 2**30:.3g} GiB are free: "
            "train fewer episodes or fewer seeds at once"
        )
    return max(1, min(threads, int((free - held) / growing))) if growing else threads


def table_of(spec: TabularRun) -> tuple[float, float]:
    """Return the largest number of pairs (state, queue) of a seed, and the bytes of its table.

    Both are 0 if the agent does not see the queue.
    """
    if VIEWS[spec.agent].sees != "queue":
        return 0.0, 0.0
    env = spec.environment(0).finite()
    states, actions, _ = env.successors.shape
    known = 1 if spec.process is None else spec.delay + 2  # what the agent may know of the age
    queues = float(actions) ** min(spec.delay, 500)
    pairs = min(spec.episodes * env.max_steps, states * known * queues)
    return pairs, pairs * 8 * (2 + -(-spec.delay // 32) + actions)


class TabularGroup:
    """One seed of a tabular spec, and its progress (see `trainer.Group`); it has no checkpoints."""

    name = ""
    write_every_seconds = inf

    def __init__(self, spec: TabularRun, seed: int):
        """Prepare the seed; `begin` starts it."""
        self.pairs = [(spec, seed)]
        self.length = spec.episodes
        self.done = 0

    def device(self) -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return nullcontext()

    def begin(self) -> None:
        """Make a new agent."""
        ((spec, seed),) = self.pairs
        view = VIEWS[spec.agent]
        self._env = spec.environment(seed).finite()
        self._agent = new_agent(self._env, view, spec.channel, spec.observed)
        self._offline = view.solves_offline
        self._settings = replace(spec.learner, epsilon=1.0) if self._offline else spec.learner
        self._streams, self._held_out = (_streams(seed, use) for use in range(2))
        self._returns = np.empty(0, np.float32)
        self._reached = False

    def advance(self) -> int:
        """Run a block of episodes, or one episode if `until_return` must be checked after each."""
        ((spec, _),) = self.pairs
        block = 1 if spec.until_return is not None else max(1, spec.episodes // _BLOCKS)
        count = min(block, spec.episodes - self.done)
        self._agent, new = run_episodes(
            self._env, self._agent, self._settings, self._streams, count, learn=True
        )
        self._returns = np.append(self._returns, new)
        self.done += count
        if spec.until_return is not None and self.done >= _LAST:
            last = self._returns[self.done - _LAST : self.done]
            self._reached = bool(last.mean(dtype=float) >= spec.until_return)
        if self._reached:
            self.length = self.done
        return count

    def resume(self, path: Path) -> float:
        """Raise: a seed has no checkpoints."""
        raise NotImplementedError

    def save(self, path: Path, seconds: float) -> None:
        """Write nothing."""

    def close(self) -> None:
        """Do nothing: everything is in this process."""

    def outcomes(
        self, seconds: float, keep_policies: bool, stop: Event
    ) -> list[tuple[TabularRun, Outcome]]:
        """Evaluate the agent; return its outcome."""
        ((spec, seed),) = self.pairs
        if self._offline:
            self._agent.table.q[:] = _solved(self._agent, self._env, self._settings.gamma)
        score = self._score(self._agent, self._held_out)
        others = [
            self._score(
                self._agent._replace(channel=unexpected(self._agent.channel, delay)),
                _streams(seed, _PLAYED, number),
            )
            for number, delay in enumerate(spec.wrong_delays)
        ]
        kept = self._agent if keep_policies else None
        outcome = _outcome(spec, seed, self._returns, self._reached, score, seconds, kept)
        return [(spec, replace(outcome, others=np.array(others, np.float32)))]

    def _score(self, agent: Agent, streams: np.ndarray) -> float:
        """Return an agent's mean greedy return on held-out episodes."""
        ((spec, _),) = self.pairs
        episodes = spec.evaluation_episodes
        _, scores = run_episodes(self._env, agent, self._settings, streams, episodes, learn=False)
        return float(scores.mean(dtype=float))


def _streams(seed: int, *use: int) -> np.ndarray:
    """Return the random streams of the environment, of exploration and of the ages."""
    return np.random.SeedSequence(seed, spawn_key=use).generate_state(3, np.uint64)


def _solved(agent: Agent, env: Finite, discount: float) -> np.ndarray:
    """Return the exact values Q of the MDP that the counts describe."""
    mdp = estimate(agent.model, discount)
    solution = solve(mdp, 0, horizon=env.max_steps if discount == 1 else None)
    if not solution.converged:
        raise ValueError(
            f"mbs solves its model exactly; the solver ended with {solution.message} "
            f"(gamma {discount}): pass a smaller gamma"
        )
    values = solution.values.reshape(-1)
    return mdp.r + discount * (mdp.P @ values).reshape(mdp.r.shape)


def _outcome(
    spec: TabularRun,
    seed: int,
    returns: np.ndarray,
    reached: bool,
    score: float,
    seconds: float,
    agent: Agent | None,
) -> Outcome:
    edges = np.linspace(0, spec.episodes, min(_BLOCKS, spec.episodes) + 1).astype(int)
    parts = [returns[low:high] for low, high in pairwise(edges)]
    last = returns[-max(len(returns) // 10, 1) :]
    return Outcome(
        seed=seed,
        score=score,
        training_score=float(last.mean(dtype=float)),
        episodes=len(returns),
        status="reached" if reached else "complete",
        seconds=seconds,
        points=edges[1:],
        curve=np.array(
            [part.mean(dtype=float) if len(part) else np.nan for part in parts], np.float32
        ),
        policy={} if agent is None else to_arrays(agent),
    )
