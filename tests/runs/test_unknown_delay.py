"""An agent that is not told the delay: what it finds, what it sees, and what it then is."""

from dataclasses import replace
from threading import Event

import gymnasium as gym
import numpy as np
import pytest

import deadtime
from deadtime.delays import Constant, GilbertElliott, Uniform
from deadtime.identify.age_chains import NewestArrival
from deadtime.identify.age_model import AgeModel
from deadtime.learn import compiled_groups, groups_of
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.specs import make_spec
from deadtime.runs.training import train_spec
from deadtime.runs.unknown_delay import Blind, agree, find_delay, played, train_untold
from deadtime.studies.random_delay.unknown import Case, answers, rows_of

SMALL = {"steps": 300, "hidden": (8, 8), "batch_size": 8, "random_steps": 100}
SMALL |= {"evaluation_episodes": 2}


def assert_equal_runs(mine, other):
    """Networks, curve and score are equal, but for how two programs round."""
    close = {"rtol": 1e-4, "atol": 1e-6}
    np.testing.assert_allclose(mine.scores, other.scores, **close)
    np.testing.assert_allclose(mine.record.curve, other.record.curve, **close)
    for name, part in other.record.policies.items():
        np.testing.assert_allclose(mine.record.policies[name], part, **close)


class Counting:
    """A policy whose n-th action of an episode is n; it keeps the queues that it was shown."""

    action_shape = ()

    def __init__(self, delay):
        self.delay = delay
        self.queues = []

    def reset(self):
        self.queues = []

    def act(self, observation, pending_actions):
        self.queues.append([*pending_actions])
        return len(self.queues)


@pytest.mark.parametrize("true", [0, 1, 3, 5])
@pytest.mark.parametrize("believed", [0, 1, 3, 5])
def test_a_blind_policy_sees_its_own_last_actions(true, believed):
    """Brute force: as many as it believes to be pending, whatever the environment keeps."""
    policy = Counting(believed)
    blind = Blind(policy)
    for episode in range(2):
        blind.reset()
        warm_up = [-1 - episode - i for i in range(true)]
        chosen = []
        for _ in range(9):
            pending = [*warm_up, *chosen][len(chosen) :]
            chosen.append(blind.act(None, np.array(pending, int)))
        whole = [*[0] * believed, *warm_up, *chosen]
        shown = [whole[len(whole) - 9 + t - believed : len(whole) - 9 + t] for t in range(9)]
        assert policy.queues == shown


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0, 3])
def test_a_constant_delay_is_found(delay):
    found = find_delay("pendulum", delay, seed=1)
    assert found.answer.process == Constant(delay)
    assert found.steps <= 1000
    assert {one.process for one in found.tried[-2:]} == {Constant(delay)}


@pytest.mark.slow
def test_two_answers_are_one_if_their_laws_of_ages_are_near():
    found = find_delay("pendulum", Uniform(1, 3), seed=0, max_delay=6)
    law = np.array(found.answer.posterior)
    assert abs(law[: len(Uniform(1, 3).age_law)] - Uniform(1, 3).age_law).sum() / 2 < 0.1
    assert agree(*found.tried[-2:])
    for far in (law[::-1], np.eye(7)[2]):
        assert not agree(found.answer, replace(found.answer, posterior=tuple(far)))
    assert not agree(found.answer, replace(found.answer, varies=False))
    assert not agree(replace(found.answer, identifiable=False), found.answer)


def test_a_constant_delay_counts_once_other_ages_are_excluded():
    """Two answers of one constant do not agree while a tenth of the steps may have other ages."""
    force = np.random.default_rng(0).normal(size=400)
    speed = np.append(np.zeros(2), np.cumsum(force))[:400] * 0.1
    found = deadtime.identify_delay(speed[:, None], force, max_delay=6)
    assert found.process == Constant(1)
    assert agree(found, found)
    assert agree(found, replace(found, others=None))
    assert not agree(found, replace(found, others=0.2))


@pytest.mark.slow
@pytest.mark.parametrize(("env", "seed"), [("acrobot", 1), ("noisy-cartpole", 0)])
def test_bursts_are_not_taken_for_a_constant(env, seed):
    bursty = GilbertElliott(Constant(2), Constant(6), 0.05, 0.1)
    found = find_delay(env, bursty, seed, max_delay=12)
    process = found.answer.process
    assert (process.good, process.bad) == (Constant(2), Constant(6))
    assert (process.to_bad, process.to_good) == pytest.approx((0.05, 0.1), rel=0.5)
    assert any(one.process == Constant(2) for one in found.tried)


