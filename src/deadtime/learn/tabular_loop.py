"""Training tabular agents: one compiled loop a seed, seeds side by side on threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import pairwise
from threading import Event
from time import perf_counter

import numpy as np

from deadtime._support.machine import cores, free_memory
from deadtime.envs.finite import Finite
from deadtime.learn.counts import estimate
from deadtime.learn.outcome import Outcome
from deadtime.learn.run_spec import TabularRun
from deadtime.learn.tabular_q import Agent, new_agent, run_episodes, to_arrays
from deadtime.learn.views import VIEWS
from deadtime.planning.solvers import solve

_BLOCKS, _LAST = 100, 20
Progress = Callable[[int], None]


def run_seeds(
    spec: TabularRun, seeds: tuple[int, ...], progress: Progress, keep_policies: bool = True, stopped: Event | None = None
) -> Iterator[Outcome]:
    """Train seeds, and yield the outcome of each as it is done; `progress` hears of every episode.

    When `stopped` is set, seeds that are not done give none.
    """
    stop = Event()
    with ThreadPoolExecutor(check_workers(spec, len(seeds), keep_policies)) as pool:
        futures = [pool.submit(_run_seed, spec, seed, progress, stop, keep_policies) for seed in seeds]
        try:
            left = {*futures}
            while left:
                done, left = wait(left, 0.2, FIRST_COMPLETED)
                if stopped is not None and stopped.is_set():
                    stop.set()
                for outcome in (future.result() for future in done):
                    if outcome is not None:
                        yield outcome
        finally:
            stop.set()
            for future in futures:
                future.cancel()


def check_workers(spec: TabularRun, seeds: int, keep_policies: bool) -> int:
    """As many threads as there are cores and memory for; refuses what would not fit even one at a time."""
    kept, threads, (pairs, size) = seeds if keep_policies else 1, min(seeds, cores()), table_of(spec)
    growing, held, free = 3 * size, size * kept, 0.9 * free_memory()
    if growing + held > free:
        raise MemoryError(
            f"{spec.agent} may visit {pairs:.3g} pairs of state and queue a seed, {(growing + held) / 2**30:.3g} GiB in all; "
            f"{free / 2**30:.3g} GiB are free: train fewer episodes or fewer seeds at once"
        )
    return max(1, min(threads, int((free - held) / growing))) if growing else threads


def table_of(spec: TabularRun) -> tuple[float, float]:
    """Pairs of state and queue that a seed may visit, and the bytes of its table; none where no queue is seen."""
    if VIEWS[spec.agent].sees != "queue":
        return 0.0, 0.0
    env = spec.environment(0).finite()
    states, actions, _ = env.successors.shape
    pairs = min(spec.episodes * env.max_steps, states * float(actions) ** min(spec.delay, 500))
    return pairs, pairs * 8 * (2 + -(-spec.delay // 32) + actions)


def _run_seed(spec: TabularRun, seed: int, progress: Progress, stop: Event, keep_policy: bool) -> Outcome | None:
    begin, view = perf_counter(), VIEWS[spec.agent]
    env = spec.environment(seed).finite()
    agent = new_agent(env, view, spec.delay)
    settings = replace(spec.learner, epsilon=1.0) if view.solves_offline else spec.learner
    streams, held_out = (np.random.SeedSequence(seed, spawn_key=(use,)).generate_state(2, np.uint64) for use in range(2))
    returns, reached = np.empty(spec.episodes, np.float32), False
    chunk, n = 1 if spec.until_return is not None else max(1, spec.episodes // _BLOCKS), 0
    while n < spec.episodes and not reached:
        if stop.is_set():
            return None
        agent, new = run_episodes(env, agent, settings, streams, min(chunk, spec.episodes - n), learn=True)
        returns[n : n + len(new)] = new
        n += len(new)
        progress(len(new))
        if spec.until_return is not None and n >= _LAST:
            reached = bool(returns[n - _LAST : n].mean(dtype=float) >= spec.until_return)
    if view.solves_offline:
        agent.table.q[:] = _solved(agent, env, settings.discount)
    _, scores = run_episodes(env, agent, settings, held_out, spec.evaluation_episodes, learn=False)
    return _outcome(
        spec,
        seed,
        returns[:n],
        reached,
        float(scores.mean(dtype=float)),
        perf_counter() - begin,
        agent if keep_policy else None,
    )


def _solved(agent: Agent, env: Finite, discount: float) -> np.ndarray:
    """Q of the MDP that the counts describe, solved exactly."""
    mdp = estimate(agent.model, discount)
    solution = solve(mdp, 0, horizon=env.max_steps if discount == 1 else None)
    if not solution.converged:
        raise ValueError(f"mbs solves its model exactly; it was {solution.message} (discount {discount}): lower the discount")
    values = solution.values.reshape(-1)
    return mdp.r + discount * (mdp.P @ values).reshape(mdp.r.shape)


def _outcome(
    spec: TabularRun, seed: int, returns: np.ndarray, reached: bool, score: float, seconds: float, agent: Agent | None
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
        curve=np.array([part.mean(dtype=float) if len(part) else np.nan for part in parts], np.float32),
        policy={} if agent is None else to_arrays(agent),
    )
