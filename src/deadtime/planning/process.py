"""The process that a policy makes under execution delay: path probabilities, exact laws,
simulation.

A policy is a rule for each step, repeated with a period (1: stationary). A rule says how likely
each action is, given the state (Markov) or the state and the queue (queue-aware). The action chosen
at t is executed at t + m.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numba
import numpy as np
from numpy.typing import ArrayLike

from deadtime.delays.convention import check_delay
from deadtime.planning.augmented import check_memory, queue_shape
from deadtime.planning.mdp import MDP, Queue, check_augmented_state, check_index
from deadtime.planning.threads import on_threads

if TYPE_CHECKING:
    from jaxtyping import Float, Int

_DRAWS = 2**22


@dataclass(frozen=True, eq=False)
class Policy:
    """A policy of one or more rules, `probabilities[k, s, q, a]`.

    Rule k is used at the steps t with t mod period = k. The axis q has length 1 if no rule depends
    on the queue.
    """

    probabilities: Float[np.ndarray, "period S Q A"]

    def rule(self, time: int) -> Float[np.ndarray, "S Q A"]:
        """Return the rule of step `time`."""
        return self.probabilities[time % len(self.probabilities)]

    @property
    def period(self) -> int:
        """The number of steps after which the rules repeat."""
        return len(self.probabilities)

    def after(self, steps: int) -> Policy:
        """Return the policy from step `steps` on: the paper's π_{k:}."""
        return Policy(np.roll(self.probabilities, -steps, axis=0))


def markov(mdp: MDP, rules: ArrayLike) -> Policy:
    """Return a Markov policy of rules d_0, d_1, …: actions d_k[s], or probabilities d_k[s, a].

    The rules repeat after the last one. Integers are actions and floats are probabilities, here and
    in `stationary` and `queue_aware`.
    """
    return _policy(mdp, rules, (mdp.states,), "a Markov policy", one=False)


def stationary(mdp: MDP, rule: ArrayLike) -> Policy:
    """Return a stationary policy of one rule: actions d[s], or probabilities d[s, a]."""
    return _policy(mdp, rule, (mdp.states,), "a stationary policy", many=False)


def queue_aware(mdp: MDP, delay: int, rule: ArrayLike) -> Policy:
    """Return a policy that sees its queue: actions d[s, a_0, …, a_{m-1}], or probabilities d[…, a].

    An axis for time may come before the others: one rule for each step, repeated after the last.
    """
    return _policy(mdp, rule, queue_shape(mdp, delay), "a queue-aware policy")


def _policy(
    mdp: MDP,
    rule: ArrayLike,
    shape: tuple[int, ...],
    what: str,
    *,
    one: bool = True,
    many: bool = True,
) -> Policy:
    """Return the policy of an array: `one` rule if allowed, or `many`, one for each step.

    Whole numbers are actions, floats are probabilities.
    """
    given = np.asarray(rule)
    if given.dtype.kind not in "iuf":
        raise ValueError(
            f"{what} is given as integers (actions) or floats (probabilities); got {given.dtype}: "
            "convert it to one of these"
        )
    actions = given.dtype.kind != "f"
    wanted = shape if actions else (*shape, mdp.actions)
    if one and given.shape == wanted:
        given = given[None]
    elif not many or given.shape[1:] != wanted or len(given) == 0:
        kind = "integers (actions)" if actions else "floats (probabilities)"
        other = "floats for probabilities" if actions else "integers for actions"
        axes = ", ".join(map(str, wanted))
        forms = [f"({axes})"] * one + [f"(steps, {axes}) with at least one step"] * many
        raise ValueError(
            f"{what} of {kind} has shape {' or '.join(forms)}; got {given.shape}: "
            f"reshape it, or give {other}"
        )
    return Policy(
        as_probabilities(mdp, given, what).reshape(len(given), mdp.states, -1, mdp.actions)
    )