@pytest.mark.slow
def test_an_agent_that_finds_the_delay_is_the_agent_that_was_told_it():
    """Networks, curve, its own score, and its return under the true delay."""
    told = deadtime.train("pendulum", "delayed", 2, seeds=[1], **SMALL)
    untold = train_untold("pendulum", "delayed", 2, seeds=[1], **SMALL)
    (mine,) = untold.results
    assert mine.spec == replace(told.spec, hidden=Constant(2))
    assert_equal_runs(mine, told)
    assert untold.scores.tolist() == pytest.approx([played(told, told.spec, 1)], rel=1e-4)
    under = gym.make("deadtime/NoisyPendulum-v1", noise=0.0)
    open_queue = deadtime.ActionDelay(under, 2)
    seed = int(np.random.SeedSequence([1, 0xB11D]).generate_state(1)[0])
    shown = deadtime.evaluate(told.policy(1), open_queue, episodes=2, seed=seed)
    assert untold.scores[0] == pytest.approx(shown.mean(), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "agent"),
    [
        ("noisy-cartpole", "projected"),
        ("noisy-cartpole", "augmented"),
        ("gym:CartPole-v1", "delayed"),
    ],
)
def test_a_true_belief_is_the_same_as_being_told(env, agent):
    """In both loops, for each way to learn; under another true delay the run differs."""
    small = {"steps": 200, "hidden": (8, 8), "batch_size": 8, "evaluation_episodes": 2}
    spec = make_spec(env, agent, 2, small)
    told, hidden, other = (
        train_spec(one, (1,))
        for one in (spec, replace(spec, hidden=Constant(2)), replace(spec, hidden=Constant(4)))
    )
    assert_equal_runs(hidden, told)
    assert hidden.spec.id != told.spec.id
    assert make_spec_again(hidden.spec) == hidden.spec
    assert other.record.curve.tolist() != told.record.curve.tolist()


def make_spec_again(spec):
    """Return the spec that a record of `spec` would give."""
    content = dict(spec.canonical())
    assert content.pop("kind") == "deep"
    return DeepSpec(**content)


@pytest.mark.slow
def test_chosen_actions_are_learned_from_in_a_true_channel_that_varies():
    """A queue of the longest age believed is all that `augmented` needs; ages are never seen."""
    spec = make_spec("pendulum", "augmented", Uniform(1, 3), SMALL | {"observed": "never"})
    told = train_spec(spec, (1,))
    hidden = train_spec(replace(spec, hidden=Uniform(1, 3)), (1,))
    assert_equal_runs(hidden, told)


def test_a_model_of_ages_goes_with_agents_that_infer_them():
    spec = make_spec("pendulum", "delayed", Uniform(1, 3), SMALL | {"observed": "never"})
    with pytest.raises(ValueError, match="only with it; got none: train it with"):
        replace(spec, hidden=Uniform(1, 3))
    constant = make_spec("pendulum", "delayed", 3, SMALL)
    with pytest.raises(ValueError, match="only with it; got one"):
        replace(constant, hidden=Uniform(1, 3), ages=AgeModel("{}"))
    whole = replace(spec, hidden=Uniform(1, 3), ages=AgeModel("{}"))
    assert make_spec_again(whole) == whole


@pytest.mark.slow
def test_an_agent_of_executed_actions_goes_on_in_a_channel_that_varies():
    untold = train_untold("pendulum", "projected", Uniform(1, 3), [1], max_delay=6, **SMALL)
    (mine,) = untold.results
    assert mine.spec.hidden == Uniform(1, 3)
    assert mine.spec.process == untold.found[0].answer.process
    assert mine.spec.ages == untold.found[0].answer.ages
    assert np.isfinite(untold.scores).all()
    again = train_spec(mine.spec, (1,))
    assert_equal_runs(again, mine)


def test_cells_and_frames_are_refused():
    with pytest.raises(ValueError, match="found from observations that are vectors; maze has cel"):
        train_untold("maze", "delayed", 2)


def test_a_law_of_latencies_ends_at_the_longest_age_that_occurs():
    """Ages above 4 have a share below 0.005, so the latency of 6 steps is only one above 3."""
    law = np.array([0, 0.25, 0.25, 0.48, 0, 0, 0.02])
    law[3] += 1 - law.sum()
    found = NewestArrival(law).process()
    assert found.longest == 4
    assert found.latency_law == pytest.approx([0, 0.25, 0.25, 0.48, 0.02])


@pytest.mark.full
def test_the_study_of_a_delay_that_is_not_told(tmp_path):
    case = Case("pendulum", "constant", 0)
    answers([case]).make(tmp_path)
    (row,) = rows_of([case], tmp_path)
    assert (row["found"], row["distance"], row["least_steps"], row["told"]) == (1, 0.0, 500, "")
    case = Case("pendulum", "bursty", 0, 300)
    answers([case]).make(tmp_path)
    (row,) = rows_of([case], tmp_path)
    assert row["loss"] == pytest.approx(row["told"] - row["untold"])


@pytest.mark.slow
def test_a_run_that_infers_ages_resumes_to_the_bit(tmp_path, monkeypatch):
    """The step whose ages are not settled is in the checkpoint."""
    monkeypatch.setattr(compiled_groups, "CHUNK_STEPS", 100)
    found = find_delay("pendulum", Uniform(1, 3), 1, max_delay=6).answer
    small = SMALL | {"observed": "never", "steps": 230}
    believed = replace(
        make_spec("pendulum", "projected", found.process, small),
        hidden=Uniform(1, 3),
        ages=found.ages,
    )

    def group():
        (one,) = groups_of([(believed, 1)], "cpu")
        return one

    whole, first, second = group(), group(), group()
    whole.begin()
    first.begin()
    while whole.done < whole.length:
        whole.advance()
        if first.done < 150:
            first.advance()
    first.save(tmp_path / "x", 1.0)
    first.close()
    second.resume(tmp_path / "x")
    assert 0 < second.done < whole.done
    while second.done < second.length:
        second.advance()
    ends = [one.outcomes(1.0, True, Event())[0][1] for one in (whole, second)]
    for name, part in ends[0].policy.items():
        np.testing.assert_array_equal(ends[1].policy[name], part)
    assert ends[0].score == ends[1].score
