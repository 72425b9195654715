"""Ceilings: the largest return of any agent, exact over an episode and averaged over warm-ups."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deadtime._support import files
from deadtime._support.files import whole
from deadtime.delays import Delay, DelayProcess
from deadtime.envs.families import family_of
from deadtime.envs.finite import FiniteEnvironment
from deadtime.planning.augmented import Operator, check_memory
from deadtime.planning.beliefs import BeliefSolution
from deadtime.planning.channel import channel_of, check_channel_memory
from deadtime.planning.channel_operator import ChannelOperator
from deadtime.planning.mdp import MDP
from deadtime.planning.solvers import solve
from deadtime.runs.tabular_specs import TabularSpec

if TYPE_CHECKING:
    from jaxtyping import Float

_FILE = "ceilings.json"
Kept = dict[str, dict[str, list[Any]]]
"""Optima and the delays at which they were solved, by spec and seed."""
LARGEST = 6
"""The largest delay at which noisy dynamics are solved; it bounds the optima of longer delays."""


class Ceiling(NamedTuple):
    """The optimal return under a delay, or an upper bound for it."""

    value: float
    delay: int
    """The delay that was solved; of a delay that varies, the longest age."""
    exact: bool
    """Whether the value is the optimum under the delay that was asked for."""


def ceiling(environment: FiniteEnvironment, delay: Delay, largest: int = LARGEST) -> Ceiling:
    """Return a finite environment's optimum under a delay, or, as a bound, under a shorter one.

    A shorter delay can only help. Its agent can imitate that of a longer delay: it decides earlier
    than it must, and draws the warm-up's random actions itself. In the same way it can draw the
    ages of a delay that varies, if none is shorter. Under a delay that varies, the optimum is that
    of an agent that sees the channel's state before it chooses. It is exact if the ages tell that
    state.
    """
    finite = environment.finite()
    P, r = environment.model()
    mdp = MDP(P, r, gamma=1.0)
    starts = finite.start_law()
    if isinstance(delay, DelayProcess):
        if delay.longest > largest:
            shortest = int(np.flatnonzero(delay.age_law)[0])
            bound = ceiling(environment, min(shortest, largest), largest)
            return bound._replace(exact=False)
        value, seen = _under_process(mdp, delay, starts, finite.max_steps)
        return Ceiling(value, delay.longest, seen)
    with suppress(ValueError):  # too many distinct predictions
        solution = solve(
            mdp, delay, "beliefs", horizon=finite.max_steps, max_classes=2 * mdp.states
        )
        return Ceiling(_by_beliefs(mdp, solution, starts), delay, True)
    solved = min(delay, largest)
    value = _by_sweeps(mdp, solved, starts, finite.max_steps)
    return Ceiling(value, solved, solved == delay)


def _by_beliefs(mdp: MDP, solution: BeliefSolution, starts: Float[np.ndarray, " S"]) -> float:
    classes = starts
    state = starts
    earned = 0.0
    for step in solution.beliefs.extend:
        earned += float(state @ mdp.r.mean(axis=1))
        state = _moved(mdp, state)
        after = np.zeros(step.max() + 1)
        np.add.at(after, step, classes[:, None] / mdp.actions)
        classes = after
    return earned + float(classes @ solution.solution.values)


def _moved(mdp: MDP, law: Float[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
    """Return the law of the state after one uniformly random action."""
    return np.repeat(law / mdp.actions, mdp.actions) @ mdp.P


def _by_sweeps(mdp: MDP, delay: int, starts: Float[np.ndarray, " S"], horizon: int) -> float:
    """Return the optimum of a constant delay."""
    check_memory(mdp, delay, 24)
    operator = Operator(mdp, delay)
    return _at_start(_swept(operator, horizon), starts)


def _at_start(values: np.ndarray, starts: Float[np.ndarray, " S"]) -> float:
    """Return the mean value of the first state and a warm-up drawn uniformly."""
    return sum(float(starts[s]) * float(values[s].mean()) for s in np.flatnonzero(starts))


def _under_process(
    mdp: MDP, process: DelayProcess, starts: Float[np.ndarray, " S"], horizon: int
) -> tuple[float, bool]:
    """Return the optimum of an agent that sees the channel, and whether the ages tell its state."""
    channel = channel_of(process)
    check_channel_memory(mdp, channel, 24, "the problem under this delay")
    operator = ChannelOperator(mdp, channel)
    values = operator.split(_swept(operator, horizon))
    means = [_at_start(part, starts) for part in values]
    return float(channel.start @ means), channel.seen


def _swept(operator: Operator | ChannelOperator, horizon: int) -> np.ndarray:
    """Solve backwards through the steps, until further sweeps change less than 1e-9 in all."""
    v = np.zeros(operator.shape)
    after = np.empty(operator.shape)
    policy = np.zeros(operator.shape, operator.policy_type)
    for step in range(horizon):
        operator.improve(v, after, policy, tie=0.0)
        v, after = after, v
        if float(np.abs(v - after).max()) * (horizon - step) < 1e-9:
            break
    return v


def mean_ceiling(
    root: Path, spec: TabularSpec, seeds: Sequence[int], largest: int = LARGEST
) -> Ceiling:
    """Return the mean ceiling over seeds; solved ones are kept in a file in `root`.

    It is exact only for an agent that sees each age before it chooses.
    """
    known = kept(root)
    version = family_of(spec.env).version
    given: list[Any] = [spec.env, spec.settings, spec.delay, largest, version]
    if spec.process is not None:
        given.append(spec.process.to_json())
    found = known.setdefault(json.dumps(given, sort_keys=True), {})
    missing = [seed for seed in seeds if str(seed) not in found]
    for seed in missing:
        value, solved, _ = ceiling(spec.environment(seed), spec.channel, largest)
        found[str(seed)] = [value, solved]
    if missing:
        keep(root, known)
    chosen = [found[str(seed)] for seed in seeds]
    solved = min(solved for _, solved in chosen)
    exact = solved == spec.delay
    if spec.process is not None and exact:
        exact = spec.observed == "now" and channel_of(spec.process).seen
    return Ceiling(float(np.mean([value for value, _ in chosen])), solved, exact)


def keep(root: Path, known: Kept) -> None:
    """Write optima to the file in `root`."""
    root.mkdir(parents=True, exist_ok=True)
    text = json.dumps(known | {"digest": _digest(known)}, indent=1, sort_keys=True)
    with whole(root / _FILE) as part:
        part.write_text(text + "\n", encoding="utf-8")


def kept(root: Path) -> Kept:
    """Return the optima in the file in `root`."""
    path = root / _FILE
    try:
        known = files.from_json(files.plain(path))
        good = known.pop("digest") == _digest(known)
        for value, delay in (one for found in known.values() for one in found.values()):
            good = good and math.isfinite(value) and type(delay) is int and delay >= 0
    except FileNotFoundError:
        return {}
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
        good = False
    if not good:
        raise ValueError(
            f"{path} keeps solved optima and can't be read: delete it, they are solved again"
        )
    return known


def _digest(known: Kept) -> str:
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
