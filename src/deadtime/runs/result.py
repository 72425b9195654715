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
_NOT_SETTINGS = (
    *("kind", "env", "agent", "delay", "process", "settings", "learner", "changes"),
    *("action_kind", "observation_kind"),  # the environment says them
)
"""The parts of a spec that are not settings of its run."""


class Curve(NamedTuple):
    """The mean training return of each block.

    `returns[i, j]` is the mean of seed i over the block that ends at `episodes[j]`. Tabular agents
    have blocks of episodes, deep agents blocks of environment steps.
    """

    episodes: Int[np.ndarray, " n"]
    returns: Float32[np.ndarray, "seeds n"]


@dataclass(frozen=True)
class Result:
    """The outcome of a training: the scores, curves and policies of its seeds."""

    record: Record

    def __repr__(self) -> str:
        """Return the run and its first scores, rounded."""
        spec = self.record.spec
        count = len(self.seeds)
        scores = [
            f"{score:.1f}" if abs(score) >= 10 else f"{score:.3f}" for score in self.record.scores
        ]
        shown = ", ".join(scores[:_SHOWN_SCORES] + ["..."] * (count > _SHOWN_SCORES))
        seeds = f"{count} seed{'s' * (count != 1)}"
        about = f"{spec['env']}, {spec.get('agent')}, delay {spec.get('delay', 0)}"
        return printable(f"Result({about}, {seeds}: {shown})")

    @property
    def spec(self) -> Spec:
        """The run as data, without making an environment."""
        spec = from_canonical(self.record.spec)
        if spec.id != self.record.id:
            raise ValueError(
                f"this record is outdated (id {self.record.id}, now {spec.id}), since a part that "
                "it uses has changed: train it again"
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
        """The seeds whose losses became infinite or NaN, and when; scores are from before that."""
        found = zip(self.seeds, self.record.status, strict=True)
        return {seed: status for seed, status in found if status.startswith("diverged")}

    @property
    def untrained(self) -> list[int]:
        """The seeds that never had a full batch to learn from; scores are of random weights."""
        return [
            seed
            for seed, status in zip(self.seeds, self.record.status, strict=True)
            if status == "never updated"
        ]

    @property
    def curve(self) -> Curve:
        """The return during training."""
        return Curve(self.record.points, self.record.curve)

    @property
    def evaluations(self) -> Curve:
        """The mean greedy return at each multiple of `evaluate_every`, in environment steps."""
        every = getattr(self.spec, "evaluate_every", None) or 0
        returns = self.record.evaluations
        return Curve(every * np.arange(1, 1 + returns.shape[1]), returns)

    @property
    def replayed(self) -> list[int]:
        """The seeds whose policies were kept; raise if there are none."""
        if not self.record.policy_seeds:
            raise ValueError(
                "this record holds scores but no policies (`compare` and `sweep` keep none, "
                f"studies keep small ones): train it with `{self.command}`"
            )
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
        """Return the policy of one seed; default: the first that was kept.

        `act(observation, pending_actions)` chooses an action, without the environment.
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
        """Write the record to a folder, completely or not at all."""
        return records.write(Path(path), self.record)


def _argument(name: str, value: object) -> str:
    """Return a setting as the command line takes it."""
    return f"{name}={value if isinstance(value, str) else json.dumps(value)}"


Results = dict[Any, Result]
"""Results by a key, such as an agent and a delay."""


def load(path: str | Path, seed: int | None = None) -> Policy:
    """Return the policy of one seed of a saved training; default: the first that was kept."""
    return Result(records.read(Path(path), policies=True)).policy(seed)
