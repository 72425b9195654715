"""Each claim of the paper as a numerical check: `deadtime verify`.

A check returns how many cases it looked at, its verdict, and what it found. `Claim.expected` is the
verdict that docs/claims.md reports and explains, so that a change in code or arithmetic is noticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from deadtime.studies.paper import claims_optima as optima
from deadtime.studies.paper import claims_process as process
from deadtime.studies.paper.claims_optima import Finding, Verdict

HOLDS, FAILS, UNPROVEN = Verdict


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, where it stands, and its check."""

    name: str
    where: str
    statement: str
    expected: Verdict
    check: Callable[[], Finding]


CLAIMS = (
    Claim(
        "two-state optimum",
        "Prop. 3.1",
        "The best stationary return is (1+(2p-1)^m) / (2(1-γ))",
        HOLDS,
        optima.two_state_value,
    ),
    Claim(
        "two-state monotone",
        "Rmk. 3.1",
        "The two-state optimum falls with the delay and rises with certainty",
        HOLDS,
        optima.two_state_monotone,
    ),
    Claim(
        "augmentation",
        "Sec. 4",
        "The augmented optimum is the optimum over all policies",
        HOLDS,
        optima.augmentation_optimal,
    ),
    Claim(
        "evaluation",
        "App. B.3",
        "mA-PI evaluates a policy exactly and never makes it worse",
        HOLDS,
        optima.evaluation_and_improvement,
    ),
    Claim(
        "Howard's chain",
        "App. B.4",
        "Howard's PI needs |S| - 1 changes on the chain",
        HOLDS,
        optima.howard,
    ),
    Claim(
        "mA-PI lower bound",
        "Thm. 4.1",
        "mA-PI needs Ω(|S||A|^m) iterations to converge",
        UNPROVEN,
        optima.lower_bound,
    ),
    Claim(
        "mA-PI upper bound",
        "Thm. 4.2",
        "mA-PI needs at most |S||A|^m(|A|-1)⌈log(1/(1-γ))/log(1/γ)⌉",
        HOLDS,
        optima.upper_bound,
    ),
    Claim(
        "path probabilities",
        "Prop. 5.1",
        "The probability of a path is the product of its steps' probabilities",
        HOLDS,
        process.paths,
    ),
    Claim(
        "not Markov",
        "App. C.2",
        "Under delay even a stationary policy makes no Markov chain",
        HOLDS,
        process.not_markov,
    ),
    Claim(
        "independence",
        "Lem. C.1",
        "s_{t+1} does not depend on a_{t+1}, given s_t and a_t",
        HOLDS,
        process.independence,
    ),
    Claim(
        "equal laws",
        "Thm. 5.1",
        "Some Markov policy has the same laws of (s_{t-m}, a_t)",
        FAILS,
        process.equal_laws,
    ),
    Claim(
        "Markov optimal",
        "Sec. 5",
        "Markov policies attain the optimum over all policies",
        FAILS,
        process.markov_optimal,
    ),
    Claim(
        "deterministic",
        "Thm. 5.2",
        "Among Markov policies, deterministic ones suffice",
        HOLDS,
        process.deterministic_markov,
    ),
    Claim(
        "stationary",
        "Prop. 5.2",
        "In some problem every stationary policy is sub-optimal",
        HOLDS,
        optima.stationary_suboptimal,
    ),
    Claim(
        "stationarity table",
        "App. C.4",
        "The non-stationary row gives expected returns",
        FAILS,
        optima.stationarity_table,
    ),
    Claim(
        "delayed recursion",
        "Thm. C.1",
        "The delayed value obeys the paper's m-step recursion",
        FAILS,
        lambda: process.recursion(False),
    ),
    Claim(
        "periodic recursion",
        "Cor. C.1",
        "The same recursion holds for m-periodic policies",
        FAILS,
        lambda: process.recursion(True),
    ),
    Claim(
        "history",
        "App. D.2",
        "Past states do not help beyond the present one",
        FAILS,
        process.history,
    ),
    Claim(
        "most likely",
        "Sec. 6",
        "In the two-state MDP the most likely state is the best prediction",
        HOLDS,
        optima.most_likely,
    ),
)


def tally(verdicts: Iterable[Verdict]) -> str:
    """Return the number of each verdict in words: "12 hold, 6 fail as written, 1 is unproven"."""
    counts = Counter(verdicts)
    words = {
        HOLDS: ("holds", "hold"),
        FAILS: ("fails as written", "fail as written"),
        UNPROVEN: ("is unproven", "are unproven"),
    }
    return ", ".join(f"{counts[v]} {words[v][counts[v] > 1]}" for v in Verdict if counts[v])
