"""SAC against closed forms, a second implementation in NumPy, and exact ceilings."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from scipy.stats import norm

import deadtime
from deadtime.learn import SAC, manifests, sac, sac_inputs
from deadtime.learn.box_scale import BoxScale
from deadtime.learn.compiled_loop import actor_at, begin_all, run_chunk
from deadtime.learn.forward_model import CHANGE
from deadtime.learn.program import Program, Setup, split_settings
from deadtime.learn.replay import Transition, layout_of, transitions
from deadtime.learn.squashed_gaussian import Gaussian, gaussian, log_slope, sampled
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runtime.manifest import Manifest
from deadtime.runtime.network_policy import NetworkPolicy
from deadtime.runtime.views import VIEWS
from tests.commands import ROUNDING, full
from tests.learn.linear_quadratic import LinearQuadratic, LqParams

AGENTS = ("oblivious", "augmented", "delayed", "projected")


def parts(agent, delay, capacity, settings, env=None, process=None):
    """Return a program, its setup and the state of a new learner with noise on its weights."""
    env = env or LinearQuadratic()
    kept, numbers = split_settings(settings)
    program = Program(env, VIEWS[agent], kept, capacity, process=process)
    number = jax.tree.map(jnp.float32, numbers)
    setup = Setup(
        jax.random.key(3),
        jnp.int32(delay),
        env.default_params,
        jnp.int32(1000),
        number,
        VIEWS[agent].code,
    )
    state = program.learner.init(program, setup, jax.random.key(1))
    rng = np.random.default_rng(5)

    def moved(leaf):
        return leaf + jnp.float32(rng.normal(scale=0.2, size=leaf.shape))

    weights, targets = jax.tree.map(moved, (state.weights, state.targets))
    return program, setup, state._replace(weights=weights, targets=targets)


# the law of actions


@pytest.mark.parametrize("mean", [-1.5, 0.0, 0.7])
@pytest.mark.parametrize("log_std", [-2.0, -0.5, 1.0])
def test_the_density_of_an_action_is_that_of_the_gaussian_over_the_slope_of_tanh(mean, log_std):
    """Against SciPy, and its integral over all actions against 1."""
    law = Gaussian(jnp.array([mean]), jnp.array([log_std]))
    raw = np.linspace(mean - 9 * np.exp(log_std), mean + 9 * np.exp(log_std), 4001)
    noise = (raw - mean) / np.exp(log_std)
    action, log_density = jax.vmap(lambda n: sampled(law, n[None]))(jnp.float32(noise))
    np.testing.assert_allclose(action[:, 0], np.tanh(raw), atol=1e-6)
    near = np.abs(raw) < 8  # beyond it 1 - tanh² is lost even in double precision
    slope = np.log1p(-(np.tanh(raw[near]) ** 2))
    exact = norm.logpdf(raw[near], mean, np.exp(log_std)) - slope
    np.testing.assert_allclose(log_density[near], exact, rtol=1e-5, atol=2e-5)
    density = np.exp(np.float64(log_density))
    inside = np.tanh(raw)
    total = np.sum(np.diff(inside) * (density[1:] + density[:-1]) / 2)
    assert abs(total - 1) < 2e-3


def test_the_density_far_out_is_finite_and_exact():
    for raw in (-40.0, -12.0, 12.0, 40.0):
        exact = np.log(4) - 2 * abs(raw)  # 1 - tanh² is 4 exp(-2|u|) there
        np.testing.assert_allclose(log_slope(jnp.float32(raw)), exact, rtol=1e-6)
    law = gaussian(jnp.array([0.0, 0.0, -50.0, 50.0]))
    assert law.log_std.tolist() == [-20.0, 2.0]


def test_the_density_of_several_numbers_is_their_product():
    law = Gaussian(jnp.array([0.3, -1.0]), jnp.array([-0.2, -1.0]))
    noise = jnp.array([0.4, -1.3])
    each = [sampled(Gaussian(*(part[i : i + 1] for part in law)), noise[i : i + 1]) for i in (0, 1)]
    action, log_density = sampled(law, noise)
    np.testing.assert_allclose(action, [one[0] for one, _ in each], rtol=1e-6)
    np.testing.assert_allclose(log_density, sum(one for _, one in each), rtol=1e-6)


# a second implementation


def net(weights, biases, x):
    """Return the outputs of a network for rows x."""
    for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        x = x @ weight.T + bias
        if i < len(weights) - 1:
            x = np.maximum(x, 0)
    return x


def drawn(actor, x, noise):
    """Return actions and log-densities in the simplest form."""
    out = net(*actor, x)
    size = out.shape[1] // 2
    mean, std = out[:, :size], np.exp(np.clip(out[:, size:], -20, 2))
    raw = mean + std * noise
    action = np.tanh(raw)
    return action, (norm.logpdf(raw, mean, std) - np.log(1 - action**2)).sum(axis=1)


def critics_of(critics, valued, action):
    weights, biases = critics
    x = np.concatenate([valued, action], axis=1)
    return np.stack([net([w[k] for w in weights], [b[k] for b in biases], x)[:, 0] for k in (0, 1)])


class Reference:
    """The losses of SAC in NumPy, in double precision."""

    def __init__(self, state, batch, noise, gamma, target_entropy, reach):
        self.weights = jax.tree.map(np.float64, state.weights)
        self.targets = jax.tree.map(np.float64, state.targets)
        self.batch = jax.tree.map(np.float64, batch)
        self.noise, self.gamma, self.target_entropy = np.float64(noise), gamma, target_entropy
        self.reach = reach
        b = self.batch
        # the queue has room for two actions, of which the last is pending
        queue, next_queue = b.seen_queue[:, 1] / reach, b.next_seen_queue[:, 1] / reach
        nothing = np.zeros_like(queue)
        self.decided = np.concatenate([b.seen, nothing, queue], axis=1)
        self.next_decided = np.concatenate([b.next_seen, nothing, next_queue], axis=1)

    def target(self):
        b, w = self.batch, self.weights
        actor = w.actor.weights, w.actor.biases
        action, log_density = drawn(actor, self.next_decided, self.noise[0])
        held = b.fresh == 0
        action[held] = b.action[held] / self.reach
        log_density[held] = 0
        critics = self.targets.weights, self.targets.biases
        value = critics_of(critics, b.next_obs, action).min(axis=0)
        soft = value - np.exp(w.log_temperature) * log_density
        return b.reward + self.gamma * (1 - b.terminated) * soft

    def critic_loss(self, critics):
        pair = critics.weights, critics.biases
        values = critics_of(pair, self.batch.obs, self.batch.action / self.reach)
        return sum(0.5 * np.mean((value - self.target()) ** 2) for value in values)

    def actor_loss(self, actor):
        w, first = self.weights, self.batch.first == 1
        pair = actor.weights, actor.biases
        action, log_density = drawn(pair, self.decided, self.noise[1])
        critics = w.critics.weights, w.critics.biases
        value = critics_of(critics, self.batch.obs, action).min(axis=0)
        return np.mean((np.exp(w.log_temperature) * log_density - value)[first])

    def temperature_slope(self):
        first = self.batch.first == 1
        actor = self.weights.actor.weights, self.weights.actor.biases
        _, log_density = drawn(actor, self.decided, self.noise[1])
        return -np.mean((log_density + self.target_entropy)[first])


def slopes(loss, weights):
    """Return the gradient of a loss by central differences."""
    leaves, shape = jax.tree.flatten(weights)
    found = []
    for i, leaf in enumerate(leaves):
        slope = np.zeros_like(leaf)
        for place in np.ndindex(leaf.shape):
            ends = []
            for by in (1e-6, -1e-6):
                near = leaf.copy()
                near[place] += by
                ends.append(loss(jax.tree.unflatten(shape, [*leaves[:i], near, *leaves[i + 1 :]])))
            slope[place] = (ends[0] - ends[1]) / 2e-6
        found.append(slope)
    return jax.tree.unflatten(shape, found)


@pytest.fixture(scope="module")
def case():
    """A program of the view `projected` with a batch that has ends, held and repeated actions."""
    env = LinearQuadratic(low=-2.0, high=2.0)
    settings = SAC(hidden=(5,), batch_size=12, gamma=0.9, tau=0.1, learning_rate=0.01)
    program, setup, state = parts("projected", 1, 2, settings, env)
    rng = np.random.default_rng(0)

    def numbers(*shape):
        return jnp.float32(rng.uniform(-1.5, 1.5, shape))

    batch = Transition(
        numbers(12, 1),
        jnp.zeros((12, 0, 1)),
        numbers(12, 1),
        numbers(12),
        numbers(12, 1),
        jnp.zeros((12, 0, 1)),
        jnp.float32(rng.random(12) < 0.3),
        numbers(12, 1),
        numbers(12, 2, 1),
        numbers(12, 1),
        numbers(12, 2, 1),
        jnp.array(rng.random(12) < 0.7),
        jnp.array(rng.random(12) < 0.7),
    )
    key = jax.random.key(9)
    noise = jax.random.normal(key, (2, 12, 1))
    reference = Reference(state, batch, noise, 0.9, -1.0, 2.0)
    return program, setup, state, batch, key, noise, reference


@pytest.mark.slow
def test_targets_and_losses_are_those_of_a_second_implementation(case):
    program, setup, state, batch, _, noise, reference = case
    given = sac_inputs.inputs_of(program, setup, batch)
    np.testing.assert_allclose(given.decided, reference.decided, rtol=1e-6)
    target = sac.target_values(state, batch, given, noise[0], 0.9)
    np.testing.assert_allclose(target, reference.target(), rtol=1e-4, atol=1e-5)
    critics = sac.critic_loss(state.weights.critics, given, target)
    np.testing.assert_allclose(critics, reference.critic_loss(reference.weights.critics), rtol=1e-4)
    actor, temperature = sac.actor_losses(state.weights, batch, given, noise[1], -1.0)
    np.testing.assert_allclose(actor, reference.actor_loss(reference.weights.actor), rtol=1e-4)
    log_temperature = float(state.weights.log_temperature)
    np.testing.assert_allclose(
        temperature, log_temperature * reference.temperature_slope(), rtol=1e-4
    )


@pytest.mark.slow
def test_an_update_follows_the_gradients_of_a_second_implementation(case):
    """Adam's first step, against gradients by central differences in double precision."""
    program, setup, state, batch, key, _, reference = case
    new, finite = jax.jit(sac.updated, static_argnums=0)(program, setup, state, batch, key)
    assert finite
    w = reference.weights
    expected = sac.Weights(
        slopes(reference.actor_loss, w.actor),
        slopes(reference.critic_loss, w.critics),
        reference.temperature_slope(),
        (),
    )
    trees = (jax.tree.leaves(tree) for tree in (new.weights, w, expected))
    checked = 0
    for leaves in zip(*trees, strict=True):
        after, before, slope = map(np.atleast_1d, leaves)
        moved = np.float64(after) - before
        clear = np.abs(slope) > 1e-4  # Adam's first step has the sign of the gradient
        np.testing.assert_allclose(moved[clear], -0.01 * np.sign(slope[clear]), rtol=2e-3)
        assert (np.abs(moved[slope == 0]) < 1e-6).all()
        checked += clear.sum()
    assert checked > 40
    moments = jax.tree.leaves(new.moments.mu)  # a tenth of the gradient
    for tenth, slope in zip(moments, jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(10 * tenth, slope, rtol=2e-3, atol=2e-5)
    targets = jax.tree.map(
        lambda old, now: 0.9 * old + 0.1 * np.float64(now), reference.targets, new.weights.critics
    )
    for ours, theirs in zip(jax.tree.leaves(new.targets), jax.tree.leaves(targets), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


# policies


class Lopsided(LinearQuadratic):
    """The same system with two numbers and two actions, whose bounds are not symmetric."""

    def action_space(self, params=None):
        low, high = np.array([-1.0, 2.0], np.float32), np.array([3.0, 2.5], np.float32)
        return spaces.Box(low, high)

    def observation_space(self, params=None):
        return spaces.Box(-np.inf, np.inf, (2,), np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(("delay", "capacity"), [full(0, 0), full(3, 3), (2, 5)])
def test_a_policy_acts_as_the_greedy_action_of_training(agent, delay, capacity):
    """In NumPy and with actions in the environment's units; also with room to spare."""
    settings = SAC(hidden=(16, 16), members=3)
    program, setup, state = parts(agent, delay, capacity, settings, Lopsided())
    rng = np.random.default_rng(2)
    actions = rng.uniform([-1.0, 2.0], [3.0, 2.5], (40, 2)).astype(np.float32)
    if agent == "delayed":
        model = state.model
        for i in range(20):
            obs = rng.normal([3.0, -1.0], [2.0, 0.1], (2, 2)).astype(np.float32)
            item = Transition(obs[0], (), actions[i], 0.0, obs[1], (), False)
            model = CHANGE.seen(model, item, True)
        state = state._replace(model=model)
    arrays = program.learner.policy_arrays(program, state)
    fields = manifests.of_sac(SimpleNamespace(learner=settings), arrays)
    if agent == "delayed":
        fields["model"] = "change"
    manifest = Manifest(agent, VIEWS[agent].sees, delay, **fields)
    assert (manifest.low, manifest.high, manifest.head) == ((-1.0, 2.0), (3.0, 2.5), "bounded")
    policy = NetworkPolicy(manifest, arrays)
    decide = jax.jit(program.learner.decide, static_argnums=0)
    chosen = []
    for i in range(8):
        obs = np.float32(rng.normal([3.0, -1.0], 1.0))
        queue = actions[i : i + capacity]
        actor = actor_at(program, (), jnp.array(obs), jnp.array(queue))
        expected, _ = decide(program, setup, state, actor, jax.random.key(0))
        found = policy.act(obs, queue[capacity - delay :])
        np.testing.assert_allclose(found, expected, atol=1e-5)
        chosen.append(found)
    assert np.ptp(chosen, axis=0).min() > 0.01  # it depends on what it sees


def test_infinite_bounds_are_refused():
    with pytest.raises(ValueError, match="scaled by finite bounds, low below high; got Box"):
        BoxScale(spaces.Box(-np.inf, 1.0, (2,)))


def test_actions_of_any_shape_are_scaled():
    box = spaces.Box(np.full((2, 3), -1.0, np.float32), np.full((2, 3), 5.0, np.float32))
    scale = BoxScale(box)
    action = jnp.linspace(-1.0, 5.0, 6).reshape(2, 3)
    flat = scale.inward(action)
    np.testing.assert_allclose(flat, np.linspace(-1, 1, 6), atol=1e-6)
    np.testing.assert_allclose(scale.outward(flat), action, atol=1e-6)
    assert scale.inward(jnp.stack([action, action])).shape == (2, 6)


# the loops

SMALL = {
    "hidden": (8, 8),
    "batch_size": 8,
    "random_steps": 20,
    "steps": 60,
    "evaluation_episodes": 2,
}


def chunk(agent, delay, steps, env, **settings):
    """Return a run of some steps in the compiled loop, and its program."""
    kept = SAC(hidden=(4,), batch_size=4, buffer_size=100, **settings)
    program, setup, _ = parts(agent, delay, delay, kept, env)
    setups = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], setup)
    runs, _ = run_chunk(program, setups, begin_all(program, setups), jnp.int32(0), steps)
    return runs, program


@pytest.mark.slow
def test_without_a_delay_all_views_give_the_same_bits():
    runs = {agent: chunk(agent, 0, 40, LinearQuadratic(), random_steps=10)[0] for agent in AGENTS}
    first = runs["oblivious"]
    assert first.learner.updates.tolist() == [31]
    for agent, found in runs.items():
        for name in ("actor", "critics", "log_temperature"):
            pair = (jax.tree.leaves(getattr(r.learner.weights, name)) for r in (found, first))
            for ours, theirs in zip(*pair, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=0, atol=ROUNDING, err_msg=agent)
        np.testing.assert_allclose(
            found.actors.env.x, first.actors.env.x, rtol=0, atol=ROUNDING, err_msg=agent
        )


@pytest.mark.slow
@pytest.mark.parametrize("env", [full("pendulum"), full("gym:Pendulum-v1")])
def test_without_a_delay_records_of_all_views_are_the_same(env):
    results = {agent: deadtime.train(env, agent, 0, **SMALL).record for agent in AGENTS}
    first = results["oblivious"]
    assert first.status == ["complete"]
    layers = [name for name in first.policies if "layer/" in name]
    assert len(layers) == 6
    for agent, found in results.items():
        assert found.scores == first.scores, agent
        for name in layers:
            np.testing.assert_array_equal(found.policies[name], first.policies[name], agent)


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["augmented", full("oblivious"), full("delayed")])
def test_rows_begin_where_the_episode_chose_the_action_and_truncation_is_no_end(agent):
    """Episodes of 6 steps under a delay of 2: executed actions are the episode's from step 2 on."""
    env = LinearQuadratic(LqParams(max_steps_in_episode=6))
    runs, program = chunk(agent, 2, 18, env, random_steps=1000)
    stored = int(runs.replay.stored[0])
    executed = VIEWS[agent].credits == "executed"
    assert stored == (12 if executed else 18)
    rows = transitions(runs.replay.rows[0, :stored], layout_of(program))
    assert not rows.terminated.any()
    assert (rows.action != env.warmup).all()
    acted = rows.action[:, 0] if executed else None
    each = stored // 3
    for i in range(stored):
        obs, reached = float(rows.obs[i, 0]), float(rows.next_obs[i, 0])
        if i % each < each - 1:
            assert reached == float(rows.obs[i + 1, 0])
        elif i + 1 < stored:
            assert reached != float(rows.obs[i + 1, 0])  # the last state, not the next start
        if acted is not None:
            assert abs(reached - obs - 0.5 * acted[i]) < 5 * 0.2
            assert abs(rows.reward[i] + obs**2 + 0.1 * acted[i] ** 2) < 1e-5
        elif agent == "augmented":
            oldest = float(rows.queue[i, 0, 0])
            assert abs(rows.reward[i] + obs**2 + 0.1 * oldest**2) < 1e-5
            assert (float(rows.queue[i, 0, 0]) == np.float32(env.warmup)) == (i % 6 < 2)
            np.testing.assert_array_equal(rows.next_queue[i, 1], rows.action[i])


