"""A fuzzer for everything that deadtime reads from disk.

    python -m tests.hardening.fuzzer CASES [SEED]

It covers records, packs, policies, checkpoints, status files, sweeps and folders. A case changes a
good file or folder and reads it. The file may be read or refused. A case fails

- if it raises an exception other than an error message,
- if it takes more than 30 seconds,
- if the process grows by more than a gigabyte,
- or if anything outside the case's own folder changes.

After a change the digests are computed again, as an attacker would. They reveal damage, not
authors.
"""

from __future__ import annotations

import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from time import monotonic
from traceback import format_exc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

import deadtime
from deadtime.cli.status import Status
from deadtime.learn import checkpoint
from deadtime.runs import folder_report, pack_archive, packs, records, sweep_file, tensorboard
from deadtime.runs.record import Record
from deadtime.runs.result import Result
from deadtime.studies.report import page
from tests.commands import run

REFUSALS = (ValueError, OSError, MemoryError, ImportError)
"""What `deadtime` prints as one line; any other exception would be a traceback."""
MOST_SECONDS, MOST_GROWTH = 30, 2**30
STATE = {"weights": jnp.arange(12.0).reshape(3, 4), "updates": jnp.int32(7)}
FURTHER = {"ended": np.zeros((0, 3))}
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**63,
    10**30,
    1e308,
    -1e308,
    float("nan"),
    float("inf"),
    "",
    "[/red]",
    "$\\frac$",
    "\x1b[2J",
    "../../x",
    "gym:os:CartPole-v1",
    "\ud800",
    [],
    {},
    [[]],
    {"": {}},
]


class Slow(BaseException):
    """The error of a case that takes too long."""


