"""What a run leaves on disk: one folder a spec, holding all its seeds.

    NAME-ID/run.json      spec, seeds, scores, versions, machine, times, and the digests of the other files
            curves.npz    returns during training, one row a seed
            policies.npz  what was learned, where it was asked for

A folder is written under a temporary name and renamed, so it is there whole or not at all. Adding
seeds writes a new folder with the old ones' rows as they were, and moves files of the user's own into
it. A folder that does not match its digests is reported, never read. Reading a record imports and
makes nothing that it names.

A record may also lie in a pack, `maze.zip` say, beside the folders (see `pack_archive`). A folder
comes first, so that seeds which are added to a packed record make a folder that holds all of them.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import shutil
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np

from deadtime._support import files
from deadtime._support.machine import free_memory
from deadtime.learn.outcome import Outcome
from deadtime.runs import folder_swap, pack_archive
from deadtime.runs.pack_archive import CURVES, FILES, POLICIES, RUN
from deadtime.runs.provenance import current_provenance
from deadtime.runs.record_checks import check_record

if TYPE_CHECKING:
    from jaxtyping import Float32, Int

SCHEMA = 2
"""The format of records that are written. Format 1 called `provenance` `made`, and is read too."""
_A_SEED = ("seeds", "scores", "training_scores", "episodes", "status", "seconds")
_IN_JSON = ("id", "spec", *_A_SEED, "policy_seeds", "provenance")
_CURVE_BYTES = 2**26
"""The largest file of curves; they inflate to four times as much at most."""


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
    provenance: list[dict[str, Any]] = field(default_factory=list)
    """When, where and with which versions the seeds were trained."""
    others: Float32[np.ndarray, "seeds delays"] = field(
        default_factory=lambda: np.zeros((0, 0), np.float32)
    )
    """Mean greedy return under each of the spec's `evaluation_delays`, where it has some."""

    def rows(self, seeds: list[int]) -> Record:
        """Return the record of some of its seeds."""
        place, wanted, kept = (
            {seed: i for i, seed in enumerate(self.seeds)},
            {*seeds},
            {*self.policy_seeds},
        )
        chosen = [place[seed] for seed in seeds]
        provenance = [
            {**one, "seeds": [seed for seed in one["seeds"] if seed in wanted]}
            for one in self.provenance
        ]
        lists: dict[str, Any] = {name: [getattr(self, name)[i] for i in chosen] for name in _A_SEED}
        return replace(
            self,
            **lists,
            curve=self.curve[chosen],
            others=self.others[chosen] if self.others.size else self.others,
            policies={
                name: part
                for name, part in self.policies.items()
                if int(name.split("/")[0]) in wanted
            },
            policy_seeds=[seed for seed in seeds if seed in kept],
            provenance=[one for one in provenance if one["seeds"]],
        )


def record_of(spec: Any, outcome: Outcome) -> Record:
    """Return the record of one seed's outcome, with the versions and the machine of this process."""
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
        others=outcome.others[None] if outcome.others.size else np.zeros((0, 0), np.float32),
    )


def joined(first: Record, second: Record) -> Record:
    """Return one record of two of the same spec with different seeds, in the order of seeds."""
    both = {
        name: getattr(first, name) + getattr(second, name) for name in (*_A_SEED, "policy_seeds")
    }
    merged: dict[str, dict[str, Any]] = {}
    for one in first.provenance + second.provenance:
        alike = merged.setdefault(
            json.dumps({**one, "seeds": 0}, sort_keys=True), {**one, "seeds": []}
        )
        alike["seeds"] = [*alike["seeds"], *one["seeds"]]
    provenance = [{**one, "seeds": sorted(one["seeds"])} for one in merged.values()]
    rows: dict[str, Any] = {
        name: np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ("curve", "others")
    }
    policies = first.policies | second.policies
    whole = replace(first, **both, **rows, policies=policies, provenance=provenance)
    return whole.rows(sorted(whole.seeds))


def policy_bytes(record: Record) -> int:
    """Return the size of the file that the record's policies make."""
    file = io.BytesIO()
    _write_policies(file, record)
    return file.tell()


def _write_policies(file: BinaryIO, record: Record) -> None:
    """Write policies sorted by name: seeds are done in any order, and give the same bytes."""
    np.savez_compressed(file, **dict(sorted(record.policies.items())))  # type: ignore[arg-type]


def without_policies(record: Record) -> Record:
    """Return the record with scores and curves alone."""
    return replace(record, policies={}, policy_seeds=[])


