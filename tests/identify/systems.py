"""Systems with a known delay, as arrays."""

import numpy as np


def linear_log(delay, rows=400, seed=0, policy=None, noise=0.05, actions=1):
    """Return a log of s' = A s + B a_{t-delay} + noise; `delay` is one number, or ages by row."""
    rng = np.random.default_rng(seed)
    A = np.array([[0.9, 0.2], [-0.2, 0.8]])
    B = np.array([[0.1, 0.3], [0.5, -0.2]])[:, :actions]
    ages = np.broadcast_to(delay, rows)
    chosen = rng.normal(size=(rows, actions))
    state = np.zeros((rows + 1, 2))
    for t in range(rows):
        if policy is not None:
            chosen[t] = policy(state[t], rng)
        age = ages[t]
        acting = chosen[t - age] if t >= age else rng.normal(size=actions)
        state[t + 1] = A @ state[t] + B @ acting + noise * rng.normal(size=2)
    return state, chosen


def pendulum_log(delay, rows=600, substeps=10, seed=0, dither=None):
    """Return a log of a damped pendulum whose delay is a multiple of a substep.

    With a `dither`, actions are feedback and a normal number of that size.
    """
    rng = np.random.default_rng(seed)
    chosen = rng.uniform(-1, 1, rows)
    angle, speed = 1.0, 0.0
    seen = np.zeros((rows + 1, 3))
    late = round(delay * substeps)
    h = 0.05 / substeps
    for t in range(rows):
        seen[t] = np.cos(angle), np.sin(angle), speed
        if dither is not None:
            chosen[t] = np.clip(-seen[t, 1] - 0.3 * speed + dither * rng.normal(), -1, 1)
        for i in range(substeps):
            age = t * substeps + i - late
            torque = chosen[age // substeps] if age >= 0 else 0.0
            speed += h * (-5 * np.sin(angle) - 0.2 * speed + 6 * torque)
            angle += h * speed
    seen[rows] = np.cos(angle), np.sin(angle), speed
    return seen, chosen


def limited_log(delay, rows=1200, substeps=10, seed=0):
    """Return a log of a cart whose speed has a limit, under a relay with a little noise.

    The relay drives the cart from one limit of speed to the other.
    """
    rng = np.random.default_rng(seed)
    chosen = np.zeros(rows)
    seen = np.zeros((rows + 1, 2))
    place, speed, aim = 0.0, 0.1, 1.0
    late = round(delay * substeps)
    h = 0.1 / substeps
    for t in range(rows):
        seen[t] = place, speed
        aim = -np.sign(place) if abs(place) > 0.5 else aim
        chosen[t] = 0.8 * aim + 0.1 * rng.normal()
        for i in range(substeps):
            age = t * substeps + i - late
            force = chosen[age // substeps] if age >= 0 else 0.0
            speed = np.clip(speed + h * (1.5 * force - 0.3 * place), -0.5, 0.5)
            place += h * speed
    seen[rows] = place, speed
    return seen, chosen


def motor_log(delay, rows=1500, substeps=10, seed=0, dither=0.3, noise=0.0):
    """Return a log of angle and speed of a motor whose delay is a multiple of a substep.

    Actions are feedback with a `dither`, or random if it is None; `noise` moves the speed.
    """
    rng = np.random.default_rng(seed)
    chosen = rng.uniform(-1, 1, rows)
    seen = np.zeros((rows + 1, 2))
    angle, speed = 0.3, 0.0
    late = round(delay * substeps)
    h = 0.03 / substeps
    for t in range(rows):
        seen[t] = angle, speed
        if dither is not None:
            chosen[t] = np.clip(-1.2 * angle - 0.2 * speed + dither * rng.normal(), -1, 1)
        for i in range(substeps):
            age = t * substeps + i - late
            voltage = chosen[age // substeps] if age >= 0 else 0.0
            speed += h * (10 * voltage - 2 * speed)
            angle += h * speed
        speed += noise * rng.normal()
    seen[rows] = angle, speed
    return seen, chosen