def as_probabilities(mdp: MDP, given: np.ndarray, what: str) -> Float[np.ndarray, " *x A"]:
    """Return actions as probabilities of 0 and 1, and probabilities as they are once checked."""
    if given.dtype.kind != "f":
        if given.min() < 0 or given.max() >= mdp.actions:
            raise ValueError(
                f"{what} chooses actions from 0 to {mdp.actions - 1}; "
                f"got {given.min()} to {given.max()}: count from 0"
            )
        return np.eye(mdp.actions)[given]
    if (given < 0).any() or not np.allclose(given.sum(axis=-1), 1):
        raise ValueError(
            f"{what} has probabilities that are not negative and sum to 1; "
            f"got a smallest one of {given.min():.3g} and sums "
            f"{np.unique(given.sum(axis=-1))[:3]}: "
            "divide each row by its sum"
        )
    return given.astype(np.float64)


def check_policy(mdp: MDP, delay: int, policy: Policy) -> None:
    """Raise if a policy is of another problem or another delay."""
    _, states, queues, actions = policy.probabilities.shape
    if (states, actions) != (mdp.states, mdp.actions) or queues not in (
        1,
        mdp.actions ** check_delay(delay),
    ):
        raise ValueError(
            f"this policy is for {states} states, {actions} actions and {queues} queues; "
            f"the problem has {mdp.states}, "
            f"{mdp.actions} and, at delay {delay}, {mdp.actions**delay}: "
            "make it with the same MDP and delay"
        )


