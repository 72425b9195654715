"""Training deep agents: runs that can share a compiled program run side by side, in chunks, with checkpoints between them.

On a CPU a program is compiled for one view and a queue as long as the delay needs, and seeds run on threads, one core each.
On a GPU one program serves all views and delays up to 25: a step there is a chain of small kernels, which more runs do not
make longer. Runs on Gymnasium environments go to `host`, seeds on threads as well.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from threading import Event
from time import monotonic, perf_counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from deadtime.agents.views import VIEWS
from deadtime.experiments.deep_specs import DeepSpec
from deadtime.experiments.provenance import made_now
from deadtime.experiments.records import Record
from deadtime.machine import cores
from deadtime.training import atari, checkpoint, fused, recurrent
from deadtime.training.host import run_host
from deadtime.training.memory import bytes_a_run, check_memory, keep_compiled
from deadtime.training.outcome import policy_arrays, record_of, status_of
from deadtime.training.program import Numbers, Program, Setup, flags_of, split_settings

Pair = tuple[DeepSpec, int]
Progress = Callable[[int], None]
CHUNK_STEPS = 2000
_WRITE_EVERY_SECONDS = 60.0
_CAPACITIES = (0, 2, 5, 10, 15, 20, 25, 32, 40, 50, 64, 80, 100)
_SHARED = (25, *_CAPACITIES[7:])


def capacity_of(delay: int, room: tuple[int, ...] = _CAPACITIES) -> int:
    """The length of the queue that a program is compiled for."""
    return next((one for one in room if one >= delay), delay)


class Method(NamedTuple):
    """What a kind of learner brings to the one loop below; `fused` says what the functions do."""

    program: Callable[[DeepSpec, Any, bool], Any]
    numbers: Any
    flags: Callable[[DeepSpec], Any]
    begin_all: Callable[..., Any]
    run_chunk: Callable[..., tuple[Any, Any]]
    evaluate_all: Callable[..., Any]
    policy_arrays: Callable[[Any, int], dict[str, np.ndarray]]


def program_of(spec: DeepSpec, device: str) -> Any:
    """The program that a spec runs in."""
    env, method = spec.environment(0), METHODS[spec.learner.kind]
    kind = type(env)() if spec.env.split(":")[0] != "gymnax" else env
    return method.program(spec, kind, device == "gpu")


def _double_q(spec: DeepSpec, env: Any, shared: bool) -> Program:
    view, settings = VIEWS[spec.agent], split_settings(spec.learner)[0]
    if shared and view.credits != "shifted":
        return Program(env, None, settings, capacity_of(spec.longest_delay, _SHARED))
    return Program(env, view, settings, capacity_of(spec.longest_delay))


def _a2c(spec: DeepSpec, env: Any, shared: bool) -> recurrent.Program:
    settings = split_settings(spec.learner, recurrent.Numbers)[0]
    return recurrent.Program(env, settings, capacity_of(spec.longest_delay, _SHARED if shared else _CAPACITIES))


METHODS = {
    "double-q": Method(
        _double_q,
        Numbers,
        lambda spec: flags_of(VIEWS[spec.agent]),
        fused.begin_all,
        fused.run_chunk,
        fused.evaluate_all,
        policy_arrays,
    ),
    "a2c": Method(
        _a2c,
        recurrent.Numbers,
        lambda spec: (),
        recurrent.begin_all,
        recurrent.run_chunk,
        recurrent.evaluate_all,
        recurrent.policy_arrays,
    ),
}
"""By the learner's kind."""


def groups_of(pairs: list[Pair], device: str) -> list[tuple[Any, list[Pair]]]:
    """Pairs that share a program; on a CPU each is a group of its own."""
    if device != "gpu":
        return [(program_of(spec, device), [(spec, seed)]) for spec, seed in pairs]
    found: dict[Any, list[Pair]] = {}
    for spec, seed in pairs:
        found.setdefault(program_of(spec, device), []).append((spec, seed))
    return list(found.items())


def setups_of(pairs: list[Pair], width: int) -> Setup:
    """What each run is told; a group is padded to its width with its last run."""
    padded = pairs + [pairs[-1]] * (width - len(pairs))

    def one(spec: DeepSpec, seed: int) -> Any:
        method = METHODS[spec.learner.kind]
        numbers = method.numbers(*(float(value) for value in split_settings(spec.learner, method.numbers)[1]))
        params = jax.tree.map(_number, spec.environment(seed).default_params)
        return spec.delay, params, spec.length, numbers, method.flags(spec)

    parts = [one(spec, seed) for spec, seed in padded]
    delay, params, steps, numbers, flags = jax.tree.map(lambda *values: jnp.asarray(np.array(values)), *parts)
    keys = jax.vmap(jax.random.key)(jnp.array([seed for _, seed in padded]))
    return Setup(keys, delay.astype(jnp.int32), params, steps.astype(jnp.int32), numbers, flags)


