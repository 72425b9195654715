"""Training of the runs that are not recorded yet, for every command that trains."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from deadtime._support.files import is_folder
from deadtime.learn.tabular_loop import check_workers
from deadtime.runs import driver, records
from deadtime.runs.checkpoint_store import CHECKPOINTS
from deadtime.runs.driven import alone
from deadtime.runs.driver import How
from deadtime.runs.result import Result
from deadtime.runs.specs import Spec
from deadtime.runs.store import Store
from deadtime.runs.tabular_specs import TabularSpec, check_seeds
from deadtime.runs.units import Keep
from deadtime.runs.wanted import missing
from deadtime.runs.where import Where

__all__ = ["How", "Keep", "Where", "train_missing", "train_recorded"]


def train_missing(
    runs: Iterable[tuple[Spec, Sequence[int]]],
    root: Path,
    where: Where | None = None,
    store: Store | None = None,
    begin: Callable[[], None] = lambda: None,
    how: How | None = None,
) -> int:
    """Train and record the runs that are not recorded yet; return the number that failed.

    Where policies of any size are kept, a seed whose record has no policy counts as missing.
    `begin` is called after all checks, before the first run.
    """
    wanted = list(runs)
    where = where or Where()
    how = how or How()
    driver.check(where)
    left = missing(wanted, root, how.keep)
    if not left and not (how.alone and driver.has_failed_units(root, store)):
        begin()
        return 0
    for spec, seeds in left:
        if isinstance(spec, TabularSpec):
            check_workers(spec, len(seeds), how.keep.most_bytes is None and bool(how.keep.seeds))
    if not how.alone:
        _check_writable(root)
    with _only_driver(root, store, how):
        if store is not None:  # another driver may have added records
            store.pull(root)
        begin()
        if how.alone:
            driver.finish_writing(root, store)
        return driver.run(missing(wanted, root, how.keep), root, where, store, how)


def _only_driver(root: Path, store: Store | None, how: How) -> AbstractContextManager[None]:
    if not how.alone:
        return nullcontext()
    return alone(root) if store is None else store.driven(root)


def train_recorded(
    spec: Spec,
    seeds: int | Sequence[int],
    root: Path,
    keep_policies: bool = True,
    where: Where | None = None,
) -> tuple[Result, Path]:
    """Train the seeds that `root` has no record of, and return the result of all `seeds`.

    Finished seeds survive an interruption. Other processes may add to the same folder.
    """
    wanted = list(check_seeds(seeds))
    folder = root / spec.name
    if records.exists(folder):
        known = records.read(folder)
        if known.id != spec.id:
            rule = f"{folder} holds the record of another spec ({known.id})"
            raise ValueError(f"{rule}: delete the folder and run it again")
    keep = Keep(tuple(wanted)) if keep_policies else Keep()
    where = where or Where(engine="inline")
    train_missing([(spec, wanted)], root, where, how=How(keep, alone=False))
    return Result(records.read(folder, policies=keep_policies).rows(wanted)), folder


def _check_writable(root: Path) -> None:
    """Raise if `root` is not a folder that can be written to."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        is_folder(root / CHECKPOINTS)
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        rule = f"records go to a folder that can be written; {root} can't ({error.strerror})"
        raise ValueError(f"{rule}: name another") from None
