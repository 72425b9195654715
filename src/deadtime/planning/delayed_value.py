"""The delayed value function of a Markov policy: the rewards from the m-th on, discounted from
there (paper, App. C.5).

It obeys a recursion of one step. Let v_τ(s, q) be the value of state s and pending actions q when
rule d_τ is next. Then

    v_τ(s, a_0 … a_{m-1})
        = Σ_a d_τ(a | s) [ E r(s_m, a) + γ Σ_s' P(s' | s, a_0) v_{τ+1}(s', a_1 … a_{m-1}, a) ],

and a queue of action *laws* averages over q. The paper's form jumps m states but discounts once and
counts one reward. It agrees at m = 1, and `claims` shows that it fails from m = 2 on.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, eye_array, hstack, vstack
from scipy.sparse.linalg import splu

from deadtime.planning.augmented import Operator, check_memory, delayed_reward, queue_shape
from deadtime.planning.mdp import MDP
from deadtime.planning.process import Policy, check_policy, initial_law

if TYPE_CHECKING:
    from jaxtyping import Float


def _step(
    mdp: MDP, delay: int, rule: np.ndarray, later: np.ndarray, reward: np.ndarray
) -> np.ndarray:
    """Return the values one step earlier."""
    ahead = (mdp.P @ later).reshape(
        mdp.states, mdp.actions if delay == 0 else mdp.actions**delay, -1
    )
    if delay == 0:
        ahead = ahead.reshape(mdp.states, 1, mdp.actions)
    return (rule * (reward + mdp.gamma * ahead)).sum(axis=-1)


def recursive_values(
    mdp: MDP, policy: Policy, delay: int, tol: float = 1e-10
) -> tuple[Float[np.ndarray, " *x"], float]:
    """Return v_0(s, q) by the recursion, and a bound on its truncation error."""
    if mdp.gamma >= 1:
        raise ValueError(
            f"the delayed value needs gamma < 1; got {mdp.gamma}: use `solve` with a horizon"
        )
    check_policy(mdp, delay, policy)
    if not tol > 0:
        raise ValueError(
            f"tol is the largest error allowed, above 0; got {tol!r}: choose one such as 1e-10"
        )
    check_memory(
        mdp, delay, 8 * (mdp.actions + 3), "the delayed value function", "shorten the delay"
    )
    reward = delayed_reward(mdp, delay)
    largest = max(float(np.abs(mdp.r).max()), 1e-300)
    steps = (
        0
        if mdp.gamma == 0
        else max(math.ceil(math.log(tol * (1 - mdp.gamma) / largest, mdp.gamma)), 0)
    )
    v = np.zeros((mdp.states, mdp.actions**delay))
    for t in range(steps, -1, -1):
        v = _step(mdp, delay, policy.rule(t), v, reward)
    return v.reshape(queue_shape(mdp, delay)), largest * mdp.gamma ** (steps + 1) / (1 - mdp.gamma)


def exact_values(mdp: MDP, policy: Policy, delay: int) -> Float[np.ndarray, " *x"]:
    """Return v_0(s, q) from the linear system over (phase, state, queue)."""
    if mdp.gamma >= 1:
        raise ValueError(
            f"the delayed value needs gamma < 1; got {mdp.gamma}: use `solve` with a horizon"
        )
    check_policy(mdp, delay, policy)
    size = mdp.states * mdp.actions**delay
    needed = 200.0 * policy.period * mdp.P.nnz / mdp.states
    check_memory(
        mdp,
        delay,
        needed,
        "the linear system of the delayed value",
        "shorten the delay, or use recursive_values",
    )
    operator = Operator(mdp, delay)
    chains = [operator.chain(np.full(operator.shape, a))[0] for a in range(mdp.actions)]
    reward = delayed_reward(mdp, delay)
    blocks, means = [], []
    for k in range(policy.period):
        rule = np.broadcast_to(policy.rule(k), (*operator.shape, mdp.actions)).reshape(size, -1)
        move = sum(
            (chains[a].multiply(rule[:, a, None]) for a in range(mdp.actions)),
            csr_array((size, size)),
        )
        parts = [csr_array((size, size))] * policy.period
        parts[(k + 1) % policy.period] = csr_array(move)
        blocks.append(hstack(parts))
        means.append((rule * reward.reshape(size, -1)).sum(axis=1))
    system = eye_array(size * policy.period) - mdp.gamma * vstack(blocks)
    values = splu(system.tocsc()).solve(np.concatenate(means))
    return values[:size].reshape(queue_shape(mdp, delay))


def at_queue(
    mdp: MDP, delay: int, values: Float[np.ndarray, " *x"], start: ArrayLike, queue: ArrayLike
) -> float:
    """Return the value v^{μ_0:μ_{m-1}, π}(s_0) at a start and a queue, or at laws of them."""
    values = np.asarray(values)
    if values.shape != queue_shape(mdp, delay):
        raise ValueError(
            f"values have shape {queue_shape(mdp, delay)} at delay {delay}; got {values.shape}: "
            "pass the values of this delay"
        )
    return float((initial_law(mdp, delay, start, queue) * values.reshape(mdp.states, -1)).sum())
