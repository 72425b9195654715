"""Programs of the host loop, the seeds of its lanes, and steps as its learners see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from deadtime.envs.pools import Lane, Played
from deadtime.learn.host_turn import HostedLearner
from deadtime.learn.lane_learner import LaneLearner
from deadtime.learn.program import Program, Setup, bounded_by, split_settings
from deadtime.learn.run_spec import DeepRun
from deadtime.runtime.views import VIEWS, Code

Pair = tuple[DeepRun, int]
_SHARED_CAPACITY = 25


def program_of(spec: DeepRun, device: str) -> Program:
    """Return the program that a spec runs in.

    Programs have no room for a queue that is not seen, unless runs share them.
    """
    if not spec.family.frames:
        settings = bounded_by(spec.length, split_settings(spec.learner)[0])
        view = VIEWS[spec.agent]
        environment = spec.environment(0)
        under = spec.delay, spec.envs, spec.process, spec.observed
        return Program(environment, view, settings, *under)
    view, settings = VIEWS[spec.agent], spec.learner
    shares = device == "gpu" and view.sees != "history"
    room = max(spec.delay, _SHARED_CAPACITY) if shares else spec.delay * view.sees_queue
    if hasattr(settings, "model"):  # emulators predict, not the program
        settings = replace(settings, model=type(settings).model)
    return Program(None, None, settings, room, spec.envs)


def setups_of(program: Program, pairs: Sequence[Pair]) -> Setup:
    """Return the setups of runs, stacked; on numbers the setup of the only run."""
    if program.env is not None:
        ((spec, seed),) = pairs
        numbers = split_settings(spec.learner)[1]
        return Setup(
            jax.random.key(seed),
            jnp.int32(spec.delay),
            (),
            jnp.int32(spec.length),
            type(numbers)(*map(jnp.float32, numbers)),
            Code(*map(jnp.int32, VIEWS[spec.agent].code)),
        )
    codes = [VIEWS[spec.agent].code for spec, _ in pairs]
    return Setup(
        jax.vmap(jax.random.key)(jnp.array([seed for _, seed in pairs], jnp.uint32)),
        jnp.array([spec.delay for spec, _ in pairs], jnp.int32),
        (),
        jnp.array([spec.length for spec, _ in pairs], jnp.int32),
        (),
        Code(*(jnp.array(part, jnp.int32) for part in zip(*codes, strict=True))),
        jnp.array([spec.environment(seed).num_actions for spec, seed in pairs], jnp.int32),
    )


def hosted(program: Program) -> HostedLearner:
    """Return the learner of a program with the interface of the host loop."""
    plays_outside = hasattr(program.learner, "learn_and_choose")
    return program.learner if plays_outside else LaneLearner(program)  # type: ignore[return-value]


def lanes_of(pairs: Sequence[Pair], count: int, at: int, delay: int | None = None) -> list[Lane]:
    """Return the lanes of runs, `count` each.

    The seeds of lanes come from the run's seed and `at`: the step at which the episodes of a
    training begin, or 1 for evaluation on frames.
    """
    found = []
    for spec, seed in pairs:
        family, view = spec.family, VIEWS[spec.agent]
        looks = spec.learner.model if family.looks_ahead and view.predicts else ""
        under = spec.channel if delay is None else delay
        environment = spec.environment(seed)
        for one in seeds_of(spec, seed, at, count):
            found.append(Lane(environment, under, one, looks))
    return found


def seeds_of(spec: DeepRun, seed: int, at: int, count: int) -> list[int]:
    """Return the seeds of a run's lanes."""
    sequence = np.random.SeedSequence([seed, at, spec.family.seed_stream])
    return [int(one) for one in sequence.generate_state(count)]


def bytes_of(program: Program, pairs: Sequence[Pair]) -> int:
    """Return the size of the state of a group that learns from frames."""
    state = program.learner.begin.eval_shape(program, setups_of(program, pairs))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))


def fitted(queue: np.ndarray, room: int) -> np.ndarray:
    """Return a queue with room for the last `room` actions."""
    if room <= queue.shape[-1]:
        return queue[..., queue.shape[-1] - room :]
    padding = np.zeros((*queue.shape[:-1], room - queue.shape[-1]), queue.dtype)
    return np.concatenate([padding, queue], axis=-1)


def seen_of(program: Program, runs: int, played: Played) -> Played:
    """Return a step of a pool in the form that the learner of a program takes.

    On frames it is a copy with the axes (run, lane) and the program's room for the queue, since the
    next step overwrites the pool's memory. A lost lane has no end of an episode, even if its dead
    worker wrote one.
    """
    if program.env is not None:
        return played
    known = ~played.lost
    ends = {
        name: getattr(played, name) & known for name in ("terminated", "truncated", "life_lost")
    }
    played = played._replace(queue=fitted(played.queue, program.capacity), **ends)
    shape = runs, len(known) // runs
    return jax.tree.map(lambda part: part.reshape(*shape, *part.shape[1:]).copy(), played)
