"""Environments as pure functions, and delay on any of them.

The protocol is gymnax's (1.0), so that its environments plug in: `reset_env(key, params)` and
`step_env(key, state, action, params)` are the dynamics. `reset` and `step` add the automatic reset
that a compiled loop needs. `terminated` and `truncated` are separate; ``info["final_observation"]``
is the observation after the step, before any reset. Everything works under `jax.jit`, `jax.vmap`
and `jax.lax.scan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from deadtime.delays.convention import Warmup, push, second_delay
from deadtime.delays.parse import DelayLike, as_process
from deadtime.delays.process import DelayProcess
from deadtime.envs import channel
from deadtime.envs.start_queue import check_warmup, start_queue

Key = jax.Array
Step = tuple[Any, Any, jax.Array, jax.Array, dict[str, Any]]
AutoresetStep = tuple[Any, Any, jax.Array, jax.Array, jax.Array, dict[str, Any]]


class Environment(Protocol):
    """A functional environment: subclasses give the dynamics and inherit `reset` and `step`."""

    @property
    def default_params(self) -> Any:
        """The default parameters.

        They are a pytree, so that many settings can run in one program.
        """
        ...

    @property
    def num_actions(self) -> int:
        """The number of actions to choose from; 0 if actions are real vectors."""
        return 0

    def action_space(self, params: PyTree = None) -> Any:
        """Return the space of one action."""
        ...

    def observation_space(self, params: PyTree = None) -> Any:
        """Return the space of one observation."""
        ...

    def reset_env(self, key: Key, params: PyTree) -> tuple[Any, Any]:
        """Start an episode; return its observation and state."""
        ...

    def step_env(self, key: Key, state: PyTree, action: PyTree, params: PyTree) -> Step:
        """Make one step; return observation, state, reward, terminated and info."""
        ...

    def is_truncated(self, state: PyTree, params: PyTree) -> jax.Array:
        """Return whether the episode has reached its time limit."""
        ...

    def reset(self, key: Key, params: PyTree = None) -> tuple[Any, Any]:
        """Start an episode; return its observation and state."""
        return self.reset_env(key, self.default_params if params is None else params)

    def step(self, key: Key, state: PyTree, action: PyTree, params: PyTree = None) -> AutoresetStep:
        """Step, and start the next episode if this one ended.

        Returns observation, state, reward, terminated, truncated, info.
        """
        params = self.default_params if params is None else params
        key_step, key_reset = jax.random.split(key)
        final_obs, final_state, reward, terminated, info = self.step_env(
            key_step, state, action, params
        )
        truncated = self.is_truncated(final_state, params)
        started = self.reset_env(key_reset, params)
        ended = terminated | truncated
        obs, state = jax.tree.map(
            lambda new, old: jnp.where(ended, new, old), started, (final_obs, final_state)
        )
        return obs, state, reward, terminated, truncated, {**info, "final_observation": final_obs}


class DelayedState(NamedTuple):
    """The state of a delayed environment."""

    env_state: Any
    queue: jax.Array
    """The last K actions, oldest first."""
    channel: Any = ()
    """The state of the delay process's chain; empty for a constant delay."""


@dataclass(frozen=True)
class Delayed(Environment):
    """The environment that `delayed` returns: step t executes the action of age z_t."""

    env: Any
    process: DelayProcess
    warmup: Warmup = "random"

    def __post_init__(self) -> None:
        """Raise if the environment, the delay or the warm-up is not valid."""
        object.__setattr__(self, "process", as_process(self.process))
        if not hasattr(self.env, "step_env"):
            raise ValueError(
                f"delayed wraps a functional environment; got {self.env!r}: pass "
                "deadtime.envs.make(name) (the first of the pair that gymnax.make returns), "
                "or use ActionDelay for a Gymnasium environment"
            )
        if isinstance(self.env, Delayed):
            raise second_delay(self.env.delay, self.delay)
        if self.process.constant is None and not self.process.chain.endless:
            raise ValueError(
                "a compiled environment can't stop when a trace of delays is used up; "
                f"got {self.process}: pass repeat=True to the trace, or use ActionDelay"
            )
        check_warmup(self.warmup, self.action_space(self.default_params))

    @property
    def delay(self) -> int:
        """The delay in steps; of a random delay, the longest age K."""
        return self.process.longest

    @property
    def default_params(self) -> Any:
        """The default parameters of the environment itself."""
        return self.env.default_params

    @property
    def num_actions(self) -> int:
        """The number of actions of the environment itself."""
        return self.env.num_actions

    def action_space(self, params: PyTree = None) -> Any:
        """Return the space of one action of the environment itself."""
        return self.env.action_space(self.default_params if params is None else params)

    def observation_space(self, params: PyTree = None) -> Any:
        """Return the space of one observation of the environment itself."""
        return self.env.observation_space(self.default_params if params is None else params)

    def reset_env(self, key: Key, params: PyTree) -> tuple[Any, DelayedState]:
        """Start an episode with K actions pending."""
        key_env, key_warmup = jax.random.split(key)
        obs, state = self.env.reset_env(key_env, params)
        space = self.action_space(params)
        room = self.delay
        queue = start_queue(self.env, space, obs, key_warmup, room, room, self.warmup)
        return obs, DelayedState(state, queue, channel.first_state(self.process, key))

    def action_age(self, state: DelayedState) -> Any:
        """Return the age of the action that the next step executes."""
        if self.process.constant is not None:
            return jnp.int32(self.delay)
        return channel.age_of(self.process, state.channel)

    def step_env(self, key: Key, state: DelayedState, action: PyTree, params: PyTree) -> Step:
        """Execute the pending action of the present age; `action` joins the end of the queue."""
        constant = self.process.constant is not None
        age = self.action_age(state)
        executed, queue = push(state.queue, action, None if constant else age)
        obs, env_state, reward, terminated, info = self.env.step_env(
            key, state.env_state, executed, params
        )
        moved = channel.next_state(
            self.process, state.channel, channel.step_draw(self.process, key)
        )
        after = DelayedState(env_state, queue, moved)
        info = {
            **info,
            "executed_action": executed,
            "executed_age": age,
            "pending_actions": queue,
            "action_age": self.action_age(after),
        }
        return obs, after, reward, terminated, info

    def is_truncated(self, state: DelayedState, params: PyTree) -> jax.Array:
        """Return whether the environment itself has reached its time limit."""
        return self.env.is_truncated(state.env_state, params)

    def step(
        self, key: Key, state: DelayedState, action: PyTree, params: PyTree = None
    ) -> AutoresetStep:
        """Step as `Environment.step` does.

        ``info["pending_actions"]`` and ``info["action_age"]`` belong to the next decision, in the
        next episode if this one ended. The entries with the prefix ``final_`` are from before any
        reset.
        """
        obs, state, reward, terminated, truncated, info = Environment.step(
            self, key, state, action, params
        )
        info = {
            **info,
            "pending_actions": state.queue,
            "final_pending_actions": info["pending_actions"],
            "action_age": self.action_age(state),
            "final_action_age": info["action_age"],
        }
        return obs, state, reward, terminated, truncated, info


def delayed(env: Environment, delay: DelayLike, warmup: Warmup = "random") -> Delayed:
    """Put a delay on a functional environment (ours or gymnax's).

    `delay` is a number of steps or a process of `deadtime.delays`. `warmup` fills the queue at
    reset: "random", one action, "own" (the environment's own rule, which training uses: the expert
    on CartPole, else random), or callable(obs, K, key) -> the K actions as one array.
    """
    return Delayed(env, as_process(delay), warmup)
