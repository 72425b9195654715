"""The pending actions at the start of an episode, for functional environments and for training."""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from numpy.typing import ArrayLike

from deadtime.delays.convention import Warmup

_WORDS = ("random", "own")


class Space(Protocol):
    """The space of one action, of Gymnasium or of gymnax."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an action."""

    @property
    def dtype(self) -> np.dtype:
        """The type of an action's numbers."""

    def contains(self, x: np.ndarray) -> bool | jax.Array:
        """Return whether an action lies in the space."""

    def sample(self, key: jax.Array) -> jax.Array:
        """Return a random action; Gymnasium's spaces have other arguments here."""


class Bounded(Space, Protocol):
    """A box with finite bounds."""

    low: np.ndarray
    high: np.ndarray


def start_queue(
    env: object,
    space: Space,
    obs: PyTree,
    key: jax.Array,
    room: int,
    delay: int | jax.Array,
    warmup: Warmup = "own",
) -> jax.Array:
    """Return a queue of length `room` whose last `delay` actions are those of `warmup`.

    `warmup` is "random", one action, a callable, or "own": the rule `env.warm_up(obs, room, delay)`
    where the environment has one, else random actions. `delay` may be traced for "random" and
    "own".
    """
    if room == 0:
        return jnp.zeros((0, *space.shape), _dtype(space))
    if isinstance(warmup, str):
        if warmup == "own" and hasattr(env, "warm_up"):
            return env.warm_up(obs, room, delay)
        return _random_actions(space, key, room)
    if not callable(warmup):
        return jnp.broadcast_to(jnp.asarray(warmup, _dtype(space)), (room, *space.shape))
    actions = jnp.asarray(warmup(obs, room, key), _dtype(space))
    if actions.shape != (room, *space.shape):
        raise ValueError(
            "a warm-up callable returns as many actions as the delay, shape "
            f"{(room, *space.shape)}; got {actions.shape}: "
            "return one action for each pending step, oldest first"
        )
    if not isinstance(actions, jax.core.Tracer):
        for action in np.asarray(actions):
            _check_fixed(action, space)
    return actions


def check_warmup(warmup: Warmup, space: Space) -> None:
    """Raise if a warm-up is neither a known word nor a callable nor an action of `space`."""
    if isinstance(warmup, str) and warmup not in _WORDS:
        raise ValueError(
            f'warmup is "random", "own", an action, or a callable; got {warmup!r}: '
            'did you mean "random"?'
        )
    if not callable(warmup) and not isinstance(warmup, str):
        _check_fixed(warmup, space)


def _random_actions(space: Space, key: jax.Array, length: int) -> jax.Array:
    if hasattr(space, "n"):  # of Gymnasium, or of gymnax, whose actions begin at 0
        first = int(getattr(space, "start", 0))
        return first + _random_numbered(key, length, int(space.n))
    if _is_bounded(space):
        low, high = jnp.asarray(space.low), jnp.asarray(space.high)
        part = jax.random.uniform(key, (length, *space.shape))
        return (low + (high - low) * part).astype(_dtype(space))
    return jax.vmap(space.sample)(jax.random.split(key, length)).astype(_dtype(space))


def _random_numbered(key: jax.Array, length: int, count: int) -> jax.Array:
    """Return `length` random actions of 0 … count - 1.

    The remainder is biased by less than count / 2^32, at half the price of `jax.random.randint`.
    """
    return (jax.random.bits(key, (length,)) % count).astype(jnp.int32)


def _is_bounded(space: Space) -> TypeGuard[Bounded]:
    """Return whether a space is a box with finite bounds."""
    if not hasattr(space, "low") or not hasattr(space, "high"):
        return False
    return bool(np.isfinite(np.asarray((space.low, space.high), np.float64)).all())


def _dtype(space: Space) -> Any:
    return jnp.int32 if jnp.issubdtype(space.dtype, jnp.integer) else jnp.float32


def _check_fixed(action: ArrayLike, space: Space) -> None:
    given = np.asarray(action)
    if given.shape != tuple(space.shape) or not bool(space.contains(given)):
        raise ValueError(
            f"each warm-up action must lie in the action space {space}; got {action!r}: "
            "choose one inside it"
        )
