"""What a run leaves on disk: one folder a spec, holding all its seeds.

    NAME-ID/run.json      spec, seeds, scores, versions, machine, times, and the digests of the other files
            curves.npz    returns during training, one row a seed
            policies.npz  what was learned, where it was asked for

A folder is written under a temporary name and renamed, so it is there whole or not at all. Adding seeds writes a new folder
with the old ones' rows as they were. A folder that does not match its digests is reported, never read.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int

from deadtime import files
from deadtime.envs.outside import check_imported
from deadtime.files import listed

SCHEMA = 1
_A_SEED = ("seeds", "scores", "training_scores", "episodes", "status", "seconds")
_SAID = ("id", "spec", *_A_SEED, "policy_seeds", "made")
_KINDS = {"scores": float, "training_scores": float, "seconds": float, "episodes": int, "status": str}
_CURVES, _POLICIES = "curves.npz", "policies.npz"


@dataclass(frozen=True)
class Record:
    """The outcome of one spec: an entry or a row a seed, in the order of `seeds`."""

    id: str
    """The spec's id when it was run, which tells a result that a later version would not give."""
    spec: dict[str, Any]
    seeds: list[int]
    scores: list[float]
    """Mean greedy return on held-out episodes."""
    training_scores: list[float]
    """Mean return of the last 10% (Atari: 5%) of training episodes: the paper's score."""
    episodes: list[int]
    """How many were trained."""
    status: list[str]
    """How each ended: complete, or reached (the return that it was to stop at)."""
    seconds: list[float]
    points: Int[np.ndarray, " n"]
    """The last episode of each block of the curve."""
    curve: Float32[np.ndarray, "seeds n"]
    """Mean training return of each block; NaN after a seed stopped early."""
    policies: dict[str, np.ndarray] = field(default_factory=dict)
    policy_seeds: list[int] = field(default_factory=list)
    """The seeds whose policies were kept."""
    made: list[dict[str, Any]] = field(default_factory=list)
    """When, where and with which versions the seeds were trained."""
    others: Float32[np.ndarray, "seeds delays"] = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """Mean greedy return under each of the spec's `evaluation_delays`, where it has some."""

    def rows(self, seeds: list[int]) -> Record:
        """The same for some of its seeds."""
        place, wanted = {seed: i for i, seed in enumerate(self.seeds)}, {*seeds}
        chosen = [place[seed] for seed in seeds]
        made = [{**one, "seeds": [seed for seed in one["seeds"] if seed in wanted]} for one in self.made]
        lists: dict[str, Any] = {name: [getattr(self, name)[i] for i in chosen] for name in _A_SEED}
        return replace(
            self,
            **lists,
            curve=self.curve[chosen],
            others=self.others[chosen] if self.others.size else self.others,
            policies={name: part for name, part in self.policies.items() if int(name.split("/")[0]) in wanted},
            policy_seeds=[seed for seed in self.policy_seeds if seed in wanted],
            made=[one for one in made if one["seeds"]],
        )


def joined(first: Record, second: Record) -> Record:
    """Two records of one spec with different seeds, in the order of seeds."""
    both = {name: getattr(first, name) + getattr(second, name) for name in (*_A_SEED, "policy_seeds")}
    made: list[dict[str, Any]] = []
    for one in first.made + second.made:
        same = [other for other in made if {**other, "seeds": 0} == {**one, "seeds": 0}]
        if same:
            same[0]["seeds"] = sorted(same[0]["seeds"] + one["seeds"])
        else:
            made.append(dict(one))
    rows: dict[str, Any] = {name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in ("curve", "others")}
    whole = replace(first, **both, **rows, policies=first.policies | second.policies, made=made)
    return whole.rows(sorted(whole.seeds))


def packed(those: list[Record]) -> bytes:
    """Records on their way from one process to another."""
    arrays: dict[str, Any] = {}
    for i, one in enumerate(those):
        arrays |= {f"{i}/{name}": getattr(one, name) for name in ("points", "curve", "others")}
        arrays |= {f"{i}/policy/{name}": part for name, part in one.policies.items()}
    said = json.dumps({"schema": SCHEMA, "records": [{name: getattr(one, name) for name in _SAID} for one in those]})
    file = io.BytesIO()
    np.savez(file, said=np.frombuffer(said.encode(), np.uint8), **arrays)
    return file.getvalue()


