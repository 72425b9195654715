"""The outcome of a training, and the arrays of a policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Int, PyTree

    from deadtime.learn.run_spec import DeepRun

_POINTS = 100


def status_of(learner: PyTree) -> str:
    """Return how a run ended, from the state of its learner."""
    if learner.diverged_at >= 0:
        return f"diverged at step {learner.diverged_at}"
    return "complete" if learner.updates > 0 else "never updated"


@dataclass(frozen=True)
class Outcome:
    """The result of one seed's training."""

    seed: int
    score: float
    """Mean greedy return on held-out episodes."""
    training_score: float
    """Mean return of the last training episodes: the paper's score."""
    episodes: int
    """The number of training episodes."""
    status: str
    """How the training ended: complete, reached, never updated, or diverged at a step."""
    seconds: float
    points: Int[np.ndarray, " n"]
    """The last episode or step of each block of the curve."""
    curve: Float32[np.ndarray, " n"]
    """Mean training return of each block; NaN where none ended."""
    policy: dict[str, np.ndarray] = field(default_factory=dict)
    """The arrays of the policy, if they are kept."""
    others: Float32[np.ndarray, " delays"] = field(default_factory=lambda: np.zeros(0, np.float32))
    """Mean greedy return under each of the spec's `evaluation_delays`."""
    evaluations: Float32[np.ndarray, " points"] = field(
        default_factory=lambda: np.zeros(0, np.float32)
    )
    """Mean greedy return at each multiple of the spec's `evaluate_every`."""
    device: str = ""
    """The device of the training; "" stands for this machine's CPU."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Other facts for the record: the program's width and capacity, resumptions, lost episodes."""


def deep_outcome(
    spec: DeepRun,
    seed: int,
    ended: Float[np.ndarray, "episodes 2"],
    scored: float = 0.1,
    **facts: Any,
) -> Outcome:
    """Return the outcome of a deep run from its training episodes, a row (step, return) each.

    The training score is the mean return of the last episodes, a fraction `scored` of all. `facts`
    are the other fields of `Outcome`.
    """
    last = ended[-max(int(len(ended) * scored), 1) :, 1]
    edges = np.linspace(0, spec.length, _POINTS + 1).astype(int)
    block = np.clip(np.searchsorted(edges, ended[:, 0], "right") - 1, 0, _POINTS - 1)
    counts = np.bincount(block, minlength=_POINTS)
    sums = np.bincount(block, ended[:, 1], _POINTS)
    curve = np.divide(sums, counts, out=np.full(_POINTS, np.nan), where=counts > 0)
    return Outcome(
        seed=seed,
        training_score=float(last.mean()) if len(last) else float("nan"),
        episodes=len(ended),
        points=edges[1:],
        curve=np.array(curve, np.float32),
        **facts,
    )