def packed(those: list[Record]) -> bytes:
    """Return records as bytes, on their way from one process to another."""
    arrays: dict[str, Any] = {}
    for i, one in enumerate(those):
        arrays |= {f"{i}/{name}": getattr(one, name) for name in ("points", "curve", "others")}
        arrays |= {f"{i}/policy/{name}": part for name, part in sorted(one.policies.items())}
    fields = [{name: getattr(one, name) for name in _IN_JSON} for one in those]
    text = json.dumps({"schema": SCHEMA, "records": fields})
    file = io.BytesIO()
    np.savez(file, json=np.frombuffer(text.encode(), np.uint8), **arrays)
    return file.getvalue()


def unpacked(content: bytes, name: str = "") -> list[Record]:
    """Return the records that `packed` made bytes of; `name` is that of the file they were in."""
    try:
        arrays = files.arrays(content, 2 * len(content) + 2**20)  # they were not deflated
        text = arrays.pop("json" if "json" in arrays else "said")  # of format 1
        whole = files.from_json(text.tobytes())
        found = []
        of: dict[str, dict[str, np.ndarray]] = {}
        for key, array in arrays.items():
            number, _, rest = key.partition("/")
            of.setdefault(number, {})[rest] = array
        schema = whole["schema"]
        if not _is_known(schema):
            raise ValueError(f"their format is {schema!r:.50}; this version reads up to {SCHEMA}")
        for i, fields in enumerate(whole["records"]):
            rows = {row: of[str(i)].pop(row) for row in ("points", "curve", "others")}
            policies = {key.removeprefix("policy/"): part for key, part in of[str(i)].items()}
            found.append(_from_json(fields, schema, rows, policies))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        remedy = (
            f"use the version that wrote them, or {'delete it and ' * bool(name)}run them again"
        )
        raise ValueError(
            f"{name or 'this'} holds no records that can be read ({error}): {remedy}"
        ) from error
    return found


def _is_known(schema: Any) -> bool:
    """Return whether this version reads records of a format."""
    return type(schema) is int and 1 <= schema <= SCHEMA


def _from_json(
    content: dict[str, Any],
    schema: int,
    rows: dict[str, Any],
    policies: dict[str, np.ndarray],
) -> Record:
    """Return a record from what a file holds, or raise if no training gives such a record."""
    if schema == 1:
        content["provenance"] = content.pop("made")
    record = Record(**{name: content[name] for name in _IN_JSON}, **rows, policies=policies)
    check_record(record)
    return record


class Source(Protocol):
    """The files of one record, in a folder or in a pack."""

    @property
    def remedy(self) -> str:
        """What to do if the record is damaged."""

    def has(self, file: str) -> bool:
        """Return whether the record has such a file."""

    def opened(self, file: str, most: float) -> AbstractContextManager[BinaryIO]:
        """Open one file of at most `most` bytes to be read."""


@dataclass(frozen=True)
class Folder:
    """A record in a folder of its own."""

    path: Path

    remedy = "delete the folder and run it again"

    def __str__(self) -> str:
        """Name the folder."""
        return str(self.path)

    def has(self, file: str) -> bool:
        """Return whether the folder has such a file."""
        return os.path.lexists(self.path / file)

    def opened(self, file: str, most: float) -> AbstractContextManager[BinaryIO]:
        """Open one file of at most `most` bytes to be read."""
        return files.opened(self.path / file, most)


def _source(folder: Path) -> Source | None:
    """Return where a record is: in its folder or, if that has none, in a pack beside it."""
    there = files.is_folder(folder)
    if there and os.path.lexists(folder / RUN):
        return Folder(folder)
    packed = pack_archive.find(folder.parent, folder.name)
    return packed or (Folder(folder) if there else None)


def names(root: Path) -> list[str]:
    """List the records of a folder by name: those in folders, and those in packs that can be read."""
    there = root.iterdir() if root.is_dir() else ()
    own = {path.name for path in there if path.name[0] != "." and os.path.lexists(path / RUN)}
    return sorted(own | pack_archive.names(root))


