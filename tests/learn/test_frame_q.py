"""Double DQN on frames: convolutions as products, the replay, and learning where Q is known."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from deadtime.envs.pools import Played
from deadtime.learn import frame_q, frame_replay
from deadtime.learn.frame_networks import new_q, new_torso, one_hot_queue
from deadtime.learn.host_turn import Turn
from deadtime.learn.program import Program, Setup
from deadtime.learn.settings import PixelQ
from deadtime.runtime.frame_layers import CONVOLUTIONS, MOST_ACTIONS
from deadtime.runtime.views import CHOSEN, EXECUTED, QUEUE, STATE, Code
from tests.commands import full

pytestmark = pytest.mark.slow

TINY = PixelQ(
    channels=(4, 4, 4),
    hidden=16,
    buffer_size=400,
    learning_starts=0,
    learning_rate=1e-3,
    batch_size=16,
)


def setups(runs=2, delay=0, actions=3, sees_queue=False, executed=True, steps=1000):
    def each(value, kind):
        return jnp.full(runs, value, kind)

    keys = jax.vmap(jax.random.key)(jnp.arange(runs, dtype=jnp.uint32))
    code = Code(
        each(QUEUE if sees_queue else STATE, int),
        each(EXECUTED if executed else CHOSEN, int),
        each(False, bool),
    )
    return Setup(keys, each(delay, int), (), each(steps, int), (), code, each(actions, int))


def program_of(settings, capacity, lanes):
    return Program(None, None, settings, capacity, lanes)


def played_of(shown, queue, age, frame):
    """What is seen; of what came of it nothing is known."""
    none = np.zeros(age.shape, bool)
    return Played(shown, queue, age, *[none] * 7, frame=frame)


def turns(rng, program, runs, count, delay=0):
    """Random turns of games with ends, and all stacks: (turn, run, lane) -> frames."""
    at = runs, program.lanes
    age, stacks, found = np.zeros(at, np.int32), np.zeros((*at, 4, 84, 84), np.uint8), []
    fresh = np.ones(at, bool)
    for _ in range(count):
        frame = rng.integers(0, 256, (*at, 84, 84)).astype(np.uint8)
        moved = np.concatenate([stacks[:, :, 1:], frame[:, :, None]], axis=2)
        stacks = np.where(fresh[..., None, None, None], frame[:, :, None], moved)
        age = np.where(fresh, 0, age)
        terminated, truncated = rng.random(at) < 0.1, rng.random(at) < 0.05
        before = played_of(
            stacks, rng.integers(0, 3, (*at, program.capacity)).astype(np.uint8), age, frame
        )
        after = before._replace(
            executed=rng.integers(0, 3, at),
            reward=rng.normal(size=at).astype(np.float32),
            terminated=terminated,
            truncated=truncated & ~terminated,
            life_lost=rng.random(at) < 0.1,
            lost=rng.random(at) < 0.03,
        )
        turn = Turn(before, rng.integers(0, 3, at), after)
        found.append(turn)
        fresh, age = terminated | truncated | after.lost, age + 1
    return found


@pytest.mark.parametrize("layer", range(3))
def test_products_over_patches_are_convolutions(layer):
    size, stride = CONVOLUTIONS[layer]
    torso = new_torso(jax.random.key(0), (5, 6, 7))
    side, into = (84, 20, 9)[layer], (4, 5, 6)[layer]
    x = np.random.default_rng(0).normal(size=(side, side, into)).astype(np.float32)
    weight = torso.weights[layer]
    ours = pixel_q_patches(x, size, stride) @ weight
    steps = size // stride
    kernel = weight.reshape(steps, steps, stride, stride, into, -1)
    kernel = jnp.transpose(kernel, (0, 2, 1, 3, 4, 5)).reshape(size, size, into, -1)
    theirs = jax.lax.conv_general_dilated(
        x[None],
        kernel,
        (stride, stride),
        "VALID",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision="highest",
    )[0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def pixel_q_patches(x, size, stride):
    from deadtime.learn.frame_networks import patches

    return patches(jnp.asarray(x), size, stride)


def test_q_of_a_game_is_of_its_own_actions():
    frames = np.random.default_rng(0).integers(0, 256, (4, 84, 84)).astype(np.uint8)
    for settings in (TINY, replace(TINY, dueling=False, layer_norm=False)):
        q = new_q(jax.random.key(1), settings, 2 * MOST_ACTIONS)
        queue = one_hot_queue(jnp.array([2, 1]), 1, True)
        values = np.asarray(q(frames, queue, 5))
        assert np.isfinite(values[:5]).all()
        assert (values[5:] == -np.inf).all()
    np.testing.assert_array_equal(
        queue.reshape(2, -1).argmax(axis=1) * queue.reshape(2, -1).sum(axis=1), [0, 1]
    )
    dueling = new_q(jax.random.key(1), TINY, 0)
    whole = np.asarray(dueling(frames, jnp.zeros(0), 18))
    hidden = jax.nn.relu(dueling.norm(dueling.hidden @ dueling.torso(frames) + dueling.hidden_bias))
    scores = np.asarray(dueling.out @ hidden + dueling.out_bias)
    np.testing.assert_allclose(
        whole, scores[-1] + scores[:-1] - scores[:-1].mean(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("executed", [True, False])
@pytest.mark.parametrize("count", [full(12), 37])
def test_a_sampled_transition_is_one_that_was_played(count, executed):
    """Of the executed action, and then not of the warm-up; or of the chosen one."""
    rng, program, delay = (
        np.random.default_rng(count),
        program_of(replace(TINY, buffer_size=60), 3, 3),
        2,
    )
    told = setups(delay=delay, executed=executed)
    state, played = frame_q.begin(program, told), turns(rng, program, 2, count, delay)
    for i, turn in enumerate(played):
        state = frame_q.learn(
            program, told, state, frame_replay.row_of(program, told, turn), np.int32(i), 0
        )
    batch = frame_replay.sample(
        program, state.replay, jnp.int32(count - 1), jax.random.split(jax.random.key(5), 2)
    )
    truth = {}
    for i in range(count - 1):
        now, then = played[i], played[i + 1]
        came = now.after
        terminal = came.terminated | came.life_lost
        for run, lane in np.ndindex(2, 3):
            cut = came.truncated[run, lane] and not terminal[run, lane]
            if (
                not came.lost[run, lane]
                and not cut
                and (not executed or now.before.age[run, lane] >= delay)
            ):
                key = now.before.frame[run, lane].tobytes()
                truth[run, key] = now, then, lane, terminal[run, lane], i
    seen = set()
    for run, entry in np.ndindex(2, TINY.batch_size):
        (before, queue), (after, next_queue) = (
            [np.asarray(leaf[run, entry]) for leaf in part] for part in (batch.now, batch.then)
        )
        if not batch.weight[run, entry]:
            continue
        now, then, lane, terminal, i = truth[run, before[3].tobytes()]
        seen.add(i)
        np.testing.assert_array_equal(before, now.before.shown[run, lane])
        np.testing.assert_array_equal(after[:3], before[1:])
        assert (
            batch.action[run, entry] == (now.after.executed if executed else now.chosen)[run, lane]
        )
        assert batch.reward[run, entry] == now.after.reward[run, lane]
        assert batch.terminal[run, entry] == terminal
        np.testing.assert_array_equal(queue, now.before.queue[run, lane])
        if not terminal:
            np.testing.assert_array_equal(after, then.before.shown[run, lane])
            np.testing.assert_array_equal(next_queue, then.before.queue[run, lane])
    oldest = max(count - frame_replay.rows(program), 0) + 3
    assert min(seen) >= oldest
    assert len(seen) > 3
    assert executed or any(played[i].before.age.min() < delay for i in seen)


def probe(steps=900):
    """A game of two frames, dark and bright; only action 1 in the bright one earns 1."""
    program = program_of(
        replace(TINY, gamma=0.5, clip_rewards=False, target_period_updates=20), 0, 4
    )
    told = setups(1, 0, 2, steps=steps)
    rng, state = np.random.default_rng(0), frame_q.begin(program, told)
    bright, age = np.zeros((1, 4), bool), np.zeros((1, 4), np.int32)
    for i in range(steps // 4):
        frame = np.where(bright, 200, 20)[..., None, None] * np.ones((84, 84))
        frame = frame.astype(np.uint8)
        shown = np.repeat(frame[:, :, None], 4, axis=2)
        shown[:, :, :3] = np.where(bright, 20, 20)[..., None, None, None]
        action = rng.integers(0, 2, (1, 4))
        queue = np.zeros((1, 4, program.capacity), np.uint8)
        reward = (bright & (action == 1)).astype(np.float32)
        before = played_of(shown, queue, age, frame)
        turn = Turn(
            before, action, before._replace(executed=action, reward=reward, terminated=bright)
        )
        state = frame_q.learn(
            program,
            told,
            state,
            frame_replay.row_of(program, told, turn),
            np.int32(i),
            2 if i > 5 else 0,
        )
        age, bright = np.where(bright, 0, age + 1).astype(np.int32), ~bright
    dark = np.full((4, 84, 84), 20, np.uint8)
    lit = dark.copy()
    lit[3] = 200
    q = jax.tree.map(lambda leaf: leaf[0], state.learner.q)
    nothing = jnp.zeros(program.capacity * MOST_ACTIONS)
    return np.asarray(q(dark, nothing, 2))[:2], np.asarray(q(lit, nothing, 2))[:2]


@pytest.mark.full
def test_it_learns_values_that_are_known():
    dark, lit = probe()
    np.testing.assert_allclose(lit, [0, 1], atol=0.1)
    np.testing.assert_allclose(dark, [0.5, 0.5], atol=0.1)


@pytest.mark.parametrize("sees_queue", [True, False])
def test_a_queue_is_seen_by_who_is_to_see_it(sees_queue):
    program, frames = (
        program_of(TINY, 3, 2),
        np.random.default_rng(0).integers(0, 256, (4, 84, 84)).astype(np.uint8),
    )
    told = setups(1, 2, 5, sees_queue)
    q = jax.tree.map(lambda leaf: leaf[0], frame_q.begin(program, told).learner.q)
    setup = jax.tree.map(lambda leaf: leaf[0], told)
    found = [
        np.asarray(frame_q.values(program, setup, q, frames, jnp.array(queue)))[:5]
        for queue in ([0, 1, 2], [4, 1, 2], [0, 1, 3])
    ]
    np.testing.assert_array_equal(found[0], found[1])  # it has room for three, and two are pending
    assert (found[0] != found[2]).any() == sees_queue


def test_updates_belong_to_turns():
    for lanes, period in ((8, 4), (1, 4), (3, 4), (16, 4)):
        program = program_of(replace(TINY, update_period=period, learning_starts=40), 0, lanes)
        begun = next(i for i in range(1000) if frame_q.updates_at(program, i))
        assert (
            begun * lanes >= 40 > (begun - max(period, lanes) // lanes) * lanes - period
            or begun == 5
        )
        total = sum(frame_q.updates_at(program, i) for i in range(begun, begun + 100))
        assert abs(total - 100 * lanes / period) <= 1