def unpacked(content: bytes, name: str = "") -> list[Record]:
    """What `packed` made; `name` is that of the file it was in."""
    try:
        arrays, found = files.arrays(content), []
        whole = files.said(arrays["said"].tobytes())
        if whole["schema"] != SCHEMA:
            raise ValueError(f"their format is {whole['schema']!r:.50}; this version reads {SCHEMA}")
        for i, said in enumerate(whole["records"]):
            start = f"{i}/policy/"
            policies = {name.removeprefix(start): part for name, part in arrays.items() if name.startswith(start)}
            found.append(_heard(said, {name: arrays[f"{i}/{name}"] for name in ("points", "curve", "others")}, policies))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        remedy = f"use the version that wrote them, or {'delete it and ' * bool(name)}run them again"
        raise ValueError(f"{name or 'this'} holds no records that can be read ({error}): {remedy}") from error
    for record in found:
        check_imported(record.spec["env"])
    return found


def _heard(said: dict[str, Any], rows: dict[str, Any], policies: dict[str, np.ndarray]) -> Record:
    """A record from a file, or an error if no training gives such a one: a digest tells damage, not who made it."""
    record = Record(**{name: said[name] for name in _SAID}, **rows, policies=policies)
    seeds, kept = listed(record.seeds, int), listed(record.policy_seeds, int)
    made = [seed for one in listed(record.made, dict) for seed in listed(one["seeds"], int) if date.fromisoformat(one["date"])]
    twice = len({*seeds}) < len(seeds) or len({*made}) < len(made)
    if not seeds or min(seeds) < 0 or twice or {*kept, *made} - {*seeds}:
        raise ValueError("its seeds are not each there once, those that were made and kept among them")
    if any(len(listed(getattr(record, name), kind)) != len(seeds) for name, kind in _KINDS.items()):
        raise ValueError(f"there are {len(seeds)} seeds, and not as many of each of {', '.join(_KINDS)}")
    if not isinstance(record.id, str) or not re.fullmatch("[0-9a-f]{12}", record.id):
        raise ValueError(f"its id is {record.id!r:.50}, and not twelve hexadecimal digits")
    if not isinstance(record.spec["env"], str):
        raise ValueError("its environment is no word")
    if {name.partition("/")[0] for name in policies} - {str(seed) for seed in kept}:
        raise ValueError("it has policies of other seeds than it names")
    points, curve, others = record.points, record.curve, record.others
    if points.ndim != 1 or curve.shape != (len(seeds), len(points)) or points.dtype.kind + curve.dtype.kind != "if":
        raise ValueError(f"its curve is {curve.dtype} of shape {curve.shape} at points of shape {points.shape}")
    if others.size and (others.ndim != 2 or len(others) != len(seeds)):
        raise ValueError(f"its returns under other delays have shape {others.shape}")
    return record


def made_now(device: str = "") -> dict[str, Any]:
    """Date, versions and machine."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "versions": dict(_versions()),
        "commit": _commit(),
        "device": device or f"CPU, {os.cpu_count()} cores",
    }


@cache
def _versions() -> dict[str, str]:
    """Of what results depend on, where it is installed."""
    found = {}
    for name in ("deadtime", "jax", "optax", "numba", "numpy", "scipy", "gymnasium", "ale-py"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


@cache
def _commit() -> str | None:
    """The commit of the code, where it runs from a checkout."""
    if not shutil.which("git"):
        return None
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def add(folder: Path, record: Record) -> Record:
    """Write a record together with what others have recorded there meanwhile; what is new counts."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        if _put_back(folder):
            known = _read(folder, policies=True)
            if known.id != record.id:
                raise ValueError(f"{folder} holds runs of {known.id}, not of {record.id}: delete it, and they are run again")
            others = [seed for seed in known.seeds if seed not in record.seeds]
            record = joined(known.rows(others), record) if others else record
        _write(folder, record)
    return record


