"""Optimal values and policies of a finite MDP under a delay process whose ages the agent sees.

`observed="now"`: the agent sees the channel's state c_t before it chooses a_t. The problem is that
of `channel_operator`, solved by the methods of `iteration`.

`observed="hindsight"`: the agent sees c_{t-1} before it chooses a_t, and c_t before it chooses
a_{t+1}. With u the action that channel state c executes,

    v(b, s, q) = max_a Σ_c p(c | b) [ r(s, u) + γ Σ_s' P(s' | s, u) v(c, s', q') ].

This problem is written out as an ordinary MDP with the last K actions in every state
(`written_out`). Before the first step nothing is known of the channel; that is one more channel
state, with the number N.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, vstack

from deadtime.delays import DelayProcess
from deadtime.delays.waits import Observed
from deadtime.planning.augmented import Operator
from deadtime.planning.channel import Channel, channel_of, check_channel_memory, check_queue
from deadtime.planning.channel_operator import ChannelOperator
from deadtime.planning.iteration import check_contraction, solve_operator
from deadtime.planning.mdp import MDP, Queue, check_index
from deadtime.planning.solution import check_time, described

if TYPE_CHECKING:
    from jaxtyping import Float, Int

_HIDDEN = (
    "exact for an agent that sees the channel's state; ages alone do not tell it, so for an agent "
    "that sees ages the values are an upper bound"
)


@dataclass(frozen=True, eq=False)
class ProcessSolution:
    """The optimum under a delay process, and how it was reached.

    `values[c]` has the values in channel state c, in shape (S, A, …, A). Its queue axes are the
    last actions that c needs, oldest first. `policy[c]` has the actions to choose; with a horizon
    its first axis is time. Values count all rewards from the present step on. `channel` has the age
    of each state c. See `Solution` for the other fields.
    """

    values: tuple[Float[np.ndarray, " *x"], ...]
    policy: tuple[Int[np.ndarray, " *x"], ...]
    iterations: int
    residual: float
    error_bound: float
    converged: bool
    message: str
    mdp: MDP
    delay: DelayProcess
    channel: Channel
    observed: Observed
    tol: float
    horizon: int | None = None

    def __repr__(self) -> str:
        """Return the size of the problem, the delay and how the solver ended."""
        return described(self)

    @property
    def states(self) -> int:
        """The number of states (c, s, queue) of the problem."""
        return sum(part.size for part in self.values)

    def value(self, state: int, queue: Queue = (), channel: int | None = None) -> float:
        """Return the value of a state and the last K actions.

        Without a channel state it is the value at the start of an episode: the mean over the first
        channel state ("now"), or the value before any age is seen ("hindsight").
        """
        if channel is not None:
            c, at = self._place(state, queue, channel)
            return float(self.values[c][at])
        if self.observed == "hindsight":
            return self.value(state, queue, self.channel.states)
        firsts = np.flatnonzero(self.channel.start)
        law = self.channel.start[firsts]
        return float(law @ [self.value(state, queue, int(c)) for c in firsts])

    def action(self, state: int, queue: Queue, channel: int, time: int = 0) -> int:
        """Return the action to choose (at step `time` of a problem with a horizon)."""
        c, at = self._place(state, queue, channel)
        if self.horizon is None:
            return int(self.policy[c][at])
        return int(self.policy[c][check_time(time, self.horizon)][at])

    def _place(self, state: int, queue: Queue, channel: int) -> tuple[int, tuple[int, ...]]:
        """Return the channel state, and the index of (state, queue) in its arrays."""
        check_index("channel state", channel, len(self.values))
        check_index("state", state, self.mdp.states)
        pending = check_queue(self.mdp, self.channel, queue)
        needed = self.values[channel].ndim - 1
        return int(channel), (int(state), *pending[len(pending) - needed :])


def solve_process(
    mdp: MDP,
    process: DelayProcess,
    method: str,
    *,
    observed: Observed,
    tol: float,
    horizon: int | None,
    max_iterations: int,
) -> ProcessSolution:
    """Return the optimum under a process; `solvers.solve` checks the other arguments."""
    channel = channel_of(process)
    check_contraction(mdp, horizon)
    if observed == "hindsight":
        return _in_hindsight(mdp, process, channel, method, tol, horizon, max_iterations)
    size = np.min_scalar_type(mdp.actions - 1).itemsize
    policies = 2 if horizon is None else horizon + 1
    check_channel_memory(mdp, channel, 16 + size * policies, "the problem under this delay")
    operator = ChannelOperator(mdp, channel)
    answer = solve_operator(operator, method, tol, horizon, max_iterations)
    return ProcessSolution(
        values=operator.split(answer.values),
        policy=operator.split(answer.policy),
        iterations=answer.iterations,
        residual=answer.residual,
        error_bound=answer.error_bound,
        converged=answer.converged,
        message=answer.message if channel.seen else f"{answer.message}; {_HIDDEN}",
        mdp=mdp,
        delay=process,
        channel=channel,
        observed=observed,
        tol=tol if horizon is None else answer.error_bound,
        horizon=horizon,
    )


def _in_hindsight(
    mdp: MDP,
    process: DelayProcess,
    channel: Channel,
    method: str,
    tol: float,
    horizon: int | None,
    max_iterations: int,
) -> ProcessSolution:
    """Return the optimum where the age of a step is seen one step later."""
    if not channel.seen:
        raise ValueError(
            'observed="hindsight" needs a channel whose state the ages tell; '
            f"got {process}, which has hidden states: use bounds(mdp, delay)"
        )
    problem = written_out(mdp, channel, "hindsight")
    answer = solve_operator(Operator(problem, 0), method, tol, horizon, max_iterations)
    shape = (channel.states + 1, mdp.states, *([mdp.actions] * channel.longest))
    lead = () if horizon is None else (horizon,)
    policy = answer.policy.reshape(*lead, *shape)
    return ProcessSolution(
        values=tuple(answer.values.reshape(shape)),
        policy=tuple(policy if horizon is None else np.moveaxis(policy, 1, 0)),
        iterations=answer.iterations,
        residual=answer.residual,
        error_bound=answer.error_bound,
        converged=answer.converged,
        message=answer.message,
        mdp=mdp,
        delay=process,
        channel=channel,
        observed="hindsight",
        tol=tol if horizon is None else answer.error_bound,
        horizon=horizon,
    )


def written_out(mdp: MDP, channel: Channel, observed: Observed = "now") -> MDP:
    """Return the problem under a channel as an explicit MDP, for small cases and other libraries.

    Its states are numbered as the elements of an array (c, s, A, …, A) with the last K actions,
    oldest first. In hindsight c is the previous channel state, and c = N stands for the time before
    the first step.
    """
    whole = channel.whole()
    moves = mdp.actions * mdp.P.nnz / (mdp.states * mdp.actions)
    moves *= channel.transitions.nnz / channel.states
    if observed == "hindsight":
        moves *= channel.transitions.nnz / channel.states
    check_channel_memory(mdp, whole, 60.0 * moves, "the explicit MDP under this delay")
    if observed == "hindsight":
        whole = whole.still()
    operator = ChannelOperator(mdp, whole)
    chosen = [np.full(operator.shape, a) for a in range(mdp.actions)]
    chains = [operator.chain(policy) for policy in chosen]
    laws = [F for F, _ in chains]
    rewards = [g for _, g in chains]
    if observed == "hindsight":
        laws, rewards = _before_it_is_seen(channel, laws, rewards)
    count = laws[0].shape[0]
    order = np.arange(count * mdp.actions).reshape(mdp.actions, -1).T.ravel()
    P = csr_array(vstack(laws, format="csr")[order])
    return MDP(P, np.stack(rewards, axis=1), mdp.gamma, check=False)


def _before_it_is_seen(
    channel: Channel, laws: list[csr_array], rewards: list[np.ndarray]
) -> tuple[list[csr_array], list[np.ndarray]]:
    """Return laws and rewards given the previous channel state, averaged over the present one.

    `laws` keep the present channel state, which is the previous one at the next step.
    """
    count = laws[0].shape[0]
    each = count // channel.states
    start = csr_array(channel.start[None])
    moves = csr_array(vstack([channel.transitions, start], format="csr"))
    rows, columns = moves.nonzero()
    within = np.arange(each)
    entries = np.repeat(np.asarray(moves[rows, columns]).ravel(), each)
    places = (
        (rows[:, None] * each + within).ravel(),
        (columns[:, None] * each + within).ravel(),
    )
    average = csr_array((entries, places), shape=(count + each, count))
    laws = [csr_array(average @ law) for law in laws]
    for law in laws:
        law.resize((count + each, count + each))
    return laws, [average @ reward for reward in rewards]