def start_laws(
    mdp: MDP, delay: int, start: ArrayLike, queue: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Return the laws of s_0 and of each pending action; raise if an index or a law is wrong."""
    if np.ndim(start) == 0:
        check_index("state", start, mdp.states)
    law = (
        np.eye(mdp.states)[np.asarray(start)]
        if np.ndim(start) == 0
        else np.asarray(start, np.float64)
    )
    laws = np.asarray(queue)
    if laws.ndim < 2:
        _, *pending = check_augmented_state(mdp, delay, 0, cast("Queue", queue))
        laws = np.eye(mdp.actions)[np.array(pending, int)]
    for what, part, shape in (("start", law, (mdp.states,)), ("queue", laws, (delay, mdp.actions))):
        if part.shape != shape or (part < 0).any() or not np.allclose(part.sum(axis=-1), 1):
            raise ValueError(
                f"{what} is given by indices or by laws of shape {shape} that sum to 1; "
                f"got {part.tolist()}: normalise it"
            )
    return law, laws


def initial_law(
    mdp: MDP, delay: int, start: ArrayLike, queue: ArrayLike
) -> Float[np.ndarray, "S Q"]:
    """Return the law of (s_0, queue).

    `start` is a state or a law of states. `queue` is m actions, or m laws of actions (m, A).
    """
    law, laws = start_laws(mdp, check_delay(delay), start, queue)
    check_memory(mdp, delay, 24, "the law of (state, queue)", "shorten the delay")
    law = law[:, None]
    for action in laws:
        law = (law[:, :, None] * action).reshape(mdp.states, -1)
    return law


def advance(
    mdp: MDP, delay: int, law: Float[np.ndarray, "S Q"], rule: Float[np.ndarray, "S Q A"]
) -> Float[np.ndarray, "S Q"]:
    """Return the law of (s, queue) one step later."""
    if delay == 0:
        return (mdp.P.T @ (law[:, 0, None] * rule[:, 0]).ravel())[:, None]
    joint = (law[:, :, None] * rule).reshape(mdp.states * mdp.actions, -1)
    return mdp.P.T @ joint


def law_at(
    mdp: MDP, policy: Policy, delay: int, start: ArrayLike, queue: ArrayLike, time: int
) -> Float[np.ndarray, " *x"]:
    """Return the exact law of (s_t, queue), shape (S, A, …, A)."""
    check_policy(mdp, delay, policy)
    if isinstance(time, bool) or not isinstance(time, int | np.integer) or time < 0:
        raise ValueError(
            f"time is a whole number of steps, 0 or more; got {time!r}: pass 0 for the start"
        )
    law = initial_law(mdp, delay, start, queue)
    for t in range(time):
        law = advance(mdp, delay, law, policy.rule(t))
    return law.reshape(mdp.states, *([mdp.actions] * delay))


def path_probability(
    mdp: MDP,
    policy: Policy | Callable[[tuple[int, ...]], Any],
    delay: int,
    queue: Queue,
    path: Queue,
    start: ArrayLike | None = None,
) -> float:
    """Return the probability of a path of states and *executed* actions (paper, Prop. 5.1).

    A path is (s_0, a_0, s_1, …, s_t).

    `policy` may also be a function of the history (s_0, a_0, …, s_k) that returns probabilities of
    actions. `start` is a law of s_0; without one the probability is conditional on s_0.
    """
    states, actions = tuple(path[::2]), tuple(path[1::2])
    if len(states) != len(actions) + 1:
        raise ValueError(
            f"a path is s_0, a_0, s_1, …, s_t, an odd number of entries; got {len(path)}: "
            "end it with a state"
        )
    if isinstance(policy, Policy):
        check_policy(mdp, delay, policy)
    check_augmented_state(mdp, delay, states[0], queue)
    for state, action in zip(states[1:], actions, strict=True):
        check_index("state of a path", state, mdp.states)
        check_index("action of a path", action, mdp.actions)
    probability = (
        1.0 if start is None else float(start_laws(mdp, delay, start, queue)[0][states[0]])
    )
    for k, action in enumerate(actions):
        if k < delay:
            probability *= float(action == queue[k])
        else:
            seen = k - delay
            if isinstance(policy, Policy):
                rule = policy.rule(seen)
                pending = (
                    int(np.ravel_multi_index(actions[seen:k], (mdp.actions,) * delay))
                    if rule.shape[1] > 1
                    else 0
                )
                probability *= float(rule[states[seen], pending, action])
            else:
                probability *= float(policy(tuple(path[: 2 * seen + 1]))[action])
        probability *= float(mdp.P[states[k] * mdp.actions + action, states[k + 1]])
    return probability


@numba.njit(parallel=True, cache=True)
def _run(indptr, indices, data, rules, state, queue, draws, states, executed):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Follow each path; two uniform draws per step decide the action and the next state."""
    period, _, looked, actions = rules.shape
    paths, steps, _ = draws.shape
    delay = queue.shape[1]
    for i in numba.prange(paths):
        pending = queue[i].copy()
        s = state[i]
        states[i, 0] = s
        for t in range(steps):
            q = 0
            if looked > 1:
                for k in range(delay):
                    q = q * actions + pending[k]
            left, chosen = draws[i, t, 0], 0
            while chosen < actions - 1 and left >= rules[t % period, s, q, chosen]:
                left -= rules[t % period, s, q, chosen]
                chosen += 1
            now = chosen
            if delay > 0:
                now = pending[0]
                for k in range(delay - 1):
                    pending[k] = pending[k + 1]
                pending[delay - 1] = chosen
            row = s * actions + now
            left, j = draws[i, t, 1], indptr[row]
            while j < indptr[row + 1] - 1 and left >= data[j]:
                left -= data[j]
                j += 1
            s = indices[j]
            executed[i, t], states[i, t + 1] = now, s


def simulate(
    mdp: MDP,
    policy: Policy,
    delay: int,
    start: ArrayLike,
    queue: ArrayLike,
    *,
    steps: int,
    paths: int,
    seed: int,
) -> tuple[Int[np.ndarray, "paths steps+1"], Int[np.ndarray, "paths steps"]]:
    """Sample paths: the states s_0 … s_steps and the executed actions."""
    rng = np.random.default_rng(seed)
    check_policy(mdp, delay, policy)
    law, laws = start_laws(mdp, check_delay(delay), start, queue)
    state = rng.choice(mdp.states, size=paths, p=law / law.sum())
    pending = np.zeros((paths, delay), np.int64)
    for k, one in enumerate(laws):
        pending[:, k] = rng.choice(mdp.actions, size=paths, p=one / one.sum())
    states, executed = np.empty((paths, steps + 1), np.int64), np.empty((paths, steps), np.int64)
    block = max(_DRAWS // max(steps, 1), 1)
    for low in range(
        0, paths, block
    ):  # the draws of a block follow those of the last, so its length changes no path
        part = slice(low, min(low + block, paths))
        draws = rng.random((part.stop - low, steps, 2))
        problem = (mdp.P.indptr, mdp.P.indices, mdp.P.data, policy.probabilities)
        on_threads(
            draws.size,
            _run,
            *problem,
            state[part],
            pending[part],
            draws,
            states[part],
            executed[part],
        )
    return states, executed