@contextmanager
def _locked(folder: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """One process at a time writes in the folder of records, and none while others read; the lock goes with its process."""
    root = os.open(folder.parent, os.O_RDONLY)
    try:
        fcntl.flock(root, how)
        yield
    finally:
        os.close(root)


def write(folder: Path, record: Record) -> Path:
    """Write a record whole or not at all, in place of an earlier one and of nothing else."""
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        return _write(folder, record)


def _write(folder: Path, record: Record) -> Path:
    folder = folder.resolve()
    if folder.exists() and not (folder / "run.json").exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ValueError(f"a record is written to a new folder or in place of a record; {folder} is neither: name another")
    part, old = (folder.with_name(f".{folder.name}.{end}") for end in (f"part-{os.getpid()}", "old"))
    for left in folder.parent.glob(f".{folder.name}.part-*"):  # by a process that was killed: only one writes at a time
        shutil.rmtree(left, ignore_errors=True)
    part.mkdir()
    try:
        rest: dict[str, Any] = {"others": record.others} if record.others.size else {}
        np.savez_compressed(part / "curves.npz", points=record.points, curve=record.curve, **rest)
        if record.policies:
            np.savez_compressed(part / "policies.npz", **record.policies)  # type: ignore[arg-type]
        said = {"schema": SCHEMA, **{name: getattr(record, name) for name in _SAID}}
        said["files"] = {path.name: _digest(path.read_bytes()) for path in sorted(part.glob("*.npz"))}
        said["digest"] = _digest(_text(said).encode())
        (part / "run.json").write_text(_text(said) + "\n")
        if _put_back(folder):
            shutil.rmtree(old, ignore_errors=True)
            folder.rename(old)
        part.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def exists(folder: Path) -> bool:
    """Whether there is a record; one that was being replaced when the power went is put back."""
    if not folder.exists() and folder.with_name(f".{folder.name}.old").exists():
        with _locked(folder):
            return _put_back(folder)
    return folder.exists()


def _put_back(folder: Path) -> bool:
    old = folder.with_name(f".{folder.name}.old")
    if old.exists() and not folder.exists():
        old.rename(folder)
    return folder.exists()


def read(folder: Path, policies: bool = False) -> Record:
    """Read a record, or say what is wrong with it."""
    if not exists(folder):
        return _read(folder, policies)
    with _locked(folder, fcntl.LOCK_SH):
        return _read(folder, policies)


def _read(folder: Path, policies: bool) -> Record:
    try:
        said = files.said(files.plain(folder / "run.json", files.TEXT_BYTES))
        digest, schema = said.pop("digest"), said["schema"]
        unchanged = digest == _digest(_text(said).encode())
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(
            f"a record is a folder with a run.json; {folder} has none: name the folder that `deadtime train` printed"
        ) from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(folder, f"run.json can't be read ({error})") from None
    if schema != SCHEMA:
        raise ValueError(
            f"{folder} has the record format {schema!r:.50}; this version reads {SCHEMA}: use the version that wrote it"
        )
    if not unchanged:
        raise _damaged(folder, "run.json was changed after it was written")
    try:
        if not (folder / _POLICIES).exists():  # they may be left out of what is passed on
            said["policy_seeds"] = []
            said["files"].pop(_POLICIES, None)
        if {*said["files"]} - {_CURVES, _POLICIES}:
            raise ValueError(f"its files are {_CURVES} and {_POLICIES}; got {[*said['files']]!r:.200}")
        wanted = (_CURVES, _POLICIES) if policies else (_CURVES,)
        arrays = {name: _arrays(folder, name, expected, name in wanted) for name, expected in said["files"].items()}
        record = _heard(said, arrays[_CURVES], arrays.get(_POLICIES, {}))
    except ValueError as error:
        raise _damaged(folder, str(error)) from error
    except (LookupError, TypeError, AttributeError) as error:
        raise _damaged(folder, f"what it should say is not there ({error!r:.100})") from error
    check_imported(record.spec["env"])
    return record


def _arrays(folder: Path, name: str, expected: str, wanted: bool) -> dict[str, np.ndarray]:
    path = folder / name
    content = files.plain(path) if path.exists() else b""
    if _digest(content) != expected:
        raise ValueError(f"{name} is missing or not what was written")
    try:
        return files.arrays(content) if wanted else {}
    except ValueError as error:
        raise ValueError(f"{name} can't be read, {error}") from error


def _damaged(folder: Path, why: str) -> ValueError:
    return ValueError(f"{folder} is damaged, {why}: delete the folder and run it again")


def _text(said: dict[str, Any]) -> str:
    return json.dumps(said, indent=1, sort_keys=True)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
