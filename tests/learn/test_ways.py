"""Predictions under delays that vary: the actions on the way, in training and in a policy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import deadtime
from deadtime.delays import GilbertElliott, Held, PerEpisode, RandomWalk, Uniform
from deadtime.delays.waits import waits_of
from deadtime.learn.compiled_groups import program_of, setups_of
from deadtime.learn.compiled_loop import begin, fresh
from deadtime.learn.deep_q import greedy, predicted
from deadtime.learn.policies import policy_of
from deadtime.learn.ways import on_the_way
from deadtime.runs.deep_specs import DeepSpec
from tests.commands import full

SMALL = {"hidden": (8, 8), "batch_size": 8}
PROCESSES = [
    Uniform(1, 4),
    RandomWalk(0, 5, 0.5),
    GilbertElliott(1, Uniform(2, 5), 0.2, 0.4),
    Held(0, 4, hold=0.2, period=2),
]


def program_and_setup(process, observed, seed=0):
    spec = DeepSpec(
        "cartpole", "delayed", process=process, observed=observed, steps=100, changes=SMALL
    )
    setups = setups_of([(spec, seed)], 1)
    return spec, program_of(spec, "cpu"), jax.tree.map(lambda leaf: leaf[0], setups)


def first_executed(queue, ages):
    """The actions executed before the action chosen now, step by step through a plain log."""
    log = [*queue, "chosen now"]
    now = len(queue)
    done = []
    for j, age in enumerate(ages):
        place = now + j - age
        assert place < now
        done.append(log[place])
    return done


@pytest.mark.parametrize("observed", ["now", "hindsight", "never"])
@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_the_actions_on_the_way(process, observed):
    """They are the last actions of the queue, in the order in which they are executed."""
    _, program, setup = program_and_setup(process, observed)
    waits = waits_of(process, observed)
    actor = fresh(program, setup, setup.key)
    queue = jnp.arange(100, 100 + program.capacity)
    for row in range(process.longest + 2):
        run, at = on_the_way(program, setup, actor._replace(queue=queue, known=jnp.int32(row)))
        steps = int(waits.steps[row, 0])
        wanted = first_executed(queue.tolist(), waits.ages[row, 0, :steps].tolist())
        assert run.delay == steps
        assert at.queue[program.capacity - steps :].tolist() == wanted


def test_an_age_that_stays_makes_a_constant_delay():
    """Each age of an episode is the delay of all its steps, so the way is that of its queue."""
    _, program, setup = program_and_setup(PerEpisode(Uniform(1, 4)), "now")
    actor = fresh(program, setup, setup.key)._replace(queue=jnp.arange(program.capacity))
    for age in range(1, 5):
        run, at = on_the_way(program, setup, actor._replace(known=jnp.int32(age + 1)))
        assert run.delay == age
        assert at.queue[-age:].tolist() == actor.queue[-age:].tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("process", "observed"),
    [(PROCESSES[0], "hindsight"), full(PROCESSES[1], "now"), full(PROCESSES[2], "never")],
    ids=str,
)
def test_a_policy_predicts_and_decides_as_the_program_does(process, observed):
    spec, program, setup = program_and_setup(process, observed)
    learner = begin(program, setup).learner
    arrays = program.learner.policy_arrays(program, learner)
    policy = policy_of(spec, 0, arrays)
    assert policy.sees_ages == (observed != "never")
    longest = process.longest
    rng = np.random.default_rng(0)
    predict = jax.jit(lambda actor: predicted(program, setup, learner, actor, setup.key))
    decide = jax.jit(lambda actor: greedy(program, setup, learner, actor, setup.key))
    usual = fresh(program, setup, setup.key)
    for row in {"now": range(1, longest + 2), "never": range(1)}.get(observed, range(longest + 2)):
        obs = rng.normal(size=4).astype(np.float32)
        queue = rng.integers(2, size=longest)
        room = np.concatenate([np.zeros(program.capacity - longest, int), queue])
        actor = usual._replace(obs=jnp.array(obs), queue=jnp.array(room), known=jnp.int32(row))
        ages = {} if observed == "never" else {"ages": row - 1}
        ahead = policy.predicted_observation(obs, queue, **ages)
        np.testing.assert_allclose(ahead, predict(actor)[0], rtol=1e-4, atol=1e-4)
        assert policy.act(obs, queue, **ages) == int(decide(actor))
    if policy.sees_ages:
        with pytest.raises(ValueError, match="needs the age of the action, "):
            policy.act(obs, queue)


@pytest.mark.full
@pytest.mark.parametrize("env", ["cartpole", "gym:CartPole-v1"])
@pytest.mark.parametrize("agent", ["delayed", "projected"])
def test_training_under_a_process_in_both_loops(env, agent, tmp_path):
    how = {"steps": 200, "evaluation_episodes": 2, **SMALL}
    result = deadtime.train(env, agent, Uniform(1, 4), **how)
    assert result.record.status == ["complete"]
    policy = deadtime.load(result.save(tmp_path / "run"))
    assert policy.process == Uniform(1, 4)
    assert deadtime.evaluate(policy, env, episodes=2).shape == (2,)
    assert np.isfinite(result.scores).all()
