"""Programs of the host loop, the seeds of its lanes, and steps as its learners see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from deadtime.delays import Delay
from deadtime.envs.pools import Lane, Played
from deadtime.learn.compiled_groups import SHARED, capacity_of
from deadtime.learn.host_turn import HostedLearner, Turn
from deadtime.learn.lane_learner import LaneLearner
from deadtime.learn.learners import LEARNERS
from deadtime.learn.program import Program, Setup, bounded_by, split_settings
from deadtime.learn.rollout_learner import RolloutLearner
from deadtime.learn.run_spec import DeepRun
from deadtime.learn.settings import Settings
from deadtime.learn.together_learner import TogetherLearner, begin_all
from deadtime.runtime.views import VIEWS, Code

Pair = tuple[DeepRun, int]
TOGETHER = (10, *SHARED)
"""The lengths of the queues of runs on numbers that are trained together."""
LARGE_PRODUCTS = 1_000_000
"""An update with so many multiplications in hidden layers is worth a GPU (see `is_large`)."""


def products_of(settings: Settings) -> int:
    """Return the number of multiplications of one network's hidden layers; 0 if unknown."""
    hidden = getattr(settings, "hidden", ())
    widths = hidden if isinstance(hidden, tuple) else (hidden,)
    return getattr(settings, "batch_size", 1) * sum(one * other for one, other in pairwise(widths))


def is_large(settings: Settings) -> bool:
    """Return whether an update of these settings is worth a GPU.

    Smaller networks are chains of small operations, and a GPU would spend its time launching them.
    The same holds for updates from rollouts, in which a memory goes from step to step.
    """
    if LEARNERS[settings.kind].load().updates_once:
        return False
    return products_of(settings) >= LARGE_PRODUCTS


def trains_together(spec: DeepRun, device: str) -> bool:
    """Return whether a run shares a GPU with others."""
    return device == "gpu" and (spec.frames or is_large(spec.learner))


def program_of(spec: DeepRun, device: str) -> Program:
    """Return the program that a spec runs in.

    Programs have no room for a queue that is not seen, unless runs share them.
    """
    view, settings = VIEWS[spec.agent], spec.learner
    if not spec.frames:
        settings = bounded_by(spec.length, split_settings(settings)[0])
        together = trains_together(spec, device)
        room = capacity_of(spec.longest_delay, TOGETHER) if together else spec.delay
        mixes = together and LEARNERS[settings.kind].mixes_outside and spec.process is None
        if spec.hidden is not None:
            room = max(room, spec.hidden.longest)
        environment = spec.environment(0)
        under = room, spec.envs, spec.process, spec.observed
        shown = None if mixes else view
        program = Program(environment, shown, settings, *under, together)
        return replace(program, hidden=spec.hidden, ages=spec.ages)
    shares = device == "gpu" and view.sees != "history"
    room = max(spec.delay, SHARED[0]) if shares else spec.delay * view.sees_queue
    if hasattr(settings, "model"):  # emulators predict, not the program
        settings = replace(settings, model=type(settings).model)
    return Program(None, None, settings, room, spec.envs)


def program_alone(program: Program, spec: DeepRun) -> Program:
    """Return a program on numbers for the view of one run."""
    shared = program.env is not None and program.view is None
    return replace(program, view=VIEWS[spec.agent]) if shared else program


def setups_of(program: Program, pairs: Sequence[Pair]) -> Setup:
    """Return the setups of runs, stacked; for a run on numbers alone, its setup unstacked."""
    each = [_setup_of(program, *pair) for pair in pairs]
    if not program.stacked:
        return each[0]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)


def _setup_of(program: Program, spec: DeepRun, seed: int) -> Setup:
    numbers: Any = ()
    actions: Any = ()
    if program.env is None:
        actions = jnp.int32(spec.environment(seed).num_actions)
    else:
        numbers = split_settings(spec.learner)[1]
        numbers = type(numbers)(*map(jnp.float32, numbers))
    return Setup(
        jax.random.key(seed),
        jnp.int32(spec.delay),
        (),
        jnp.int32(spec.length),
        numbers,
        Code(*map(jnp.int32, VIEWS[spec.agent].code)),
        actions,
    )


def hosted(program: Program) -> HostedLearner:
    """Return the learner of a program with the interface of the host loop."""
    if hasattr(program.learner, "learn_and_choose"):
        return program.learner
    alone = RolloutLearner if program.learner.updates_once else LaneLearner
    kind = TogetherLearner if program.together else alone
    return kind(program)  # type: ignore[return-value]


def lanes_of(pairs: Sequence[Pair], count: int, at: int, delay: Delay | None = None) -> list[Lane]:
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


def run_of(program: Program, learners: PyTree, i: int) -> Any:
    """Return the state of the learner of a group's run i."""
    if not program.stacked:
        return learners
    return jax.tree.map(lambda leaf: leaf[i], learners)


def bytes_of(program: Program, pairs: Sequence[Pair]) -> int:
    """Return the size of the state of a group of runs."""
    begin: Any = begin_all if program.together else program.learner.begin
    state = begin.eval_shape(program, setups_of(program, pairs))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))


def fitted(queue: np.ndarray, room: int) -> np.ndarray:
    """Return queues, one per lane, with room for the last `room` actions."""
    length = queue.shape[1]
    if room <= length:
        return queue[:, length - room :]
    padding = np.zeros((len(queue), room - length, *queue.shape[2:]), queue.dtype)
    return np.concatenate([padding, queue], axis=1)


def seen_of(program: Program, runs: int, played: Played) -> Played:
    """Return a step of a pool in the form that the learner of a program takes.

    Queues have the program's room. For several runs the arrays have the axes (run, lane). They
    are copies, since the next step may overwrite the pool's memory. A lost lane shows no end of an
    episode, even if its dead worker wrote one.
    """
    if not program.stacked and program.hidden is None:
        return played
    played = played._replace(queue=fitted(played.queue, program.capacity))
    if played.queue_after is not None:
        played = played._replace(queue_after=fitted(played.queue_after, program.capacity))
    if not program.stacked:
        return played
    known = ~played.lost
    ends = {
        name: getattr(played, name) & known for name in ("terminated", "truncated", "life_lost")
    }
    played = played._replace(**ends)
    shape = runs, len(known) // runs
    return jax.tree.map(lambda part: part.reshape(*shape, *part.shape[1:]).copy(), played)


def credited_turn(program: Program, setups: Setup, turn: Turn) -> Turn:
    """Return a turn whose executed actions are those that the agents believe in.

    Agents that are told the delay see the executed actions.
    """
    if program.hidden is None:
        return turn
    axis = turn.before.age.ndim
    slots = np.concatenate([turn.before.queue, np.expand_dims(turn.chosen, axis)], axis)
    place = program.capacity - np.asarray(setups.delay)
    place = place.reshape(place.shape + (1,) * (slots.ndim - place.ndim))
    executed = np.take_along_axis(slots, place, axis).squeeze(axis)
    return turn._replace(after=turn.after._replace(executed=executed))