def add(folder: Path, record: Record) -> Record:
    """Write a record together with what others have recorded there meanwhile; what is new counts."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder_swap.locked(folder):
        folder_swap.settled(folder, FILES)
        source = _source(folder)
        if source is not None:
            known = read_from(source, policies=True)
            if known.id != record.id:
                other = f"{source} holds runs of {known.id}, not of {record.id}"
                raise ValueError(f"{other}: delete it, and they are run again")
            new = {*record.seeds}
            others = [seed for seed in known.seeds if seed not in new]
            record = joined(known.rows(others), record) if others else record
        _write(folder, record)
    return record


def write(folder: Path, record: Record) -> Path:
    """Write a record whole or not at all, in place of an earlier one and of nothing else."""
    if not folder.is_symlink():
        folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder_swap.locked(folder):
        return _write(folder, record)


def _write(folder: Path, record: Record) -> Path:
    is_other = folder.is_symlink() or (folder.exists() and not folder.is_dir())
    if is_other or (
        folder_swap.settled(folder, FILES) and not (folder / RUN).exists() and any(folder.iterdir())
    ):
        raise ValueError(
            f"a record is written to a new folder or in place of a record; {folder} is neither: name another"
        )
    for left in folder.parent.glob(
        f".{escape(folder.name)}.part-*"
    ):  # only one writes at a time: its process was killed
        shutil.rmtree(left, ignore_errors=True)
    part = folder.with_name(f".{folder.name}.part-{os.getpid()}")
    part.mkdir()
    try:
        rest: dict[str, Any] = {"others": record.others} if record.others.size else {}
        np.savez_compressed(part / CURVES, points=record.points, curve=record.curve, **rest)
        if record.policies:
            with (part / POLICIES).open("wb") as file:
                _write_policies(file, record)
        content = {"schema": SCHEMA, **{name: getattr(record, name) for name in _IN_JSON}}
        content["files"] = {
            path.name: _digest(path.read_bytes()) for path in sorted(part.glob("*.npz"))
        }
        content["digest"] = _digest(_text(content).encode())
        (part / RUN).write_text(_text(content) + "\n", encoding="utf-8")
        folder_swap.put(part, folder, FILES)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def exists(folder: Path) -> bool:
    """Return whether there is a record; one that was being replaced when its process ended is put back."""
    _settle(folder)
    return _source(folder) is not None


def _settle(folder: Path) -> None:
    """Put back a folder that was being replaced when its process ended."""
    if os.path.lexists(folder_swap.old_of(folder)):
        with suppress(OSError), folder_swap.locked(folder):
            folder_swap.settled(folder, FILES)


def read(folder: Path, policies: bool = False) -> Record:
    """Read a record from its folder or from a pack beside it, or say what is wrong with it."""
    folder = (
        folder.resolve() if folder.is_symlink() else folder
    )  # who names a link means what it leads to
    if not folder.parent.is_dir() or (folder.exists() and not folder.is_dir()):
        return read_from(Folder(folder), policies)
    _settle(folder)
    with folder_swap.locked(folder, fcntl.LOCK_SH):
        return read_from(_source(folder) or Folder(folder), policies)


def read_from(source: Source, policies: bool = False) -> Record:
    """Read a record while no one else may replace it, or say what is wrong with it."""
    try:
        with source.opened(RUN, files.TEXT_BYTES) as file:
            content = files.from_json(file.read())
        digest = content.pop("digest")
        schema = content["schema"]
        unchanged = digest == _digest(_text(content).encode())
    except (FileNotFoundError, NotADirectoryError):
        rule = f"a record is a folder with a run.json; {source} has none"
        raise ValueError(f"{rule}: name the folder that `deadtime train` printed") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(source, f"run.json can't be read ({error})") from None
    if not _is_known(schema):
        raise ValueError(
            f"{source} has the record format {schema!r:.50}; this version reads up to {SCHEMA}: "
            "use the version that wrote it"
        )
    if not unchanged:
        raise _damaged(source, "run.json was changed after it was written")
    try:
        if not source.has(POLICIES):  # they may be left out of what is passed on
            content["policy_seeds"] = []
            content["files"].pop(POLICIES, None)
        if {*content["files"]} - {CURVES, POLICIES}:
            raise ValueError(
                f"its files are {CURVES} and {POLICIES}; got {[*content['files']]!r:.200}"
            )
        wanted = (CURVES, POLICIES) if policies else (CURVES,)
        arrays = {
            name: _arrays(source, name, expected, name in wanted)
            for name, expected in content["files"].items()
        }
        return _from_json(content, schema, arrays[CURVES], arrays.get(POLICIES, {}))
    except ValueError as error:
        raise _damaged(source, str(error)) from error
    except (LookupError, TypeError, AttributeError) as error:
        raise _damaged(source, f"what it should say is not there ({error!r:.100})") from error


def _arrays(source: Source, name: str, expected: str, wanted: bool) -> dict[str, np.ndarray]:
    """Return the arrays of a file if they are wanted; its digest is compared in any case."""
    curves = name == CURVES
    content = b""
    try:
        with source.opened(name, _CURVE_BYTES if curves else free_memory() / 2) as file:
            unchanged = hashlib.file_digest(file, "sha256").hexdigest() == expected  # type: ignore[arg-type]
            if unchanged and wanted:
                file.seek(0)
                content = file.read()
    except FileNotFoundError:
        unchanged = False
    if not unchanged:
        raise ValueError(f"{name} is missing or not what was written")
    try:
        return files.arrays(content, 4 * _CURVE_BYTES if curves else 0) if wanted else {}
    except ValueError as error:
        raise ValueError(f"{name} can't be read, {error}") from error


def _damaged(source: Source, why: str) -> ValueError:
    return ValueError(f"{source} is damaged, {why}: {source.remedy}")


def _text(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=1, sort_keys=True)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
