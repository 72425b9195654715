"""The host loop: the learner is compiled, and its environments are in a pool outside the program.

In a turn the learner chooses an action for every lane, the pool makes a step, and the learner
learns from it. A learner that overlaps does so while the environments play the next step. A
thread of its own queues the learning on the device, since queuing can take as long as a step of the
environments. Other learners learn before they choose.

If the pool can save its environments, a checkpoint holds them too, and a resumed run has the bits
of an uninterrupted one. Other checkpoints hold learner and replay buffer only. Their runs resume
with new episodes, and the record lists the steps at which they did (`resumed_at`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from deadtime._support.ending import unhurried
from deadtime._support.files import check_fit
from deadtime.delays import as_delay
from deadtime.envs.pools import Played, Pool
from deadtime.learn import checkpoint
from deadtime.learn.evaluations import Evaluations
from deadtime.learn.host_programs import (
    Pair,
    bytes_of,
    credited_turn,
    hosted,
    lanes_of,
    program_alone,
    run_of,
    seen_of,
    setups_of,
)
from deadtime.learn.host_scores import present_scores, scores_under
from deadtime.learn.host_turn import Turn
from deadtime.learn.outcome import Outcome, deep_outcome, status_of
from deadtime.learn.program import Program
from deadtime.learn.run_spec import DeepRun

Finished = tuple[DeepRun, Outcome]
WRITE_EVERY_SECONDS = 60.0
"""The time between two checkpoints; on frames, where they are large, five times as long."""
_BURST_SECONDS = 0.2
"""The time that a group trains before it reports its progress and may be stopped."""
_FRAMES_SCORED_PART = 0.05
"""The fraction of training episodes, the last ones, whose mean is the paper's score on Atari."""


