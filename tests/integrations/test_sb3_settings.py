"""tools/sb3_settings.py gives deadtime's DQN all that Stable-Baselines3's DQN has."""

import importlib.util
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="needs pip install '.[sb3]'")
pytestmark = pytest.mark.full

import jax
import jax.numpy as jnp
import torch
from stable_baselines3 import DQN

from deadtime import ActionDelay, AugmentObservation
from deadtime.learn import compiled_loop, deep_q
from deadtime.learn.compiled_groups import program_of, setups_of
from deadtime.learn.networks import MLP
from deadtime.learn.replay import Transition
from deadtime.runs.deep_specs import DeepSpec

torch.set_num_threads(1)
ROOT = Path(__file__).parents[2]
DELAY, STEPS = 8, 50_000


def module(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def tool(monkeypatch):
    """The tool, with its parts in place until the end of a test."""
    for place, name in (
        (deep_q, "DEEP_Q"),
        (deep_q, "Adam"),
        (deep_q, "new_mlp"),
        (deep_q, "sample"),
        (compiled_loop, "start_queue"),
    ):
        monkeypatch.setattr(place, name, getattr(place, name))
    found = module("tools/sb3_settings.py")
    found.replace_parts()
    return found


@pytest.fixture
def ours(tool):
    """Our program for `queue`, and the setup of one run."""
    changes = tool.SETTINGS | tool.OTHERS["queue"]
    spec = DeepSpec("cartpole", tool.AGENTS["queue"], DELAY, steps=STEPS, changes=changes)
    setup = jax.tree.map(lambda part: part[0], setups_of([(spec, 0)], 1))
    return program_of(spec, "cpu"), setup


@pytest.fixture
def theirs():
    env = AugmentObservation(ActionDelay(gym.make("CartPole-v1"), DELAY), flat=True)
    settings = module("examples/sb3_under_delay.py").SETTINGS
    return DQN("MlpPolicy", env, seed=0, device="cpu", **settings)


def layers(net):
    return [layer for layer in net.q_net if hasattr(layer, "weight")]


def array(tensor):
    return jnp.array(tensor.detach().numpy().copy())


def padded(weight, more):
    """Return a first layer with inputs for `more` unused places of the queue."""
    return jnp.concatenate([weight[:, :4], jnp.ones((len(weight), 2 * more)), weight[:, 4:]], 1)


def network(net, more):
    weights = [array(layer.weight) for layer in layers(net)]
    biases = [array(layer.bias) for layer in layers(net)]
    return MLP([padded(weights[0], more), *weights[1:]], biases)


def transitions(rows, more):
    """Return a batch of Stable-Baselines3's as ours."""

    def parts(seen):
        seen = seen.numpy()
        queue = seen[:, 4:].reshape(len(seen), DELAY, 2).argmax(2).astype(np.int32)
        return seen[:, :4], np.pad(queue, ((0, 0), (more, 0)))

    (obs, queue), (next_obs, next_queue) = parts(rows.observations), parts(rows.next_observations)
    action, reward, terminated = (
        part.numpy()[:, 0] for part in (rows.actions, rows.rewards, rows.dones)
    )
    action = action.astype(np.int32)
    return Transition(obs, queue, action, reward, next_obs, next_queue, terminated)


def test_updates_from_the_same_batches_are_the_same(tool, ours, theirs):
    program, setup = ours
    more = program.queue_room - DELAY
    theirs.learn(300)  # only random actions
    assert theirs._n_updates == 0
    theirs.policy.double()  # Adam makes rounding visible where gradients are near 0
    for net in (theirs.q_net, theirs.q_net_target):
        net.extract_features = lambda obs, _: obs  # otherwise it rounds
    with torch.no_grad():
        for part in theirs.q_net_target.parameters():
            part.mul_(0.5)
    batches = [theirs.replay_buffer.sample(64) for _ in range(20)]
    batches = [type(rows)(*(part.double() for part in rows[:-1]), None) for rows in batches]
    assert sum(float(rows.dones.sum()) for rows in batches) > 0
    for rows in batches[::2]:  # so large that gradients are clipped
        rows.observations[:, :4] *= 300
    given = iter(batches)
    theirs.replay_buffer.sample = lambda *_, **__: next(given)
    with jax.enable_x64(True):
        numbers = {name: jnp.float64(tool.SETTINGS[name]) for name in ("learning_rate", "gamma")}
        setup = setup._replace(numbers=setup.numbers._replace(**numbers))
        q, target = network(theirs.q_net, more), network(theirs.q_net_target, more)
        state = program.learner.init(program, setup, setup.key)
        state = state._replace(q=q, target=target, moments=deep_q._adam(program).init(q))

        @jax.jit
        def updated(state, rows):
            deep_q.sample = lambda *_: rows
            return deep_q.updated(program, setup, state, None, None, None, 2000, None)[0]

        for rows in batches:
            state = updated(state, jax.tree.map(jnp.asarray, transitions(rows, more)))
        theirs.train(len(batches), 64)
        after = network(theirs.q_net, more)
        for mine, other in zip(jax.tree.leaves(state.q), jax.tree.leaves(after), strict=True):
            np.testing.assert_allclose(mine, other, atol=1e-7)
        assert float(jnp.abs(after.weights[1] - q.weights[1]).max()) > 1e-3


def test_initial_weights_have_the_same_limits(ours, theirs):
    program, setup = ours
    mine = program.learner.init(program, setup, setup.key).q
    other = network(theirs.q_net, 0)
    for one, two in zip(jax.tree.leaves(mine), jax.tree.leaves(other), strict=True):
        if one.size > 2:
            assert float(jnp.abs(one).max()) == pytest.approx(float(jnp.abs(two).max()), rel=0.1)


@pytest.mark.parametrize("updates", [1, 500, 4000, 4500, 20_000])
def test_random_actions_have_the_same_probability(tool, theirs, updates):
    step = tool.FIRST_UPDATE + 2 * updates
    floor = theirs.exploration_final_eps
    probability = float(tool.explored(jnp.int32(updates), floor))
    assert probability == pytest.approx(theirs.exploration_schedule(1 - step / STEPS), abs=1e-6)
    assert float(tool.explored(jnp.int32(0), floor)) == 1


def test_episodes_begin_with_random_actions(ours, theirs):
    program, setup = ours
    keys = jax.random.split(jax.random.key(0), 200)
    queues = jax.vmap(lambda key: compiled_loop.start(program, setup, key)[2])(keys)
    mine = np.asarray(queues)[:, -DELAY:]
    env = theirs.get_env().envs[0]
    other = np.array([env.reset()[1]["pending_actions"] for _ in keys])
    for actions in (mine, other):
        assert np.mean(actions[:, 1:] == actions[:, :-1]) == pytest.approx(0.5, abs=0.06)
