"""The result of a training: scores, curves and policies, from its record."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deadtime._support.files import printable
from deadtime.runs import records
from deadtime.runs.record import Record
from deadtime.runs.specs import Spec, from_canonical
from deadtime.runtime.policy import Policy

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Int

_SHOWN_SCORES = 5
_NOT_SETTINGS = ("kind", "env", "agent", "delay", "process", "settings", "learner", "changes")
"""What a spec says beside the settings of its run."""


class Curve(NamedTuple):
    """Mean training return of each block: `returns[i, j]` of seed i over the block that ends at `episodes[j]`.

    Blocks are of episodes in mazes and the walk, and of environment steps where agents are deep.
    """

    episodes: Int[np.ndarray, " n"]
    returns: Float32[np.ndarray, "seeds n"]


@dataclass(frozen=True)
class Result:
    """The outcome of a training: the scores, curves and policies of its seeds."""

    record: Record

    def __repr__(self) -> str:
        """Return what was run and the first scores, rounded."""
        spec, count = self.record.spec, len(self.seeds)
        scores = [
            f"{score:.1f}" if abs(score) >= 10 else f"{score:.3f}" for score in self.record.scores
        ]
        shown = ", ".join(scores[:_SHOWN_SCORES] + ["..."] * (count > _SHOWN_SCORES))
        seeds = f"{count} seed{'s' * (count != 1)}"
        return printable(
            f"Result({spec['env']}, {spec.get('agent')}, delay {spec.get('delay', 0)}, {seeds}: {shown})"
        )

    @property
    def spec(self) -> Spec:
        """The run as data; no environment is made."""
        spec = from_canonical(self.record.spec)
        if spec.id != self.record.id:
            raise ValueError(
                f"this record was made with another version of what it uses (id {self.record.id}, now {spec.id}), "
                "so its numbers are outdated: train it again"
            )
        return spec

    @property
    def seeds(self) -> list[int]:
        """The seeds, in the order of every array."""
        return self.record.seeds

    @property
    def scores(self) -> Float[np.ndarray, " seeds"]:
        """Mean greedy return on held-out episodes."""
        return np.array(self.record.scores)

    @property
    def training_scores(self) -> Float[np.ndarray, " seeds"]:
        """Mean return of the last 10% (Atari: 5%) of training episodes."""
        return np.array(self.record.training_scores)

    @property
    def diverged(self) -> dict[int, str]:
        """The seeds whose losses were no longer finite, and when: their scores are of what they were before."""
        found = zip(self.seeds, self.record.status, strict=True)
        return {seed: status for seed, status in found if status.startswith("diverged")}

    @property
    def untrained(self) -> list[int]:
        """The seeds that were never updated, since they never had a batch: their scores are of random weights."""
        return [
            seed
            for seed, status in zip(self.seeds, self.record.status, strict=True)
            if status == "never updated"
        ]

    @property
    def curve(self) -> Curve:
        """How the return grew during training."""
        return Curve(self.record.points, self.record.curve)

    @property
    def replayed(self) -> list[int]:
        """The seeds whose policies were kept; an error that says how to train one if none was."""
        if not self.record.policy_seeds:
            rule = "this record holds policies of no seed, only scores (`compare` and `sweep` keep none, studies small ones)"
            raise ValueError(f"{rule}: train it with `{self.command}`")
        return self.record.policy_seeds

    @property
    def command(self) -> str:
        """The command that trains this spec and keeps its policies."""
        spec = self.spec.canonical()
        of_the_run = {name: value for name, value in spec.items() if name not in _NOT_SETTINGS}
        settings = {**of_the_run, **spec.get("learner", {}), **spec.get("changes", {})}
        words = ["deadtime", "train", "--env", self.spec.env, "--agent", self.spec.agent]
        process = getattr(self.spec, "process", None)
        delay = self.spec.delay if process is None else json.dumps(process.to_json())
        words += ["--delay", str(delay)]
        for name, value in settings.items():
            words += ["--set", _argument(name, value)]
        for name, value in spec.get("settings", {}).items():
            words += ["--env-kwargs", _argument(name, value)]
        return shlex.join(words)

    def policy(self, seed: int | None = None) -> Policy:
        """Return the policy of one seed (default: the first that was kept); it acts without the environment.

        `act(observation, pending_actions)` chooses an action.
        """
        from deadtime.learn.policies import policy_of  # noqa: PLC0415  (scores need no policies)

        seed = self.replayed[0] if seed is None else seed
        arrays = {
            name.partition("/")[2]: part
            for name, part in self.record.policies.items()
            if name.partition("/")[0] == str(seed)
        }
        if not arrays:
            rule = f"this record holds policies of the seeds {self.replayed} only"
            raise ValueError(f"{rule}; got seed {seed!r}: train it with `{self.command}`")
        return policy_of(self.spec, seed, arrays)

    def save(self, path: str | Path) -> Path:
        """Write the record to a folder, whole or not at all."""
        return records.write(Path(path), self.record)


def _argument(name: str, value: Any) -> str:
    """Return a setting as the command line takes it."""
    return f"{name}={value if isinstance(value, str) else json.dumps(value)}"


Results = dict[Any, Result]
"""Results by what tells them apart: an agent and a delay, say."""


def load(path: str | Path, seed: int | None = None) -> Policy:
    """Return the policy of one seed of a saved training (default: the first that was kept).

    It acts without the environment.
    """
    return Result(records.read(Path(path), policies=True)).policy(seed)
