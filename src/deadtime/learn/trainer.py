"""Training deep agents: runs that can share a compiled program run side by side, in chunks, with checkpoints between them.

On a CPU a program is compiled for one view and a queue as long as the delay needs, and seeds run on threads, one core each.
On a GPU one program serves all views and delays up to 25: a step there is a chain of small kernels, which more runs do not
make longer. Runs on Gymnasium environments go to `host`, seeds on threads as well.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event
from time import monotonic, perf_counter
from typing import Any, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from deadtime._support.machine import cores
from deadtime.learn import atari_loop, checkpoint, compiled_loop, recurrent_loop
from deadtime.learn.deep_q import policy_arrays
from deadtime.learn.evaluate import LARGEST_RETURN
from deadtime.learn.host_loop import run_host
from deadtime.learn.memory import bytes_a_run, check_memory, keep_compiled
from deadtime.learn.outcome import Outcome, deep_outcome, status_of
from deadtime.learn.program import Numbers, Program, Setup, flags_of, split_settings
from deadtime.learn.run_spec import DeepRun
from deadtime.learn.views import VIEWS

Pair = tuple[DeepRun, int]
RunT = TypeVar("RunT", bound=DeepRun)
Finished = tuple[DeepRun, Outcome]
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

    program: Callable[[DeepRun, Any, bool], Any]
    numbers: Any
    flags: Callable[[DeepRun], Any]
    begin_all: Callable[..., Any]
    run_chunk: Callable[..., tuple[Any, Any]]
    evaluate_all: Callable[..., Any]
    policy_arrays: Callable[[Any, int], dict[str, np.ndarray]]


def program_of(spec: DeepRun, device: str) -> Any:
    """The program that a spec runs in."""
    env, method = spec.environment(0), METHODS[spec.learner.kind]
    kind = type(env)() if spec.family.members else env  # ours take their parameters from each run
    return method.program(spec, kind, device == "gpu")


def _double_q(spec: DeepRun, env: Any, shared: bool) -> Program:
    view, settings = VIEWS[spec.agent], split_settings(spec.learner)[0]
    if shared and view.credits != "shifted":
        return Program(env, None, settings, capacity_of(spec.longest_delay, _SHARED))
    return Program(env, view, settings, capacity_of(spec.longest_delay))


def _a2c(spec: DeepRun, env: Any, shared: bool) -> recurrent_loop.Program:
    settings = split_settings(spec.learner, recurrent_loop.Numbers)[0]
    return recurrent_loop.Program(env, settings, capacity_of(spec.longest_delay, _SHARED if shared else _CAPACITIES))


METHODS = {
    "double-q": Method(
        _double_q,
        Numbers,
        lambda spec: flags_of(VIEWS[spec.agent]),
        compiled_loop.begin_all,
        compiled_loop.run_chunk,
        compiled_loop.evaluate_all,
        policy_arrays,
    ),
    "a2c": Method(
        _a2c,
        recurrent_loop.Numbers,
        lambda spec: (),
        recurrent_loop.begin_all,
        recurrent_loop.run_chunk,
        recurrent_loop.evaluate_all,
        recurrent_loop.policy_arrays,
    ),
}
"""By the learner's kind."""


def groups_of(pairs: Sequence[tuple[RunT, int]], device: str) -> list[tuple[Any, list[tuple[RunT, int]]]]:
    """Pairs that share a program; on a CPU each is a group of its own."""
    if device != "gpu":
        return [(program_of(spec, device), [(spec, seed)]) for spec, seed in pairs]
    found: dict[Any, list[tuple[RunT, int]]] = {}
    for spec, seed in pairs:
        found.setdefault(program_of(spec, device), []).append((spec, seed))
    return list(found.items())


def setups_of(pairs: Sequence[Pair], width: int) -> Setup:
    """What each run is told; a group is padded to its width with its last run."""
    padded = [*pairs, *[pairs[-1]] * (width - len(pairs))]

    def one(spec: DeepRun, seed: int) -> Any:
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
    pairs: Sequence[tuple[RunT, int]],
    progress: Progress,
    keep_policies: bool = True,
    checkpoints: Path | None = None,
    together: bool = False,
    stopped: Event | None = None,
) -> Iterator[tuple[RunT, Outcome]]:
    """Train pairs, and yield the outcome of each as its group is done; `progress` hears of every step.

    On a GPU all pairs that can share a program do; `together` does so on a CPU too, where it compiles less and steps
    slower. When `stopped` is set, runs write checkpoints and end. Checkpoints stay until the caller deletes them, who
    knows when the outcomes are written.
    """
    keep_compiled()
    device, stop = jax.default_backend(), Event()
    groups = groups_of([pair for pair in pairs if not pair[0].outside], "gpu" if together else device)
    hosted = [pair for pair in pairs if pair[0].family.loop == "host"]
    played = atari_loop.groups_of([pair for pair in pairs if pair[0].family.loop == "pool"], "gpu" if together else device)
    count = len(groups) + len(hosted) + len(played)
    workers = min(count, cores()) if device != "gpu" else 2 if played else 1 if groups else count
    _check_groups(groups, played, workers)
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(_run_group, *group, progress, stop, keep_policies, checkpoints) for group in groups]
        futures += [pool.submit(atari_loop.run_group, *group, progress, stop, keep_policies, checkpoints) for group in played]
        futures += [pool.submit(run_host, *pair, progress, stop, keep_policies, checkpoints) for pair in hosted]
        try:
            left = {*futures}
            while left:
                done, left = wait(left, 0.2, FIRST_COMPLETED)  # not for longer: it must notice an interrupt
                if stopped is not None and stopped.is_set():
                    stop.set()
                for future in done:
                    yield from cast("list[tuple[RunT, Outcome]]", future.result())
        finally:
            stop.set()
            for future in futures:
                future.cancel()


