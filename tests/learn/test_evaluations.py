"""Evaluations during training."""

import numpy as np
import pytest

import deadtime
from deadtime.runs.deep_specs import DeepSpec

LITTLE = {
    "preset": "paper",
    "hidden": (4,),
    "batch_size": 4,
    "buffer_size": 50,
    "evaluation_episodes": 2,
}


@pytest.mark.slow
@pytest.mark.parametrize("env", ["cartpole", "gym:CartPole-v1"])
def test_evaluations_change_no_bits_and_equal_those_of_shorter_trainings(env, tmp_path):
    def trained(steps, every=None):
        return deadtime.train(env, "augmented", 2, steps=steps, evaluate_every=every, **LITTLE)

    plain = trained(300)
    result = trained(300, 100)
    short = trained(100, 100)
    assert plain.evaluations.returns.size == 0
    np.testing.assert_array_equal(result.evaluations.episodes, [100, 200, 300])
    assert result.evaluations.returns.shape == (1, 3)
    assert result.evaluations.returns[0, 0] == short.evaluations.returns[0, 0]
    assert plain.record.scores == result.record.scores
    for name, part in plain.record.policies.items():
        np.testing.assert_array_equal(part, result.record.policies[name])
    result.save(tmp_path / "it")
    kept = deadtime.runs.Result(deadtime.runs.records.read(tmp_path / "it"))
    np.testing.assert_array_equal(kept.evaluations.returns, result.evaluations.returns)


def test_the_last_evaluation_may_come_before_the_end():
    spec = DeepSpec("cartpole", "augmented", 2, steps=250, evaluate_every=100)
    from deadtime.learn.evaluations import Evaluations

    found = Evaluations([(spec, 0), (DeepSpec("cartpole", "augmented", 2, steps=250), 0)])
    assert [found.steps_left(done) for done in (0, 30, 100, 199, 200)] == [100, 70, 100, 1, None]
    assert not found.due(99)
    assert found.due(102)
    found.note(102, [7.0, 8.0])
    assert not found.due(104)
    found.note(250, [9.0, 8.0])
    np.testing.assert_array_equal(found.of(0), np.float32([7, 9]))
    assert found.of(1).size == 0


@pytest.mark.parametrize("every", [0, True, 2.5, 251, -1])
def test_a_bad_period_is_refused(every):
    with pytest.raises(ValueError, match="evaluate_every"):
        DeepSpec("cartpole", "augmented", 2, steps=250, evaluate_every=every)


def test_games_have_no_evaluations_during_training():
    with pytest.raises(ValueError, match="see numbers"):
        DeepSpec("atari:Pong", "augmented", 2, evaluate_every=1000)


def test_a_training_has_a_limited_number_of_evaluations():
    with pytest.raises(ValueError, match="1 to 1,000 evaluations"):
        DeepSpec("cartpole", "augmented", 2, steps=2500, evaluate_every=2)
