"""The record of a run: one spec, and the outcomes of all its seeds."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np

from deadtime.learn.outcome import Outcome
from deadtime.runs.provenance import current_provenance

if TYPE_CHECKING:
    from jaxtyping import Float32, Int

A_SEED = ("seeds", "scores", "training_scores", "episodes", "status", "seconds")
"""The fields that are lists with one entry for each seed."""


class _Spec(Protocol):
    @property
    def id(self) -> str: ...
    def canonical(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Record:
    """The outcome of one spec: an entry or a row for each seed, in the order of `seeds`."""

    id: str
    """The spec's id when it was run; a later version that gives other results has another id."""
    spec: dict[str, Any]
    seeds: list[int]
    scores: list[float]
    """Mean greedy return on held-out episodes."""
    training_scores: list[float]
    """Mean return of the last 10% (Atari: 5%) of training episodes: the paper's score."""
    episodes: list[int]
    """The number of training episodes."""
    status: list[str]
    """How the training of each seed ended: complete, reached, never updated, or diverged at a step.

    "reached" means that the return `until_return` was reached."""
    seconds: list[float]
    points: Int[np.ndarray, " n"]
    """The last episode of each block of the curve."""
    curve: Float32[np.ndarray, "seeds n"]
    """Mean training return of each block; NaN after a seed stopped early."""
    policies: dict[str, np.ndarray] = field(default_factory=dict)
    policy_seeds: list[int] = field(default_factory=list)
    """The seeds whose policies were kept."""
    provenance: list[dict[str, Any]] = field(default_factory=list)
    """The date, machine and versions with which the seeds were trained."""
    others: Float32[np.ndarray, "seeds delays"] = field(
        default_factory=lambda: np.zeros((0, 0), np.float32)
    )
    """Mean greedy return under each of the spec's `evaluation_delays`, if it has some."""
    evaluations: Float32[np.ndarray, "seeds points"] = field(
        default_factory=lambda: np.zeros((0, 0), np.float32)
    )
    """Mean greedy return at each multiple of the spec's `evaluate_every`, if it has one."""

    def rows(self, seeds: list[int]) -> Record:
        """Return the record of some of its seeds."""
        place = {seed: i for i, seed in enumerate(self.seeds)}
        chosen = [place[seed] for seed in seeds]
        wanted = {*seeds}
        kept = {*self.policy_seeds}
        provenance = [
            {**one, "seeds": [seed for seed in one["seeds"] if seed in wanted]}
            for one in self.provenance
        ]
        lists: dict[str, Any] = {name: [getattr(self, name)[i] for i in chosen] for name in A_SEED}
        return replace(
            self,
            **lists,
            curve=self.curve[chosen],
            others=self.others[chosen] if self.others.size else self.others,
            evaluations=(self.evaluations[chosen] if self.evaluations.size else self.evaluations),
            policies={
                name: part
                for name, part in self.policies.items()
                if int(name.split("/")[0]) in wanted
            },
            policy_seeds=[seed for seed in seeds if seed in kept],
            provenance=[one for one in provenance if one["seeds"]],
        )

    def without_policies(self) -> Record:
        """Return the record with scores and curves alone."""
        return replace(self, policies={}, policy_seeds=[])

    def write_policies(self, file: BinaryIO) -> None:
        """Write the policies, sorted by name: equal policies give equal bytes."""
        np.savez_compressed(file, **dict(sorted(self.policies.items())))  # type: ignore[arg-type]

    def policy_bytes(self) -> int:
        """Return the size of the policies' file."""
        file = io.BytesIO()
        self.write_policies(file)
        return file.tell()


def record_of(spec: _Spec, outcome: Outcome) -> Record:
    """Return the record of one seed's outcome, with the provenance of this process."""
    seed = outcome.seed
    return Record(
        id=spec.id,
        spec=spec.canonical(),
        seeds=[seed],
        scores=[outcome.score],
        training_scores=[outcome.training_score],
        episodes=[outcome.episodes],
        status=[outcome.status],
        seconds=[outcome.seconds],
        points=outcome.points,
        curve=outcome.curve[None],
        policies={f"{seed}/{name}": array for name, array in outcome.policy.items()},
        policy_seeds=[seed] if outcome.policy else [],
        provenance=[{**current_provenance(outcome.device), **outcome.notes, "seeds": [seed]}],
        others=_row(outcome.others),
        evaluations=_row(outcome.evaluations),
    )


def _row(values: np.ndarray) -> np.ndarray:
    """Return the values of one seed as a row; no values give an empty array."""
    return values[None] if values.size else np.zeros((0, 0), np.float32)


def joined(first: Record, second: Record) -> Record:
    """Join two records of the same spec with different seeds, and sort the seeds."""
    lists: dict[str, Any] = {
        name: getattr(first, name) + getattr(second, name) for name in (*A_SEED, "policy_seeds")
    }
    merged: dict[str, dict[str, Any]] = {}
    for one in first.provenance + second.provenance:
        key = json.dumps({**one, "seeds": 0}, sort_keys=True)
        merged.setdefault(key, {**one, "seeds": []})["seeds"].extend(one["seeds"])
    whole = replace(
        first,
        **lists,
        curve=np.concatenate([first.curve, second.curve]),
        others=np.concatenate([first.others, second.others]),
        evaluations=np.concatenate([first.evaluations, second.evaluations]),
        policies=first.policies | second.policies,
        provenance=[{**one, "seeds": sorted(one["seeds"])} for one in merged.values()],
    )
    return whole.rows(sorted(whole.seeds))
