"""What a run leaves on disk: one folder a spec, holding all its seeds.

    NAME-ID/run.json      spec, seeds, scores, versions, machine, times, and the digests of the other files
            curves.npz    returns during training, one row a seed
            policies.npz  what was learned, where it was asked for

A folder is written under a temporary name and renamed, so it is there whole or not at all. Adding seeds writes a new folder
with the old ones' rows as they were. A folder that does not match its digests is reported, never read.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import zipfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int

SCHEMA = 1
_SAID = ("seeds", "scores", "training_scores", "episodes", "seconds", "policy_seeds", "made")


@dataclass(frozen=True)
class Record:
    """The outcome of one spec: an entry or a row a seed, in the order of `seeds`."""

    spec: dict[str, Any]
    seeds: list[int]
    scores: list[float]
    """Mean greedy return on held-out episodes."""
    training_scores: list[float]
    """Mean return of the last 10% of training episodes: the paper's score."""
    episodes: list[int]
    """How many were trained."""
    seconds: list[float]
    points: Int[np.ndarray, " n"]
    """The last episode of each block of the curve."""
    curve: Float32[np.ndarray, "seeds n"]
    """Mean training return of each block; NaN after a seed stopped early."""
    policies: dict[str, np.ndarray] = field(default_factory=dict)
    policy_seeds: list[int] = field(default_factory=list)
    """The seeds whose policies were kept."""
    made: dict[str, Any] = field(default_factory=dict)
    """When, where and with which versions."""

    def rows(self, seeds: list[int]) -> Record:
        """The same for some of its seeds."""
        chosen = [self.seeds.index(seed) for seed in seeds]
        lists = {
            name: [getattr(self, name)[i] for i in chosen] for name in ("scores", "training_scores", "episodes", "seconds")
        }
        kept = {name: part for name, part in self.policies.items() if int(name.split("/")[0]) in seeds}
        with_policy = [seed for seed in self.policy_seeds if seed in seeds]
        return Record(
            self.spec,
            seeds,
            **lists,
            points=self.points,
            curve=self.curve[chosen],
            policies=kept,
            policy_seeds=with_policy,
            made=self.made,
        )


def joined(first: Record, second: Record) -> Record:
    """Two records of one spec with different seeds, in the order of seeds."""
    lists = ("seeds", "scores", "training_scores", "episodes", "seconds", "policy_seeds")
    both = {name: getattr(first, name) + getattr(second, name) for name in lists}
    curve = np.concatenate([first.curve, second.curve])
    whole = Record(
        first.spec, **both, points=first.points, curve=curve, policies=first.policies | second.policies, made=second.made
    )
    return whole.rows(sorted(whole.seeds))


def made_now() -> dict[str, Any]:
    """Date, versions and machine."""
    libraries = ("deadtime", "jax", "numba", "numpy", "scipy", "gymnasium")
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in libraries},
        "commit": _commit(),
        "device": f"CPU, {os.cpu_count()} cores",
    }


def _commit() -> str | None:
    """The commit of the code, where it runs from a checkout."""
    here = Path(__file__).parent
    done = (
        subprocess.run(["git", "-C", here, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
        if shutil.which("git")
        else None
    )
    return done.stdout.strip() if done and done.returncode == 0 else None


def write(folder: Path, record: Record) -> Path:
    """Write a record whole or not at all, in place of an earlier one."""
    part = folder.with_name(f".{folder.name}.part-{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        np.savez_compressed(part / "curves.npz", points=record.points, curve=record.curve)
        if record.policies:
            np.savez_compressed(part / "policies.npz", **record.policies)  # type: ignore[arg-type]
        said = {"schema": SCHEMA, "status": "complete", "spec": record.spec}
        said |= {name: getattr(record, name) for name in _SAID}
        said["files"] = {path.name: _digest(path.read_bytes()) for path in sorted(part.glob("*.npz"))}
        said["digest"] = _digest(_text(said).encode())
        (part / "run.json").write_text(_text(said) + "\n")
        old = folder.with_name(f".{folder.name}.old")
        if exists(folder):
            folder.rename(old)
        part.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def exists(folder: Path) -> bool:
    """Whether there is a record; one that was being replaced when the power went is put back."""
    old = folder.with_name(f".{folder.name}.old")
    if old.exists() and not folder.exists():
        old.rename(folder)
    return folder.exists()


def read(folder: Path, policies: bool = False) -> Record:
    """Read a record, or say what is wrong with it."""
    try:
        said = json.loads((folder / "run.json").read_text())
        digest, schema = said.pop("digest"), said["schema"]
    except FileNotFoundError:
        raise ValueError(
            f"a record is a folder with a run.json; {folder} has none: name the folder that `deadtime train` printed"
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        raise _damaged(folder, "run.json can't be read") from None
    if schema != SCHEMA:
        raise ValueError(
            f"{folder} has the record format {schema!r}; this version reads {SCHEMA}: use the version that wrote it"
        )
    if digest != _digest(_text(said).encode()):
        raise _damaged(folder, "run.json was changed after it was written")
    arrays: dict[str, dict[str, Any]] = {}
    for name, expected in said["files"].items():
        if name == "policies.npz" and not (folder / name).exists():
            continue
        arrays[name] = _arrays(folder, name, expected) if name != "policies.npz" or policies else {}
    return Record(
        said["spec"], **{name: said[name] for name in _SAID}, **arrays["curves.npz"], policies=arrays.get("policies.npz", {})
    )


def _arrays(folder: Path, name: str, expected: str) -> dict[str, np.ndarray]:
    path = folder / name
    if not path.exists() or _digest(path.read_bytes()) != expected:
        raise _damaged(folder, f"{name} is missing or not what was written")
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except (ValueError, zipfile.BadZipFile, EOFError) as error:
        raise _damaged(folder, f"{name} can't be read ({error})") from error


def _damaged(folder: Path, why: str) -> ValueError:
    return ValueError(f"{folder} is damaged, {why}: delete the folder and run it again")


def _text(said: dict[str, Any]) -> str:
    return json.dumps(said, indent=1, sort_keys=True)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
