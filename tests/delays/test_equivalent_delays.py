"""A delay of actions and one of observations as one delay of actions."""

import numpy as np
import pytest

import deadtime
from deadtime.delays import Buffered, Categorical, PerEpisode, RandomWalk, Uniform
from deadtime.delays.equivalence import bridged
from deadtime.envs.maze_layout import carve, model
from deadtime.planning import MDP, late_observations, solve
from deadtime.runs.specs import make_spec


@pytest.mark.parametrize(
    ("actions", "observations", "both"),
    [
        (2, 3, 5),
        (2, 0, 2),
        ("uniform:1-3", 0, Uniform(1, 3)),
        (Buffered(Uniform(1, 3), 4), "2", 6),
        (1, "episode:walk:0-1", PerEpisode(Categorical((0, 0.5, 0.5), in_order=False))),
    ],
)
def test_delays_that_are_equivalent_to_their_sum(actions, observations, both):
    assert bridged(actions, observations) == both


def test_ages_drawn_once_an_episode_add_up():
    found = bridged(PerEpisode(RandomWalk(0, 1)), PerEpisode(RandomWalk(1, 2)))
    np.testing.assert_allclose(found.age_law, [0, 0.25, 0.5, 0.25])


@pytest.mark.parametrize("pair", [("walk:0-2", 1), (1, "uniform:0-2")])
def test_ages_that_vary_within_an_episode_are_refused(pair):
    with pytest.raises(ValueError, match="varies within an episode: pass a constant such as 2"):
        bridged(*pair)


@pytest.mark.parametrize("gamma", [0.8])
def test_planning_agrees(gamma):
    """Late observations are worth the delayed value of the same delay of actions."""
    mdp = MDP(*model(carve(2, 0), 0.2), gamma)
    late = late_observations(mdp, 2)
    values = solve(late.problem, 0, tol=1e-10)
    acting = solve(mdp, bridged(0, 2), tol=1e-10)
    for state, first, second in np.ndindex(3, 4, 4):
        law = np.eye(mdp.states)[state]
        earned = 0.0
        for power, action in enumerate((first, second)):
            earned += gamma**power * float(law @ mdp.r[:, action])
            law = law @ mdp.P[action :: mdp.actions].toarray()
        known = values.values[late.number(0, state, (first, second))].item()
        assert earned + gamma**2 * known == pytest.approx(
            acting.value(state, (first, second)), abs=1e-7
        )


def test_training_with_both_delays_is_training_with_their_sum():
    for env in ("maze", "cartpole"):
        one = make_spec(env, "delayed", 1, {"observation_delay": 2})
        assert one == make_spec(env, "delayed", 3, {})
    with pytest.raises(ValueError, match="late observations only if both delays are constant"):
        make_spec("cartpole", "augmented", 1, {"observation_delay": "episode:uniform:0-2"})
    options = {"observation_delay": "episode:uniform:0-2", "observed": "never"}
    with pytest.raises(ValueError, match="if the agent sees the age of the episode"):
        make_spec("maze", "augmented", 1, options)


def test_a_trained_policy_acts_where_both_are_late():
    result = deadtime.train("maze", "delayed", 1, observation_delay=2, size=5, episodes=1500)
    maze = result.spec.family.gymnasium_form(result.spec.environment(0), 1)
    env = deadtime.AugmentObservation(deadtime.ObservationDelay(maze, 2))
    policy, returns = result.policy(0), []
    for seed in range(60):
        obs, _ = env.reset(seed=seed)
        earned, ended = 0.0, False
        while not ended:
            obs, reward, terminated, truncated, _ = env.step(policy.predict(obs)[0])
            earned, ended = earned + reward, terminated or truncated
        returns.append(earned)
    assert np.mean(returns) == pytest.approx(result.scores[0], abs=0.03)
