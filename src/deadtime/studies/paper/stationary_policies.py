"""The paper's stationarity table (App. C.4), exact values, and a guess at its third row.

The table gives the best return of stationary and of non-stationary Markov policies in the two-state
MDP, p = 0.8, γ = 0.5, horizon 10. No policy of any kind can exceed the closed form there, and the
third row does. Our guess is that each Markov policy was judged by a few sampled paths of its own,
and that the row gives the largest estimate. The paper says only that it searched all deterministic
policies by simulation. With 33 paths per policy, the guess fits its numbers to 0.04.
"""

from __future__ import annotations

from collections.abc import Iterable

import numba
import numpy as np

from deadtime.planning.examples import two_state, two_state_optimum
from deadtime.planning.policies import (
    best_markov_deterministic,
    best_queue_aware,
    best_stationary_deterministic,
)

P_FLIP = 0.8
GAMMA = 0.5
HORIZON = 10
PAPER = {
    "stationary (theoretical)": (2.0, 1.6, 1.36, 1.216, 1.129, 1.077),
    "stationary": (1.99, 1.59, 1.32, 1.22, 1.11, 1.02),
    "non-stationary Markov": (1.99, 1.82, 1.67, 1.59, 1.46, 1.38),
}


@numba.njit(cache=True)
def _largest_estimate(delay, decisions, paths, p, gamma, seed):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the largest mean return over all Markov policies, each on `paths` paths of its own."""
    np.random.seed(seed)  # numba's own generator
    best = -1.0
    for policy in range(4**decisions):
        total = 0.0
        for _ in range(paths):
            flips = 0
            state = 0
            discount = 1.0
            code = policy
            recent = np.zeros(delay + 1, np.int64)
            for t in range(decisions + delay):
                recent[t % (delay + 1)] = state
                if t >= delay:
                    seen = recent[(t - delay) % (delay + 1)]
                    rule = code % 4
                    code //= 4
                    if ((rule >> seen) & 1) == state:
                        total += discount
                    discount *= gamma
                flips = np.random.random() < p
                if flips:
                    state = 1 - state
        best = max(best, total / paths)
    return best


def sampled_row(
    paths: int, seed: int = 0, repeats: int = 3, delays: Iterable[int] = range(1, 6)
) -> list[float]:
    """Return the third row by our guess: 10 - m decisions, each policy on paths of its own."""
    return [
        float(
            np.mean(
                [
                    _largest_estimate(m, HORIZON - m, paths, P_FLIP, GAMMA, seed + 1000 * m + k)
                    for k in range(repeats)
                ]
            )
        )
        for m in delays
    ]


def exact_rows() -> dict[str, list[float]]:
    """Return exact values: the closed form, and the best return of each class of policies."""
    mdp = two_state(P_FLIP, GAMMA)
    delays = range(6)
    return {
        "closed form": [two_state_optimum(P_FLIP, GAMMA, m) for m in delays],
        "best stationary deterministic": [
            best_stationary_deterministic(mdp, m, 0, [0] * m).value for m in delays
        ],
        "best Markov deterministic, 10 - m decisions": [
            best_markov_deterministic(mdp, m, 0, [0] * m, HORIZON - m).value for m in delays
        ],
        "best over all policies": [best_queue_aware(mdp, m, 0, [0] * m).value for m in delays],
    }
