"""Atari: emulators in a pool, learners compiled, several runs side by side.

A step of all lanes is: choose (waited for), send the actions, learn from the step before while the emulators play, receive.
On a GPU all runs of one shape are trained together, whatever their game, agent, delay or seed; on a CPU each alone. A
checkpoint holds the emulators too, so a run that was interrupted goes on to the same bits.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event
from time import monotonic, perf_counter
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from deadtime._support.ending import unhurried
from deadtime._support.files import check_fit
from deadtime.envs.atari.games import Game
from deadtime.envs.atari.pool import Played, Pool
from deadtime.learn import checkpoint, pixel_a2c, pixel_q
from deadtime.learn.a2c import forget
from deadtime.learn.outcome import Outcome, deep_outcome, status_of
from deadtime.learn.pixel_q import Setup, Turn
from deadtime.learn.run_spec import DeepRun
from deadtime.learn.views import VIEWS

Pair = tuple[DeepRun, int]
RunT = TypeVar("RunT", bound=DeepRun)
Finished = tuple[DeepRun, Outcome]
Progress = Callable[[int], None]
_WRITE_EVERY_SECONDS = 300.0
"""A checkpoint holds the replay, hundreds of megabytes a run."""
_SCORED_PART = 0.05
"""Of the training episodes, the last ones: the paper's score on Atari."""
_SHARED_CAPACITY, _MOST_RUNS = 25, 8
"""Of a group on a GPU: more would only wait for emulators, and take memory."""


class Method(NamedTuple):
    """What a kind of learner brings to the loop below; `pixel_q` says what the functions do."""

    program: Callable[[Any, int, int], Any]
    begin: Callable[[Any, Setup], Any]
    choose: Callable[[Any, Setup, Any, Turn, int], tuple[Any, Any]]
    learn: Callable[[Any, Setup, Any, Turn, int], Any]
    act: Callable[[Any, Setup, Any, Any, np.ndarray, np.ndarray], tuple[Any, Any]]
    policy_arrays: Callable[[Any], dict[str, np.ndarray]]
    waits: bool = False
    """Whether it learns from a step before it chooses the next; else while the emulators play."""


def _choose(program: Any, setups: Setup, state: Any, seen: Turn, t: int) -> tuple[Any, Any]:
    return pixel_q.choose(program, setups, state.learner.q, seen.shown, seen.queue, np.int32(t)), state


def _learn(program: Any, setups: Setup, state: Any, turn: Turn, index: int) -> Any:
    row = pixel_q.row_of(program, setups, turn)
    return pixel_q.learn(program, setups, state, row, np.int32(index), pixel_q.updates_at(program, index))


def _act(program: Any, setups: Setup, learner: Any, memory: Any, shown: np.ndarray, queue: np.ndarray) -> tuple[Any, Any]:
    return pixel_q.greedy(program, setups, learner.q, shown, queue), memory


METHODS = {
    "pixel-q": Method(pixel_q.Program, pixel_q.begin, _choose, _learn, _act, pixel_q.policy_arrays),
    "pixel-a2c": Method(
        pixel_a2c.Program,
        pixel_a2c.begin,
        pixel_a2c.choose,
        pixel_a2c.learn,
        pixel_a2c.act,
        pixel_a2c.policy_arrays,
        waits=True,
    ),
}
"""By the learner's kind."""


def groups_of(pairs: Sequence[tuple[RunT, int]], device: str) -> list[tuple[Any, list[tuple[RunT, int]]]]:
    """Pairs that are trained together: on a CPU each alone, on a GPU those of one program and length, by two groups at a time.

    While the emulators of one group wait for their next actions, those of the other play.
    """
    halves = [half for part in parts_of(pairs, device) for half in (part[::2], part[1::2]) if half]
    return [(program_of(half[0][0], device), half) for half in halves]


def parts_of(pairs: Sequence[tuple[RunT, int]], device: str) -> list[list[tuple[RunT, int]]]:
    """Pairs by the two groups that are trained at a time."""
    found: dict[Any, list[tuple[RunT, int]]] = {}
    for i, (spec, seed) in enumerate(pairs):
        program = program_of(spec, device)
        found.setdefault((program, spec.length) if device == "gpu" else i, []).append((spec, seed))
    return [mine[i : i + 2 * _MOST_RUNS] for mine in found.values() for i in range(0, len(mine), 2 * _MOST_RUNS)]


