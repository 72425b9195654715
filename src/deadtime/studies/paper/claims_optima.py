"""Checks of the paper's statements about optima and policy iteration (Sec. 3 to 6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

import numpy as np

from deadtime.planning.augmented import Operator
from deadtime.planning.delayed_value import at_queue, exact_values
from deadtime.planning.examples import (
    alternating,
    chain,
    random_mdp,
    stretched,
    two_state,
    two_state_optimum,
)
from deadtime.planning.iteration import evaluate
from deadtime.planning.mdp import MDP
from deadtime.planning.policies import (
    best_markov_deterministic,
    best_queue_aware,
    best_stationary_deterministic,
)
from deadtime.planning.process import stationary
from deadtime.planning.solvers import solve
from deadtime.studies.paper.stationary_policies import PAPER, exact_rows, sampled_row


class Verdict(StrEnum):
    """The outcome of a check.

    A statement holds if every case agrees with it, and fails as written if one contradicts it. It
    is unproven if its proof does not show it, although no case contradicts it.
    """

    HOLDS = "holds"
    FAILS = "fails as written"
    UNPROVEN = "unproven"


@dataclass(frozen=True)
class Finding:
    """The number of cases that a check looked at, its verdict, and the numbers behind it."""

    cases: int
    verdict: Verdict
    detail: str


def judged(held: bool | np.bool_) -> Verdict:
    """Return the verdict on a statement, from whether it held in all cases."""
    return Verdict.HOLDS if held else Verdict.FAILS


def random_problems(
    count: int, seed: int, largest: int = 4
) -> Iterator[tuple[MDP, int, np.random.Generator]]:
    """Yield random problems: an MDP, a delay of 1 … 3 steps, and the random generator.

    The MDPs have 2 … `largest` states and 2 or 3 actions. Half of them are sparse.
    """
    rng = np.random.default_rng(seed)
    for k in range(count):
        states = int(rng.integers(2, largest + 1))
        actions = int(rng.integers(2, 4))
        delay = int(rng.integers(1, 4))
        yield (
            random_mdp(rng, states, actions, float(rng.uniform(0.3, 0.95)), None if k % 2 else 2),
            delay,
            rng,
        )


def two_state_value() -> Finding:
    """Check Prop. 3.1 for stationary policies and for all policies."""
    worst = 0.0
    cases = 0
    for p, gamma, m in product((0.5, 0.6, 0.8, 0.95, 1.0), (0.5, 0.9), range(6)):
        mdp = two_state(p, gamma)
        closed = two_state_optimum(p, gamma, m)
        found = (
            best_stationary_deterministic(mdp, m, 0, [0] * m).value,
            best_queue_aware(mdp, m, 0, [0] * m).value,
        )
        worst = max(worst, *(abs(value - closed) for value in found))
        cases += 1
    return Finding(
        cases,
        judged(worst < 1e-8),
        f"best stationary and best of all policies equal the closed form to {worst:.1g}",
    )


def two_state_monotone() -> Finding:
    """Check Rmk. 3.1 on a grid of p and m."""
    grid = np.array(
        [
            [best_queue_aware(two_state(p, 0.5), m, 0, [0] * m).value for m in range(9)]
            for p in np.linspace(0.5, 1, 11)
        ]
    )
    falls = (np.diff(grid, axis=1) < 1e-9).all()
    rises = (np.diff(grid, axis=0) > -1e-9).all()
    ends = (
        abs(grid[0, 1:] - 1).max() < 1e-8
        and abs(grid[-1] - 2).max() < 1e-8
        and abs(grid[:, 0] - 2).max() < 1e-8
    )
    return Finding(
        grid.size,
        judged(falls and rises and ends),
        "falls with m, rises with p; ½/(1-γ) at p = ½, 1/(1-γ) at p = 1 or m = 0",
    )


def augmentation_optimal() -> Finding:
    """Compare the best of all history-dependent decisions of 4 steps with the augmented optimum."""
    worst = 0.0
    problems = list(random_problems(100, 1, largest=2))
    for mdp, delay, rng in problems:
        delay = min(delay, 2)  # noqa: PLW2901
        horizon = 4
        queue = tuple(int(a) for a in rng.integers(mdp.actions, size=delay))

        def best(
            history: tuple[int, ...], pending: tuple[int, ...], left: int, mdp: MDP = mdp
        ) -> float:
            if left == 0:
                return 0.0
            outcomes = []
            for action in range(mdp.actions):
                now, *rest = (*pending, action)
                row = mdp.dense[history[-1], now]
                ahead = sum(
                    row[s] * best((*history, now, s), tuple(rest), left - 1)
                    for s in range(mdp.states)
                )
                outcomes.append(float(mdp.r[history[-1], now] + mdp.gamma * ahead))
            return max(outcomes)

        worst = max(
            worst,
            abs(best((0,), queue, horizon) - solve(mdp, delay, horizon=horizon).value(0, queue)),
        )
    return Finding(
        len(problems),
        judged(worst < 1e-10),
        f"augmented optimum equals the best over all histories to {worst:.1g}",
    )


def evaluation_and_improvement() -> Finding:
    """Check evaluation and improvement of random policies, and evaluation of optimal ones."""
    worst = 0.0
    cases = 0
    better = True
    for mdp, delay, rng in random_problems(200, 2):
        operator = Operator(mdp, delay)
        policy = rng.integers(mdp.actions, size=operator.shape)
        v = evaluate(operator, policy)
        after = np.empty(operator.shape)
        greedy = np.empty(operator.shape, np.uint8)
        operator.follow(v, after, policy)
        worst = max(worst, float(np.abs(after - v).max()))
        operator.improve(v, after, greedy)
        better &= bool((evaluate(operator, greedy) >= v - 1e-9).all())
        best = solve(mdp, delay, "policy_iteration")
        preserving = evaluate(operator, best.policy.reshape(operator.shape))
        worst = max(worst, float(np.abs(preserving - best.values.reshape(operator.shape)).max()))
        cases += 1
    return Finding(
        cases,
        judged(worst < 1e-8 and better),
        f"v = T^π v and v* = v^π* to {worst:.1g}; a greedy policy is never worse",
    )


def _changes(mdp: MDP, delay: int) -> int:
    """Return how often policy iteration changes the policy."""
    return solve(mdp, delay, "policy_iteration").iterations - 1


def howard() -> Finding:
    """Count policy changes on chains of 2 to 40 states."""
    counts = {states: _changes(chain(states), 0) for states in range(2, 41)}
    return Finding(
        len(counts),
        judged(all(n == states - 1 for states, n in counts.items())),
        "S - 1 policy changes for S = 2 … 40",
    )


def lower_bound() -> Finding:
    """Count policy changes on the proof's chain, augmented, and on the same chain stretched.

    The proof needs |S||A|^m - 1 changes on the augmented chain, as on a chain of that many states.
    The stretched chain shows what remains of the claim: each lower bound for Howard's policy
    iteration on |S| states holds with delay m on |S|(m+1) states.
    """
    sizes = (6, 12, 24)
    delays = range(4)
    plain = {S: [_changes(chain(S), m) for m in delays] for S in sizes}
    carried = {S: [_changes(stretched(chain(S), m), m) for m in delays] for S in sizes}
    problems = list(random_problems(100, 3))
    shown = all(plain[S][m] >= S * 2**m - 1 for S in sizes for m in delays)
    fewer = all(plain[S][m] < S - 1 for S in sizes for m in delays if m > 0)
    carries = all(carried[S][m] == S - 1 for S in sizes for m in delays)
    carries &= all(_changes(stretched(mdp, m), m) == _changes(mdp, 0) for mdp, m, _ in problems)
    verdict = Verdict.UNPROVEN if fewer and carries else judged(shown)
    detail = f"the proof's chain with S = 12, augmented: {_listed(plain[12], 0)} changes "
    detail += "at m = 0 … 3, "
    detail += f"where the proof needs S·A^m - 1 = {_listed((12 * 2**m - 1 for m in delays), 0)}; "
    detail += f"with m dummy states before each state: {_listed(carried[12], 0)}, "
    detail += f"and {_listed(carried[24], 0)} for S = 24, "
    detail += "as many as Howard's iteration without delay, also on 100 random MDPs; "
    detail += "a bound exponential in m is neither shown nor refuted"
    return Finding(2 * len(sizes) * len(delays) + len(problems), verdict, detail)


def upper_bound() -> Finding:
    """Compare the bound with the number of policy changes."""
    closest = 0.0
    cases = 0
    for mdp, delay, _ in (
        *random_problems(300, 4),
        *((chain(s), m, None) for s in (4, 8) for m in (1, 2, 3)),
    ):
        size = mdp.states * mdp.actions**delay * (mdp.actions - 1)
        bound = size * np.ceil(np.log(1 / (1 - mdp.gamma)) / np.log(1 / mdp.gamma))
        closest = max(closest, _changes(mdp, delay) / bound)
        cases += 1
    return Finding(
        cases, judged(closest <= 1), f"the count never exceeded {closest:.2g} of the bound"
    )


def stationary_suboptimal() -> Finding:
    """Check stationary rules on a grid.

    Between its points the value moves by at most spacing/2 / (1-γ)².
    """
    gamma = 0.9
    spacing = 0.02
    mdp = alternating(gamma)
    grid = np.arange(0, 1 + spacing / 2, spacing)
    values = [
        at_queue(mdp, 1, exact_values(mdp, stationary(mdp, [[1 - x, x], [1 - y, y]]), 1), 0, [0])
        for x in grid
        for y in grid
    ]
    bound = max(values) + spacing / 2 / (1 - gamma) ** 2
    best = best_markov_deterministic(mdp, 1, 0, [0], 12)
    detail = "alternating MDP, γ = 0.9: no stationary policy earns above "
    detail += f"{np.ceil(100 * bound) / 100:.4g} "
    detail += f"(best found {max(values):.4g}), "
    detail += f"a Markov one earns {best.value:.4g} in 12 decisions and the optimum, 10, in all; "
    detail += "the paper's own example does not show it: there a stationary policy is optimal"
    return Finding(len(values), judged(bound < best.value), detail)


def _listed(numbers: Iterable[float], digits: int) -> str:
    """Return numbers as text with `digits` decimals, separated by commas."""
    return ", ".join(f"{number:.{digits}f}" for number in numbers)


def stationarity_table() -> Finding:
    """Compare the third row with the best over all policies, and with a guess at its origin."""
    rows = exact_rows()
    best = rows["best over all policies"]
    printed = PAPER["non-stationary Markov"]
    sampled = sampled_row(33, repeats=5)
    detail = f"best over all policies {_listed(best, 3)}; "
    detail += f"the table's third row {_listed(printed, 2)}; our guess at its origin, "
    detail += "the largest of all policies' estimates from 33 paths each, "
    detail += f"m = 1 … 5: {_listed(sampled, 2)}"
    possible = all(p <= b + 0.01 for p, b in zip(printed, best, strict=True))
    return Finding(6, judged(possible), detail)


def most_likely() -> Finding:
    """Check the rule that acts on the most likely state, and one that draws a state by its law."""
    cases = 0
    best = True
    for p, m in product((0.55, 0.8, 0.95), range(5)):
        mdp = two_state(p, 0.5)
        ahead = np.linalg.matrix_power(mdp.dense[:, 0], m)
        likely = at_queue(
            mdp, m, exact_values(mdp, stationary(mdp, ahead.argmax(axis=1)), m), 0, [0] * m
        )
        weighing = at_queue(mdp, m, exact_values(mdp, stationary(mdp, ahead), m), 0, [0] * m)
        best &= abs(likely - two_state_optimum(p, 0.5, m)) < 1e-9 and (
            weighing < likely - 1e-12 or m == 0
        )
        cases += 1
    return Finding(
        cases,
        judged(best),
        "acting on the most likely state is optimal; choosing by the states' probabilities earns "
        "less",
    )
