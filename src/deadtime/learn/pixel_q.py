"""Double DQN on frames: several runs of one shape side by side, each with lanes of its own, in two compiled calls a step.

`choose` is waited for; `learn`, which stores what the step before gave and updates, is not, and runs while emulators play.
A frame is stored once: a row of the replay is what one step of a lane saw last, and a stack is gathered from four rows. Rows
of all lanes are written together, so the replay is a ring over time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, UInt8

from deadtime.envs.atari.games import SIDE, STACK
from deadtime.learn import double_q
from deadtime.learn.pixel_networks import MOST_ACTIONS, QNetwork, named_arrays, new_q, one_hot_queue
from deadtime.learn.program import compiled_products
from deadtime.learn.settings import PixelQ

_DRAWS = 4
"""Of a batch's entry, the first of which that can be learned from is taken."""


@dataclass(frozen=True)
class Program:
    """What is compiled once: settings, room for the queue, and how many lanes a run has."""

    settings: PixelQ
    capacity: int
    lanes: int

    @property
    def rows(self) -> int:
        """Of the replay."""
        return max(self.settings.replay_transitions // self.lanes, STACK + 2)


class Setup(NamedTuple):
    """What differs between runs."""

    key: Array
    delay: Int[Array, ""]
    actions: Int[Array, ""]
    """How many the game has."""
    steps: Int[Array, ""]
    sees_queue: Bool[Array, ""]
    executed: Bool[Array, ""]
    """Whether the executed action is credited, else the chosen one."""


class Turn(NamedTuple):
    """A step of every lane of every run: what was seen, what was done, and what came of it."""

    frame: UInt8[np.ndarray, "R E 84 84"]
    shown: UInt8[np.ndarray, "R E 4 84 84"]
    queue: UInt8[np.ndarray, "R E C"]
    age: Int[np.ndarray, "R E"]
    chosen: Int[np.ndarray, "R E"]
    executed: Int[np.ndarray, "R E"]
    reward: Float[np.ndarray, "R E"]
    terminated: Bool[np.ndarray, "R E"]
    truncated: Bool[np.ndarray, "R E"]
    life_lost: Bool[np.ndarray, "R E"]
    lost: Bool[np.ndarray, "R E"]
    """Whether a worker died and nothing came of it."""


class Row(NamedTuple):
    """What the replay holds of a turn: of every run and lane, and there with time before them.

    There are few arrays, since each is sent to the device on its own.
    """

    frame: UInt8[Any, "*T R E n"]
    queue: UInt8[Any, "*T R E C"]
    facts: Float[Any, "*T R E 5"]
    """The episode's age (4 stands for more), the action that is credited, the reward, whether it was an end for learning, and
    whether it can be learned from: it is no warm-up, and the next row shows what came of it."""


class Learner(NamedTuple):
    """All that learning changes, of one run."""

    q: QNetwork
    target: QNetwork
    moments: Any
    updates: Int[Array, ""]
    diverged_at: Int[Array, ""]
    """The step at which a loss was no longer finite; -1 if it never happened."""


class State(NamedTuple):
    """All runs between two steps."""

    learner: Learner
    replay: Row


class Batch(NamedTuple):
    """Transitions of one run; `frames` are the four before the action and the one after it."""

    frames: UInt8[Array, "B 5 84 84"]
    queue: UInt8[Array, "B 2 C"]
    action: Int[Array, " B"]
    reward: Float[Array, " B"]
    terminal: Float[Array, " B"]
    usable: Float[Array, " B"]


def _adam(program: Program) -> optax.GradientTransformation:
    return optax.adam(program.settings.learning_rate, eps=program.settings.adam_epsilon)


@partial(compiled_products, static_argnums=0)
def begin(program: Program, setups: Setup) -> State:
    """Runs that know nothing."""

    def learner(setup: Setup) -> Learner:
        q = new_q(jax.random.fold_in(setup.key, 0), program.settings, program.capacity * MOST_ACTIONS)
        return Learner(q, q, _adam(program).init(q), jnp.zeros((), jnp.int32), jnp.full((), -1, jnp.int32))

    at = program.rows, len(setups.delay), program.lanes
    frames, queue = jnp.zeros((*at, SIDE * SIDE), jnp.uint8), jnp.zeros((*at, program.capacity), jnp.uint8)
    return State(jax.vmap(learner)(setups), Row(frames, queue, jnp.zeros((*at, 5))))


def values(program: Program, setup: Setup, q: QNetwork, frames: Array, queue: Array) -> Float[Array, " A"]:
    """Q of what a run is shown."""
    return q(frames, one_hot_queue(queue, setup.delay, setup.sees_queue), setup.actions)


@partial(compiled_products, static_argnums=0)
def choose(program: Program, setups: Setup, q: QNetwork, shown: Array, queue: Array, t: Array) -> Int[Array, "R E"]:
    """Each lane's greedy action or, as often as exploration wants, any."""
    settings = program.settings

    def one(setup: Setup, q: QNetwork, shown: Array, queue: Array) -> Array:
        best = jnp.argmax(jax.vmap(partial(values, program, setup, q))(shown, queue), axis=-1)
        draw = jax.random.uniform(jax.random.fold_in(jax.random.fold_in(setup.key, 1), t), (2, len(shown)))
        fallen = t / jnp.maximum(settings.exploration * setup.steps, 1.0)
        epsilon = jnp.maximum(settings.epsilon_floor, 1.0 - (1.0 - settings.epsilon_floor) * fallen)
        return jnp.where(draw[0] < epsilon, (draw[1] * setup.actions).astype(jnp.int32), best)

    return jax.vmap(one)(setups, q, shown, queue)


@partial(compiled_products, static_argnums=0)
def greedy(program: Program, setups: Setup, q: QNetwork, shown: Array, queue: Array) -> Int[Array, "R E"]:
    """Each lane's best action."""

    def one(setup: Setup, q: QNetwork, shown: Array, queue: Array) -> Array:
        return jnp.argmax(jax.vmap(partial(values, program, setup, q))(shown, queue), axis=-1)

    return jax.vmap(one)(setups, q, shown, queue)


def row_of(program: Program, setups: Setup, turn: Turn) -> Row:
    """What a turn leaves to learn from. Under a delay the warm-up's actions were no one's choice, so they are not credited."""
    executed, delay = np.asarray(setups.executed)[:, None], np.asarray(setups.delay)[:, None]
    action = np.where(executed, turn.executed, turn.chosen)
    terminal = turn.terminated | (turn.life_lost & program.settings.life_loss)
    usable = ~turn.lost & ~(turn.truncated & ~terminal) & ~(executed & (turn.age < delay))
    facts = np.stack([np.minimum(turn.age, STACK), action, turn.reward, terminal, usable], axis=-1)
    return Row(turn.frame.reshape(*turn.age.shape, -1), turn.queue, facts.astype(np.float32))


def updates_at(program: Program, index: int) -> int:
    """How many belong to a turn: one for so many environment steps, once there is enough to learn from."""
    period, lanes = program.settings.update_period, program.lanes
    begun = index * lanes >= program.settings.learning_starts and index > STACK
    return (index + 1) * lanes // period - index * lanes // period if begun else 0


@partial(compiled_products, static_argnums=(0, 5), donate_argnums=2)
def learn(program: Program, setups: Setup, state: State, row: Row, turn: Int[Array, ""], updates: int) -> State:
    """Store turn's row, and update so often from what was stored before it."""
    replay = jax.tree.map(lambda old, new: old.at[turn % program.rows].set(new.astype(old.dtype)), state.replay, row)
    if not updates:
        return State(state.learner, replay)

    def update(learner: Learner, i: Array) -> tuple[Learner, None]:
        keys = jax.vmap(lambda key: jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(key, 2), turn), i))(setups.key)
        batch = jax.lax.optimization_barrier(sample(program, replay, turn, keys))  # else every use gathers it again
        return jax.vmap(partial(_updated, program))(setups, learner, batch, jnp.full(len(keys), turn * program.lanes)), None

    return State(jax.lax.scan(update, state.learner, jnp.arange(updates))[0], replay)


