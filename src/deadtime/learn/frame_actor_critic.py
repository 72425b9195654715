"""The recurrent baseline on frames: several runs at once, each with its own lanes.

`learn` stores the outcome of a step before the next action is chosen. After each rollout, `choose`
updates before it acts, since the value of the next frames ends the rollout's returns. So all
actions and memories of a rollout come from the same weights, and emulators wait for each update.
The last rollout is not learned from, since no frames follow it.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from deadtime.envs.atari.games import SIDE, STACK
from deadtime.envs.pools import Played
from deadtime.learn import a2c
from deadtime.learn.a2c import ActorCriticState, Memory, forget
from deadtime.learn.frame_a2c import (
    Came,
    FrameActorCriticNetwork,
    Seen,
    new_frame_actor_critic,
    rollout_loss,
)
from deadtime.learn.frame_networks import named_arrays
from deadtime.learn.host_turn import LearnsByTurn, Turn
from deadtime.learn.learner_code import kept
from deadtime.learn.program import Program, Setup, compiled_products


class State(NamedTuple):
    """All runs between two steps; rollouts have the axes (time, run, lane)."""

    learner: ActorCriticState
    memory: Memory
    """The memory now."""
    begun: Memory
    """The memory before the rollout."""
    seen: Seen
    came: Came


def _nothing(program: Program, runs: int, lanes: int) -> Memory:
    none = jnp.zeros((runs, lanes, program.settings.lstm))
    return Memory(none, none)


@partial(compiled_products, static_argnums=0)
def begin(program: Program, setups: Setup) -> State:
    """Return new runs."""

    def learner(setup: Setup) -> ActorCriticState:
        net = new_frame_actor_critic(jax.random.fold_in(setup.key, 0), program.settings)
        return a2c.new_state(net, program.settings)

    runs, lanes = len(setups.delay), program.lanes
    at = program.settings.rollout, runs, lanes
    none, memory = jnp.zeros(at, bool), _nothing(program, runs, lanes)
    frames = jnp.zeros((*at, STACK, SIDE, SIDE), jnp.uint8)
    seen = Seen(frames, none, jnp.zeros(at, jnp.int32))
    came = Came(jnp.zeros(at), none, none)
    return State(jax.vmap(learner)(setups), memory, memory, seen, came)


def _every_lane(
    setup: Setup, net: FrameActorCriticNetwork, memory: Memory, shown: Array
) -> tuple[Memory, Array, Array]:
    return jax.vmap(net, (0, 0, None))(memory, shown, setup.actions)


@partial(compiled_products, static_argnums=0, donate_argnums=4)
def _acted(
    program: Program,
    setups: Setup,
    net: FrameActorCriticNetwork,
    memory: Memory,
    seen: Seen,
    shown: Array,
    first: Array,
    t: Array,
) -> tuple[Memory, Seen, Int[Array, "R E"]]:
    """Return the memory, the rollout with the new frames and actions, and these actions."""

    def one(
        setup: Setup, net: FrameActorCriticNetwork, memory: Memory, shown: Array
    ) -> tuple[Memory, Array]:
        memory, logits, _ = _every_lane(setup, net, memory, shown)
        key = jax.random.fold_in(jax.random.fold_in(setup.key, 1), t)
        return memory, jax.random.categorical(key, logits)

    memory, action = jax.vmap(one)(setups, net, forget(memory, first[..., None]), shown)
    slot = t // program.lanes % program.settings.rollout
    return memory, _put(seen, Seen(shown, first, action), slot), action


@partial(compiled_products, donate_argnums=0)
def _stored(rollout: Came, new: Came, slot: Array) -> Came:
    return _put(rollout, new, slot)


def _put(rollout: PyTree, new: PyTree, slot: Array) -> Any:
    return jax.tree.map(lambda old, new: old.at[slot].set(new.astype(old.dtype)), rollout, new)


@partial(compiled_products, static_argnums=0)
def _greedy(
    program: Program, setups: Setup, net: FrameActorCriticNetwork, memory: Memory, shown: Array
) -> tuple[Array, Memory]:
    memory, logits, _ = jax.vmap(_every_lane)(setups, net, memory, shown)
    return jnp.argmax(logits, axis=-1), memory


@partial(compiled_products, static_argnums=0, donate_argnums=2)
def _updated(
    program: Program, setups: Setup, state: State, shown: Array, t: Int[Array, ""]
) -> State:
    """Update every run from its rollout, which led to the frames `shown`.

    Where an episode has ended, the frames are of the next one, and no return uses their value.
    """
    settings, memory = program.settings, state.memory

    def one(
        setup: Setup,
        learner: ActorCriticState,
        begun: Memory,
        memory: Memory,
        shown: Array,
        seen: Seen,
        came: Came,
    ) -> ActorCriticState:
        _, _, after = _every_lane(setup, learner.net, memory, shown)

        def loss(net: FrameActorCriticNetwork) -> Array:
            each = partial(rollout_loss, net, actions=setup.actions, settings=settings)
            return jax.vmap(each, (0, 1, 1, 0))(begun, seen, came, after).mean()

        limits = settings.gradient_norm, settings.learning_rate
        new, finite = a2c.updated(learner, loss, settings, *limits)
        return kept(new, learner, finite, t)

    learner = jax.vmap(one, (0, 0, 0, 0, 0, 1, 1))(
        setups, state.learner, state.begun, memory, shown, state.seen, state.came
    )
    return State(learner, memory, memory, state.seen, state.came)


class FrameActorCritic(LearnsByTurn):
    """The code of the learner (see `host_turn.HostedLearner`)."""

    overlaps = False
    begin = staticmethod(begin)

    def restart(self, program: Program, state: State, seen: Played, index: int) -> State:
        """Return the state at the start of new episodes, which the last step did not lead to."""
        came = state.came
        slot = index % program.settings.rollout
        known = came.known.at[slot].set(came.known[slot] & came.terminal[slot])
        return state._replace(came=came._replace(known=known))

    def choose(
        self,
        program: Program,
        setups: Setup,
        state: State,
        seen: Played,
        t: int,
        turn: Turn | None = None,
    ) -> tuple[Int[Array, "R E"], State]:
        """Return actions drawn from the policy, after an update if a rollout is complete."""
        first = seen.age == 0
        index = t // program.lanes
        if index and index % program.settings.rollout == 0:
            state = _updated(program, setups, state, seen.shown, np.int32(t))
        now = state.memory, state.seen, seen.shown, first, np.int32(t)
        memory, rollout, actions = _acted(program, setups, state.learner.net, *now)
        return actions, state._replace(memory=memory, seen=rollout)

    def learn(self, program: Program, setups: Setup, state: State, turn: Turn, index: int) -> State:
        """Store the outcome of a turn."""
        settings = program.settings
        after = turn.after
        terminal = after.terminated | (after.life_lost & settings.life_loss)
        reward = np.sign(after.reward) if settings.clip_rewards else after.reward
        came = Came(reward, terminal, ~after.lost & ~(after.truncated & ~terminal))
        slot = np.int32(index % settings.rollout)
        return state._replace(came=_stored(state.came, came, slot))

    def decide(
        self,
        program: Program,
        setups: Setup,
        learner: ActorCriticState,
        memory: Memory | None,
        seen: Played,
    ) -> tuple[Int[Array, "R E"], Memory]:
        """Return each lane's most likely action, and the memories."""
        memory = memory or _nothing(program, *seen.shown.shape[:2])
        return _greedy(program, setups, learner.net, memory, seen.shown)

    def policy_arrays(self, program: Program, learner: ActorCriticState) -> dict[str, np.ndarray]:
        """Return the arrays of the policy of one run."""
        return named_arrays(learner.net)


FRAME_ACTOR_CRITIC = FrameActorCritic()
