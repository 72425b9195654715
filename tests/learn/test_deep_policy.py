"""What a deep training leaves behind: policies that act without JAX, records, commands."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import deadtime
from deadtime.delays.convention import push
from deadtime.learn import compiled_groups
from deadtime.learn.compiled_groups import CompiledGroup
from deadtime.learn.compiled_loop import begin_all, evaluate_all, fresh
from deadtime.learn.deep_q import greedy, predicted, q_values
from deadtime.learn.projection import deciding
from deadtime.runs.deep_specs import DeepSpec
from tests import commands
from tests.commands import full

pytestmark = pytest.mark.slow

TINY = {"hidden": (8, 8), "batch_size": 8}


def run(*arguments, cwd):
    done = commands.run(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("agent", "preset", "changes"),
    [
        full("delayed", "paper", {}),
        ("delayed", "best", {"members": 2}),
        full("augmented", "paper", {}),
        full("augmented", "best", {}),
        full("projected", "paper", {}),
        ("projected", "best", {}),
        full("oblivious", "best", {}),
        ("shifted", "paper", {}),
    ],
)
def test_a_saved_policy_decides_as_the_program_does(agent, preset, changes, tmp_path):
    spec = DeepSpec(
        "acrobot", agent, 3, preset, steps=300, evaluation_episodes=2, changes=TINY | changes
    )
    result = deadtime.train(
        "acrobot",
        agent,
        3,
        seeds=[4],
        preset=preset,
        steps=300,
        evaluation_episodes=2,
        **TINY,
        **changes,
    )
    assert result.spec == spec
    policy = deadtime.load(result.save(tmp_path / "run"))
    program = compiled_groups.program_of(spec, jax.default_backend())
    group = CompiledGroup(program, [(spec, 4)])
    group.begin()
    while group.done < group.length:
        group.advance()
    setup, learner = (
        jax.tree.map(lambda leaf: leaf[0], tree) for tree in (group._setups, group._runs.learner)
    )
    foresee, value, choose = (jax.jit(of, static_argnums=0) for of in (predicted, q_values, greedy))
    key, q = jax.random.key(0), deciding(learner.q)
    rng = np.random.default_rng(0)
    for _ in range(20):
        obs, queue = rng.normal(size=6).astype(np.float32), rng.integers(3, size=3)
        room = jnp.concatenate(
            [jnp.zeros(program.capacity - 3, jnp.int32), jnp.array(queue, jnp.int32)]
        )
        actor = fresh(program, setup, setup.key)._replace(obs=jnp.array(obs), queue=room)
        states = foresee(program, setup, learner, actor, key)
        values = np.mean([value(program, q, x, room, setup) for x in states], axis=0)
        np.testing.assert_allclose(policy.q_values(obs, queue), values, rtol=2e-4, atol=2e-4)
        np.testing.assert_allclose(
            policy.predicted_observation(obs, queue), states.mean(axis=0), rtol=1e-3, atol=1e-3
        )
        assert (
            policy.act(obs, queue) == int(choose(program, setup, learner, actor, key))
            or np.ptp(values) < 1e-3
        )


def test_evaluation_earns_what_its_policy_does():
    spec = DeepSpec("noisy-cartpole", "delayed", 2, "paper", changes={"hidden": (8, 8)})
    program, setups = (
        compiled_groups.program_of(spec, "cpu"),
        compiled_groups.setups_of([(spec, 5)], 1),
    )
    learner = begin_all(program, setups).learner
    scores = np.asarray(evaluate_all(program, setups, learner, 3, 500))
    setup, learner = (jax.tree.map(lambda leaf: leaf[0], tree) for tree in (setups, learner))
    choose, move = jax.jit(greedy, static_argnums=0), jax.jit(program.env.step_env)
    for key, score in zip(
        jax.random.split(jax.random.fold_in(setup.key, 2**31 - 1), 3), scores[0], strict=True
    ):
        state, earned, ended, t = fresh(program, setup, key), 0.0, False, 0
        while not ended and t < 500:
            t += 1
            key_model, key_env = jax.random.split(jax.random.fold_in(key, t))
            executed, queue = push(
                state.queue, choose(program, setup, learner, state, key_model), setup.delay
            )
            obs, env, reward, ended, _ = move(key_env, state.env, executed, setup.params)
            state, earned = state._replace(env=env, obs=obs, queue=queue), earned + float(reward)
        assert earned == score


@pytest.mark.full
def test_commands(tmp_path):
    small = [
        "--env",
        "noisy-cartpole",
        "--preset",
        "paper",
        "--steps",
        "400",
        "--seeds",
        "2",
        "--json",
    ]
    said = json.loads(run("train", *small, "--delay", "2", cwd=tmp_path))
    assert len(said["scores"]) == 2
    assert json.loads(run("train", *small, "--delay", "2", cwd=tmp_path)) == said | {"trained": 0}
    seen = run("watch", said["record"], "--out", "pole.gif", cwd=tmp_path)
    assert seen.startswith("pole.gif: ")
    both = json.loads(
        run("compare", *small, "--agents", "delayed", "oblivious", "--delays", "2", cwd=tmp_path)
    )
    assert both["delays"][0]["delayed"]["mean"] == pytest.approx(np.mean(said["scores"]))