def sample(program: Program, replay: Row, turn: Array, keys: Array) -> Batch:
    """A batch for every run: of some draws each entry is the first that can be learned from."""
    _, runs, lanes, _ = replay.facts.shape
    batch, held = program.settings.batch, jnp.minimum(turn + 1, program.rows)

    def draw(key: Array) -> tuple[Array, Array]:
        bits = jax.random.bits(key, (2, batch, _DRAWS))
        back = bits[0] % jnp.maximum(held - STACK, 1).astype(jnp.uint32)
        return turn - 1 - back.astype(jnp.int32), (bits[1] % jnp.uint32(lanes)).astype(jnp.int32)

    time, lane = jax.vmap(draw)(keys)
    run = jnp.arange(runs)[:, None, None]
    first = jnp.argmax(replay.facts[time % program.rows, run, lane, -1], axis=-1)[..., None]
    time, lane = jnp.take_along_axis(time, first, -1)[..., 0], jnp.take_along_axis(lane, first, -1)[..., 0]
    run, slot = run[..., 0], time % program.rows
    age, action, reward, terminal, usable = jnp.moveaxis(replay.facts[slot, run, lane], -1, 0)
    age = age.astype(jnp.int32)
    back = jnp.stack([jnp.minimum(STACK - 1 - i, age) for i in range(STACK)] + [jnp.full_like(age, -1)], axis=-1)
    at = (time[..., None] - back) % program.rows
    flat = (at * runs + run[..., None]) * lanes + lane[..., None]
    frames = replay.frame.reshape(-1, SIDE * SIDE)[flat].reshape(runs, batch, STACK + 1, SIDE, SIDE)
    both = jnp.stack([slot, (slot + 1) % program.rows], axis=-1)
    queue = replay.queue[both, run[..., None], lane[..., None]]
    return Batch(frames, queue, action.astype(jnp.int32), reward, terminal, usable)


