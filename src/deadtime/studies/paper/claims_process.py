"""Checks of the paper's statements about the delayed process (Sec. 5, App. C and D)."""

from __future__ import annotations

from itertools import product

import numpy as np

from deadtime.planning.delayed_value import at_queue, exact_values
from deadtime.planning.examples import hidden_queue, random_mdp
from deadtime.planning.mdp import MDP
from deadtime.planning.policies import best_markov_deterministic, best_queue_aware
from deadtime.planning.process import (
    Policy,
    advance,
    initial_law,
    law_at,
    markov,
    path_probability,
    queue_aware,
    simulate,
    stationary,
)
from deadtime.studies.paper.claims_optima import Finding, judged, random_problems


def paths() -> Finding:
    """Compare path probabilities by enumeration with exact laws and with simulation."""
    worst = 0.0
    cases = 0
    for mdp, delay, rng in random_problems(20, 5, largest=2):
        delay = min(delay, 2)  # noqa: PLW2901
        length = 4
        queue = rng.integers(mdp.actions, size=delay)
        policy = markov(mdp, rng.dirichlet(np.ones(mdp.actions), (3, mdp.states)))
        law = np.zeros(mdp.states)
        for states in product(range(mdp.states), repeat=length):
            for actions in product(range(mdp.actions), repeat=length):
                path = [0] + [x for pair in zip(actions, states, strict=True) for x in pair]
                law[states[-1]] += path_probability(mdp, policy, delay, queue, path)
        exact = law_at(mdp, policy, delay, 0, queue, length).reshape(mdp.states, -1).sum(axis=1)
        seen, _ = simulate(mdp, policy, delay, 0, queue, steps=length, paths=40_000, seed=cases)
        frequency = np.bincount(seen[:, -1], minlength=mdp.states) / len(seen)
        worst = max(
            worst,
            abs(law.sum() - 1),
            np.abs(law - exact).max(),
            np.abs(frequency - exact).max() / 0.0125 * 1e-10,
        )
        cases += 1
    return Finding(
        cases,
        judged(worst < 1e-10),
        "path probabilities sum to 1, give the laws of states, and match 40,000 simulated paths",
    )


def _joint(mdp: MDP, policy: Policy, delay: int, queue: np.ndarray, length: int) -> np.ndarray:
    """Return the law of (s_0, a_0, s_1, …, s_length) from state 0 by Prop. 5.1, as an array."""
    law = np.zeros((mdp.states, *([mdp.actions, mdp.states] * length)))
    for path in np.ndindex(*law.shape[1:]):
        law[(0, *path)] = path_probability(mdp, policy, delay, queue, (0, *path))
    return law


def not_markov() -> Finding:
    """Measure how much the law of s_3 given s_2 depends on s_1, for stationary policies."""
    gaps: dict[bool, list[float]] = {True: [], False: []}
    for mdp, _, rng in random_problems(40, 6, largest=2):
        rule = stationary(mdp, rng.dirichlet(np.ones(mdp.actions), mdp.states))
        for delay in (0, 1):
            law = np.einsum(
                "abcdefg->ceg", _joint(mdp, rule, delay, rng.integers(mdp.actions, size=delay), 3)
            )
            given = law / law.sum(axis=-1, keepdims=True)
            gaps[delay > 0].append(float(np.abs(given[0] - given[1]).max()))
    holds = max(gaps[False]) < 1e-12 and min(gaps[True]) > 1e-6
    return Finding(
        len(gaps[True]) + len(gaps[False]),
        judged(holds),
        f"P(s_3 | s_2, s_1) varies with s_1 by {np.mean(gaps[True]):.2g} on average at m = 1, by "
        "0 at m = 0",
    )


def independence() -> Finding:
    """Compare the law of s_3 given s_2, a_2 and a_3 with its law given s_2 and a_2."""
    worst = 0.0
    cases = 0
    for mdp, delay, rng in random_problems(20, 7, largest=2):
        policy = markov(mdp, rng.dirichlet(np.ones(mdp.actions), (2, mdp.states)))
        law = _joint(mdp, policy, min(delay, 2), rng.integers(mdp.actions, size=min(delay, 2)), 4)
        joint = np.einsum("abcdefghi->efgh", law)  # s_2, a_2, s_3, a_3
        with np.errstate(invalid="ignore"):
            given = joint / joint.sum(axis=2, keepdims=True)
            plain = joint.sum(axis=3) / joint.sum(axis=(2, 3), keepdims=True)[..., 0]
        worst = max(worst, float(np.nanmax(np.abs(given - plain[..., None]))))
        cases += 1
    return Finding(
        cases, judged(worst < 1e-12), f"P(s_3 | a_3, s_2, a_2) = P(s_3 | s_2, a_2) to {worst:.1g}"
    )


