"""Exact values and simulated paths of policies under a delay process.

A rule is an array of actions (whole numbers) or of their probabilities (floats, one axis more). It
depends on the state, shape (S,); on the state and the last K actions, shape (S, A, …, A); or also
on the channel's state, shape (N, S, A, …, A). Values count all rewards from the present step on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, diags_array, eye_array
from scipy.sparse.linalg import bicgstab, splu

from deadtime.delays import DelayProcess, as_process
from deadtime.planning.channel import Channel, channel_of
from deadtime.planning.channel_solution import written_out
from deadtime.planning.mdp import MDP, Queue
from deadtime.planning.process import as_probabilities, start_laws

if TYPE_CHECKING:
    from jaxtyping import Float, Int

_LU_STATES = 3000
_SETTLED = 1e-13
_STEPS = 1000


class Paths(NamedTuple):
    """Simulated episodes: states s_0 … s_T, and the age and the executed action of each step."""

    states: Int[np.ndarray, "paths steps+1"]
    ages: Int[np.ndarray, "paths steps"]
    executed: Int[np.ndarray, "paths steps"]


def policy_values(mdp: MDP, delay: int | DelayProcess, rule: ArrayLike) -> Float[np.ndarray, " *x"]:
    """Return the exact values of a rule, shape (N, S, A, …, A)."""
    check_discount(mdp)
    channel = channel_of(as_process(delay))
    chances = _chances(mdp, channel, rule)
    problem = written_out(mdp, channel)
    law, reward = followed(problem, chances.reshape(-1, mdp.actions))
    shape = (channel.states, mdp.states, *([mdp.actions] * channel.longest))
    return discounted_sum(law, reward, mdp.gamma).reshape(shape)


def check_discount(mdp: MDP) -> None:
    """Raise if discounted sums of rewards do not converge."""
    if mdp.gamma >= 1:
        raise ValueError(
            f"values of a policy need gamma below 1; got {mdp.gamma}: "
            "choose a discount such as 0.99"
        )


def followed(problem: MDP, chances: Float[np.ndarray, "x A"]) -> tuple[csr_array, np.ndarray]:
    """Return the transitions and the mean rewards of a policy in an ordinary MDP."""
    count = problem.states
    law = csr_array((count, count))
    for a in range(problem.actions):
        if chances[:, a].any():
            chosen = diags_array(chances[:, a]) @ problem.P[a :: problem.actions]
            law = law + chosen
    return csr_array(law), (chances * problem.r).sum(axis=1)


def discounted_sum(
    law: csr_array, reward: Float[np.ndarray, " x"], gamma: float
) -> Float[np.ndarray, " x"]:
    """Return Σ_t γ^t law^t reward: by a direct solver if it is small, else an iterative one."""
    system = eye_array(len(reward)) - gamma * law
    if len(reward) <= _LU_STATES:
        return splu(system.tocsc()).solve(reward)
    total, _ = bicgstab(system.tocsr(), reward, rtol=_SETTLED, maxiter=_STEPS)
    most = _SETTLED * float(np.abs(total).max())
    while True:  # adds what the solver left over, term by term
        left = reward - system @ total
        if not float(np.abs(left).max()) > most:
            return total
        total = total + left


def _chances(mdp: MDP, channel: Channel, rule: ArrayLike) -> Float[np.ndarray, "N S Q A"]:
    """Return the probabilities of actions, or raise if the rule has another shape."""
    given = np.asarray(rule)
    queue = (mdp.actions,) * channel.longest
    shapes = [(mdp.states,), (mdp.states, *queue), (channel.states, mdp.states, *queue)]
    shape = given.shape[:-1] if given.dtype.kind == "f" else given.shape
    if given.dtype.kind not in "iuf" or shape not in shapes:
        axes = " or ".join(str(one) for one in dict.fromkeys(shapes))
        raise ValueError(
            f"a rule holds whole numbers (actions) of shape {axes}, or floats (probabilities) "
            "with one axis more; "
            f"got {given.dtype} of shape {given.shape}: reshape or convert it"
        )
    chances = as_probabilities(mdp, given, "a rule")
    sees = shapes.index(shape)
    whole = (channel.states, mdp.states, mdp.actions**channel.longest, mdp.actions)
    if sees == 0:
        return np.broadcast_to(chances[None, :, None], whole)
    return np.broadcast_to(chances.reshape(-1, *whole[1:]), whole)


def simulate_process(
    mdp: MDP,
    delay: int | DelayProcess,
    rule: ArrayLike,
    start: ArrayLike,
    queue: Queue,
    *,
    steps: int,
    paths: int,
    seed: int,
) -> Paths:
    """Simulate a rule.

    `start` is a state or a law of states. `queue` is K actions, or a law for each of them.
    """
    channel = channel_of(as_process(delay))
    chances = np.cumsum(_chances(mdp, channel, rule), axis=-1)[..., :-1]
    rng = np.random.default_rng(seed)
    law, laws = start_laws(mdp, channel.longest, start, queue)
    s = rng.choice(mdp.states, size=paths, p=law / law.sum())
    c = rng.choice(channel.states, size=paths, p=channel.start)
    q = np.zeros(paths, np.int64)
    for one in laws:
        q = q * mdp.actions + rng.choice(mdp.actions, size=paths, p=one / one.sum())
    found = Paths(
        np.empty((paths, steps + 1), np.int64),
        np.empty((paths, steps), np.int64),
        np.empty((paths, steps), np.int64),
    )
    found.states[:, 0] = s
    next_state = _Draws(mdp.P)
    next_channel = _Draws(channel.transitions)
    for t in range(steps):
        draws = rng.random((3, paths))
        chosen = (draws[0, :, None] >= chances[c, s, q]).sum(axis=-1)
        age = channel.ages[c]
        pending = q // mdp.actions ** np.maximum(age - 1, 0) % mdp.actions
        executed = np.where(age == 0, chosen, pending)
        s = next_state(s * mdp.actions + executed, draws[1])
        c = next_channel(c, draws[2])
        q = (q * mdp.actions + chosen) % mdp.actions**channel.longest
        found.states[:, t + 1] = s
        found.ages[:, t] = age
        found.executed[:, t] = executed
    return found


class _Draws:
    """Draws of columns from the rows of a sparse matrix of laws."""

    def __init__(self, laws: csr_array):
        self._laws = laws
        self._sums = np.concatenate([[0.0], np.cumsum(laws.data)])

    def __call__(
        self, rows: Int[np.ndarray, " n"], uniform: Float[np.ndarray, " n"]
    ) -> Int[np.ndarray, " n"]:
        """Return one column for each row."""
        first, last = self._laws.indptr[rows], self._laws.indptr[rows + 1]
        low, high = self._sums[first], self._sums[last]
        place = np.searchsorted(self._sums, low + uniform * (high - low), side="right") - 1
        return self._laws.indices[np.clip(place, first, last - 1)].astype(np.int64)