class Fuzzer:
    """A fuzzer: good files, a random stream, and one method for each kind of case."""

    def __init__(self, root: Path, seed: int):
        """Make the good files of the cases, in a folder of the fuzzer's own."""
        self.rng, self.root = random.Random(seed), root
        self.case = root / "case"
        self.outside = root / "outside"
        self.outside.mkdir()
        (self.outside / "precious.txt").write_text("precious")
        agents = ("augmented", "delayed", "distribution")
        self.records = [
            deadtime.train("maze", agent, 2, seeds=2, size=3, episodes=20).record
            for agent in agents
        ]
        small = {"steps": 40, "hidden": [4], "batch_size": 8, "evaluation_episodes": 1}
        self.records += [
            deadtime.train("cartpole", "delayed", 2, **small).record,
            deadtime.train("gym:CartPole-v1", "augmented", 1, **small).record,
            deadtime.train(
                "cartpole", "recurrent", 1, steps=80, hidden=[4], lstm=4, evaluation_episodes=1
            ).record,
        ]
        self.sweep_text = (
            'environments = ["maze", "noisy-cartpole"]\nagents = ["delayed", "oblivious"]\n'
            "delays = [0, 2]\nseeds = 2\n"
            'presets = ["best"]\n[overrides.maze]\nsize = 3\nepisodes = 20\n'
            "[overrides.noisy-cartpole]\nsteps = 100\nnoise = 0.2\n"
        )
        self.kinds: dict[Callable[[], None], int] = {
            self.record: 40,
            self.policy: 20,
            self.damaged_record: 10,
            self.pack: 15,
            self.saved_state: 12,
            self.status: 12,
            self.sweep: 5,
            self.folder: 1,
        }

    def json(self, content: Any) -> Any:
        """Return JSON with another value in one place."""
        rng = self.rng
        if isinstance(content, dict) and content and rng.random() < 0.85:
            name = rng.choice(sorted(content))
            if rng.random() < 0.08:
                return {key: value for key, value in content.items() if key != name}
            return {
                key: self.json(value) if key == name else value for key, value in content.items()
            }
        if isinstance(content, list) and content and rng.random() < 0.7:
            at = rng.randrange(len(content))
            return [
                *content[:at],
                *([] if rng.random() < 0.1 else [self.json(content[at])]),
                *content[at + 1 :],
            ]
        if isinstance(content, int | float) and rng.random() < 0.3:
            return rng.choice([content + 1, -content, content * 10**6, float(content), content / 3])
        return rng.choice(ODD)

    def bytes(self, content: bytes) -> bytes:
        """Return a content with some bits flipped, or a part dropped or moved."""
        rng = self.rng
        for _ in range(rng.randint(1, 3)):
            at, first, last = (
                rng.randrange(len(content) + 1),
                *sorted(rng.choices(range(len(content) + 1), k=2)),
            )
            kind = rng.randrange(4)
            if kind == 0:
                content = content[:at]
            elif kind == 1:
                content = content[:at] + content[first:last] + content[at:]
            elif kind == 2:
                content = content[:first] + content[last:]
            elif content:
                at = min(at, len(content) - 1)
                content = (
                    content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
                )
        return content

    def array(self, array: np.ndarray) -> np.ndarray:
        """Return an array of another shape, kind or content."""
        rng = self.rng
        if rng.random() < 0.5 and array.size:
            other = np.array(array)
            value = rng.choice([0, -1, 1, 10**8, -(10**8), 0.5, np.inf, np.nan])
            with np.errstate(all="ignore"):
                other.flat[rng.randrange(other.size)] = np.float64(value).astype(array.dtype)
            return (
                other
                if rng.random() < 0.7
                else np.full_like(array, np.float64(value).astype(array.dtype))
            )
        shape = [rng.choice([0, 1, 2, 3, 7, 64]) for _ in range(rng.randrange(4))]
        return np.full(
            shape,
            rng.randrange(12),
            rng.choice([array.dtype, np.dtype("f4"), np.dtype("i8"), np.dtype("u1")]),
        )

    def written(self, record: Record) -> Path:
        """Write a record anew and return its folder."""
        shutil.rmtree(self.case, ignore_errors=True)
        return records.write(self.case / "record", record)

    def forged(self, folder: Path, content: dict[str, Any]) -> None:
        """Write a record's run.json with digests that are right."""
        content = {name: value for name, value in content.items() if name != "digest"}
        if isinstance(content.get("files"), dict):
            content["files"] |= {
                path.name: records._digest(path.read_bytes()) for path in folder.glob("*.npz")
            }
        content["digest"] = records._digest(records._text(content).encode())
        (folder / "run.json").write_text(json.dumps(content))

    def record(self) -> None:
        """Read, show and convert to events a record with changed content."""
        folder = self.written(self.rng.choice(self.records))
        content = json.loads((folder / "run.json").read_text())
        rest = {name: value for name, value in content.items() if name not in ("digest", "schema")}
        changed = self.json(rest)
        self.forged(
            folder,
            {
                "schema": content["schema"],
                **(changed if isinstance(changed, dict) else {"spec": changed}),
            },
        )
        record = records.read(folder, policies=True)
        _ = Result(record).spec
        for experiment, results in folder_report.experiments(self.case):
            experiment.table(results, self.case)
            folder_report.printed(experiment, results)
        if self.rng.random() < 0.02:
            page(self.case, "2026-01-01")
            tensorboard.write(record, self.case / "events")

    def policy(self) -> None:
        """Load policies with other arrays, and let them act."""
        record = self.rng.choice(self.records)
        arrays = dict(record.policies)
        for name in self.rng.choices([*arrays], k=self.rng.randint(1, 3)):
            arrays[name] = self.array(arrays[name])
        folder = self.written(record)
        np.savez(folder / "policies.npz", **arrays)
        self.forged(folder, json.loads((folder / "run.json").read_text()))
        policy = deadtime.load(folder)
        observation: Any = 0 if record.spec["env"] == "maze" else np.zeros(4, np.float32)
        action = policy.act(observation, [0] * policy.delay)
        assert action in range(4), f"a policy chose {action!r}"

    def damaged_record(self) -> None:
        """Read a record with damaged bytes; it must be read as it was, or refused."""
        record = self.rng.choice(self.records)
        folder = self.written(record)
        path = self.rng.choice(sorted(folder.iterdir()))
        path.write_bytes(self.bytes(path.read_bytes()))
        found = records.read(folder, policies=True)
        assert found.scores == record.scores, "damage passed for the original"

    def pack(self) -> None:
        """Read and rewrite a pack with damaged bytes, or with members that packing never writes."""
        rng, record = self.rng, self.rng.choice(self.records)
        folder = self.written(record)
        contents = [("record", path.name, path.read_bytes()) for path in sorted(folder.iterdir())]
        shutil.rmtree(folder)
        damaged = rng.random() < 0.5
        if not damaged:
            contents += [
                (self.member_name(), rng.choice(["run.json", "curves.npz", "x"]), b"{}")
                for _ in range(rng.randrange(3))
            ]
            rng.shuffle(contents) if rng.random() < 0.3 else contents.sort()
        file = io.BytesIO()
        pack_archive.write(file, contents)
        path = self.case / "maze.zip"
        path.write_bytes(self.bytes(file.getvalue()) if damaged else file.getvalue())
        if rng.random() < 0.1:
            hostile(rng, self.case / "x.zip", self.outside)
        if rng.random() < 0.3:
            records.write(self.case / "other", record)
            packs.pack(self.case)
        names = records.names(self.case)
        assert all(name.isprintable() and "/" not in name for name in names), names
        folder_report.experiments(self.case, folder_report.refused(self.case))
        if records.exists(folder):
            found = records.read(folder, policies=True)
            assert found.scores == record.scores, "damage passed for the original"

    def member_name(self) -> str:
        """Return a name that a record in a pack may have, or an odd one."""
        odd = [one.replace("\ud800", "é") for one in ODD if isinstance(one, str)]
        return str(self.rng.choice([*odd, "..", "/etc", "a", "record", "record/..", "z" * 300]))

    def saved_state(self) -> None:
        """Load a checkpoint with another content or damaged bytes."""
        shutil.rmtree(self.case, ignore_errors=True)
        self.case.mkdir()
        path = self.case / "x.safetensors"
        about: Any = {"steps": 7, "seconds": 1.5, "resumed_at": [3]}
        parts = {
            f"state/{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(STATE))
        } | {"ended": np.ones((4, 3))}
        if self.rng.random() < 0.5:
            about = self.json(about)
        else:
            name = self.rng.choice(sorted(parts))
            parts[name] = self.array(parts[name])
        text = json.dumps(about)
        save_file(parts, path, metadata={"about": text, "sum": checkpoint._sum(parts, text)})
        if self.rng.random() < 0.4:
            path.write_bytes(self.bytes(path.read_bytes()))
        checkpoint.load(path, STATE, FURTHER, checkpoint.Extent(100, runs=4))

    def status(self) -> None:
        """Print a status file with changed content, as text and as JSON."""
        shutil.rmtree(self.case, ignore_errors=True)
        self.case.mkdir()
        running = {
            "name": "maze delayed m=2 seed 0",
            "work": 20,
            "done": 4,
            "attempt": 1,
            "since": 1.5,
        }
        content: Any = {
            "units": 4,
            "done": 2,
            "work": 80,
            "work_done": 44,
            "seconds": 3.5,
            "running": [running, dict(running)],
            "failed": [{"name": "maze oblivious m=2 seed 0", "reason": "ValueError: no"}],
            "written": "2026-01-01T00:00:00+00:00",
        }
        for _ in range(self.rng.randint(1, 2)):
            content = self.json(content)
        content = json.dumps(content).encode()
        (self.case / ".status.json").write_bytes(
            self.bytes(content) if self.rng.random() < 0.2 else content
        )
        printed = io.StringIO()
        with redirect_stdout(printed):
            Status(str(self.case), json=self.rng.random() < 0.5).run()
        assert "\x1b[2J" not in printed.getvalue(), "a terminal would obey this"

    def sweep(self) -> None:
        """Read a sweep with changed or damaged content."""
        shutil.rmtree(self.case, ignore_errors=True)
        self.case.mkdir()
        path, lines = self.case / "x.toml", self.sweep_text.splitlines()
        if self.rng.random() < 0.5:
            at = self.rng.randrange(len(lines))
            value = json.dumps(
                self.rng.choice(
                    [odd for odd in ODD if not isinstance(odd, dict) and odd is not None]
                )
            )
            lines[at] = f"{lines[at].partition('=')[0]}= {value}"
            path.write_text("\n".join(lines), errors="replace")
        else:
            path.write_bytes(self.bytes(self.sweep_text.encode()))
        sweep_file.read(path)

    def folder(self) -> None:
        """Read and sweep into a folder with links, pipes, devices and large files of odd names."""
        shutil.rmtree(self.case, ignore_errors=True)
        self.case.mkdir()
        folder, rng = self.case / "theirs", self.rng
        records.write(folder / "record", self.records[0])
        (self.case / "x.toml").write_text(
            'environments = ["maze"]\nagents = ["oblivious"]\ndelays = [1]\nseeds = 1\n'
            "[overrides]\nsize = 3\nepisodes = 5\n"
        )
        runs = sweep_file.read(self.case / "x.toml")
        names = [
            ".driver",
            ".status.json",
            ".units",
            ".units/a.npz",
            ".checkpoints",
            "tensorboard",
            "x.toml",
            "ceilings.json",
        ]
        names += [
            "record/run.json",
            "record/curves.npz",
            "record/notes",
            runs[0][0].name,
            f".{runs[0][0].name}.old",
            "maze.zip",
            "report.html",
        ]
        for name in rng.choices(names, k=rng.randint(1, 3)):
            hostile(rng, folder / name, self.outside)
        for command in (
            ("status", folder),
            ("report", folder),
            ("sweep", "x.toml", "--out", folder, "--engine", "inline"),
        ):
            if rng.random() < 0.6:
                found = run(
                    *command, *(["--tensorboard"] if command[0] == "sweep" else []), cwd=self.case
                )
                assert "Traceback" not in found.stderr, found.stderr
                assert found.returncode in (0, 1, 2), f"exit status {found.returncode}"

    def kind(self) -> Callable[[], None]:
        """Return the function of the next case."""
        return self.rng.choices([*self.kinds], [*self.kinds.values()])[0]


