"""Environments as pure functions, and delay on any of them.

The protocol is gymnax's (1.0), so that its environments plug in: `reset_env(key, params)` and
`step_env(key, state, action, params)` are the dynamics, `reset` and `step` add the automatic reset that a compiled loop
needs. `terminated` and `truncated` are separate; ``info["final_observation"]`` is what the step led to, before any reset.
Everything works under `jax.jit`, `jax.vmap` and `jax.lax.scan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from deadtime.delays.convention import Warmup, check_delay, push, second_delay

Key = jax.Array
Step = tuple[Any, Any, jax.Array, jax.Array, dict[str, Any]]
AutoresetStep = tuple[Any, Any, jax.Array, jax.Array, jax.Array, dict[str, Any]]


class Environment(Protocol):
    """What a functional environment is; subclasses give the dynamics, and get `reset` and `step` from here."""

    @property
    def default_params(self) -> Any:
        """The parameters that are used where none are given: a pytree, so that many settings can run in one program."""
        ...

    @property
    def num_actions(self) -> int:
        """How many actions there are to choose from."""
        ...

    def action_space(self, params: Any = None) -> Any:
        """The space of one action."""
        ...

    def observation_space(self, params: Any = None) -> Any:
        """The space of one observation."""
        ...

    def reset_env(self, key: Key, params: Any) -> tuple[Any, Any]:
        """The start of an episode: observation, state."""
        ...

    def step_env(self, key: Key, state: Any, action: Any, params: Any) -> Step:
        """One step of the dynamics: observation, state, reward, terminated, info."""
        ...

    def is_truncated(self, state: Any, params: Any) -> jax.Array:
        """Whether the episode has reached its time limit."""
        ...

    def reset(self, key: Key, params: Any = None) -> tuple[Any, Any]:
        """Start an episode: observation, state."""
        return self.reset_env(key, self.default_params if params is None else params)

    def step(self, key: Key, state: Any, action: Any, params: Any = None) -> AutoresetStep:
        """Step, and start the next episode if this one ended: observation, state, reward, terminated, truncated, info."""
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
    """A state and the m actions that are pending in it, oldest first."""

    env_state: Any
    queue: jax.Array


@dataclass(frozen=True)
class Delayed(Environment):
    """`delayed(env, delay)`: the same environment when every action is executed `delay` steps after it was chosen."""

    env: Any
    delay: int
    warmup: Warmup = "random"

    def __post_init__(self) -> None:
        """Refuse a delay or a warm-up that makes no sense."""
        object.__setattr__(self, "delay", check_delay(self.delay))
        if not hasattr(self.env, "step_env"):
            raise ValueError(
                f"delayed wraps a functional environment; got {self.env!r}: pass deadtime.envs.make(name) "
                "(of gymnax.make, the first of the pair), or use ActionDelay for a Gymnasium environment"
            )
        if isinstance(self.env, Delayed):
            raise second_delay(self.env.delay, self.delay)
        if isinstance(self.warmup, str) and self.warmup != "random":
            raise ValueError(
                f'warmup is "random", an action, or a callable; got {self.warmup!r}: did you mean "random"?'
            )
        if not callable(self.warmup) and not isinstance(self.warmup, str):
            _check_fixed(self.warmup, self.action_space(self.default_params))

    @property
    def default_params(self) -> Any:
        """The default parameters of the environment itself."""
        return self.env.default_params

    @property
    def num_actions(self) -> int:
        """The number of actions of the environment itself."""
        return self.env.num_actions

    def action_space(self, params: Any = None) -> Any:
        """Return the space of one action of the environment itself."""
        return self.env.action_space(self.default_params if params is None else params)

    def observation_space(self, params: Any = None) -> Any:
        """Return the space of one observation of the environment itself."""
        return self.env.observation_space(self.default_params if params is None else params)

    def reset_env(self, key: Key, params: Any) -> tuple[Any, DelayedState]:
        """Start an episode with m actions pending."""
        key_env, key_warmup = jax.random.split(key)
        obs, state = self.env.reset_env(key_env, params)
        return obs, DelayedState(state, self._queue(obs, key_warmup, params))

    def _queue(self, obs: Any, key: Key, params: Any) -> jax.Array:
        space = self.action_space(params)
        if isinstance(self.warmup, str):
            return _random_actions(space, key, self.delay)
        if not callable(self.warmup):
            return jnp.broadcast_to(
                jnp.asarray(self.warmup, _dtype(space)), (self.delay, *space.shape)
            )
        actions = jnp.asarray(self.warmup(obs, self.delay, key), _dtype(space))
        if actions.shape != (self.delay, *space.shape):
            raise ValueError(
                f"a warm-up callable returns as many actions as the delay, shape {(self.delay, *space.shape)}; "
                f"got {actions.shape}: return one action for each pending step, oldest first"
            )
        if not isinstance(actions, jax.core.Tracer):
            for action in np.asarray(actions):
                _check_fixed(action, space)
        return actions

    def step_env(self, key: Key, state: DelayedState, action: Any, params: Any) -> Step:
        """Execute the oldest pending action; `action` joins the end of the queue."""
        executed, queue = push(state.queue, action)
        obs, env_state, reward, terminated, info = self.env.step_env(
            key, state.env_state, executed, params
        )
        info = {**info, "executed_action": executed, "pending_actions": queue}
        return obs, DelayedState(env_state, queue), reward, terminated, info

    def is_truncated(self, state: DelayedState, params: Any) -> jax.Array:
        """Whether the environment itself has reached its time limit."""
        return self.env.is_truncated(state.env_state, params)

    def step(self, key: Key, state: DelayedState, action: Any, params: Any = None) -> AutoresetStep:
        """As `Environment.step`; ``info["pending_actions"]`` is the queue to act on, ``final_pending_actions`` the old one."""
        obs, state, reward, terminated, truncated, info = Environment.step(
            self, key, state, action, params
        )
        info = {
            **info,
            "pending_actions": state.queue,
            "final_pending_actions": info["pending_actions"],
        }
        return obs, state, reward, terminated, truncated, info


def delayed(env: Any, delay: int, warmup: Warmup = "random") -> Delayed:
    """Put a delay on a functional environment (ours or gymnax's).

    `warmup` fills the queue at reset: "random", one action, or callable(obs, delay, key) -> the m actions as one array.
    """
    return Delayed(env, delay, warmup)


def _dtype(space: Any) -> Any:
    return jnp.int32 if jnp.issubdtype(space.dtype, jnp.integer) else jnp.float32


def _check_fixed(action: Any, space: Any) -> None:
    given = np.asarray(action)
    if given.shape != tuple(space.shape) or not bool(space.contains(given)):
        raise ValueError(
            f"each warm-up action must lie in the action space {space}; got {action!r}: choose one inside it"
        )


def _random_actions(space: Any, key: Key, delay: int) -> jax.Array:
    if isinstance(
        space, spaces.Discrete
    ):  # a remainder is biased by less than n / 2^32 and half the price of randint
        return int(space.start) + (jax.random.bits(key, (delay,)) % int(space.n)).astype(jnp.int32)
    return jax.vmap(space.sample)(jax.random.split(key, delay)).astype(_dtype(space))
