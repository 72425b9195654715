"""The answer of `deadtime plan` under a delay process: exact values by what the agent knows."""

from __future__ import annotations

from typing import Any

import numpy as np

from deadtime.cli.problems import Solving
from deadtime.delays import DelayProcess
from deadtime.planning.channel import Channel, channel_of, check_queue
from deadtime.planning.channel_solution import ProcessSolution
from deadtime.planning.mdp import MDP, check_index
from deadtime.planning.solvers import solve
from deadtime.planning.unobserved import bounds

_WRITTEN_OUT = 5000
"""With more states (channel, s, queue), no values without the present age are computed."""
_ENDED = ("iterations", "residual", "error_bound", "converged", "message")
_USUAL = "modified_policy_iteration"


def solved_process(
    mdp: MDP, process: DelayProcess, how: Solving, horizon: int | None
) -> dict[str, Any]:
    """Return the answer under `process` as a dictionary."""
    channel = channel_of(process)
    queue = tuple(how.queue) if how.queue is not None else (0,) * channel.longest
    queue = check_queue(mdp, channel, queue)
    check_index("state", how.start, mdp.states)
    method = how.method or _USUAL
    solution = solve(mdp, process, method, tol=how.tol, horizon=horizon)
    ages = {f"age {age}": float(p) for age, p in enumerate(process.age_law) if p > 0}
    answer: dict[str, Any] = {
        "gamma": mdp.gamma,
        "delay": str(process),
        "age_law": ages,
        "mean_age": process.mean_age,
        "horizon": horizon,
        "method": method,
        "start": how.start,
        "queue": list(queue),
        "value_age_seen_now": solution.value(how.start, queue),
    }
    answer |= _with_less(mdp, process, solution, how, queue)
    waiting = solve(mdp, channel.longest, _USUAL, tol=how.tol, horizon=horizon)
    answer["value_waiting_for_longest_age"] = waiting.value(how.start, queue)
    answer["action_by_age"] = _actions(solution, how.start, queue)
    answer["states"] = solution.states
    return answer | {name: getattr(solution, name) for name in _ENDED}


def _with_less(
    mdp: MDP,
    process: DelayProcess,
    solution: ProcessSolution,
    how: Solving,
    queue: tuple[int, ...],
) -> dict[str, float | None]:
    """Return the values for agents that see ages later or never.

    A value is None where there is none, or where the problem is too large.
    """
    channel = solution.channel
    later = None
    never = None
    if _size(mdp, channel) <= _WRITTEN_OUT:
        if channel.seen:
            seen = solve(
                mdp, process, _USUAL, observed="hindsight", tol=how.tol, horizon=solution.horizon
            )
            later = seen.value(how.start, queue)
        if solution.horizon is None:
            never = bounds(mdp, process, how.start, queue, tol=how.tol).lower
    return {"value_age_seen_later": later, "value_age_never_seen_at_least": never}


def _size(mdp: MDP, channel: Channel) -> float:
    """Return the number of (channel state, state, last K actions)."""
    return channel.states * mdp.states * float(mdp.actions) ** channel.longest


def _actions(solution: ProcessSolution, start: int, queue: tuple[int, ...]) -> dict[str, int]:
    """Return the first action for each channel state that an episode can begin in.

    Channel states are named by their age, or by index and age where two have the same age.
    """
    if solution.horizon == 0:
        return {}
    channel = solution.channel
    firsts = np.flatnonzero(channel.start).tolist()
    ages = channel.ages[firsts].tolist()
    alone = len(set(ages)) == len(ages)
    return {
        f"age {age}" if alone else f"channel state {c} (age {age})": solution.action(
            start, queue, c
        )
        for c, age in zip(firsts, ages, strict=True)
    }
