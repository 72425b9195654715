"""Deep Q-learning on frames: several runs at once, each with its own lanes.

The loop waits for `choose` only. `learn`, which stores the last step and updates, runs while the
emulators play.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from deadtime.envs.atari.games import STACK
from deadtime.envs.pools import Played
from deadtime.learn import double_q, frame_replay
from deadtime.learn.deep_q import QState
from deadtime.learn.double_q import Adam, Batch
from deadtime.learn.frame_networks import (
    MOST_ACTIONS,
    QNetwork,
    named_arrays,
    new_q,
    one_hot_queue,
)
from deadtime.learn.frame_replay import Row
from deadtime.learn.host_turn import LearnsByTurn, Turn
from deadtime.learn.learner_code import kept, never
from deadtime.learn.program import Program, Setup, compiled_products


class FrameQState(NamedTuple):
    """All runs between two turns."""

    learner: QState
    replay: Row


def values(
    program: Program, setup: Setup, q: QNetwork, frames: Array, queue: Array
) -> Float[Array, " A"]:
    """Return the values of all actions at frames and a queue."""
    sees_queue = program.code(setup).sees_queue
    return q(frames, one_hot_queue(queue, setup.delay, sees_queue), setup.actions)


@partial(compiled_products, static_argnums=0)
def begin(program: Program, setups: Setup) -> FrameQState:
    """Return new runs."""

    def learner(setup: Setup) -> QState:
        inputs = program.capacity * MOST_ACTIONS
        q = new_q(jax.random.fold_in(setup.key, 0), program.settings, inputs)
        return QState(q, q, (), _adam(program).init(q), jnp.zeros((), jnp.int32), never())

    replay = frame_replay.new_rows(program, len(setups.delay))
    return FrameQState(jax.vmap(learner)(setups), replay)


def _adam(program: Program) -> Adam:
    return Adam(program.settings.adam_epsilon)


def _greedy(program: Program, setup: Setup, q: QNetwork, shown: Array, queue: Array) -> Array:
    return jnp.argmax(jax.vmap(partial(values, program, setup, q))(shown, queue), axis=-1)


@partial(compiled_products, static_argnums=0)
def choose(
    program: Program, setups: Setup, q: QNetwork, shown: Array, queue: Array, t: Array
) -> Int[Array, "R E"]:
    """Return each lane's greedy action or, with the probability of exploration, a random one."""
    settings = program.settings

    def one(setup: Setup, q: QNetwork, shown: Array, queue: Array) -> Array:
        best = _greedy(program, setup, q, shown, queue)
        key = jax.random.fold_in(jax.random.fold_in(setup.key, 1), t)
        draw = jax.random.uniform(key, (2, len(shown)))
        fallen = t / jnp.maximum(settings.exploration * setup.steps, 1.0)
        least = settings.epsilon_floor
        epsilon = jnp.maximum(least, 1.0 - (1.0 - least) * fallen)
        return jnp.where(draw[0] < epsilon, (draw[1] * setup.actions).astype(jnp.int32), best)

    return jax.vmap(one)(setups, q, shown, queue)


@partial(compiled_products, static_argnums=0)
def greedy(
    program: Program, setups: Setup, q: QNetwork, shown: Array, queue: Array
) -> Int[Array, "R E"]:
    """Return each lane's best action."""
    return jax.vmap(partial(_greedy, program))(setups, q, shown, queue)


def updates_at(program: Program, index: int) -> int:
    """Return the number of updates of a turn: one every `update_period` environment steps."""
    period, lanes = program.settings.update_period, program.lanes
    begun = index * lanes >= program.settings.learning_starts and index > STACK
    return (index + 1) * lanes // period - index * lanes // period if begun else 0


@partial(compiled_products, static_argnums=(0, 5), donate_argnums=2)
def learn(
    program: Program,
    setups: Setup,
    state: FrameQState,
    row: Row,
    turn: Int[Array, ""],
    updates: int,
) -> FrameQState:
    """Store a turn's row, and make updates from the rows before it."""
    replay = frame_replay.store(program, state.replay, row, turn)
    if not updates:
        return FrameQState(state.learner, replay)

    def update(learner: QState, i: Array) -> tuple[QState, None]:
        def key_of(key: Array) -> Array:
            return jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(key, 2), turn), i)

        batch = frame_replay.sample(program, replay, turn, jax.vmap(key_of)(setups.key))
        t = jnp.full(len(setups.delay), turn * program.lanes)
        return jax.vmap(partial(_updated, program))(setups, learner, batch, t), None

    return FrameQState(jax.lax.scan(update, state.learner, jnp.arange(updates))[0], replay)


def _updated(program: Program, setup: Setup, state: QState, batch: Batch, t: Array) -> QState:
    """Return the state of one run after one update."""
    settings = program.settings

    def values_of(q: QNetwork, seen: PyTree) -> Array:
        return values(program, setup, q, *seen)

    loss, gradient = jax.value_and_grad(double_q.batch_loss)(
        state.q, state.target, values_of, batch, settings
    )
    rate = settings.learning_rate
    q, moments = _adam(program).descend(state.q, gradient, state.moments, rate)
    updates = state.updates + 1
    target = double_q.followed(
        q, state.target, updates, settings.target_period_updates, settings.tau
    )
    size = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient))
    finite = jnp.isfinite(loss) & jnp.isfinite(size)
    return kept(QState(q, target, (), moments, updates, state.diverged_at), state, finite, t)


class FrameQ(LearnsByTurn):
    """The code of the learner (see `host_turn.HostedLearner`)."""

    overlaps = True
    begin = staticmethod(begin)

    def restart(
        self, program: Program, state: FrameQState, seen: Played, index: int
    ) -> FrameQState:
        """Return the state at the start of new episodes."""
        return state._replace(replay=frame_replay.cut(program, state.replay, index))

    def choose(
        self,
        program: Program,
        setups: Setup,
        state: FrameQState,
        seen: Played,
        t: int,
        turn: Turn | None = None,
    ) -> tuple[Any, FrameQState]:
        """Return the actions of all lanes."""
        seeing = seen.shown, seen.queue
        return choose(program, setups, state.learner.q, *seeing, np.int32(t)), state

    def learn(
        self, program: Program, setups: Setup, state: FrameQState, turn: Turn, index: int
    ) -> FrameQState:
        """Store a turn, and make its updates."""
        row = frame_replay.row_of(program, setups, turn)
        return learn(program, setups, state, row, np.int32(index), updates_at(program, index))

    def decide(
        self, program: Program, setups: Setup, learner: QState, memory: PyTree, seen: Played
    ) -> tuple[Array, Any]:
        """Return the best action of each lane."""
        return greedy(program, setups, learner.q, seen.shown, seen.queue), memory

    def policy_arrays(self, program: Program, learner: QState) -> dict[str, np.ndarray]:
        """Return the arrays of the policy of one run."""
        return named_arrays(learner.q)


FRAME_Q = FrameQ()