class HostGroup:
    """Runs that are trained together, and their progress (see `trainer.Group`)."""

    def __init__(self, program: Program, pairs: Sequence[Pair]):
        """Prepare the group; `begin` or `resume` starts it."""
        self.program = program
        self.pairs = pairs
        self.length = pairs[0][0].length
        self.done = 0
        self._frames = program.env is None
        self._action_shape = () if self._frames else program.action_shape
        self.write_every_seconds = (5 if self._frames else 1) * WRITE_EVERY_SECONDS
        self._learner = hosted(program)
        self._ended = [np.zeros((0, 3))]
        self._evaluations = Evaluations(pairs)
        self._lost = np.zeros(len(pairs), int)
        self._resumed_at: list[int] = []
        self._turn: Turn | None = None
        self._actions: Any = None
        self._pool: Pool | None = None
        self._thread = ThreadPoolExecutor(1)

    @property
    def name(self) -> str:
        """The name of the group's checkpoint."""
        runs = [(spec.id, seed) for spec, seed in self.pairs]
        kind = "together" if self.program.together else "host"
        text = f"{kind} {jax.default_backend()} {self.program.capacity} {runs}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def extent(self) -> checkpoint.Extent:
        """The lengths that a checkpoint of this group must agree with."""
        return checkpoint.Extent(self.length, self.program.lanes, len(self.pairs))

    @property
    def bytes(self) -> int:
        """The size of the group's state on the device; 0 for a run alone, which is on the CPU."""
        return bytes_of(self.program, self.pairs) if self.program.stacked else 0

    def device(self) -> AbstractContextManager[Any]:
        """Return the context in which the group is trained: the CPU for a run alone."""
        if self.program.stacked:
            return nullcontext()
        return jax.default_device(jax.devices("cpu")[0])

    def begin(self) -> None:
        """Start the environments and a new learner."""
        self._prepare()
        self._start_pool(self._new_pool())

    def _prepare(self) -> None:
        self._setups = setups_of(self.program, self.pairs)
        self._state = self._learner.begin(self.program, self._setups)

    def resume(self, path: Path) -> float:
        """Continue from a checkpoint; return its seconds of training."""
        self._prepare()
        further = {
            "ended": self._ended[0],
            "lost": self._lost,
            "evaluations": self._evaluations.returns,
        }
        self._state, arrays, about = checkpoint.load(path, self._state, further, self.extent)
        self.done = about["steps"]
        self._lost = arrays["lost"]
        self._evaluations.returns = arrays["evaluations"]
        self._ended = [arrays["ended"]]
        self._resumed_at = about["resumed_at"]
        if self.done < self.length:
            pool = self._new_pool()
            if pool.saves:
                with checkpoint.of_this_run(path):
                    self._load_pool(pool, arrays)
            else:
                self._resumed_at = [*self._resumed_at, self.done]
                self._start_pool(pool)
        return about["seconds"]

    def _start_pool(self, pool: Pool) -> None:
        self._pool = pool
        self._seen = self._looked(pool.reset())
        self._state = self._learner.restart(self.program, self._state, self._seen, self._index)

    def _new_pool(self) -> Pool:
        spec = self.pairs[0][0]
        hidden = self.program.hidden
        under = None if hidden is None else as_delay(hidden)
        lanes = lanes_of(self.pairs, self.program.lanes, self.done, under)
        return spec.family.pool(lanes, spec.env)

    def _load_pool(self, pool: Pool, arrays: dict[str, np.ndarray]) -> None:
        """Restore the environments, and the turn that the learner has not used yet."""
        self._pool = pool
        count = len(self.pairs) * self.program.lanes
        try:
            played = pool.load([arrays[f"lane/{i}"].tobytes() for i in range(count)])
            self._seen = self._looked(played)
            parts, shape = jax.tree.flatten(Turn(self._seen, self._seen.executed, self._seen))
            check_fit(arrays, {f"turn/{i}": part for i, part in enumerate(parts)})
        except BaseException:
            self.close()
            raise
        self._turn = jax.tree.unflatten(shape, [arrays[f"turn/{i}"] for i in range(len(parts))])

    def advance(self) -> int:
        """Train for a short time; return the number of environment steps of all runs."""
        began = monotonic()
        before = self.done
        while self.done < self.length:
            self._step()
            if monotonic() - began > _BURST_SECONDS:
                break
        if self.done >= self.length:
            self._finish()
        return len(self.pairs) * (min(self.done, self.length) - min(before, self.length))

    def _step(self) -> None:
        """Make one step of every lane."""
        assert self._pool is not None
        self._choose()
        learning = None if self._turn is None else self._thread.submit(self._learn)
        chosen = np.asarray(self._actions)
        self._actions = None
        lead = chosen.ndim - len(self._action_shape)
        self._pool.send(chosen.reshape(-1, *chosen.shape[lead:]))
        if learning is not None:
            learning.result()
        played = self._pool.receive()
        before, self._seen = self._seen, self._looked(played)
        turn = Turn(before, chosen, self._seen)
        self._turn = credited_turn(self.program, self._setups, turn)
        self._note(played)
        self.done += self.program.lanes
        if self._evaluations.due(self.done):
            self._evaluate()

    def _evaluate(self) -> None:
        """Evaluate the policies, after learning from the last turn."""
        if self.done < self.length:
            self._choose_and_learn()
        else:
            self._finish()
        scores = present_scores(self.program, self.pairs, self._setups, self._state.learner)
        self._evaluations.note(self.done, scores)

    def _note(self, played: Played) -> None:
        """Record the episodes that ended, and count those that were lost."""
        lanes = self.program.lanes
        over = np.flatnonzero(played.over)
        if len(over):
            ended = over // lanes, self.done + over % lanes, played.earned[over]
            self._ended.append(np.stack(ended, axis=1))
        if played.lost.any():
            self._lost += played.lost.reshape(-1, lanes).sum(axis=1)

    @property
    def _index(self) -> int:
        """The index of the last turn."""
        return self.done // self.program.lanes - 1

    def _choose(self) -> None:
        """Choose the next actions; a learner without overlap learns from the last turn first."""
        if self._actions is not None:
            return
        now = self.program, self._setups, self._state
        if self._turn is None or self._learner.overlaps:
            self._actions, self._state = self._learner.choose(
                *now, self._seen, self.done, self._turn
            )
        else:
            self._actions, self._state = self._learner.learn_and_choose(*now, self._turn, self.done)
            self._turn = None

    def _learn(self) -> None:
        """Learn from the last turn, after the actions that follow it were chosen."""
        if self._turn is not None:
            self._state = self._learner.learn(
                self.program, self._setups, self._state, self._turn, self._index
            )
            self._turn = None

    def _choose_and_learn(self) -> None:
        """Choose and learn now what the next step would, in the same order."""
        self._choose()
        self._learn()

    def _finish(self) -> None:
        """Learn from the last turn, and wait for the result."""
        if self._turn is not None:
            self._state = self._learner.finish(
                self.program, self._setups, self._state, self._turn, self.done
            )
            self._turn = None
        jax.block_until_ready(self._state)

    def _looked(self, played: Played) -> Played:
        return seen_of(self.program, len(self.pairs), played)

    def save(self, path: Path, seconds: float) -> None:
        """Write a checkpoint, if any step was made."""
        if not self.done:
            return
        with unhurried():
            self._write(path, seconds)

    def _write(self, path: Path, seconds: float) -> None:
        pool = self._pool
        extra: dict[str, np.ndarray] = {}
        if self.done < self.length and pool is not None and pool.saves and self._turn is not None:
            states = enumerate(pool.save())
            extra = {f"lane/{i}": np.frombuffer(state, np.uint8) for i, state in states}
            after = self._turn.after
            restarted = pool.unreported.reshape(after.lost.shape)
            turn = self._turn._replace(after=after._replace(lost=after.lost | restarted))
            extra |= {f"turn/{i}": part for i, part in enumerate(jax.tree.leaves(turn))}
        elif self._turn is not None:
            self._choose_and_learn()  # new episodes follow, so the learner uses this turn now
        arrays = {
            "ended": np.concatenate(self._ended),
            "lost": self._lost,
            "evaluations": self._evaluations.returns,
        } | extra
        about = {"steps": self.done, "seconds": seconds, "resumed_at": self._resumed_at}
        checkpoint.save(path, self._state, arrays, about)

    def close(self) -> None:
        """End the environments and the thread."""
        self._thread.shutdown()
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def outcomes(self, seconds: float, keep_policies: bool, stop: Event) -> list[Finished]:
        """Evaluate the runs; return the outcome of each, or nothing if it was stopped."""
        self.close()
        learned = jax.tree.map(np.asarray, self._state.learner)
        scores = scores_under(self.program, self.pairs, self._setups, self._state.learner, stop)
        if stop.is_set() and self.program.stacked:
            return []
        ended = np.concatenate(self._ended)
        found = []
        for i, (spec, seed) in enumerate(self.pairs):
            mine = run_of(self.program, learned, i)
            inside = (ended[:, 0] == i) & (ended[:, 1] < spec.length)
            outcome = deep_outcome(
                spec,
                seed,
                ended[inside, 1:],
                _FRAMES_SCORED_PART if self._frames else 0.1,
                score=scores[None][i],
                status=status_of(mine),
                seconds=seconds / len(self.pairs),
                policy=self._policy(mine, spec, seed) if keep_policies else {},
                evaluations=self._evaluations.of(i),
                others=np.array([scores[m][i] for m in spec.evaluation_delays], np.float32),
                device=self._device_name(),
                notes=self._notes(i),
            )
            found.append((spec, outcome))
        return found

    def _policy(self, learner: PyTree, spec: DeepRun, seed: int) -> dict[str, np.ndarray]:
        program = program_alone(self.program, spec)
        arrays = program.learner.policy_arrays(program, learner)
        if self._frames:  # a network has outputs for the actions of all games
            arrays |= {"actions": np.array(spec.environment(seed).num_actions)}
        return arrays

    def _device_name(self) -> str:
        cores = f"{os.cpu_count()} cores"
        device = jax.devices()[0]
        on_cpu = device.platform == "cpu" or not self.program.stacked
        return f"CPU, {cores}" if on_cpu else f"{device.device_kind}, {cores}"

    def _notes(self, i: int) -> dict[str, Any]:
        notes: dict[str, Any] = {"capacity": self.program.capacity}
        if self.program.stacked:
            notes = {"width": len(self.pairs)} | notes
        if self._lost[i]:
            notes["lost_episodes"] = int(self._lost[i])
        if self._resumed_at:
            notes["resumed_at"] = self._resumed_at
        return notes
