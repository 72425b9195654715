"""Under a delay that varies: what an agent knows of ages, and what follows for its decisions.

A network that sees the queue sees the known age too, as a one-hot vector: none, 0, 1, …, K. The age
selects an action of the queue, so its effect is not in proportion to it.

A forward model predicts the state at the first execution of the action being chosen. Under a
constant delay all pending actions come before it. Otherwise the agent expects a way to it, from the
age that it knows (see `delays.waits`), and rolls the model over the actions on this way.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from deadtime.delays import DelayProcess
from deadtime.delays.waits import Observed, waits_of
from deadtime.learn.program import Actor, Known, Program, Setup


@cache
def _tables(
    process: DelayProcess, observed: Observed, capacity: int
) -> tuple[Int[np.ndarray, " rows"], Int[np.ndarray, "rows C"]]:
    """Return, for each row, the steps of its way and the places of its actions in the queue.

    The way's places are the last ones of the row.
    """
    waits = waits_of(process, observed)
    steps = waits.steps[:, 0]
    places = np.zeros((len(steps), capacity), np.int32)
    for row, count in enumerate(steps.tolist()):
        ages = waits.ages[row, 0, :count]
        places[row, capacity - count :] = capacity + np.arange(count) - ages
    return steps.astype(np.int32), places


def known_at_start(program: Program, age: Array | np.ndarray) -> Any:
    """Return what an agent knows at the start of an episode whose first step reads `age`.

    It is 1 + the known age; 0 if it knows none; () if it needs none.
    """
    if not program.uses_ages:
        return ()
    zero = jnp.zeros((), jnp.int32)
    return zero + age + 1 if program.observed == "now" else zero


def known_after(program: Program, age: Array, next_age: Array) -> Any:
    """Return what an agent knows after a step that read `age`; the next one will read `next_age`.

    The result has the form of `known_at_start`.
    """
    if not program.uses_ages:
        return ()
    zero = jnp.zeros((), jnp.int32)
    if program.observed == "never":
        return zero
    return zero + 1 + (next_age if program.observed == "now" else age)


def shown_age(program: Program, known: Known) -> list[Array]:
    """Return the inputs of a network for what the agent knows of ages, in a list; [] for none."""
    count = program.age_inputs
    return [jax.nn.one_hot(known, count)] if count else []


def on_the_way(program: Program, setup: Setup, actor: Actor) -> tuple[Setup, Actor]:
    """Return run and actor with a queue of the actions executed before the one chosen next.

    They are the last actions of the queue, as many as the delay of the setup says.
    """
    if not program.follows_ways:
        return setup, actor
    assert program.process is not None
    steps, places = _tables(program.process, program.observed, program.capacity)
    queue: Array = actor.queue[jnp.asarray(places)[actor.known]]
    delay = jnp.asarray(steps)[actor.known]
    return setup._replace(delay=delay), actor._replace(queue=queue)
