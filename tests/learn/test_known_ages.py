"""Networks that see the queue see the known age too: programs, policies, and what it is worth."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from probe import Probe

import deadtime
from deadtime.delays import Held, PerEpisode, RandomWalk, Uniform
from deadtime.delays.waits import OBSERVED
from deadtime.learn.compiled_groups import program_of, setups_of
from deadtime.learn.compiled_loop import begin, begin_all, fresh, held_out, run_chunk
from deadtime.learn.deep_q import q_values
from deadtime.learn.evaluate import delayed_environment
from deadtime.learn.host_programs import program_of as host_program_of
from deadtime.learn.policies import policy_of
from deadtime.learn.program import Program, Setup, bounded_by, split_settings
from deadtime.learn.projection import deciding
from deadtime.learn.settings import SAC, DoubleQ
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runs.specs import from_canonical
from deadtime.runtime import Controller
from deadtime.runtime.bundle import load, save
from deadtime.runtime.manifest import Manifest
from deadtime.runtime.views import VIEWS
from deadtime.studies.random_delay.tasks import TASKS
from tests.commands import full

SMALL = {"hidden": (8, 8), "batch_size": 8}
AGENTS = ("augmented", "projected")


def parts(env, agent, process, observed, device="cpu"):
    """A spec, its program and setup, and the state of a new learner."""
    spec = DeepSpec(env, agent, process=process, observed=observed, steps=100, changes=SMALL)
    setup = jax.tree.map(lambda leaf: leaf[0], setups_of([(spec, 0)], 1))
    program = program_of(spec, device)
    return spec, program, setup, begin(program, setup).learner


def policy_parts(env, agent, process, observed):
    spec, program, setup, learner = parts(env, agent, process, observed)
    arrays = program.learner.policy_arrays(program, learner)
    return policy_of(spec, 0, arrays), program, setup, learner


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_networks_have_inputs_for_ages_where_ages_vary_and_are_observed(agent, device):
    for observed, inputs in zip(OBSERVED, (6, 6, 0), strict=True):
        spec = DeepSpec("cartpole", agent, process=Uniform(1, 4), observed=observed)
        program = program_of(spec, device)
        assert program.age_inputs == inputs
        host = DeepSpec("gym:CartPole-v1", agent, process=Uniform(1, 4), observed=observed)
        assert host_program_of(host, device).age_inputs == inputs
    constant = DeepSpec("cartpole", agent, 4)
    assert program_of(constant, device).age_inputs == 0
    assert DeepSpec("cartpole", agent, 4, observed="never") == constant


def test_agents_that_see_no_ages_share_their_program_as_before():
    """On a GPU, runs whose networks see ages do not change the inputs of others."""
    for agent in ("delayed", "oblivious"):
        spec = DeepSpec("cartpole", agent, process=Uniform(1, 4))
        program = program_of(spec, "gpu")
        assert (program.view, program.age_inputs) == (None, 0)


@pytest.mark.parametrize("agent", AGENTS)
def test_ids_differ_by_when_ages_are_observed(agent):
    specs = [DeepSpec("cartpole", agent, process=Uniform(1, 4), observed=one) for one in OBSERVED]
    assert len({spec.id for spec in specs}) == 3
    assert [from_canonical(spec.canonical()).id for spec in specs] == [spec.id for spec in specs]


def test_ids_of_runs_without_known_ages_are_as_they_were():
    for agent, delay, known in (
        ("augmented", {"delay": 3}, "6a6f87da4aad"),
        ("projected", {"delay": 3}, "2cf9f28d5612"),
        ("oblivious", {"process": Uniform(1, 4)}, "3e5cf38e6d39"),
    ):
        assert DeepSpec("cartpole", agent, **delay).id == known


def test_agents_that_predict_with_other_ways_have_other_ids():
    """5206ed2fd5bc predicted along the most likely ages."""
    spec = DeepSpec("cartpole", "delayed", process=Uniform(1, 4), observed="hindsight")
    assert spec.id == "5733e1c1fd1b"


def test_the_columns_of_the_study_are_different_runs():
    for task in TASKS[1:]:
        runs = task.runs()
        for law in task.laws:
            for agent in ("augmented", "projected", "delayed"):
                assert len({runs[law, column, agent].id for column in OBSERVED}) == 3


def codes_of(process, observed):
    """What an agent may know: 1 + an age, 0 for none."""
    return {"now": range(1, process.longest + 2), "never": range(1)}.get(
        observed, range(process.longest + 2)
    )


def streams(policy, program, process, observed):
    """Observations, queues with and without the program's room, and what is known."""
    rng = np.random.default_rng(0)
    for code in codes_of(process, observed):
        obs = rng.normal(size=policy.observation_shape).astype(np.float32)
        if policy.action_shape:
            queue = rng.uniform(-2, 2, (process.longest, 1)).astype(np.float32)
        else:
            queue = rng.integers(2, size=process.longest)
        left = np.zeros((program.capacity - process.longest, *queue.shape[1:]), queue.dtype)
        yield obs, queue, np.concatenate([left, queue]), code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "observed"),
    [
        ("augmented", "hindsight"),
        ("projected", "now"),
        full("augmented", "now"),
        full("projected", "hindsight"),
        full("augmented", "never"),
        full("projected", "never"),
    ],
)
def test_a_policy_of_numbered_actions_has_the_values_of_the_program(agent, observed):
    process = RandomWalk(0, 4, 0.5)
    policy, program, setup, learner = policy_parts("cartpole", agent, process, observed)
    assert policy.sees_ages == (observed != "never")
    assert policy.manifest.age_inputs == program.age_inputs
    values = jax.jit(
        lambda obs, queue, known: q_values(
            program, deciding(learner.q), obs, queue, setup, known if program.uses_ages else ()
        )
    )
    shown = []
    for obs, queue, room, code in streams(policy, program, process, observed):
        ages = {"ages": code - 1} if policy.sees_ages else {}
        expected = values(obs, room, code)
        np.testing.assert_allclose(policy.see(obs, queue, **ages), expected, rtol=1e-5, atol=1e-5)
        assert policy.act(obs, queue, **ages) == int(jnp.argmax(expected))
        shown.append((obs, queue, code - 1))
        known = {"action_age": np.array([code - 1])} if policy.sees_ages else {}
        given = {"observation": obs, "pending_actions": queue} | known
        assert policy.predict(given)[0] == policy.act(obs, queue, **ages)
    if policy.sees_ages:
        obs, queue, _ = shown[0]
        by_age = [policy.see(obs, queue, ages=age).copy() for age in range(process.longest + 1)]
        assert len({row.tobytes() for row in by_age}) == process.longest + 1
        with pytest.raises(ValueError, match=f"{agent} needs the age of the action, "):
            policy.act(obs, queue)
        with pytest.raises(ValueError, match='got an observation without "action_age"'):
            policy.predict({"observation": obs, "pending_actions": queue})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "observed"),
    [("projected", "hindsight"), full("augmented", "now"), full("augmented", "never")],
)
def test_a_policy_of_real_actions_decides_as_the_program_does(agent, observed):
    process = Held(0, 4, hold=0.2, period=2)
    policy, program, setup, learner = policy_parts("pendulum", agent, process, observed)
    decide = jax.jit(program.learner.decide, static_argnums=0)
    usual = fresh(program, setup, setup.key)
    for obs, queue, room, code in streams(policy, program, process, observed):
        known = jnp.int32(code) if program.uses_ages else ()
        actor = usual._replace(obs=jnp.array(obs), queue=jnp.array(room), known=known)
        expected, _ = decide(program, setup, learner, actor, setup.key)
        ages = {"ages": code - 1} if policy.sees_ages else {}
        np.testing.assert_allclose(policy.act(obs, queue, **ages), expected, atol=1e-5)


