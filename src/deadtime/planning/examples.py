"""Small MDPs whose answers are known."""

from __future__ import annotations

import numpy as np

from deadtime.delays.convention import check_delay
from deadtime.planning.mdp import MDP


def two_state(p: float = 0.8, gamma: float = 0.5) -> MDP:
    """Return the paper's Example 3.1.

    The state flips with probability p under any action. Action i pays 1 in state i.
    """
    _check_probability(p)
    flip = np.array([[1 - p, p], [p, 1 - p]])
    return MDP(np.repeat(flip[:, None], 2, axis=1), np.eye(2), gamma)


def two_state_optimum(p: float, gamma: float, delay: int) -> float:
    """Return the optimal delayed value of the two-state MDP.

    It is Prop. 3.1 of the paper, with |2p - 1| so that it holds for p < ½ too.
    """
    _check_probability(p)
    return (1 + abs(2 * p - 1) ** check_delay(delay)) / (2 * (1 - gamma))


def _check_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"p is a probability; got {p!r}: choose one in [0, 1]")


def chain(states: int, gamma: float = 0.9) -> MDP:
    """Return the MDP of the paper's lower bound.

    Action 1 moves up a row whose last state pays 1 - γ for it. Action 0 leads to a sink.

    Howard's policy iteration, begun with action 0 everywhere, changes the policy in one state
    per iteration: S - 1 changes, S evaluations.
    """
    if states < 2:
        raise ValueError(f"a chain has two states or more; got {states!r}: pass 2 or more")
    top, sink = states - 2, states - 1
    P, r = np.zeros((states, 2, states)), np.zeros((states, 2))
    for s in range(states - 1):
        P[s, 0, sink] = P[s, 1, min(s + 1, top)] = 1
    P[sink, :, sink] = 1
    r[top, 1] = 1 - gamma
    return MDP(P, r, gamma)


def stretched(mdp: MDP, delay: int) -> MDP:
    """Return `mdp` with `delay` dummy states before each state, where decisions are made in time.

    State s becomes the m + 1 states s(m+1) … s(m+1)+m. The first m are dummies: every action leads
    to the next state and pays 0. The last one is s itself; its transitions lead to the first dummy
    of the next state. An action chosen in the first dummy is executed m steps later, in s itself.
    An action chosen anywhere else is executed in a dummy and changes nothing. The discount is
    γ^(1/(m+1)), so that m + 1 steps discount by γ. The value at the first dummy of s is γ^(m/(m+1))
    times the value of s in `mdp`, whatever is pending. So policy iteration with delay m changes its
    policy here as often as Howard's policy iteration does in `mdp` without delay.
    """
    steps = check_delay(delay) + 1
    size = mdp.states * steps
    P, r = np.zeros((size, mdp.actions, size)), np.zeros((size, mdp.actions))
    dummies = np.arange(size).reshape(mdp.states, steps)[:, :-1].ravel()
    P[dummies, :, dummies + 1] = 1
    P[steps - 1 :: steps, :, ::steps] = mdp.dense
    r[steps - 1 :: steps] = mdp.r
    return MDP(P, r, mdp.gamma ** (1 / steps))


def hidden_queue(gamma: float = 0.9, revealing: bool = False) -> MDP:
    """Return a delay-1 problem in which good choices need the pending action, which states hide.

    Start in state 0.

    0 goes to x (1) or y (2) by a fair coin. x goes to x' (3) or z (5), y to y' (4) or z, each with
    probability ½. Action 0 pays 1 in x', action 1 in y'. z moves to A' (6) or B' (7) by the action
    executed in it; there the matching action pays 1. So the best action is 0 in x, 1 in y, and the
    pending action in z, which a Markov rule does not see. All other moves lead to the absorbing
    state 8. With `revealing`, A' and B' lead to 8 on a match and else to 9, so the laws of states
    differ too.
    """
    P, r = np.zeros((10, 2, 10)), np.zeros((10, 2))
    P[0, :, [1, 2]] = P[1, :, [3, 5]] = P[2, :, [4, 5]] = 0.5
    P[[3, 4], :, 8] = 1
    P[5, [0, 1], [6, 7]] = 1
    for match, state in ((0, 6), (1, 7)):
        P[state, match, 8] = P[state, 1 - match, 9 if revealing else 8] = 1
        r[state, match] = 1
    P[[8, 9], :, [8, 9]] = 1
    r[3, 0] = r[4, 1] = 1
    return MDP(P, r, gamma)


def alternating(gamma: float = 0.9) -> MDP:
    """Return a deterministic MDP in which no stationary policy is optimal with delay 1.

    The start is state 0 with queue (0). Action i leads to state i.

    Only a move to the other state pays (1). The next state is the pending action, so the best
    choice is always the other action. Once the actions alternate, the present state is the action
    of two steps ago, which is to be chosen again. So d(s) = s continues the alternation, but can't
    begin it: from state 0 with 0 pending it stays at 0 for ever. The Markov policy d_0(0) = 1, then
    d(s) = s, earns the optimum 1 / (1 - γ). It was found by search over random deterministic MDPs.
    """
    return MDP(np.repeat(np.eye(2)[None], 2, axis=0), 1 - np.eye(2), gamma)


def random_mdp(
    rng: np.random.Generator, states: int, actions: int, gamma: float, successors: int | None = None
) -> MDP:
    """Return an MDP with random transitions and standard normal rewards.

    Each state and action leads to all states, or to `successors` of them.
    """
    P = np.zeros((states, actions, states))
    for s in range(states):
        for a in range(actions):
            reached = rng.choice(
                states, states if successors is None else successors, replace=False
            )
            P[s, a, reached] = rng.dirichlet(np.ones(len(reached)))
    return MDP(P, rng.normal(size=(states, actions)), gamma)