def _number(value: Any) -> np.ndarray:
    """A parameter as an array: true or false as it is, everything else a float."""
    return np.asarray(value) if np.asarray(value).dtype == bool else np.asarray(value, np.float32)


def run_deep(
    pairs: list[Pair],
    progress: Progress,
    keep_policies: bool = True,
    checkpoints: Path | None = None,
    together: bool = False,
    drop_checkpoints: bool = True,
) -> Iterator[Record]:
    """The record of each pair as its group is done; `progress` is told of every step that was trained.

    On a GPU all that can share a program do; `together` does so on a CPU too, where it compiles less and steps slower. A
    group's checkpoint goes when the next record is asked for: whoever did has written down the last.
    """
    keep_compiled()
    device, stop = jax.default_backend(), Event()
    groups = groups_of([pair for pair in pairs if not pair[0].outside], "gpu" if together else device)
    hosted = [pair for pair in pairs if pair[0].outside and not pair[0].atari]
    played = atari.groups_of([pair for pair in pairs if pair[0].atari], "gpu" if together else device)
    count = len(groups) + len(hosted) + len(played)
    workers = min(count, cores()) if device != "gpu" else 2 if played else 1 if groups else count
    _check_groups(groups, played, workers)
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(_run_group, *group, progress, stop, keep_policies, checkpoints) for group in groups]
        futures += [pool.submit(atari.run_group, *group, progress, stop, keep_policies, checkpoints) for group in played]
        futures += [pool.submit(run_host, *pair, progress, stop, keep_policies, checkpoints) for pair in hosted]
        try:
            left = {*futures}
            while left:
                done, left = wait(left, 1.0, FIRST_COMPLETED)  # not for longer: then it would not notice an interrupt
                for found, path in (future.result() for future in done):
                    yield from found
                    if path is not None and drop_checkpoints:
                        checkpoint.remove(path)
        finally:
            stop.set()
            for future in futures:
                future.cancel()


def _method(pairs: list[Pair]) -> Method:
    """That of a group."""
    return METHODS[pairs[0][0].learner.kind]


def bytes_of(program: Any, pairs: list[Pair]) -> int:
    """What a group's state takes."""
    if program not in _BYTES_A_RUN:
        _BYTES_A_RUN[program] = bytes_a_run(_method(pairs).begin_all, program, setups_of(pairs[:1], 1))
    return _BYTES_A_RUN[program] * width_of(len(pairs))


_BYTES_A_RUN: dict[Any, int] = {}


def _check_groups(groups: list[tuple[Any, list[Pair]]], played: list[tuple[Any, list[Pair]]], workers: int) -> None:
    """Refuse what would not fit: as many groups at once as there are workers, the largest ones."""
    sizes = [(bytes_of(program, pairs), len(pairs)) for program, pairs in groups]
    sizes += [(atari.bytes_of(program, pairs), len(pairs)) for program, pairs in played]
    sizes = sorted(sizes, reverse=True)[:workers]
    check_memory(sum(size for size, _ in sizes), sum(runs for _, runs in sizes))


