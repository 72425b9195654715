"""What a deep run leaves behind: its record and, in it, all that acting needs."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from deadtime.experiments.deep_specs import DeepSpec
from deadtime.experiments.records import Record
from deadtime.training.program import Learner

_POINTS = 100


def status_of(learner: Any, diverged_at: Any) -> str:
    """Return how a run ended."""
    if diverged_at >= 0:
        return f"diverged at step {diverged_at}"
    return "complete" if getattr(learner, "updates", 1) > 0 else "never updated"


def record_of(
    spec: DeepSpec,
    seed: int,
    ended: np.ndarray,
    score: float,
    status: str,
    seconds: float,
    policy: dict[str, np.ndarray],
    made: dict[str, Any],
    scored: float = 0.1,
) -> Record:
    """Return the record of one seed; `ended` has a row (step, return) for each training episode; its last part is `scored`."""
    if policy and spec.atari:  # a network has outputs for the actions of all games
        policy = policy | {"actions": np.array(spec.environment(seed).num_actions)}
    last = ended[-max(int(len(ended) * scored), 1) :, 1]
    edges = np.linspace(0, spec.length, _POINTS + 1).astype(int)
    block = np.clip(np.searchsorted(edges, ended[:, 0], "right") - 1, 0, _POINTS - 1)
    counts = np.bincount(block, minlength=_POINTS)
    sums = np.bincount(block, ended[:, 1], _POINTS)
    curve = np.divide(sums, counts, out=np.full(_POINTS, np.nan), where=counts > 0)
    return Record(
        id=spec.id,
        spec=spec.canonical(),
        seeds=[seed],
        scores=[score],
        training_scores=[float(last.mean()) if len(last) else float("nan")],
        episodes=[len(ended)],
        status=[status],
        seconds=[seconds],
        points=edges[1:],
        curve=np.array([curve], np.float32),
        policies={f"{seed}/{name}": array for name, array in policy.items()},
        policy_seeds=[seed] if policy else [],
        made=[{**made, "seeds": [seed]}],
    )


def policy_arrays(learner: Learner, capacity: int) -> dict[str, np.ndarray]:
    """Return all that acting needs."""
    arrays: dict[str, Any] = {}
    for part, net in (("q", learner.q), ("model", learner.model.nets)):
        for i, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
            arrays |= {f"{part}/{i}/weight": weight, f"{part}/{i}/bias": bias}
    for part, scale in (("inputs", learner.model.inputs), ("changes", learner.model.changes)):
        arrays |= {f"{part}/mean": scale.mean, f"{part}/deviation": scale.deviation}
    return jax.tree.map(np.asarray, arrays | {"capacity": capacity})
