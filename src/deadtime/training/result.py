"""`train`: from names to what was learned."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from deadtime.agents.policy import Policy
from deadtime.envs import nearest
from deadtime.experiments import records
from deadtime.experiments.deep_specs import DEEP, DeepSpec, deep_spec
from deadtime.experiments.records import Record
from deadtime.experiments.specs import TABULAR, TabularSpec, check_seeds, tabular_from, tabular_spec
from deadtime.files import is_folder, printable
from deadtime.terminal import console
from deadtime.training.recorded_policy import policy_of
from deadtime.training.tabular import check_workers, run_seeds

Spec = TabularSpec | DeepSpec
ENVIRONMENTS = (*TABULAR, *DEEP, "gymnax:NAME", "gym:ID", "atari:NAME")

_WRITE_EVERY_SECONDS = 5.0
_SHOWN_SCORES = 5


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
        said, count = self.record.spec, len(self.seeds)
        scores = [f"{score:.1f}" if abs(score) >= 10 else f"{score:.3f}" for score in self.record.scores]
        shown = ", ".join(scores[:_SHOWN_SCORES] + ["..."] * (count > _SHOWN_SCORES))
        seeds = f"{count} seed{'s' * (count != 1)}"
        return printable(f"Result({said['env']}, {said.get('agent')}, delay {said.get('delay', 0)}, {seeds}: {shown})")

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
        return [seed for seed, status in zip(self.seeds, self.record.status, strict=True) if status == "never updated"]

    @property
    def curve(self) -> Curve:
        """How the return grew during training."""
        return Curve(self.record.points, self.record.curve)

    def policy(self, seed: int | None = None) -> Policy:
        """Return the policy of one seed (default: the first); it acts without the environment.

        `act(observation, pending_actions)` chooses an action.
        """
        seed = self.seeds[0] if seed is None else seed
        arrays = {
            name.partition("/")[2]: part for name, part in self.record.policies.items() if name.partition("/")[0] == str(seed)
        }
        if not arrays:
            kept = (
                f"of the seeds {self.record.policy_seeds} only"
                if self.record.policy_seeds
                else "of no seed (`compare` keeps none)"
            )
            raise ValueError(
                f"this record holds policies {kept}; got seed {seed!r}: train it with `train` and the same settings"
            )
        return policy_of(self.spec, seed, arrays)

    def save(self, path: str | Path) -> Path:
        """Write the record to a folder, whole or not at all."""
        return records.write(Path(path), self.record)


def make_spec(env: str, agent: str, delay: int, options: dict[str, Any]) -> Spec:
    """A run by names: tabular or deep, as the environment is."""
    if env in TABULAR:
        return tabular_spec(env, agent, delay, options)
    if env in DEEP or str(env).startswith(("gymnax:", "gym:", "atari:")):
        return deep_spec(env, agent, delay, options)
    raise ValueError(
        f"no environment is called {env!r}{nearest(str(env), ENVIRONMENTS)}: choose one of {', '.join(ENVIRONMENTS)}"
    )


def from_canonical(said: dict[str, Any]) -> Spec:
    """Return the spec that a record was made with: its form is checked, and no environment is made.

    Before such a spec is run, `dataclasses.replace(spec)` checks it against its environment.
    """
    given = {name: value for name, value in said.items() if name != "kind"}
    try:
        return DeepSpec(**given, recorded=True) if said.get("kind") == "deep" else tabular_from(given)
    except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"a record says what was run; got {said!r:.200} ({error!r:.100}): train it again") from error


def folder_of(record: Record) -> str:
    """Return the folder's name, whatever this version would call it."""
    return f"{from_canonical(record.spec).name.rpartition('-')[0]}-{record.id}"


def train(env: str, agent: str = "delayed", delay: int = 0, seeds: Any = 1, **options: Any) -> Result:
    """Train an agent under a delay; `seeds` is a number or a list.

    Options are those of the run (`episodes`, or `preset` and `steps`), of the learner (`step_size`, `discount`, …) and the
    environment's own (`size`, `noise`, …; for ``gym:ID`` whatever `gymnasium.make` takes). `deadtime train` takes the same
    words.
    """
    spec, chosen = make_spec(env, agent, delay, options), check_seeds(seeds)
    with _progress(spec, len(chosen)) as advance:
        return Result(reduce(records.joined, _runs(spec, chosen, advance)))