def program_of(spec: DeepRun, device: str) -> Any:
    """The program that a spec runs in. A queue that is not seen takes no room, but where runs share a program."""
    sees = spec.agent in VIEWS and VIEWS[spec.agent].sees == "queue"
    room = max(spec.delay, _SHARED_CAPACITY) if device == "gpu" and spec.agent in VIEWS else spec.delay * sees
    settings = spec.learner
    if hasattr(settings, "model"):  # it is the emulators' affair
        settings = replace(settings, model=type(settings).model)
    return METHODS[settings.kind].program(settings, room, spec.envs)


def setups_of(pairs: Sequence[Pair]) -> Setup:
    """What runs are told, stacked."""
    views = [VIEWS.get(spec.agent) for spec, _ in pairs]
    return Setup(
        jax.vmap(jax.random.key)(jnp.array([seed for _, seed in pairs], jnp.uint32)),
        jnp.array([spec.delay for spec, _ in pairs], jnp.int32),
        jnp.array([spec.environment(seed).num_actions for spec, seed in pairs], jnp.int32),
        jnp.array([spec.length for spec, _ in pairs], jnp.int32),
        jnp.array([view is not None and view.sees == "queue" for view in views]),
        jnp.array([view is not None and view.credits == "executed" for view in views]),
    )


def lanes_of(pairs: Sequence[Pair], count: int, stream: int, delay: int | None = None) -> list[Game]:
    """The games of some runs, `count` each, with seeds of a stream of their own."""
    found = []
    for spec, seed in pairs:
        view = VIEWS.get(spec.agent)
        looks = spec.learner.model if view is not None and view.predicts else ""
        seeds = np.random.SeedSequence([seed, stream, 0xA7A]).generate_state(count)
        under = spec.delay if delay is None else delay
        found += [spec.environment(seed).played(under, looks, int(one)) for one in seeds]
    return found


def bytes_of(program: Any, pairs: Sequence[Pair]) -> int:
    """What a group's state takes."""
    state = METHODS[pairs[0][0].learner.kind].begin.eval_shape(program, setups_of(pairs))  # type: ignore[attr-defined]
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))


def run_group(
    program: Any, pairs: Sequence[Pair], progress: Progress, stop: Event, keep_policies: bool, checkpoints: Path | None
) -> list[Finished]:
    """Train a group; return its outcomes. A group that was stopped has none, but a checkpoint."""
    path = None if checkpoints is None else checkpoints / f"{_group_id(program, pairs)}.safetensors"
    training = _Training(program, pairs, path)
    with closing(training):
        progress(len(pairs) * min(training.done, training.length))
        finished = training.run(progress, stop)
        if not finished:
            return []
    outcomes = _outcomes(training, keep_policies, stop)
    if not outcomes:  # stopped while it was evaluated
        training.write()
    return outcomes