@pytest.mark.slow
@pytest.mark.parametrize("env", [full("pendulum"), "gym:Pendulum-v1"])
def test_a_run_is_recorded_loaded_and_acts_within_the_bounds(env, tmp_path):
    """Under a delay that varies, of which the queue holds the longest age."""
    result = deadtime.train(env, "augmented", "uniform:1-2", **SMALL)
    policy = deadtime.load(result.save(tmp_path / "kept"))
    assert (policy.action_shape, policy.delay) == ((1,), 2)
    for queue in (np.zeros((2, 1)), np.full((2, 1), 2.0)):
        action = policy.act(np.array([0.3, -0.9, 4.0]), queue, ages=2)
        assert action.shape == (1,)
        assert np.abs(action) <= 2.0
    scores = deadtime.evaluate(policy, env, episodes=2)
    assert ((scores < 0) & (scores > -2000)).all()


def test_the_spec_says_which_settings_and_presets_there_are():
    spec = DeepSpec("pendulum", "delayed", 3)
    assert spec.learner == SAC()
    assert spec.canonical() == {"kind": "deep", "env": "pendulum", "agent": "delayed", "delay": 3}
    with pytest.raises(ValueError, match="preset paper is for numbered actions"):
        DeepSpec("pendulum", "delayed", 3, "paper")
    with pytest.raises(ValueError, match="pendulum has no agent 'shifted'"):
        DeepSpec("pendulum", "shifted", 3)
    with pytest.raises(ValueError, match="augmented predicts nothing, so members would do nothing"):
        DeepSpec("pendulum", "augmented", 3, changes={"members": 3})
    assert DeepSpec("pendulum", "augmented", changes={"random_steps": 0}).learner.random_steps == 0


@pytest.mark.full
@pytest.mark.parametrize(
    ("agent", "delay", "least"),
    [("oblivious", 0, -250), ("delayed", 3, -450), ("augmented", 3, -450), ("projected", 3, -450)],
)
def test_sac_swings_the_pendulum_up(agent, delay, least):
    """Random torques earn about -1230; the best undelayed return is about -145."""
    settings = {"hidden": (64, 64), "batch_size": 128, "random_steps": 500, "learning_rate": 1e-3}
    result = deadtime.train("pendulum", agent, delay, steps=15_000, **settings)
    assert result.scores[0] > least