def hostile(rng: random.Random, path: Path, outside: Path) -> None:
    """Put something that is no plain file of ours at a path, unless its folder is hostile already.

    A folder may be a link that leads outside: then this function itself would write there.
    """
    if path.parent.is_symlink() or (path.parent.exists() and not path.parent.is_dir()):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    kind = rng.randrange(8)
    if kind == 0:
        path.symlink_to(outside / "precious.txt")
    elif kind == 1:
        path.symlink_to(outside / "new.txt")
    elif kind == 2:
        path.symlink_to(outside)
    elif kind == 3:
        path.symlink_to("/dev/zero")
    elif kind == 4:
        os.mkfifo(path)
    elif kind == 5:
        path.mkdir()
    elif kind == 6:
        with path.open("wb") as file:
            file.truncate(2**40)
    else:
        path.write_bytes(b"[" * 100_000)


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise `Slow` if the block takes too long."""

    def ring(*_: Any) -> None:
        raise Slow

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def untouched(outside: Path) -> bool:
    """Return whether nothing was written outside the folders of the cases."""
    return [*outside.rglob("*")] == [outside / "precious.txt"] and (
        outside / "precious.txt"
    ).read_text() == "precious"


def fuzz(cases: int, seed: int = 0, only: str = "") -> tuple[Counter[str], list[str]]:
    """Run so many cases; return how they ended, by kind, and what failed."""
    ends: Counter[str] = Counter()
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="deadtime-fuzz-") as name:
        fuzzer = Fuzzer(Path(name), seed)
        for number in range(cases):
            state, kind = fuzzer.rng.getstate(), getattr(fuzzer, only) if only else fuzzer.kind()
            before, began = _resident(), monotonic()
            end, why = "read", ""
            try:
                with limited(MOST_SECONDS), redirect_stderr(io.StringIO()):
                    kind()
            except REFUSALS:
                end = "refused"
            except (Exception, Slow):
                why = (
                    f"it took {monotonic() - began:.0f} s"
                    if monotonic() - began >= MOST_SECONDS
                    else format_exc()
                )
            if _resident() - before > MOST_GROWTH:
                why = f"the process grew by {(_resident() - before) / 2**30:.1f} GiB"
            if kind == fuzzer.folder and not untouched(fuzzer.outside):
                why = "something outside the folder was changed"
                shutil.rmtree(fuzzer.outside)
                fuzzer.outside.mkdir()
                (fuzzer.outside / "precious.txt").write_text("precious")
            ends[f"{kind.__name__} {'failed' if why else end}"] += 1
            if why:
                about = f"{kind.__name__} (state {hash(state) & 0xFFFFFF:06x})"
                failed.append(f"case {number} of seed {seed}, {about}: {why}")
    return ends, failed


if __name__ == "__main__":
    found, wrong = fuzz(
        int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0, *sys.argv[3:]
    )
    for one in wrong[:20]:
        print(one)
    print(f"{sum(found.values()):,} cases, {len(wrong)} failed: {dict(sorted(found.items()))}")
    sys.exit(1 if wrong else 0)