def markov_twin_gap(
    mdp: MDP, policy: Policy, delay: int, start: int, queue: np.ndarray, steps: int
) -> float:
    """Return how far Thm. 5.1's equality of laws is from holding for `policy`.

    It is the largest |P^π'(s_{t-m}, a_t) - P^π(s_{t-m}, a_t)|.

    Equal laws leave π' no choice: where P^π(s_{t-m} = s) > 0 its rule must be
    P^π(a_t | s_{t-m} = s).
    """
    ours = initial_law(mdp, delay, start, queue)
    theirs = initial_law(mdp, delay, start, queue)
    gap = 0.0
    for t in range(steps):
        rule = policy.rule(t)
        chosen = (ours[:, :, None] * rule).sum(axis=1)
        seen = chosen.sum(axis=1, keepdims=True)
        twin = np.divide(
            chosen, seen, out=np.full_like(chosen, 1 / mdp.actions), where=seen > 1e-14
        )
        gap = max(gap, float(np.abs(theirs.sum(axis=1)[:, None] * twin - chosen).max()))
        ours = advance(mdp, delay, ours, rule)
        theirs = advance(mdp, delay, theirs, twin[:, None, :])
    return gap


def equal_laws() -> Finding:
    """Compare queue-aware policies with the only Markov policy that could have their laws."""
    best = best_queue_aware(hidden_queue(0.9, revealing=True), 1, 0, [0]).policy
    example = markov_twin_gap(hidden_queue(0.9, revealing=True), best, 1, 0, np.array([0]), 6)
    same = markov_twin_gap(hidden_queue(0.9), best, 1, 0, np.array([0]), 6)
    gaps = []
    for mdp, delay, rng in random_problems(200, 8):
        rule = rng.integers(mdp.actions, size=(mdp.states, *([mdp.actions] * delay)))
        policy = queue_aware(mdp, delay, rule)
        queue = rng.integers(mdp.actions, size=delay)
        gaps.append(markov_twin_gap(mdp, policy, delay, 0, queue, 8))
    detail = f"hidden queue, revealing: laws differ by {example:.3g} (not revealing: {same:.1g}); "
    differ = sum(gap > 1e-9 for gap in gaps)
    detail += f"random MDPs: by up to {max(gaps):.2g}, in {differ} of {len(gaps)}"
    return Finding(len(gaps) + 2, judged(max(example, *gaps) < 1e-9), detail)


def markov_optimal() -> Finding:
    """Check a counterexample, and deterministic MDPs, where the statement holds."""
    gamma = 0.9
    mdp = hidden_queue(gamma)
    best = best_markov_deterministic(mdp, 1, 0, [0], 5)
    with_queue = best_queue_aware(mdp, 1, 0, [0])
    rng = np.random.default_rng(9)
    worst = 0.0
    cases = 100
    for _ in range(cases):
        delay = int(rng.integers(1, 4))
        fixed = MDP(np.eye(3)[rng.integers(3, size=(3, 2))], rng.normal(size=(3, 2)), 0.7)
        queue = rng.integers(2, size=delay)
        whole = best_queue_aware(fixed, delay, 0, queue).value
        found = best_markov_deterministic(fixed, delay, 0, queue, 12)
        slack = 0.7**12 * np.abs(fixed.r).max() / 0.3
        worst = max(worst, abs(whole - found.value) - slack)
    detail = f"hidden queue, γ = 0.9: best Markov {best.value:.6g} = γ(½+¼γ), "
    detail += f"queue known {with_queue.value:.6g} = γ(½+½γ); "
    detail += (
        f"equal on {cases} deterministic MDPs"
        if worst <= 1e-9
        else f"and not equal on deterministic MDPs: {worst:.2g}"
    )
    return Finding(cases + 1, judged(best.value >= with_queue.value - 1e-9), detail)


def deterministic_markov() -> Finding:
    """Check randomized Markov policies against the best deterministic one.

    They are made deterministic one decision at a time.
    """
    above = -np.inf
    lost = 0.0
    cases = 0
    horizon = 4
    for mdp, delay, rng in random_problems(30, 10, largest=2):
        queue = rng.integers(mdp.actions, size=min(delay, 2))
        best = best_markov_deterministic(mdp, len(queue), 0, queue, horizon).value
        for _ in range(5):
            rules = rng.dirichlet(np.full(mdp.actions, 0.5), (horizon, mdp.states))
            value = _truncated(mdp, markov(mdp, rules), queue, horizon)
            above = max(above, value - best)
            for at in np.ndindex(horizon, mdp.states):
                tried = []
                for action in np.eye(mdp.actions):
                    rules[at] = action
                    tried.append((_truncated(mdp, markov(mdp, rules), queue, horizon), action))
                after, rules[at] = max(tried, key=lambda pair: pair[0])
                lost = max(lost, value - after)
                value = after
            above = max(above, value - best)
            cases += 1
    holds = above < 1e-10 and lost < 1e-10
    return Finding(
        cases,
        judged(holds),
        f"a decision made deterministic never lost ({lost:.1g}); none exceeded the best "
        "deterministic policy",
    )