def _method(pairs: Sequence[Pair]) -> Method:
    """Return the method of a group."""
    return METHODS[pairs[0][0].learner.kind]


def bytes_of(program: Any, pairs: Sequence[Pair]) -> int:
    """What a group's state takes."""
    if program not in _BYTES_A_RUN:
        _BYTES_A_RUN[program] = bytes_a_run(_method(pairs).begin_all, program, setups_of(pairs[:1], 1))
    return _BYTES_A_RUN[program] * width_of(len(pairs))


_BYTES_A_RUN: dict[Any, int] = {}


def _check_groups(
    groups: Sequence[tuple[Any, Sequence[Pair]]], played: Sequence[tuple[Any, Sequence[Pair]]], workers: int
) -> None:
    """Refuse what would not fit: as many groups at once as there are workers, the largest ones."""
    sizes = [(bytes_of(program, pairs), len(pairs)) for program, pairs in groups]
    sizes += [(atari_loop.bytes_of(program, pairs), len(pairs)) for program, pairs in played]
    sizes = sorted(sizes, reverse=True)[:workers]
    check_memory(sum(size for size, _ in sizes), sum(runs for _, runs in sizes))


def width_of(runs: int) -> int:
    """Groups are padded to a power of two or a multiple of 64, since results may differ in their last bits between widths."""
    return 1 << (runs - 1).bit_length() if runs <= 64 else -(-runs // 64) * 64


def _run_group(
    program: Any, pairs: Sequence[Pair], progress: Progress, stop: Event, keep_policies: bool, checkpoints: Path | None
) -> list[Finished]:
    """Train a group; return its outcomes. A group that was stopped has none, but a checkpoint."""
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
    if not stop.is_set():
        return _outcomes(program, setups, runs, pairs, rows, seconds, keep_policies)
    if path is not None and done:
        checkpoint.save(path, runs, {"ended": rows}, about())
    return []


def _group_id(program: Any, pairs: Sequence[Pair]) -> str:
    text = f"{jax.default_backend()} {program.capacity} {[(spec.id, seed) for spec, seed in pairs]}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _episodes(returns: np.ndarray, first: int) -> np.ndarray:
    """Rows (run, step, return) of the episodes that ended in a chunk."""
    steps, runs = np.nonzero(~np.isnan(returns))
    return np.stack([runs, first + steps, returns[steps, runs]], axis=1)


def _outcomes(
    program: Any, setups: Setup, runs: Any, pairs: Sequence[Pair], ended: np.ndarray, seconds: float, keep_policies: bool
) -> list[Finished]:
    """Evaluate a group; return the outcome of each pair."""
    episodes = max(spec.evaluation_episodes for spec, _ in pairs)
    limit = int(getattr(program.env.default_params, "max_steps_in_episode", 500))
    method = _method(pairs)
    scores = np.asarray(method.evaluate_all(program, setups, runs.learner, episodes, limit))
    if not (np.abs(scores) <= LARGEST_RETURN).all():
        env = pairs[0][0].env
        raise ValueError(f"returns are finite numbers; {env} gave others in evaluation: mend the environment, or its settings")
    diverged = np.asarray(runs.diverged_at)
    device = jax.devices()[0]
    name = f"CPU, {os.cpu_count()} cores" if device.platform == "cpu" else device.device_kind
    notes = {"width": width_of(len(pairs)), "capacity": program.capacity}
    others = _evaluated_elsewhere(program, setups, runs.learner, pairs, limit)
    learned, found = jax.tree.map(np.asarray, runs.learner), []
    for i, (spec, seed) in enumerate(pairs):
        learner = jax.tree.map(lambda leaf, i=i: leaf[i], learned)
        outcome = deep_outcome(
            spec,
            seed,
            ended[ended[:, 0] == i, 1:],
            score=float(scores[i, : spec.evaluation_episodes].mean()),
            status=status_of(learner, diverged[i]),
            seconds=seconds / len(pairs),
            policy=method.policy_arrays(learner, program.capacity) if keep_policies else {},
            others=others.get(i, np.zeros(0, np.float32)),
            device=name,
            notes=notes,
        )
        found.append((spec, outcome))
    return found


def _evaluated_elsewhere(
    program: Any, setups: Setup, learners: Any, pairs: Sequence[Pair], limit: int
) -> dict[int, np.ndarray]:
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
        i: np.array([scores[delay][row, : pairs[i][0].evaluation_episodes].mean() for delay in pairs[i][0].evaluation_delays])
        for row, i in enumerate(chosen)
    }
