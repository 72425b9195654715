"""Delays of observations against delays of actions: where they are one problem, and where not."""

from itertools import product

import numpy as np
import pytest

from deadtime.delays import PerEpisode, RandomWalk, Uniform
from deadtime.planning import MDP, late_observations, solve
from deadtime.planning.examples import random_mdp


def clock(gamma=0.9):
    """State t mod 2, and a reward for the action that matches it."""
    return MDP(np.repeat(np.array([[0.0, 1.0], [1.0, 0.0]])[:, None], 2, axis=1), np.eye(2), gamma)


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_a_constant_delay_of_observations_is_one_of_actions(delay):
    mdp = random_mdp(np.random.default_rng(delay), 3, 2, 0.8)
    late = late_observations(mdp, delay)
    values = solve(late.problem, 0, tol=1e-11).values
    acting = solve(mdp, delay, tol=1e-11).delayed_values
    for state, queue in product(range(3), product(range(2), repeat=delay)):
        found = values[late.number(0, state, queue)]
        assert found == pytest.approx(acting[(state, *queue)], abs=1e-9)


def test_so_is_a_delay_that_is_drawn_once_an_episode_and_observed():
    """Match the first rewards that the agent decides; the warm-up gives the actions since."""
    mdp = random_mdp(np.random.default_rng(5), 3, 2, 0.8)
    process = PerEpisode(Uniform(1, 3))
    late = late_observations(mdp, process)
    values = solve(late.problem, 0, tol=1e-11).values
    acting = solve(mdp, process, tol=1e-11)
    for c, age in enumerate(acting.channel.ages.tolist()):
        for state, queue in product(range(3), product(range(2), repeat=3)):
            pending = queue[3 - age :]
            law, earned = np.eye(3)[state], 0.0
            for k, action in enumerate(pending):
                earned += mdp.gamma**k * float(law @ mdp.r[:, action])
                law = law @ mdp.dense[:, action]
            delayed = (acting.value(state, queue, c) - earned) / mdp.gamma**age
            found = values[late.number(c, state, pending)]
            assert found == pytest.approx(delayed, abs=1e-8)


def test_in_general_they_differ():
    """The clock: a late observation of it costs nothing, a late action is executed at the wrong
    time.
    """
    mdp, process = clock(1.0), Uniform(1, 2, in_order=False)
    late = late_observations(mdp, process)
    seen = [solve(late.problem, 0, horizon=h).values[late.number(0, 0)] for h in (50, 51)]
    acted = [solve(mdp, process, horizon=h).value(0, (0, 0)) for h in (50, 51)]
    assert seen[1] - seen[0] == pytest.approx(1.0)
    assert acted[1] - acted[0] == pytest.approx(0.5)


def test_late_observations_by_following_every_path():
    """The values with a horizon, straight from the definition: what the agent knows, and what it
    can learn.
    """
    mdp = random_mdp(np.random.default_rng(1), 2, 2, 1.0)
    process = RandomWalk(0, 2)
    chain = process.chain
    matrix = chain.matrix()

    def best(time, channel, history, law, left):
        """`law` of (the states s_0 … s_t not yet seen, as a joint law), given all that was seen."""
        if left == 0:
            return 0.0
        values = []
        for a in range(2):
            earned = sum(p * mdp.r[path[-1], a] for path, p in law.items())
            further = {}
            for path, p in law.items():
                for s in range(2):
                    further[*path, s] = p * mdp.dense[path[-1], a, s]
            later = 0.0
            for to in np.flatnonzero(matrix[channel]):
                shown = max(
                    time + 1 - chain.ages[to], 0
                )  # the index of the state that is seen next
                for seen in range(2):
                    given = {path: p for path, p in further.items() if path[shown] == seen}
                    chance = sum(given.values())
                    if chance:
                        known = {path: p / chance for path, p in given.items()}
                        arguments = (time + 1, to, (*history, seen), known, left - 1)
                        later += matrix[channel, to] * chance * best(*arguments)
            values.append(earned + later)
        return max(values)

    late = late_observations(mdp, process)
    for horizon in (1, 4):
        values = solve(late.problem, 0, horizon=horizon).values
        for channel in range(3):
            expected = best(0, channel, (0,), {(0,): 1.0}, horizon)
            assert values[late.number(channel, 0)] == pytest.approx(expected, abs=1e-12)


def test_bad_input():
    mdp = random_mdp(np.random.default_rng(0), 2, 2, 0.9)
    with pytest.raises(ValueError, match="need a channel in order"):
        late_observations(mdp, Uniform(0, 3, in_order=False))
    with pytest.raises(MemoryError, match="late observations must fit into memory"):
        late_observations(mdp, 50)
    with pytest.raises(ValueError, match="a state is"):
        late_observations(mdp, 1).number(0, 0, (1, 1))
