"""Each claim of the paper as a numerical check: `deadtime verify`.

A check returns how many cases it looked at, whether the statement held in all of them, and what it found. `expected` is
what the arithmetic has said so far, so that a change in either the code or the arithmetic is noticed.
Which statement means what, and why some fail as written, is reasoned out in docs/claims.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deadtime.planning import claims_optima as optima
from deadtime.planning import claims_process as process
from deadtime.planning.claims_optima import Finding


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, where it stands, and its check."""

    name: str
    where: str
    statement: str
    expected: bool
    check: Callable[[], Finding]


CLAIMS = (
    Claim(
        "two-state optimum", "Prop. 3.1", "The best stationary return is (1+(2p-1)^m) / (2(1-γ))", True, optima.two_state_value
    ),
    Claim(
        "two-state monotone", "Rmk. 3.1", "It falls with the delay and rises with certainty", True, optima.two_state_monotone
    ),
    Claim(
        "augmentation", "Sec. 4", "The augmented optimum is the optimum over all policies", True, optima.augmentation_optimal
    ),
    Claim("evaluation", "App. B.3", "mA-PI's evaluation and improvement", True, optima.evaluation_and_improvement),
    Claim("Howard's chain", "App. B.4", "Howard's PI needs |S| - 1 changes on the chain", True, optima.howard),
    Claim("mA-PI lower bound", "Thm. 4.1", "mA-PI needs Ω(|S||A|^m) iterations, as the chain shows", False, optima.lower_bound),
    Claim(
        "mA-PI upper bound", "Thm. 4.2", "mA-PI needs at most |S||A|^m(|A|-1)⌈log(1/(1-γ))/log(1/γ)⌉", True, optima.upper_bound
    ),
    Claim("path probabilities", "Prop. 5.1", "The probability of a path", True, process.paths),
    Claim("not Markov", "App. C.2", "Under delay even a stationary policy makes no Markov chain", True, process.not_markov),
    Claim("independence", "Lem. C.1", "s_{t+1} does not depend on a_{t+1}, given s_t and a_t", True, process.independence),
    Claim("equal laws", "Thm. 5.1", "Some Markov policy has the same laws of (s_{t-m}, a_t)", False, process.equal_laws),
    Claim("Markov optimal", "Sec. 5", "Markov policies attain the optimum over all policies", False, process.markov_optimal),
    Claim("deterministic", "Thm. 5.2", "Among Markov policies, deterministic ones suffice", True, process.deterministic_markov),
    Claim(
        "stationary", "Prop. 5.2", "In some problem every stationary policy is sub-optimal", True, optima.stationary_suboptimal
    ),
    Claim("stationarity table", "App. C.4", "The non-stationary row gives expected returns", False, optima.stationarity_table),
    Claim(
        "delayed recursion", "Thm. C.1", "The m-step recursion of the delayed value", False, lambda: process.recursion(False)
    ),
    Claim("periodic recursion", "Cor. C.1", "The same for m-periodic policies", False, lambda: process.recursion(True)),
    Claim("history", "App. D.2", "Past states do not help beyond the present one", False, process.history),
    Claim(
        "most likely", "Sec. 6", "In the two-state MDP the most likely state is the best prediction", True, optima.most_likely
    ),
)
