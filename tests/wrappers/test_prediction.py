"""Predicted observations: the model over the pending actions, and what the info says."""

import gymnasium as gym
import numpy as np
import pytest

from deadtime import ActionDelay, AugmentObservation, ObservationDelay, PredictObservation
from deadtime.delays import Buffered, Uniform


def physics(obs, action):
    """CartPole's own step."""
    env = gym.make("CartPole-v1").unwrapped
    env.reset()
    env.state = np.array(obs, np.float64)
    return env.step(int(action))[0]


@pytest.mark.parametrize("delay", [0, 1, 4])
def test_a_perfect_model_shows_the_state_of_the_execution(delay):
    env = PredictObservation(ActionDelay(gym.make("CartPole-v1"), delay), physics)
    obs, info = env.reset(seed=3)
    shown, states = [obs], [info["present_observation"]]
    for t in range(9):
        before = info["present_observation"]
        obs, _, ended, _, info = env.step(t % 2)
        assert not ended
        assert info["last_observation"] is before
        shown.append(obs)
        states.append(info["present_observation"])
    for t in range(10 - delay):
        np.testing.assert_allclose(shown[t], states[t + delay], atol=1e-5)


def test_predictions_are_clipped_to_the_observation_space():
    env = PredictObservation(ActionDelay(gym.make("Pendulum-v1"), 2), lambda obs, _: obs + 100)
    obs, _ = env.reset(seed=0)
    assert obs.dtype == np.float32
    np.testing.assert_array_equal(obs, env.observation_space.high)
    assert env.delay == 2


def test_what_can_not_be_predicted_is_refused():
    def model(obs, action):
        return obs

    make = gym.make("CartPole-v1")
    with pytest.raises(ValueError, match=r"PredictObservation\(ActionDelay\(env, delay\), model\)"):
        PredictObservation(make, model)
    with pytest.raises(ValueError, match=r"Buffered\(process, 3\)"):
        PredictObservation(ActionDelay(make, Uniform(1, 3)), model)
    PredictObservation(ActionDelay(make, Buffered(Uniform(1, 3), 3)), model)
    with pytest.raises(ValueError, match="use one ActionDelay with the sum of both"):
        PredictObservation(ObservationDelay(ActionDelay(make, 1), 1), model)
    with pytest.raises(ValueError, match="observations are a Box"):
        PredictObservation(ActionDelay(gym.make("FrozenLake-v1"), 1), model)
    with pytest.raises(ValueError, match="outer wrapper"):
        PredictObservation(AugmentObservation(ActionDelay(make, 1)), model)
