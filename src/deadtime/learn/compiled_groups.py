"""Groups of runs that share a compiled program, with their environments inside it.

On a CPU a program is compiled for one view and a queue just long enough, and each run is a group.
On a GPU one program serves all delays up to 25, and all views but those whose rows have another
form. A step there is a chain of small kernels, and more runs in a batch do not make it slower.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from numpy.typing import ArrayLike

from deadtime.envs.pools import LARGEST_RETURN
from deadtime.learn import checkpoint, compiled_loop
from deadtime.learn.evaluations import EPISODES, Evaluations
from deadtime.learn.learners import LEARNERS
from deadtime.learn.memory import bytes_a_run
from deadtime.learn.outcome import Outcome, deep_outcome, status_of
from deadtime.learn.program import Program, Setup, bounded_by, split_settings
from deadtime.learn.run_spec import DeepRun
from deadtime.runtime.views import VIEWS

Pair = tuple[DeepRun, int]
RunT = TypeVar("RunT", bound=DeepRun)
Finished = tuple[DeepRun, Outcome]
CHUNK_STEPS = 2000
WRITE_EVERY_SECONDS = 60.0
_CAPACITIES = (0, 2, 5, 10, 15, 20, 25, 32, 40, 50, 64, 80, 100)
SHARED = (25, *_CAPACITIES[7:])
_BYTES_A_RUN: dict[Program, int] = {}


def capacity_of(delay: int, room: tuple[int, ...] = _CAPACITIES) -> int:
    """Return the length of the queue that a program is compiled for."""
    return next((one for one in room if one >= delay), delay)


def width_of(runs: int) -> int:
    """Return the width to which a group is padded: a power of two or a multiple of 64.

    Results may differ in their last bits between widths.
    """
    return 1 << (runs - 1).bit_length() if runs <= 64 else -(-runs // 64) * 64


def program_of(spec: DeepRun, device: str, alone: bool = False) -> Program:
    """Return the program that a spec runs in; with `alone`, one for its view and delay only."""
    env, view = spec.environment(0), VIEWS[spec.agent]
    kind = type(env)() if spec.family.members else env  # members differ by parameters alone
    settings = bounded_by(spec.length, split_settings(spec.learner)[0])
    mixes = LEARNERS[settings.kind].mixes_views
    alike = view.credits != "shifted" and view.shown is None
    shares = device == "gpu" and mixes and alike and not alone
    if view.projects and spec.longest_delay == 0:
        shares = False  # without a delay the projection is Q itself
    capacity = spec.longest_delay
    if spec.hidden is not None:
        capacity = max(capacity, spec.hidden.longest)
    if not alone:
        capacity = capacity_of(capacity, SHARED if shares else _CAPACITIES)
    process, observed = spec.process, spec.observed
    sees_age = process is not None and observed != "never" and view.shows_ages
    own = not shares or view.projects or view.sees == "history" or sees_age
    shown = view if own else None
    program = Program(kind, shown, settings, capacity, process=process, observed=observed)
    return replace(program, hidden=spec.hidden, ages=spec.ages)


def parts_of(
    pairs: Sequence[tuple[RunT, int]], device: str, alone: bool = False
) -> list[tuple[Program, list[tuple[RunT, int]]]]:
    """Return the pairs that share a program; on a CPU each pair is a group.

    With `alone`, each program is for one view and delay (see `program_of`).
    """
    if device != "gpu":
        return [(program_of(spec, device, alone), [(spec, seed)]) for spec, seed in pairs]
    found: dict[Program, list[tuple[RunT, int]]] = {}
    for spec, seed in pairs:
        found.setdefault(program_of(spec, device, alone), []).append((spec, seed))
    return list(found.items())


def setups_of(pairs: Sequence[Pair], width: int) -> Setup:
    """Return the setups of runs, stacked; copies of the last run fill the group's width."""
    padded = [*pairs, *[pairs[-1]] * (width - len(pairs))]

    def one(spec: DeepRun, seed: int) -> Any:
        numbers = split_settings(spec.learner)[1]
        numbers = type(numbers)(*map(float, numbers))
        params = jax.tree.map(_number, spec.environment(seed).default_params)
        return spec.delay, params, spec.length, numbers, VIEWS[spec.agent].code

    parts = [one(spec, seed) for spec, seed in padded]
    delay, params, steps, numbers, view = jax.tree.map(
        lambda *values: jnp.asarray(np.array(values)), *parts
    )
    keys = jax.vmap(jax.random.key)(jnp.array([seed for _, seed in padded]))
    return Setup(keys, delay.astype(jnp.int32), params, steps.astype(jnp.int32), numbers, view)


def _number(value: ArrayLike) -> np.ndarray:
    """Return a parameter as an array of booleans or of single-precision floats."""
    found = np.asarray(value)
    return found if found.dtype == bool else found.astype(np.float32)


def bytes_of(program: Program, pairs: Sequence[Pair]) -> int:
    """Return the size of a group's state."""
    if program not in _BYTES_A_RUN:
        setups = setups_of(pairs[:1], 1)
        _BYTES_A_RUN[program] = bytes_a_run(compiled_loop.begin_all, program, setups)
    return _BYTES_A_RUN[program] * width_of(len(pairs))


