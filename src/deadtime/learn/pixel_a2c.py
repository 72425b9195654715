"""The recurrent baseline on frames: several runs of one shape side by side, each with lanes of its own (see `pixel_q`).

`learn` puts down what came of a step before the next one is chosen, and after each rollout `choose` updates before it acts:
only then are the frames there whose value ends the rollout's returns. So all of a rollout was chosen, and remembered, by the
weights that it changes, and emulators wait for an update. A rollout that nothing follows, the last one, is not learned from.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Int

from deadtime.envs.atari.games import SIDE, STACK
from deadtime.learn.a2c import Memory, forget, shortened
from deadtime.learn.pixel_actor_critic import Came, PixelActorCritic, Seen, new_pixel_actor_critic, rollout_loss
from deadtime.learn.pixel_networks import named_arrays
from deadtime.learn.pixel_q import Setup, Turn
from deadtime.learn.program import compiled_products
from deadtime.learn.settings import PixelA2C


@dataclass(frozen=True)
class Program:
    """What is compiled once: settings, no room for a queue that is never looked at, and how many lanes a run has."""

    settings: PixelA2C
    capacity: int
    lanes: int


class Learner(NamedTuple):
    """All that learning changes, of one run."""

    net: PixelActorCritic
    moments: Any
    updates: Int[Array, ""]
    diverged_at: Int[Array, ""]
    """The step at which a loss was no longer finite; -1 if it never happened."""


class State(NamedTuple):
    """All runs between two steps; of a rollout time comes first, then runs and lanes."""

    learner: Learner
    memory: Memory
    """With what was seen last."""
    begun: Memory
    """Before the rollout began."""
    seen: Seen
    came: Came


def _rms(program: Program) -> optax.GradientTransformation:
    settings = program.settings
    return optax.scale_by_rms(settings.rms_decay, settings.rms_epsilon, initial_scale=settings.rms_start)


def _nothing(program: Program, runs: int, lanes: int) -> Memory:
    none = jnp.zeros((runs, lanes, program.settings.lstm))
    return Memory(none, none)


@partial(compiled_products, static_argnums=0)
def begin(program: Program, setups: Setup) -> State:
    """Runs that know nothing."""

    def learner(setup: Setup) -> Learner:
        net = new_pixel_actor_critic(jax.random.fold_in(setup.key, 0), program.settings)
        return Learner(net, _rms(program).init(net), jnp.zeros((), jnp.int32), jnp.full((), -1, jnp.int32))

    runs, lanes = len(setups.delay), program.lanes
    at = program.settings.rollout, runs, lanes
    none, memory = jnp.zeros(at, bool), _nothing(program, runs, lanes)
    seen = Seen(jnp.zeros((*at, STACK, SIDE, SIDE), jnp.uint8), none, jnp.zeros(at, jnp.int32))
    return State(jax.vmap(learner)(setups), memory, memory, seen, Came(jnp.zeros(at), none, none))


def choose(program: Program, setups: Setup, state: State, seen: Turn, t: int) -> tuple[Int[Array, "R E"], State]:
    """Actions drawn from the policy; if a rollout is whole, after an update from it."""
    first, turn = seen.age == 0, t // program.lanes
    if turn and turn % program.settings.rollout == 0:
        state = _updated(program, setups, state, seen.shown, np.int32(t))
    memory, rollout, actions = _acted(
        program, setups, state.learner.net, state.memory, state.seen, seen.shown, first, np.int32(t)
    )
    return actions, state._replace(memory=memory, seen=rollout)


def learn(program: Program, setups: Setup, state: State, turn: Turn, index: int) -> State:
    """Put down what came of a turn."""
    settings = program.settings
    terminal = turn.terminated | (turn.life_lost & settings.life_loss)
    reward = np.sign(turn.reward) if settings.clip_rewards else turn.reward
    came = Came(reward, terminal, ~turn.lost & ~(turn.truncated & ~terminal))
    return state._replace(came=_stored(state.came, came, np.int32(index % settings.rollout)))


def act(
    program: Program, setups: Setup, learner: Learner, memory: Memory | None, shown: np.ndarray, queue: np.ndarray
) -> tuple[Int[Array, "R E"], Memory]:
    """Each lane's likeliest action, and what is remembered then; no memory is that of an episode's start."""
    return _greedy(program, setups, learner.net, memory or _nothing(program, *shown.shape[:2]), shown)


def policy_arrays(learner: Learner) -> dict[str, np.ndarray]:
    """All that acting needs, of one run."""
    return named_arrays(learner.net)


def _every_lane(setup: Setup, net: PixelActorCritic, memory: Memory, shown: Array) -> tuple[Memory, Array, Array]:
    return jax.vmap(net, (0, 0, None))(memory, shown, setup.actions)


@partial(compiled_products, static_argnums=0, donate_argnums=4)
def _acted(
    program: Program, setups: Setup, net: PixelActorCritic, memory: Memory, seen: Seen, shown: Array, first: Array, t: Array
) -> tuple[Memory, Seen, Int[Array, "R E"]]:
    """What is remembered now, the rollout with what is shown and chosen, and the actions alone."""

    def one(setup: Setup, net: PixelActorCritic, memory: Memory, shown: Array) -> tuple[Memory, Array]:
        memory, logits, _ = _every_lane(setup, net, memory, shown)
        return memory, jax.random.categorical(jax.random.fold_in(jax.random.fold_in(setup.key, 1), t), logits)

    memory, action = jax.vmap(one)(setups, net, forget(memory, first[..., None]), shown)
    slot = t // program.lanes % program.settings.rollout
    return memory, _put(seen, Seen(shown, first, action), slot), action


@partial(compiled_products, donate_argnums=0)
def _stored(rollout: Came, new: Came, slot: Array) -> Came:
    return _put(rollout, new, slot)


def _put(rollout: Any, new: Any, slot: Array) -> Any:
    return jax.tree.map(lambda old, new: old.at[slot].set(new.astype(old.dtype)), rollout, new)


@partial(compiled_products, static_argnums=0)
def _greedy(program: Program, setups: Setup, net: PixelActorCritic, memory: Memory, shown: Array) -> tuple[Array, Memory]:
    memory, logits, _ = jax.vmap(_every_lane)(setups, net, memory, shown)
    return jnp.argmax(logits, axis=-1), memory


@partial(compiled_products, static_argnums=0, donate_argnums=2)
def _updated(program: Program, setups: Setup, state: State, shown: Array, t: Int[Array, ""]) -> State:
    """One update of every run from the rollout that led to what is shown now, where the next one begins.

    Where an episode has ended something else is shown, and no return asks for its value.
    """
    settings, memory = program.settings, state.memory

    def one(setup: Setup, learner: Learner, begun: Memory, memory: Memory, shown: Array, seen: Seen, came: Came) -> Learner:
        _, _, after = _every_lane(setup, learner.net, memory, shown)

        def loss(net: PixelActorCritic) -> Array:
            each = partial(rollout_loss, net, actions=setup.actions, settings=settings)
            return jax.vmap(each, (0, 1, 1, 0))(begun, seen, came, after).mean()

        error, gradient = jax.value_and_grad(loss)(learner.net)
        gradient, norm = shortened(gradient, settings.gradient_norm)
        change, moments = _rms(program).update(gradient, learner.moments)
        net = jax.tree.map(lambda weight, by: weight - settings.learning_rate * by, learner.net, change)
        finite, before = jnp.isfinite(error) & jnp.isfinite(norm), learner.diverged_at < 0
        new = Learner(net, moments, learner.updates + 1, learner.diverged_at)
        kept = jax.tree.map(lambda new, old: jnp.where(finite & before, new, old), new, learner)
        return kept._replace(diverged_at=jnp.where(before & ~finite, t, learner.diverged_at))

    learner = jax.vmap(one, (0, 0, 0, 0, 0, 1, 1))(setups, state.learner, state.begun, memory, shown, state.seen, state.came)
    return State(learner, memory, memory, state.seen, state.came)