def _runs(
    spec: Spec,
    seeds: tuple[int, ...],
    progress: Callable[[int], None],
    keep_policies: bool = True,
    checkpoints: Path | None = None,
) -> Iterator[Record]:
    if isinstance(spec, TabularSpec):
        return run_seeds(spec, seeds, progress, keep_policies)
    from deadtime.training.deep import run_deep  # noqa: PLC0415  (JAX and its compiler take a while to load)

    return run_deep([(spec, seed) for seed in seeds], progress, keep_policies, checkpoints)


def load(path: str | Path, seed: int | None = None) -> Policy:
    """Return the policy of one seed (default: the first) of a saved training; it acts without the environment."""
    return Result(records.read(Path(path), policies=True)).policy(seed)


def train_recorded(
    spec: Spec, seeds: Any, root: Path, keep_policies: bool = True, progress: Callable[[int], None] | None = None
) -> tuple[Result, Path]:
    """Train the seeds that the record under `root` does not hold yet, and record them; an interruption keeps what is done."""
    wanted, folder = list(check_seeds(seeds)), root / spec.name
    known = records.read(folder, policies=keep_policies) if records.exists(folder) else None
    if known is not None and known.id != spec.id:
        raise ValueError(f"{folder} holds the record of another spec ({known.id}): delete the folder and run it again")
    recorded = [] if known is None else known.policy_seeds if keep_policies else known.seeds
    missing = tuple(seed for seed in wanted if seed not in recorded)
    if known is not None:
        known = known.rows([seed for seed in known.seeds if seed not in missing])
    if not missing and known is not None:
        return Result(known.rows(wanted)), folder
    if isinstance(spec, TabularSpec):
        check_workers(spec, len(missing), keep_policies)
    _check_writable(root)
    with _progress(spec, len(missing)) if progress is None else nullcontext(progress) as advance:
        new = _runs(spec, missing, advance, keep_policies, root / ".checkpoints")
        done = _recorded(new, {spec.id: folder})[spec.id]
    return Result(reduce(records.joined, [known, done] if known is not None and known.seeds else [done]).rows(wanted)), folder


def record_together(wanted: list[tuple[DeepSpec, Sequence[int]]], root: Path, together: bool = False) -> None:
    """Train and record what several deep specs miss of their seeds, side by side where they can share a program.

    `together` is for runs that hardly train: they compile less, and with less care.
    """
    pairs: dict[tuple[str, int], tuple[DeepSpec, int]] = {}
    for spec, seeds in wanted:
        folder = root / spec.name
        known = records.read(folder).seeds if records.exists(folder) else []
        pairs |= {(spec.id, seed): (spec, seed) for seed in seeds if seed not in known}
    if not pairs:
        return
    from deadtime.training.deep import run_deep  # noqa: PLC0415
    from deadtime.training.memory import compiled_quickly  # noqa: PLC0415

    _check_writable(root)
    folders = {spec.id: root / spec.name for spec, _ in pairs.values()}
    total = sum(spec.length for spec, _ in pairs.values())
    with compiled_quickly() if together else nullcontext(), bar(f"{len(pairs)} runs", total, "steps") as advance:
        _recorded(run_deep([*pairs.values()], advance, False, root / ".checkpoints", together), folders)


def _progress(spec: Spec, seeds: int) -> AbstractContextManager[Callable[[int], None]]:
    """A bar for one spec."""
    each, unit = (spec.episodes, "episodes") if isinstance(spec, TabularSpec) else (spec.length, "steps")
    return bar(f"{spec.env} {spec.agent} m={spec.delay}", seeds * each, unit)


@contextmanager
def bar(about: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """A bar where there is a screen; gives what to tell it of progress."""
    counted = TextColumn("{task.completed:,}/{task.total:,} {task.fields[unit]}")
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), counted, TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(about, total=total, unit=unit)
        yield lambda n: progress.advance(task, n)


def _recorded(new: Iterator[Record], folders: dict[str, Path]) -> dict[str, Record]:
    """Write seeds as they are done: every few seconds, and at the end, whatever the end is."""
    done: dict[str, Record] = {}
    unwritten: set[str] = set()
    last = monotonic()

    def write() -> None:
        for name in sorted(unwritten):
            records.add(folders[name], done[name])
            unwritten.discard(name)

    try:
        for record in new:
            done[record.id] = records.joined(done[record.id], record) if record.id in done else record
            unwritten.add(record.id)
            if monotonic() - last > _WRITE_EVERY_SECONDS:
                write()
                last = monotonic()
    finally:
        write()
    return done


def _check_writable(root: Path) -> None:
    """Find out that nothing can be written there before anything is trained."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        is_folder(root / ".checkpoints")
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        raise ValueError(
            f"records go to a folder that can be written; {root} is none ({error.strerror}): name another"
        ) from None