@pytest.mark.slow
def test_loops_policies_files_and_controllers_know_the_same_ages(tmp_path):
    """In one environment: what AugmentObservation shows, what `act` takes, and a controller."""
    process = Uniform(1, 4)
    policy, program, _, learner = policy_parts("cartpole", "augmented", process, "hindsight")
    again = load(save(policy, tmp_path / "policy.safetensors"))
    assert again.manifest == policy.manifest
    env = delayed_environment("cartpole", {}, process, policy)
    shows = deadtime.AugmentObservation(env, flat=False)
    controller = Controller(again, 0)
    obs, _ = shows.reset(seed=3)
    controller.reset(obs["pending_actions"])
    for _ in range(8):
        (age,) = obs["action_age"].tolist()
        action = policy.act(obs["observation"], obs["pending_actions"], ages=age)
        assert int(again.predict(obs)[0]) == action
        assert controller.step(obs["observation"], action_age=age) == action
        obs, *_ = shows.step(action)
    assert controller.statistics.failures == 0


def test_under_a_constant_delay_the_age_is_the_delay():
    policy, *_ = policy_parts("cartpole", "augmented", Uniform(1, 4), "now")
    constant = policy.at_delay(4)
    assert (policy.sees_ages, constant.sees_ages) == (True, False)
    obs, queue = np.ones(4, np.float32), [0, 1, 1, 0]
    np.testing.assert_array_equal(constant.see(obs, queue), policy.see(obs, queue, ages=4))