class CompiledGroup:
    """Runs that share a program, and their progress (see `trainer.Group`)."""

    def __init__(self, program: Program, pairs: Sequence[Pair]):
        """Prepare the group; `begin` or `resume` starts it."""
        self.program = program
        self.pairs = pairs
        self.length = max(spec.length for spec, _ in pairs)
        self.done = 0
        self.write_every_seconds = WRITE_EVERY_SECONDS
        self._width = width_of(len(pairs))
        self._ended: list[np.ndarray] = [np.zeros((0, 3))]
        self._evaluations = Evaluations(pairs)

    @property
    def name(self) -> str:
        """The name of the group's checkpoint."""
        runs = [(spec.id, seed) for spec, seed in self.pairs]
        text = f"{jax.default_backend()} {self.program.capacity} {runs}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def bytes(self) -> int:
        """The size of the group's state."""
        return bytes_of(self.program, self.pairs)

    def device(self) -> AbstractContextManager[Any]:
        """Return a context that changes nothing: the group is trained on the default device."""
        return nullcontext()

    def begin(self) -> None:
        """Start the runs."""
        self._setups = setups_of(self.pairs, self._width)
        self._runs = compiled_loop.begin_all(self.program, self._setups)

    def resume(self, path: Path) -> float:
        """Continue from a checkpoint; return its seconds of training."""
        self.begin()
        extent = checkpoint.Extent(self.length, compiled_loop.stride(self.program), self._width)
        further = {"ended": self._ended[0], "evaluations": self._evaluations.returns}
        self._runs, arrays, about = checkpoint.load(path, self._runs, further, extent)
        self.done = about["steps"]
        self._ended = [arrays["ended"]]
        self._evaluations.returns = arrays["evaluations"]
        return about["seconds"]

    def advance(self) -> int:
        """Train for a chunk of steps; return the number of steps of all runs."""
        each = compiled_loop.stride(self.program)
        wait = self._evaluations.steps_left(self.done) or CHUNK_STEPS
        length = -(-min(CHUNK_STEPS, self.length - self.done, wait) // each) * each
        self._runs, returns = compiled_loop.run_chunk(
            self.program, self._setups, self._runs, jnp.int32(self.done), length
        )
        self._ended.append(_episodes(np.asarray(returns), self.done))
        done = self.done
        self.done += length
        if self._evaluations.due(self.done):
            scores = self._evaluated(self._setups, self._runs.learner, EPISODES)
            self._evaluations.note(self.done, scores.mean(axis=1).tolist())
        return sum(min(max(spec.length - done, 0), length) for spec, _ in self.pairs)

    def save(self, path: Path, seconds: float) -> None:
        """Write a checkpoint."""
        if self.done:
            arrays = {
                "ended": np.concatenate(self._ended),
                "evaluations": self._evaluations.returns,
            }
            checkpoint.save(path, self._runs, arrays, {"steps": self.done, "seconds": seconds})

    def close(self) -> None:
        """Do nothing: everything is in this process."""

    def outcomes(self, seconds: float, keep_policies: bool, stop: Event) -> list[Finished]:
        """Evaluate the runs; return the outcome of each."""
        program, pairs, learners = self.program, self.pairs, self._runs.learner
        episodes = max(spec.evaluation_episodes for spec, _ in pairs)
        scores = self._evaluated(self._setups, learners, episodes)
        if not (np.abs(scores) <= LARGEST_RETURN).all():
            raise ValueError(
                f"returns are finite numbers; {pairs[0][0].env} gave others in evaluation: "
                "fix the environment, or its settings"
            )
        others = self._evaluated_elsewhere(learners)
        learned = jax.tree.map(np.asarray, learners)
        ended = np.concatenate(self._ended)
        found = []
        for i, (spec, seed) in enumerate(pairs):
            learner = jax.tree.map(lambda leaf, i=i: leaf[i], learned)
            arrays = program.learner.policy_arrays(program, learner)
            outcome = deep_outcome(
                spec,
                seed,
                ended[ended[:, 0] == i, 1:],
                score=float(scores[i, : spec.evaluation_episodes].mean()),
                status=status_of(learner),
                seconds=seconds / len(pairs),
                policy=arrays if keep_policies else {},
                others=others.get(i, np.zeros(0, np.float32)),
                evaluations=self._evaluations.of(i),
                device=_device_name(),
                notes={"width": self._width, "capacity": program.capacity},
            )
            found.append((spec, outcome))
        return found

    def _evaluated(self, setups: Setup, learners: PyTree, episodes: int) -> np.ndarray:
        params = self.program.env.default_params
        limit = int(getattr(params, "max_steps_in_episode", 500))
        told = replace(self.program, hidden=None, ages=None)  # under the delay that is believed
        scores = compiled_loop.evaluate_all(told, setups, learners, episodes, limit)
        return np.asarray(scores)

    def _evaluated_elsewhere(self, learners: PyTree) -> dict[int, np.ndarray]:
        """Return the scores under other delays, by the run's index in the group."""
        pairs = self.pairs
        chosen = [i for i, (spec, _) in enumerate(pairs) if spec.evaluation_delays]
        if not chosen:
            return {}
        places = jnp.array(chosen)
        setups, learners = jax.tree.map(lambda leaf: leaf[places], (self._setups, learners))
        episodes = max(pairs[i][0].evaluation_episodes for i in chosen)
        scores = {}
        for delay in sorted({delay for i in chosen for delay in pairs[i][0].evaluation_delays}):
            there = setups._replace(delay=jnp.full(len(chosen), delay, jnp.int32))
            scores[delay] = self._evaluated(there, learners, episodes)
        found = {}
        for row, i in enumerate(chosen):
            spec = pairs[i][0]
            mine = [scores[m][row, : spec.evaluation_episodes] for m in spec.evaluation_delays]
            found[i] = np.array([one.mean() for one in mine])
        return found


def _device_name() -> str:
    device = jax.devices()[0]
    return f"CPU, {os.cpu_count()} cores" if device.platform == "cpu" else device.device_kind


def _episodes(returns: np.ndarray, first: int) -> np.ndarray:
    """Return rows (run, step, return) of the episodes that ended in a chunk."""
    steps, runs = np.nonzero(~np.isnan(returns))
    return np.stack([runs, first + steps, returns[steps, runs]], axis=1)