def _group_id(program: Any, pairs: Sequence[Pair]) -> str:
    text = f"atari {jax.default_backend()} {program.capacity} {[(spec.id, seed) for spec, seed in pairs]}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class _Training:
    """A group on its way."""

    def __init__(self, program: Any, pairs: Sequence[Pair], path: Path | None):
        """At its beginning, or where its checkpoint is."""
        self.program, self.pairs, self.setups = program, pairs, setups_of(pairs)
        self.method, self.length, self.path = METHODS[pairs[0][0].learner.kind], pairs[0][0].length, path
        self.state = self.method.begin(program, self.setups)
        self.done, self.ended = 0, [np.zeros((0, 3))]
        self.turn: Turn | None = None
        self.begun, self.lost = perf_counter(), np.zeros(len(pairs), int)
        said: dict[str, Any] | None = None
        if path is not None and path.exists():
            extent = checkpoint.Extent(self.length, program.lanes, len(pairs))
            self.state, arrays, said = checkpoint.load(path, self.state, {"ended": self.ended[0], "lost": self.lost}, extent)
            self.done, self.lost, self.begun = said["steps"], arrays["lost"], perf_counter() - said["seconds"]
            self.ended = [arrays["ended"]]
        self.pool = None if self.done >= self.length else Pool(lanes_of(pairs, program.lanes, 0))
        if said is not None and self.pool is not None and path is not None:
            try:
                with checkpoint.of_this_run(path):
                    self._go_on(arrays)
            except ValueError:
                self.close()
                raise
        elif self.pool is not None:
            self.seen = self._seen(self.pool.reset())

    def _go_on(self, arrays: dict[str, np.ndarray]) -> None:
        """Bring the emulators to where they were, and the turn that is not learned from yet."""
        assert self.pool is not None
        states = [arrays[f"lane/{i}"].tobytes() for i in range(len(self.pairs) * self.program.lanes)]
        played = self.pool.load(states)
        self.seen = self._seen(played)
        like = self._came_of(self.seen, played)._asdict()
        check_fit(arrays, {f"turn/{name}": part for name, part in like.items()})
        self.turn = Turn(*(arrays[f"turn/{name}"] for name in Turn._fields))

    def close(self) -> None:
        """End the emulators."""
        if self.pool is not None:
            self.pool.close()

    def run(self, progress: Progress, stop: Event) -> bool:
        """Train to the end, or until told to stop: then what there is is written down."""
        written = monotonic()
        while self.done < self.length:
            if stop.is_set():
                self.write()
                return False
            self._step()
            progress(len(self.pairs) * min(self.program.lanes, self.length - self.done + self.program.lanes))
            if monotonic() - written > _WRITE_EVERY_SECONDS and self.done < self.length:
                self.write()
                written = monotonic()
        self._learn_last()
        jax.block_until_ready(self.state)
        return True

    def _step(self) -> None:
        """One step of every lane."""
        program, setups = self.program, self.setups
        assert self.pool is not None
        if self.method.waits:
            self._learn_last()
        actions, self.state = self.method.choose(program, setups, self.state, self.seen, self.done)
        chosen = np.asarray(actions)
        self.pool.send(chosen.ravel())
        self._learn_last()
        played = self.pool.receive()
        self.turn = self._came_of(self.seen._replace(chosen=chosen), played)
        over = np.flatnonzero((played.terminated | played.truncated) & ~played.lost)
        self.ended.append(np.stack([over // program.lanes, self.done + over % program.lanes, played.earned[over]], axis=1))
        self.lost += played.lost.reshape(-1, program.lanes).sum(axis=1)
        self.seen, self.done = self._seen(played), self.done + program.lanes

    def _learn_last(self) -> None:
        if self.turn is not None:
            index = self.done // self.program.lanes - 1
            self.state = self.method.learn(self.program, self.setups, self.state, self.turn, index)
            self.turn = None

    def _came_of(self, seen: Turn, played: Played) -> Turn:
        facts = {name: self._rows(getattr(played, name)) for name in Turn._fields[5:]}
        for name in ("terminated", "truncated", "life_lost"):  # of a worker that died they are of an earlier step
            facts[name] &= ~facts["lost"]
        return seen._replace(**facts)

    def _seen(self, played: Played) -> Turn:
        """What is seen now; what will be done is not known yet."""
        nothing = np.zeros((len(self.pairs), self.program.lanes), np.int32)
        queue = fitted(played.queue, self.program.capacity)
        return Turn(*map(self._rows, (played.frame, played.shown, queue, played.age)), *[nothing] * 7)

    def _rows(self, part: np.ndarray) -> np.ndarray:
        """A copy by run and lane: the pool's own memory changes with the next step."""
        return part.reshape(len(self.pairs), self.program.lanes, *part.shape[1:]).copy()

    @property
    def seconds(self) -> float:
        """Since it began, if it had never been interrupted."""
        return perf_counter() - self.begun

    def write(self) -> None:
        """Write a checkpoint: all that going on needs."""
        if self.path is None or not self.done:
            return
        with unhurried():
            self._write(self.path)

    def _write(self, path: Path) -> None:
        arrays = {"ended": np.concatenate(self.ended), "lost": self.lost}
        if self.done < self.length and self.pool is not None and self.turn is not None:
            arrays |= {f"lane/{i}": np.frombuffer(state, np.uint8) for i, state in enumerate(self.pool.save())}
            turn = self.turn._replace(lost=self.turn.lost | self._rows(self.pool.untold))  # what follows them began anew
            arrays |= {f"turn/{name}": part for name, part in turn._asdict().items()}
        checkpoint.save(path, self.state, arrays, {"steps": self.done, "seconds": self.seconds})


def fitted(queue: np.ndarray, room: int) -> np.ndarray:
    """A queue with room for the last `room` actions."""
    if room <= queue.shape[-1]:
        return queue[..., queue.shape[-1] - room :]
    return np.concatenate([np.zeros((*queue.shape[:-1], room - queue.shape[-1]), queue.dtype), queue], axis=-1)


def scores_of(
    program: Any, pairs: Sequence[Pair], setups: Setup, learner: Any, episodes: int, stop: Event, delay: int | None = None
) -> np.ndarray:
    """The greedy return of each of so many episodes of each run, begun with seeds of their own; NaN where it was stopped."""
    method = METHODS[pairs[0][0].learner.kind]
    found, memory = np.full((len(pairs), episodes), np.nan), None
    if delay is not None:
        setups = setups._replace(delay=jnp.full(len(pairs), delay, jnp.int32))
    with closing(Pool(lanes_of(pairs, episodes, 1, delay))) as pool:
        played, resting = pool.reset(), np.zeros(len(pairs) * episodes, bool)
        while not resting.all() and not stop.is_set():
            shown = played.shown.reshape(len(pairs), episodes, *played.shown.shape[1:]).copy()
            queue = fitted(played.queue, program.capacity).reshape(len(pairs), episodes, -1).copy()
            actions, memory = method.act(program, setups, learner, memory, shown, queue)
            played = pool.step(np.where(resting, -1, np.asarray(actions).ravel()))
            over = (played.terminated | played.truncated) & ~resting & ~played.lost
            found.ravel()[over] = played.earned[over]
            resting = resting | over
            if memory and played.lost.any():
                memory = forget(memory, played.lost.reshape(len(pairs), episodes, 1).copy())
    return found


def _outcomes(training: _Training, keep_policies: bool, stop: Event) -> list[Finished]:
    """Evaluate a group; return the outcome of each pair, or nothing if it was stopped."""
    program, pairs, setups = training.program, training.pairs, training.setups
    learner, seconds = training.state.learner, training.seconds
    episodes = max(spec.evaluation_episodes for spec, _ in pairs)
    scores = scores_of(program, pairs, setups, learner, episodes, stop)
    others = {
        m: scores_of(program, pairs, setups, learner, episodes, stop, m)
        for m in sorted({m for spec, _ in pairs for m in spec.evaluation_delays})
    }
    if stop.is_set():
        return []
    device = jax.devices()[0]
    name = f"CPU, {os.cpu_count()} cores" if device.platform == "cpu" else f"{device.device_kind}, {os.cpu_count()} cores"
    notes = {"width": len(pairs), "capacity": program.capacity}
    ended, learned, found = np.concatenate(training.ended), jax.tree.map(np.asarray, learner), []
    for i, (spec, seed) in enumerate(pairs):
        mine = jax.tree.map(lambda leaf, i=i: leaf[i], learned)
        of = slice(0, spec.evaluation_episodes)
        policy = training.method.policy_arrays(mine) if keep_policies else {}
        if policy:  # a network has outputs for the actions of all games
            policy |= {"actions": np.array(spec.environment(seed).num_actions)}
        lost = {"lost_episodes": int(training.lost[i])} if training.lost[i] else {}
        outcome = deep_outcome(
            spec,
            seed,
            ended[(ended[:, 0] == i) & (ended[:, 1] < spec.length), 1:],
            _SCORED_PART,
            score=float(scores[i, of].mean()),
            status=status_of(mine, int(mine.diverged_at)),
            seconds=seconds / len(pairs),
            policy=policy,
            others=np.array([others[m][i, of].mean() for m in spec.evaluation_delays], np.float32),
            device=name,
            notes=notes | lost,
        )
        found.append((spec, outcome))
    return found