def width_of(runs: int) -> int:
    """Groups are padded to a power of two or a multiple of 64, since results may differ in their last bits between widths."""
    return 1 << (runs - 1).bit_length() if runs <= 64 else -(-runs // 64) * 64


def _run_group(
    program: Any, pairs: list[Pair], progress: Progress, stop: Event, keep_policies: bool, checkpoints: Path | None
) -> tuple[list[Record], Path | None]:
    """Its records and the checkpoint that is of no use once they are safe; nothing if it was stopped."""
    begin, width, total = perf_counter(), width_of(len(pairs)), max(spec.length for spec, _ in pairs)
    setups, method = setups_of(pairs, width), _method(pairs)
    runs, done, ended = method.begin_all(program, setups), 0, []

    def about() -> dict[str, Any]:
        return {"steps": done, "seconds": perf_counter() - begin}

    path = None if checkpoints is None else checkpoints / f"{_group_id(program, pairs)}.safetensors"
    if path is not None and path.exists():
        extent = checkpoint.Extent(total, program.stride, width)
        runs, arrays, said = checkpoint.load(path, runs, {"ended": np.zeros((0, 3))}, extent)
        done, ended, begin = said["steps"], [arrays["ended"]], begin - said["seconds"]
        progress(sum(min(done, spec.length) for spec, _ in pairs))
    last = monotonic()
    while done < total and not stop.is_set():
        turns = -(-min(CHUNK_STEPS, total - done) // program.stride)
        length = turns * program.stride
        runs, returns = method.run_chunk(program, setups, runs, jnp.int32(done), length)
        ended.append(_episodes(np.asarray(returns), done))
        progress(sum(min(max(spec.length - done, 0), length) for spec, _ in pairs))
        done += length
        if path is not None and monotonic() - last > _WRITE_EVERY_SECONDS and done < total:
            checkpoint.save(path, runs, {"ended": np.concatenate(ended)}, about())
            last = monotonic()
    seconds, rows = about()["seconds"], np.concatenate(ended or [np.zeros((0, 3))])
    records = [] if stop.is_set() else _records(program, setups, runs, pairs, rows, seconds, keep_policies)
    if not stop.is_set():
        return records, path
    if path is not None and done:
        checkpoint.save(path, runs, {"ended": rows}, about())
    return [], None


def _group_id(program: Any, pairs: list[Pair]) -> str:
    text = f"{jax.default_backend()} {program.capacity} {[(spec.id, seed) for spec, seed in pairs]}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _episodes(returns: np.ndarray, first: int) -> np.ndarray:
    """Rows (run, step, return) of the episodes that ended in a chunk."""
    steps, runs = np.nonzero(~np.isnan(returns))
    return np.stack([runs, first + steps, returns[steps, runs]], axis=1)


def _records(
    program: Any, setups: Setup, runs: Any, pairs: list[Pair], ended: np.ndarray, seconds: float, keep_policies: bool
) -> list[Record]:
    """What came out, a record a pair."""
    episodes = max(spec.evaluation_episodes for spec, _ in pairs)
    limit = int(getattr(program.env.default_params, "max_steps_in_episode", 500))
    method = _method(pairs)
    scores = np.asarray(method.evaluate_all(program, setups, runs.learner, episodes, limit))
    if not np.isfinite(scores).all():
        env = pairs[0][0].env
        raise ValueError(f"returns are finite numbers; {env} gave others in evaluation: mend the environment, or its settings")
    diverged = np.asarray(runs.diverged_at)
    device = jax.devices()[0]
    name = f"CPU, {os.cpu_count()} cores" if device.platform == "cpu" else device.device_kind
    made = made_now(name) | {"width": width_of(len(pairs)), "capacity": program.capacity}
    others = _evaluated_elsewhere(program, setups, runs.learner, pairs, limit)
    learned, found = jax.tree.map(np.asarray, runs.learner), []
    for i, (spec, seed) in enumerate(pairs):
        learner = jax.tree.map(lambda leaf, i=i: leaf[i], learned)
        policy = method.policy_arrays(learner, program.capacity) if keep_policies else {}
        mine, score = ended[ended[:, 0] == i, 1:], float(scores[i, : spec.evaluation_episodes].mean())
        record = record_of(spec, seed, mine, score, status_of(learner, diverged[i]), seconds / len(pairs), policy, made)
        found.append(replace(record, others=others[i]) if i in others else record)
    return found


def _evaluated_elsewhere(program: Any, setups: Setup, learners: Any, pairs: list[Pair], limit: int) -> dict[int, np.ndarray]:
    """The scores of runs that are to be evaluated under other delays, by their place in the group."""
    chosen = [i for i, (spec, _) in enumerate(pairs) if spec.evaluation_delays]
    if not chosen:
        return {}
    setups, learners = jax.tree.map(lambda leaf: leaf[jnp.array(chosen)], (setups, learners))
    episodes = max(pairs[i][0].evaluation_episodes for i in chosen)
    scores = {}
    for delay in sorted({delay for i in chosen for delay in pairs[i][0].evaluation_delays}):
        there = setups._replace(delay=jnp.full(len(chosen), delay, jnp.int32))
        scores[delay] = np.asarray(_method(pairs).evaluate_all(program, there, learners, episodes, limit))
    return {
        i: np.array([[scores[delay][row, : pairs[i][0].evaluation_episodes].mean() for delay in pairs[i][0].evaluation_delays]])
        for row, i in enumerate(chosen)
    }