def test_a_manifest_that_contradicts_its_ages_is_refused():
    how = {"observation_shape": (4,), "actions": 2, "capacity": 4}
    assert Manifest("augmented", "queue", 4, age_inputs=6, **how).age_inputs == 6
    with pytest.raises(ValueError, match="an input for no age and for each age from 0 to"):
        Manifest("augmented", "queue", 4, age_inputs=5, **how)
    with pytest.raises(ValueError, match="an input for no age and for each age from 0 to"):
        Manifest("augmented", "queue", 4, age_inputs=6, observed="never", **how)
    with pytest.raises(ValueError, match="sees the queue may have inputs for ages; got age_inputs"):
        Manifest("oblivious", "state", 4, age_inputs=6, **how)


class BoxProbe(Probe):
    """The probe with an action from -1 to 1, which should be -1 or 1."""

    @property
    def num_actions(self):
        return 0

    def action_space(self, params=None):
        return spaces.Box(-1.0, 1.0, (1,), np.float32)

    def step_env(self, key, state, action, params):
        obs, after, _, terminated, info = super().step_env(key, state, 0, params)
        reward = 1.0 - jnp.abs(action[0] - (2.0 * state.flipped - 1.0)) / 2.0
        return obs, after, reward, terminated, info


def returns_of(agent, settings, env, observed, steps):
    """The mean return of 20 steps, over three seeds, after a training with one age an episode."""
    process = PerEpisode(Uniform(1, 2))
    kept, numbers = split_settings(settings)
    program = Program(env, VIEWS[agent], bounded_by(steps, kept), 2, 1, process, observed)
    number = type(numbers)(*map(jnp.float32, numbers))

    def setup(key):
        limit = jnp.int32(steps)
        return Setup(key, jnp.int32(2), env.default_params, limit, number, VIEWS[agent].code)

    setups = jax.vmap(setup)(jax.vmap(jax.random.key)(jnp.arange(3)))
    code = jax.tree.map(lambda part: jnp.full(3, part), setups.view)
    setups = setups._replace(view=code)
    runs, _ = run_chunk(program, setups, begin_all(program, setups), jnp.int32(0), steps)
    play = jax.jit(jax.vmap(lambda setup, state: held_out(program, setup, state, 40, 20)))
    return float(play(setups, runs.learner).mean())


TINY = {"hidden": (16,), "batch_size": 16, "gamma": 0.5, "learning_rate": 3e-3}
CASES = {
    "double-q": (DoubleQ(**TINY), Probe(), 2500),
    "sac": (SAC(random_steps=500, **TINY), BoxProbe(), 4000),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "kind"),
    [
        ("projected", "double-q"),
        full("augmented", "double-q"),
        full("augmented", "sac"),
        full("projected", "sac"),
    ],
)
def test_an_agent_that_knows_the_age_earns_what_it_is_worth(agent, kind):
    """The state flips at each step, and the age, 1 or 2, lasts for an episode of 20 steps.

    Who knows the age earns 1 in each step but the first ones, which execute the warm-up. Who does
    not know it is right half of the time, whatever it does. One step later is known soon enough.
    """
    settings, env, steps = CASES[kind]
    found = {one: returns_of(agent, settings, env, one, steps) for one in OBSERVED}
    assert found["now"] > 17
    assert found["hindsight"] > 16
    assert 8 < found["never"] < 12