def _updated(program: Program, setup: Setup, learner: Learner, batch: Batch, t: Array) -> Learner:
    """One update of one run."""
    settings, q_of = program.settings, partial(values, program, setup)

    def loss(q: QNetwork) -> Array:
        def one(b: Batch) -> Array:
            now, then = q_of(q, b.frames[:-1], b.queue[0]), q_of(q, b.frames[1:], b.queue[1])
            target = q_of(learner.target, b.frames[1:], b.queue[1])
            reward = jnp.sign(b.reward) if settings.clip_rewards else b.reward
            discount = settings.discount * (1.0 - b.terminal)
            chooses = jax.lax.stop_gradient(then) if settings.double else target
            return double_q.double_q_loss(now, b.action, reward, discount, chooses, target) * b.usable

        return jax.vmap(one)(batch).mean()

    error, gradient = jax.value_and_grad(loss)(learner.q)
    change, moments = _adam(program).update(gradient, learner.moments)
    q, updates = optax.apply_updates(learner.q, change), learner.updates + 1
    copied = updates % settings.target_period_updates == 0
    target = jax.tree.map(lambda new, old: jnp.where(copied, new, old), q, learner.target)
    size = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient))
    finite, before = jnp.isfinite(error) & jnp.isfinite(size), learner.diverged_at < 0
    new = Learner(q, target, moments, updates, learner.diverged_at)
    kept = jax.tree.map(lambda new, old: jnp.where(finite & before, new, old), new, learner)
    return kept._replace(diverged_at=jnp.where(before & ~finite, t, learner.diverged_at))


def policy_arrays(learner: Learner) -> dict[str, np.ndarray]:
    """All that acting needs, of one run."""
    return named_arrays(learner.q)
