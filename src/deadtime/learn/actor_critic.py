"""The recurrent baseline on numbers: A2C with an LSTM, which sees neither delay nor queue.

An update follows a rollout of every actor of a run. Actions are numbered, or within a box: then the
policy is a squashed Gaussian, as SAC's. Every function takes one run.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from deadtime.learn import a2c
from deadtime.learn.a2c import ActorCritic, ActorCriticState, Judge, Memory
from deadtime.learn.box_scale import BoxScale
from deadtime.learn.learner_code import Keys, kept, learning_rate
from deadtime.learn.networks import layer_arrays
from deadtime.learn.program import Actor, Done, Program, Setup
from deadtime.learn.squashed_gaussian import gaussian, judged, sampled


class Numbers(NamedTuple):
    """The settings that may differ between runs of one program, named as in `A2C`."""

    learning_rate: Any
    learning_rate_fall: Any
    gamma: Any
    value_weight: Any
    entropy_weight: Any
    gradient_norm: Any
    reward_scale: Any
    shaped: Any

    @property
    def shaped_bonus(self) -> float:
        """The number that is added to the shaped reward."""
        return 0.0


class Step(NamedTuple):
    """One step of an actor, as a rollout keeps it."""

    obs: Float[Array, " D"]
    action: Array
    reward: Float[Array, ""]
    terminated: Array
    ended: Array
    after: Float[Array, ""]
    """The value of the observation that the step led to, before any reset."""


def _scale(program: Program) -> BoxScale | None:
    """Return the scale of actions within a box; None if actions are numbered."""
    return None if program.box is None else cast("BoxScale", program.actions)


def _judge(program: Program) -> Judge:
    """Return the function that judges an action of a program (see `a2c.Judge`)."""
    scale = _scale(program)
    if scale is None:
        return a2c.numbered
    return lambda outputs, action: judged(gaussian(outputs), scale.inward(action))


class RecurrentActorCritic:
    """The code of the learner (see `learner_code`)."""

    keys = ("action", "environment")
    numbers = Numbers
    updates_once = True

    def actors(self, program: Program) -> int:
        """Return the number of environments of a run."""
        return program.settings.actors

    def rollout(self, program: Program) -> int:
        """Return the steps of each actor between two updates."""
        return program.settings.rollout

    def init(self, program: Program, setup: Setup, key: Array) -> ActorCriticState:
        """Return the state of a new learner."""
        scale = _scale(program)
        outputs = program.env.num_actions if scale is None else 2 * scale.size
        net = a2c.new_actor_critic(key, program.observation, outputs, program.settings)
        return a2c.new_state(net, program.settings)

    def new_replay(self, program: Program) -> tuple[()]:
        """Return (): there is no replay buffer, because each rollout is used once."""
        return ()

    def new_memory(self, program: Program) -> Memory:
        """Return the memory at the start of an episode."""
        return a2c.nothing(program.settings.lstm)

    def act(
        self, program: Program, setup: Setup, state: ActorCriticState, actor: Actor, keys: Keys
    ) -> tuple[Array, Memory]:
        """Return an action drawn from the policy, and the memory after the observation."""
        memory, outputs, _ = state.net(actor.memory, actor.obs)
        scale = _scale(program)
        if scale is None:
            return jax.random.categorical(keys["action"], outputs), memory
        law = gaussian(outputs)
        drawn, _ = sampled(law, jax.random.normal(keys["action"], law.mean.shape))
        return scale.outward(drawn), memory

    def decide(
        self, program: Program, setup: Setup, state: ActorCriticState, actor: Actor, key: Array
    ) -> tuple[Array, Memory]:
        """Return the most likely action, and the memory after the observation.

        Within a box it is the action at the mean of the Gaussian.
        """
        memory, outputs, _ = state.net(actor.memory, actor.obs)
        scale = _scale(program)
        if scale is None:
            return jnp.argmax(outputs), memory
        return scale.outward(jnp.tanh(gaussian(outputs).mean)), memory

    def record(
        self, program: Program, setup: Setup, state: ActorCriticState, actor: Actor, done: Done
    ) -> Step:
        """Return the step as a rollout keeps it."""
        reward = setup.numbers.reward_scale * done.reward
        after = state.net(done.memory, done.obs)[2]
        return Step(actor.obs, done.action, reward, done.terminated, done.ended, after)

    def update(
        self,
        program: Program,
        setup: Setup,
        state: ActorCriticState,
        replay: tuple[()],
        rollout: tuple[Memory, Step],
        t: Int[Array, ""],
        keys: Keys,
    ) -> tuple[ActorCriticState, tuple[()]]:
        """Return the state after an update from the rollouts of all actors, which end at step t."""
        memory, steps = rollout
        numbers = setup.numbers
        mine = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), steps)

        def loss(net: ActorCritic) -> Array:
            def one(memory: Memory, done: Step) -> Array:
                ends = done.terminated, done.ended
                gained = a2c.returns(done.reward, done.after, *ends, numbers.gamma)
                weights = numbers.value_weight, numbers.entropy_weight
                taken = done.obs, done.action, gained, done.ended
                return a2c.rollout_loss(net, memory, *taken, *weights, _judge(program))

            return jax.vmap(one)(memory, mine).mean()

        rate = learning_rate(setup, t)
        new, finite = a2c.updated(state, loss, program.settings, numbers.gradient_norm, rate)
        return kept(new, state, finite, t, t < setup.steps), replay

    def policy_arrays(self, program: Program, state: ActorCriticState) -> dict[str, np.ndarray]:
        """Return the arrays of a policy."""
        net, lstm = state.net, state.net.lstm
        arrays: dict[str, Any] = {
            "lstm/input": lstm.from_input,
            "lstm/output": lstm.from_output,
            "lstm/bias": lstm.bias,
        }
        arrays |= layer_arrays("layer", net)
        for i, norm in enumerate(lstm.norms or ()):
            arrays |= {f"norm/{i}/gain": norm.gain, f"norm/{i}/shift": norm.shift}
        scale = _scale(program)
        if scale is not None:
            arrays |= {"low": scale.low, "high": scale.high}
        return jax.tree.map(np.asarray, arrays)


ACTOR_CRITIC = RecurrentActorCritic()
