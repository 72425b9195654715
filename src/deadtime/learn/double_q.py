"""Double Q-learning with networks: the loss of a batch, the target network, and Adam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from deadtime.learn.roll_kernel import on_gpu

Values = Callable[[Any, Any], Float[Array, " A"]]
"""The values of all actions, from a network and its inputs."""


class Batch(NamedTuple):
    """A batch of transitions; `now` and `then` are the inputs of Q before and after the action."""

    now: Any
    then: Any
    action: Int[Array, " B"]
    reward: Float[Array, " B"]
    terminal: Float[Array, " B"]
    weight: Any = None
    """The weight of each transition in the loss, 0 or 1; None stands for 1."""
    choosing: Any = None
    """The values that choose the next action; None if Q itself chooses."""
    held: Any = None
    """Whether the next step executes the same action again; None if that never happens."""


class LossSettings(Protocol):
    """The settings of the loss, as `DoubleQ`, its numbers in a program and `PixelQ` have them."""

    @property
    def gamma(self) -> float | Array:
        """The discount of a step."""

    @property
    def centre(self) -> float | Array:
        """The number that is subtracted from rewards."""

    @property
    def scaled(self) -> bool | Array:
        """Whether rewards are multiplied by 1 - gamma."""

    @property
    def double(self) -> bool | Array:
        """Whether Q chooses the action of the target; otherwise the target network does."""

    @property
    def terminals(self) -> bool | Array:
        """Whether the target has no value after the end of an episode."""

    @property
    def clip_rewards(self) -> bool:
        """Whether only the sign of rewards counts."""


def double_q_target(
    reward: Float[Array, ""],
    discount: float | Array,
    q_next: Float[Array, " A"],
    target_next: Float[Array, " A"],
) -> Float[Array, ""]:
    """Return r + γ · Q_target(s', argmax_a Q(s', a)) (van Hasselt et al.).

    `discount` is 0 where the episode terminated.
    """
    return reward + discount * target_next[jnp.argmax(q_next)]


def huber(error: Float[Array, ""]) -> Float[Array, ""]:
    """Return the Huber loss: quadratic up to 1, linear beyond."""
    size = jnp.abs(error)
    return jnp.where(size <= 1.0, 0.5 * error**2, size - 0.5)


def double_q_loss(
    q: Float[Array, " A"],
    action: Int[Array, ""],
    reward: Array,
    discount: float | Array,
    q_next: Array,
    target_next: Array,
) -> Float[Array, ""]:
    """Return the Huber loss of the taken action's value."""
    target = double_q_target(reward, discount, q_next, target_next)
    return huber(q[action] - jax.lax.stop_gradient(target))


def measured(
    reward: Array,
    terminated: Array,
    discount: float | Array,
    centre: float | Array,
    scaled: bool | Array,
) -> tuple[Any, Any]:
    """Return the reward and the discount of a transition, for a shifted and scaled Q.

    Q is measured from `centre` / (1 - γ) and, if `scaled`, in units of 1 / (1 - γ). The greedy
    policy stays the same. If every step earns `centre`, Q starts at its true value, 0, and only the
    ends of episodes must be learned. A scaled Q is about as large as one reward at any discount.
    """
    unit = jnp.where(scaled, 1.0 - discount, 1.0)
    lost = jnp.where(centre == 0.0, 0.0, unit * centre * discount / (1.0 - discount))
    return unit * (reward - centre) - terminated * lost, discount * (1.0 - terminated)


def batch_loss(
    q: PyTree, target: PyTree, values: Values, batch: Batch, numbers: LossSettings
) -> Float[Array, ""]:
    """Return the mean loss of a batch; `numbers` has the settings of `DoubleQ` or `PixelQ`."""

    def one(b: Batch) -> Array:
        now = values(q, b.now)
        then = values(q, b.then)
        aim = values(target, b.then)
        ended = b.terminal * numbers.terminals
        reward = jnp.sign(b.reward) if numbers.clip_rewards else b.reward
        reward, discount = measured(reward, ended, numbers.gamma, numbers.centre, numbers.scaled)
        choosing = either(numbers.double, then, aim) if b.choosing is None else b.choosing
        if b.held is not None:
            choosing = jnp.where(b.held, jax.nn.one_hot(b.action, len(choosing)), choosing)
        loss = double_q_loss(now, b.action, reward, discount, choosing, aim)
        return loss if b.weight is None else loss * b.weight

    return jax.vmap(one)(batch).mean()


def either(flag: bool | Array, first: Array, second: Array) -> Array:
    """Return `first` if a flag is set, else `second`; a Python bool decides at compile time."""
    if isinstance(flag, bool):
        return first if flag else second
    return jnp.where(flag, first, second)


def followed(new: PyTree, old: PyTree, updates: Array, period: int, rate: float | Array) -> Any:
    """Return the target network after an update.

    The target is a copy of `new`, made every `period` updates. With a period of 0 it moves instead,
    at each update, by the fraction `rate` of the difference.
    """
    copied = (period > 0) & (updates % jnp.maximum(period, 1) == 0)
    if isinstance(period, int) and period > 0:
        return jax.tree.map(lambda a, b: jnp.where(copied, a, b), new, old)
    part = jnp.where(period > 0, 0.0, rate)
    return jax.tree.map(lambda a, b: jnp.where(copied, a, b + part * (a - b)), new, old)


class Adam(NamedTuple):
    """Adam; `joined` concatenates all weights on a CPU, where fewer operations are faster."""

    epsilon: float
    joined: bool = False

    def init(self, weights: PyTree) -> Any:
        """Return the moments before the first update."""
        return self._rule().init(self._row(weights)[0])

    def descend(
        self, weights: PyTree, gradient: PyTree, moments: PyTree, rate: float | Array
    ) -> tuple[Any, Any]:
        """Return weights and moments after one update."""
        row, apart = self._row(gradient)
        change, moments = self._rule().update(row, moments)
        return jax.tree.map(lambda weight, by: weight - rate * by, weights, apart(change)), moments

    def _rule(self) -> optax.GradientTransformation:
        return optax.scale_by_adam(eps=self.epsilon)

    def _row(self, weights: PyTree) -> tuple[Any, Callable[[Any], Any]]:
        if not self.joined or on_gpu():  # a GPU would only copy more
            return weights, lambda same: same
        return ravel_pytree(weights)