def _truncated(mdp: MDP, policy: Policy, queue: np.ndarray, horizon: int) -> float:
    """Return the delayed value of the first `horizon` decisions."""
    delay = len(queue)
    law = initial_law(mdp, len(queue), 0, queue)
    total = 0.0
    for t in range(horizon + delay):
        executed = np.broadcast_to(policy.rule(t), (*law.shape, mdp.actions))
        reward = mdp.r[:, :, None] if delay else mdp.r[:, None]
        shape = (mdp.states, mdp.actions, -1)
        now = (
            (law.reshape(shape) * reward).sum()
            if delay
            else (law[:, :, None] * executed * reward).sum()
        )
        total += mdp.gamma ** (t - delay) * float(now) * (t >= delay)
        law = advance(mdp, delay, law, policy.rule(t))
    return total


def _recursions(
    mdp: MDP, delay: int, policy: Policy, queue: np.ndarray
) -> tuple[float, float, float]:
    """Return v_0 of state 0, exactly, by the paper's m-step form and by the one-step form."""
    value = at_queue(mdp, delay, exact_values(mdp, policy, delay), 0, queue)
    P = mdp.dense
    rules = [policy.rule(k)[:, 0] for k in range(delay)]
    laws = [np.eye(mdp.actions)[a] for a in queue]
    end = np.eye(mdp.states)[0]
    for law in laws:
        end = end @ np.einsum("a,sat->st", law, P)
    first = float(end @ mdp.r @ policy.rule(0)[0, 0])
    later = exact_values(mdp, policy.after(delay), delay)
    jumped = 0.0
    for states in product(range(mdp.states), repeat=delay):
        path = (0, *states)
        weight = np.prod([laws[k] @ P[path[k], :, path[k + 1]] for k in range(delay)])
        jumped += float(weight) * at_queue(
            mdp, delay, later, path[-1], np.array([rules[k][path[k]] for k in range(delay)])
        )
    next_queue = np.array([*laws[1:], policy.rule(0)[0, 0]])
    ahead = exact_values(mdp, policy.after(1), delay)
    stepped = sum(
        float(laws[0] @ P[0, :, s]) * at_queue(mdp, delay, ahead, s, next_queue)
        for s in range(mdp.states)
    )
    return value, first + mdp.gamma * jumped, first + mdp.gamma * stepped


def recursion(periodic: bool) -> Finding:
    """Check both forms against exact values, for periods m (`periodic`) and 4."""
    rng = np.random.default_rng(11)
    gaps: dict[int, list[float]] = {1: [], 2: [], 3: []}
    one_step = 0.0
    for delay in (1, 2, 3):
        for _ in range(8):
            mdp = random_mdp(rng, 2, 2, 0.8)
            policy = markov(mdp, rng.dirichlet(np.ones(2), (delay if periodic else 4, 2)))
            value, paper, stepped = _recursions(mdp, delay, policy, rng.integers(2, size=delay))
            gaps[delay].append(abs(value - paper))
            one_step = max(one_step, abs(value - stepped))
    shown = ", ".join(f"{max(gap):.2g}" for gap in gaps.values())
    detail = f"the m-step form is off by up to {shown} at m = 1, 2, 3; "
    detail += f"the one-step form by {one_step:.1g}"
    return Finding(24, judged(all(max(gap) < 1e-9 for gap in gaps.values())), detail)


def history() -> Finding:
    """Compare a policy that remembers past states with the best Markov policy."""
    mdp = hidden_queue(0.9)
    rule = best_queue_aware(mdp, 1, 0, [0])
    best = best_markov_deterministic(mdp, 1, 0, [0], 5).value
    choice = rule.policy.rule(0).argmax(axis=-1)

    def remembers(history: tuple[int, ...]) -> np.ndarray:
        """Return the action's law; the pending action is this policy's previous choice."""
        pending = 0 if len(history) == 1 else int(remembers(history[:-2]).argmax())
        return np.eye(2)[choice[history[-1], pending]]

    total = 0.0
    for states in product(range(mdp.states), repeat=4):
        path = (0, *states)
        if np.prod([mdp.dense[path[k], :, path[k + 1]].max() for k in range(4)]) == 0:
            continue
        for actions in product(range(2), repeat=4):
            whole = [x for pair in zip(path, actions, strict=False) for x in pair] + [path[4]]
            weight = path_probability(mdp, remembers, 1, [0], whole)
            total += weight * sum(0.9 ** (k - 1) * mdp.r[path[k], actions[k]] for k in range(1, 4))
    detail = f"hidden queue: a policy of past states earns {total:.6g}, "
    detail += f"the best that sees only the present one {best:.6g}"
    return Finding(1, judged(total <= best + 1e-9), detail)
