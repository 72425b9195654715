"""A linear system with a quadratic cost, as an environment, with its exact optimum under a delay.

The state x and the action u are numbers: x' = a x + b u + w with w ~ N(0, noise²), and a step costs
x² + r u². Episodes have a fixed length and start at x ~ U(-1, 1) with `warmup` in every slot of the
queue. The exact return of any linear policy of the augmented state (x, queue) follows from a
backward recursion, and so does the best one (Riccati).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from deadtime.envs import Environment


class LqParams(NamedTuple):
    """The parameters of the system."""

    a: Any = 1.0
    b: Any = 0.5
    cost: Any = 0.1
    noise: Any = 0.2
    max_steps_in_episode: Any = 30


LQ = LqParams()


class LqState(NamedTuple):
    x: Any
    time: Any


@dataclass(frozen=True)
class LinearQuadratic(Environment):
    """The system; actions lie between `low` and `high`."""

    params: LqParams = LQ
    warmup: float = 0.3
    low: float = -3.0
    high: float = 3.0

    @property
    def default_params(self):
        return self.params

    def action_space(self, params=None):
        return spaces.Box(np.float32(self.low), np.float32(self.high), (1,), np.float32)

    def observation_space(self, params=None):
        return spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def reset_env(self, key, params):
        x = jax.random.uniform(key, (1,), minval=-1.0)
        return x, LqState(x, jnp.zeros((), jnp.int32))

    def step_env(self, key, state, action, params):
        reward = -(state.x**2 + params.cost * action**2)[0]
        noise = params.noise * jax.random.normal(key, (1,))
        x = params.a * state.x + params.b * action + noise
        return x, LqState(x, state.time + 1), reward, jnp.zeros((), bool), {}

    def is_truncated(self, state, params):
        return state.time >= params.max_steps_in_episode

    def warm_up(self, obs, room, delay):
        return jnp.full((room, 1), self.warmup)


def matrices(params, delay):
    """Return F and G of the augmented state (x, oldest action, …, newest), and the cost matrices.

    z' = F z + G u + noise in x, and a step costs z' C z + c u²: the executed action is the oldest
    pending one, or u itself without a delay.
    """
    size = 1 + delay
    forward, entering = np.zeros((size, size)), np.zeros(size)
    forward[0, 0] = params.a
    costs = np.zeros((size, size))
    costs[0, 0] = 1.0
    if delay == 0:
        entering[0] = params.b
        return forward, entering, costs, params.cost
    forward[0, 1] = params.b
    costs[1, 1] = params.cost
    forward[1:-1, 2:] = np.eye(delay - 1)
    entering[-1] = 1.0
    return forward, entering, costs, 0.0


def start(env, delay):
    """Return the mean of z z' at the start of an episode."""
    second = np.full((1 + delay, 1 + delay), env.warmup**2)
    second[0, :] = 0.0
    second[:, 0] = 0.0
    second[0, 0] = 1 / 3
    return second


def best(env, delay):
    """Return the largest expected return, and the gains K_t of u_t = -K_t z_t."""
    params = env.params
    forward, entering, costs, weight = matrices(params, delay)
    value, constant, gains = np.zeros_like(costs), 0.0, []
    for _ in range(params.max_steps_in_episode):
        constant += params.noise**2 * value[0, 0]
        pushed = entering @ value
        inner = weight + pushed @ entering
        gain = pushed @ forward / inner if inner > 0 else np.zeros(1 + delay)
        value = costs + forward.T @ value @ forward - inner * np.outer(gain, gain)
        gains.append(gain)
    return -(np.sum(value * start(env, delay)) + constant), gains[::-1]


def return_of(env, delay, gains):
    """Return the expected return of u_t = -K_t z_t, by the moments of z."""
    params = env.params
    forward, entering, costs, weight = matrices(params, delay)
    second, total = start(env, delay), 0.0
    for gain in gains:
        total -= np.sum(costs * second) + weight * gain @ second @ gain
        moved = forward - np.outer(entering, gain)
        second = moved @ second @ moved.T
        second[0, 0] += params.noise**2
    return total


def predicted(params, delay):
    """Return the vector h with E[x_{t+m} | z_t] = h z_t."""
    powers = params.a ** np.arange(delay)[::-1]
    return np.concatenate([[params.a**delay], params.b * powers])


def fixed_point(params, delay, gamma, spread):
    """Return the gain k of `projected`, a = -k E[x_{t+m} | z_t], at its own fixed point.

    The critic is a quadratic form H of (x, a). With e = x - E[x | z] it fits, for the law of (x, a)
    that the actor a = -k (x - e) + spread · n makes in the long run,

        Q(x, a) = -(x² + r a²) + γ E[Q(x', -k (x' - e')) | x, a],    x' = a x + b a + w.

    Here e holds the last m noises, and e' lost the oldest of them and has w. The (x, a) of a step
    tells something about e, and the critic takes this for an effect of a. The actor maximises
    Q(x, ·) at the predicted x, so k = H_xa / H_aa.
    """
    a, b, r = params.a, params.b, params.cost
    h = np.diag([-1.0, -r])
    for _ in range(20_000):
        k = h[0, 1] / h[1, 1]
        old = h
        # E[x' | x, a] and E[e' | x, a] are linear: x' has the row (a, b), e' the row `tells`
        tells = _regressed(params, delay, k, spread)
        reached = np.array([a, b])
        chosen = -k * (reached - tells)
        both = np.stack([reached, chosen])
        h = np.diag([-1.0, -r]) + gamma * both.T @ h @ both
        if np.abs(h - old).max() < 1e-12:
            return h[0, 1] / h[1, 1]
    raise AssertionError("the fixed point was not reached")


def _regressed(params, delay, k, spread):
    """Return the coefficients of (x, a) in the best prediction of e', by moments in the long run.

    The vector is (x, w_1, …, w_m), the newest noise last, with x as the sum of its past.
    """
    a, b = params.a, params.b
    if delay < 2:
        return np.zeros(2)  # e' is the newest noise alone
    powers = a ** np.arange(delay)[::-1]
    error = np.concatenate([[0.0], powers])  # e = Σ a^(m - i) w_i
    gain = np.concatenate([[1.0], np.zeros(delay)]) - error  # a = -k gain · v + spread n
    moved = np.zeros((delay + 1, delay + 1))
    moved[0] = -b * k * gain
    moved[0, 0] += a
    moved[1:-1, 2:] = np.eye(delay - 1)
    shock = np.zeros(delay + 1)
    shock[[0, -1]] = params.noise
    source = np.outer(shock, shock)
    source[0, 0] += (b * spread) ** 2
    second = np.zeros_like(source)
    for _ in range(100_000):
        old, second = second, moved @ second @ moved.T + source
        if np.abs(second - old).max() < 1e-14:
            break
    kept = np.concatenate([[0.0, 0.0], a ** np.arange(1, delay)[::-1]])  # of e', without w
    seen = np.stack([np.eye(delay + 1)[0], -k * gain])
    covariance = seen @ second @ seen.T + np.diag([0.0, spread**2])
    return np.linalg.solve(covariance, seen @ second @ kept)
