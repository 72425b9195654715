"""The recurrent learner on frames: a second implementation, a memory probe, and Breakout."""

from dataclasses import replace
from threading import Event

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import deadtime
from deadtime.envs.pools import Played
from deadtime.learn import frame_actor_critic, host_loop, host_programs, host_scores, trainer
from deadtime.learn.a2c import Memory, new_state, nothing, step_loss
from deadtime.learn.frame_a2c import Came, new_frame_actor_critic
from deadtime.learn.frame_actor_critic import FRAME_ACTOR_CRITIC, FrameActorCritic
from deadtime.learn.frame_networks import MOST_ACTIONS
from deadtime.learn.host_loop import HostGroup
from deadtime.learn.host_turn import Turn
from deadtime.learn.program import Program, Setup
from deadtime.learn.settings import PixelA2C
from deadtime.runs.deep_specs import deep_spec
from deadtime.runtime.views import CHOSEN, HISTORY, Code
from tests.commands import recorded

TINY = PixelA2C(
    channels=(4, 4, 4),
    hidden=8,
    lstm=6,
    rollout=4,
    learning_rate=0.02,
    gamma=0.9,
    entropy_weight=0.1,
)
SHOWN = (4, 84, 84)
pytestmark = pytest.mark.xdist_group("a2c")


def setups_of(actions):
    runs = len(actions)
    keys = jax.vmap(jax.random.key)(jnp.arange(runs))
    code = Code(*(jnp.full(runs, each) for each in (HISTORY, CHOSEN, False)))
    return Setup(
        keys, jnp.zeros(runs, jnp.int32), (), jnp.full(runs, 10**6), (), code, jnp.array(actions)
    )


def program_of(settings, lanes):
    return Program(None, None, settings, 0, lanes)


def seen_of(shown, age):
    """What is seen; of what came of it nothing is known."""
    none = np.zeros(age.shape, bool)
    return Played(shown, none, age, *[none] * 7)._replace(reward=np.zeros(age.shape, np.float32))


def turn_of(seen, chosen=None, **facts):
    """A turn of which only what matters here is filled in."""
    return Turn(seen, chosen, seen._replace(**facts))


def decided(program, setups, learner, memory, shown):
    seen = seen_of(shown, np.zeros(shown.shape[:2], np.int32))
    return FRAME_ACTOR_CRITIC.decide(program, setups, learner, memory, seen)


def new(settings):
    return jax.jit(lambda: new_frame_actor_critic(jax.random.key(0), settings))()


def pick(tree, i):
    return jax.tree.map(lambda leaf: leaf[i], tree)


@pytest.mark.slow
def test_actions_that_a_game_lacks():
    """Missing actions have no probability, entropy or gradient, and do not change the others."""
    net, frames = new(TINY), np.random.default_rng(0).integers(0, 256, SHOWN, np.uint8)
    memory = Memory(jnp.linspace(-1, 2, TINY.lstm), jnp.linspace(0.5, -0.5, TINY.lstm))

    def loss(net):
        _, logits, value = net(memory, frames, jnp.int32(4))
        return step_loss(logits, value, 3, 2.0, 0.25, 0.01), (logits, value)

    (found, (logits, value)), slope = jax.jit(jax.value_and_grad(loss, has_aux=True))(net)
    policy = np.asarray(jax.nn.softmax(logits))
    assert logits.shape == (MOST_ACTIONS,)
    assert policy.sum() == pytest.approx(1)
    assert (policy[:4] > 0).all()
    assert not policy[4:].any()
    drawn = jax.random.categorical(jax.random.key(1), logits, shape=(1000,))
    assert set(np.asarray(drawn)) == {0, 1, 2, 3}
    assert found == pytest.approx(float(step_loss(logits[:4], value, 3, 2.0, 0.25, 0.01)), rel=1e-5)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(slope)]
    assert all(np.isfinite(leaf).all() and leaf.any() for leaf in leaves)
    assert not np.asarray(slope.out)[4:-1].any()
    assert not np.asarray(slope.out_bias)[4:-1].any()


@pytest.mark.slow
def test_first_weights_are_stable_baselines_own():
    """Orthogonal weights: √2 up to the hidden layer, 1 after it; the first layer divides by 255."""
    net = jax.tree.map(np.asarray, new(PixelA2C(channels=(4, 8, 8), hidden=16, lstm=32)))
    first, *others = net.torso.weights
    before, after = (
        [255.0 * first, *others, net.hidden],
        [net.lstm.from_input, net.lstm.from_output, net.out[:-1], net.out[-1:]],
    )
    for w, size in [*((w, 2) for w in before), *((w, 1) for w in after)]:
        gram = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
        np.testing.assert_allclose(gram, size * np.eye(min(w.shape)), atol=1e-4)
    assert not any(
        bias.any() for bias in (*net.torso.biases, net.hidden_bias, net.lstm.bias, net.out_bias)
    )


@pytest.mark.parametrize("life_loss", [False, True])
@pytest.mark.parametrize("clip_rewards", [False, True])
def test_what_is_learned_of_a_turn(life_loss, clip_rewards):
    """One lane each: a plain step, terminated, life lost, truncated, both, and a dead worker."""
    program = program_of(
        replace(TINY, rollout=3, life_loss=life_loss, clip_rewards=clip_rewards), 6
    )
    came = Came(*(jnp.zeros((3, 1, 6), kind) for kind in (jnp.float32, bool, bool)))
    state = frame_actor_critic.State((), (), (), (), came)
    reward = np.array([[3.0, -2.0, 0.5, 0.0, -0.1, 7.0]], np.float32)
    facts = {"terminated": [1], "life_lost": [1, 2, 4], "truncated": [3, 4], "lost": [5]}
    facts = {name: np.isin(np.arange(6), lanes)[None] for name, lanes in facts.items()}
    seen = seen_of(np.zeros((1, 6, *SHOWN), np.uint8), np.ones((1, 6), np.int32))
    turn = turn_of(seen, reward=reward, **facts)
    came = jax.tree.map(np.asarray, FRAME_ACTOR_CRITIC.learn(program, None, state, turn, 7).came)
    np.testing.assert_array_equal(
        came.reward[1, 0], [1, -1, 1, 0, -1, 1] if clip_rewards else reward[0]
    )
    np.testing.assert_array_equal(
        came.terminal[1, 0], [False, True, life_loss, False, life_loss, False]
    )
    np.testing.assert_array_equal(came.known[1, 0], [True, True, True, False, life_loss, False])
    assert not any(part[[0, 2]].any() for part in came)


class Reference:
    """One run by loops over lanes and steps; its policy is over the game's own actions alone."""

    def __init__(self, settings, net, actions, lanes):
        self.settings, self.actions = settings, actions
        self.net = jax.tree.map(np.asarray, net)
        self.squares = jax.tree.map(lambda leaf: np.full_like(leaf, settings.rms_start), self.net)
        self.memory = self.begun = [nothing(settings.lstm)] * lanes
        self.turns = []

    def before(self, age):
        """What each lane remembers before it sees something of that age."""
        return [
            nothing(self.settings.lstm) if a == 0 else memory
            for a, memory in zip(age, self.memory, strict=True)
        ]

    def act(self, shown, age):
        """The logits; what is seen is remembered."""
        seen = [
            heard(self.net, memory, frames)
            for memory, frames in zip(self.before(age), shown, strict=True)
        ]
        self.memory = [memory for memory, _, _ in seen]
        return np.array([logits for _, logits, _ in seen])[:, : self.actions]

    def update(self, shown, age):
        """From the turns so far, which led to what is shown."""
        self.begun, begun = self.before(age), self.begun
        after = [
            float(heard(self.net, memory, frames)[2])
            for memory, frames in zip(self.begun, shown, strict=True)
        ]
        gradient = jax.tree.map(np.asarray, jax.grad(self.loss)(self.net, begun, after))
        norm = np.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(gradient)))
        gradient = jax.tree.map(
            lambda leaf: leaf * min(1.0, self.settings.gradient_norm / norm), gradient
        )
        decay, tiny, rate = (
            self.settings.rms_decay,
            self.settings.rms_epsilon,
            self.settings.learning_rate,
        )
        self.squares = jax.tree.map(
            lambda old, g: decay * old + (1 - decay) * g**2, self.squares, gradient
        )
        self.net = jax.tree.map(
            lambda w, g, square: w - rate * g / np.sqrt(square + tiny),
            self.net,
            gradient,
            self.squares,
        )
        self.net = jax.tree.map(lambda w: w.astype(np.float32), self.net)
        self.turns = []

    def loss(self, net, begun, after):
        turns, settings, total = self.turns, self.settings, 0.0
        for i in range(len(begun)):
            memory, seen = begun[i], []
            for turn in turns:
                memory = nothing(settings.lstm) if turn.before.age[i] == 0 else memory
                memory, logits, value = heard(net, memory, turn.before.shown[i])
                seen.append((logits[: self.actions], value))
            for j, (logits, value) in enumerate(seen):
                if not unknown(turns[j], i):
                    gained = self.gained(
                        i, j, [float(jax.lax.stop_gradient(value)) for _, value in seen], after[i]
                    )
                    total += loss_of(
                        logits,
                        value,
                        turns[j].chosen[i],
                        gained,
                        settings.value_weight,
                        settings.entropy_weight,
                    )
        return total / len(begun) / len(turns)

    def gained(self, i, j, values, after):
        """Rewards from step j on, as far as they are known, and the value of what comes then."""
        gained, weight = 0.0, 1.0
        for k in range(j, len(self.turns)):
            gained += weight * float(np.sign(self.turns[k].after.reward[i]))
            weight *= self.settings.gamma
            if terminal(self.turns[k], i):
                return gained
            if k + 1 == len(self.turns):
                return gained + weight * after
            if unknown(self.turns[k + 1], i):
                return gained + weight * values[k + 1]


@jax.jit
def heard(net, memory, frames):
    memory = net.lstm(memory, jax.nn.relu(net.hidden @ net.torso(frames) + net.hidden_bias))
    out = net.out @ memory.output + net.out_bias
    return memory, out[:-1], out[-1]


@jax.jit
def loss_of(logits, value, action, gained, value_weight, entropy_weight):
    log = logits - jnp.log(jnp.exp(logits).sum())
    advantage = jax.lax.stop_gradient(gained - value)
    return (
        value_weight * (gained - value) ** 2
        - advantage * log[action]
        + entropy_weight * (jnp.exp(log) * log).sum()
    )


def terminal(turn, i):
    return turn.after.terminated[i] or turn.after.life_lost[i]


def unknown(turn, i):
    return turn.after.lost[i] or (turn.after.truncated[i] and not terminal(turn, i))


ACTIONS, LANES, ROLLOUTS = (4, MOST_ACTIONS), 3, 3
RUNS, PROGRAM = len(ACTIONS), program_of(TINY, LANES)
ENDS = {
    "terminated": [(1, 0, 0), (7, 1, 1), (10, 0, 2)],
    "life_lost": [(2, 1, 0), (5, 0, 1), (10, 0, 2), (11, 1, 0), (9, 1, 2)],
    "truncated": [(2, 0, 2), (3, 1, 2), (4, 0, 0), (6, 1, 0), (9, 1, 2)],
    "lost": [(1, 1, 1), (3, 0, 1), (8, 0, 0), (10, 1, 1)],
}
"""(turn, run, lane): in the midst of rollouts of 4 turns, at their beginnings and at their ends."""


@pytest.mark.slow
def test_against_a_second_implementation():
    """On the first suitable data: with an activation within rounding of 0, the two may differ."""
    for seed in (1, 2, 3, 0):
        try:
            return compare_with_a_second_implementation(seed)
        except AssertionError:
            if not seed:
                raise


def compare_with_a_second_implementation(seed):
    setups, rng = setups_of(ACTIONS), np.random.default_rng(seed)
    state, age = frame_actor_critic.begin(PROGRAM, setups), np.zeros((RUNS, LANES), np.int32)
    begun = jax.tree.map(np.asarray, state.learner.net)
    twins = [Reference(TINY, pick(begun, i), ACTIONS[i], LANES) for i in range(RUNS)]
    for index in range(ROLLOUTS * TINY.rollout + 1):
        seen, t = seen_of(rng.integers(0, 256, (RUNS, LANES, *SHOWN), np.uint8), age), index * LANES
        actions, state = FRAME_ACTOR_CRITIC.choose(PROGRAM, setups, state, seen, t)
        for i, twin in enumerate(twins):
            if index and index % TINY.rollout == 0:
                twin.update(seen.shown[i], age[i])
            logits = np.full((LANES, MOST_ACTIONS), -np.inf, np.float32)
            logits[:, : ACTIONS[i]] = twin.act(seen.shown[i], age[i])
            key = jax.random.fold_in(jax.random.fold_in(setups.key[i], 1), t)
            np.testing.assert_array_equal(actions[i], jax.random.categorical(key, logits))
            for found, expected in zip(state.memory, zip(*twin.memory, strict=True), strict=True):
                np.testing.assert_allclose(found[i], np.array(expected), rtol=1e-3, atol=1e-4)
        facts = {name: np.zeros(age.shape, bool) for name in ENDS}
        for name, run, lane in (
            (name, run, lane)
            for name, places in ENDS.items()
            for at, run, lane in places
            if at == index
        ):
            facts[name][run, lane] = True
        reward = rng.integers(-1, 2, age.shape) * rng.random(age.shape, np.float32)
        turn = turn_of(seen, np.asarray(actions), reward=reward, **facts)
        for i, twin in enumerate(twins):
            twin.turns.append(pick(turn, i))
        state = FRAME_ACTOR_CRITIC.learn(PROGRAM, setups, state, turn, index)
        age = np.where(facts["terminated"] | facts["truncated"] | facts["lost"], 0, age + 1)
    for i, twin in enumerate(twins):
        found, expected, before = map(
            jax.tree.leaves, (pick(state.learner.net, i), twin.net, pick(begun, i))
        )
        for a, b, c in zip(found, expected, before, strict=True):
            np.testing.assert_allclose(a - c, b - c, rtol=0.01, atol=1e-5)
        assert np.abs(found[0] - before[0]).max() > 1e-4
    np.testing.assert_array_equal(state.learner.updates, [ROLLOUTS] * RUNS)
    np.testing.assert_array_equal(state.learner.diverged_at, [-1] * RUNS)


def test_a_loss_that_is_not_finite_is_the_end_of_a_run_alone():
    setups = setups_of(ACTIONS)
    state = frame_actor_critic.begin(PROGRAM, setups)
    first = jax.tree.map(np.asarray, state.learner.net)
    for index in range(2 * TINY.rollout + 1):
        reward = np.zeros((RUNS, LANES), np.float32)
        reward[1, 2] = np.nan if index == 1 else 1.0
        seen = seen_of(np.full((RUNS, LANES, *SHOWN), 100, np.uint8), np.full((RUNS, LANES), index))
        turn = turn_of(seen, reward=reward)
        _, state = FRAME_ACTOR_CRITIC.choose(PROGRAM, setups, state, seen, LANES * index)
        state = FRAME_ACTOR_CRITIC.learn(PROGRAM, setups, state, turn, index)
    np.testing.assert_array_equal(state.learner.diverged_at, [-1, LANES * TINY.rollout])
    np.testing.assert_array_equal(state.learner.updates, [2, 0])
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(state.learner.net), strict=True):
        np.testing.assert_array_equal(a[1], b[1])
    assert not np.array_equal(first.out[0], state.learner.net.out[0])


@pytest.mark.full
def test_what_was_shown_a_step_ago_is_remembered():
    """The left or the right is bright at random; the action that names the last side earns 1."""
    settings = replace(
        TINY,
        lstm=16,
        rollout=5,
        learning_rate=0.01,
        rms_start=0.0,
        gamma=0.5,
        entropy_weight=0.01,
    )
    lanes, rng, pictures = 8, np.random.default_rng(0), np.zeros((2, *SHOWN), np.uint8)
    pictures[0, :, :, :42] = pictures[1, :, :, 42:] = 200
    program, setups = program_of(settings, lanes), setups_of((2,))
    state, side, age = (
        frame_actor_critic.begin(program, setups),
        rng.integers(0, 2, (1, lanes)),
        np.zeros((1, lanes), np.int32),
    )
    before = np.full_like(side, -1)
    for index in range(300):
        seen = seen_of(pictures[side], age)
        actions, state = FRAME_ACTOR_CRITIC.choose(program, setups, state, seen, index * lanes)
        over = age == 19
        reward = (np.asarray(actions) == before).astype(np.float32)
        state = FRAME_ACTOR_CRITIC.learn(
            program, setups, state, turn_of(seen, reward=reward, terminated=over), index
        )
        before, age = np.where(over, -1, side), np.where(over, 0, age + 1)
        side = rng.integers(0, 2, side.shape)

    def right(forgets):
        memory, before, found = None, np.full((1, lanes), -1), []
        for _ in range(100):
            side = rng.integers(0, 2, (1, lanes))
            actions, memory = decided(
                program, setups, state.learner, None if forgets else memory, pictures[side]
            )
            found.append((np.asarray(actions) == before).mean())
            before = side
        return np.mean(found)

    assert right(forgets=False) > 0.95
    assert right(forgets=True) < 0.7


SMALL = {
    "channels": (4, 4, 4),
    "hidden": 16,
    "lstm": 16,
    "max_episode_steps": 50,
    "evaluation_episodes": 2,
    "envs": 4,
}


@pytest.fixture(scope="module")
def breakout():
    """A training, and the order in which it chose and learned."""
    pytest.importorskip("ale_py")
    order, choose, learn = [], FrameActorCritic.choose, FrameActorCritic.learn

    def chosen(self, program, setups, state, seen, t, turn=None):
        order.append(("choose", t // program.lanes))
        return choose(self, program, setups, state, seen, t, turn)

    def learned(self, program, setups, state, turn, index):
        order.append(("learn", index))
        np.testing.assert_array_equal(turn.chosen, state.seen.action[index % 5])
        return learn(self, program, setups, state, turn, index)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FrameActorCritic, "choose", chosen)
        patch.setattr(FrameActorCritic, "learn", learned)
        return deadtime.train(
            "atari:Breakout", agent="recurrent", delay=3, steps=240, **SMALL
        ), order


@pytest.mark.full
def test_breakout(breakout):
    """What it learned of a step counts when the next is chosen."""
    result, order = breakout
    assert order == [(what, i) for i in range(60) for what in ("choose", "learn")]
    assert result.record.status == ["complete"]
    assert result.record.episodes == [4]
    assert np.isfinite(result.scores).all()


@pytest.mark.slow
def test_a_policy_acts_as_training_evaluates(breakout, tmp_path):
    result, _ = breakout
    spec, policy = result.spec, deadtime.load(result.save(tmp_path / "kept"))
    program = host_programs.program_of(spec, "cpu")
    setups = host_programs.setups_of(program, [(spec, 0)])
    assert program == program_of(spec.learner, 4)
    like = jax.eval_shape(lambda: new_frame_actor_critic(jax.random.key(0), spec.learner))
    arrays = {name.partition("/")[2]: array for name, array in result.record.policies.items()}
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(like)]
    net = jax.tree.unflatten(jax.tree.structure(like), [arrays[path] for path in paths])
    learner = new_state(jax.tree.map(lambda leaf: leaf[None], net), spec.learner)
    frames, memory, chosen = (
        np.random.default_rng(0).integers(0, 256, (30, 1, 2, *SHOWN), np.uint8),
        None,
        [],
    )
    for shown in frames:
        actions, memory = decided(program, setups, learner, memory, shown)
        chosen.append(int(actions[0, 1]))
    assert len({*chosen}) > 1
    assert [policy.act(shown[0, 1], (0, 1, 2)) for shown in frames] == chosen
    twin = policy.at_delay(5)
    assert (twin.delay, policy.delay) == (5, 3)
    for _ in range(2):
        assert [twin.act(shown[0, 1]) for shown in frames[:5]] == chosen[:5]
        twin.reset()
    assert deadtime.evaluate(policy, "atari:Breakout", episodes=1, max_episode_steps=20).shape == (
        1,
    )
    with pytest.raises(ValueError, match="the last 4 frames"):
        policy.act(np.zeros(4))


@pytest.mark.full
def test_resuming_is_bit_exact(breakout, tmp_path, monkeypatch):
    """Interrupted in the midst of a rollout and of episodes."""
    monkeypatch.setattr(host_loop, "_BURST_SECONDS", -1.0)
    straight, pair = breakout[0].record, (breakout[0].spec, 0)
    program, stop, told = host_programs.program_of(pair[0], jax.default_backend()), Event(), []

    def interrupt(n):
        told.append(n)
        if sum(told) == 4 * 33:
            stop.set()

    assert trainer.train_group(HostGroup(program, [pair]), interrupt, stop, True, tmp_path) == []
    assert len([*tmp_path.iterdir()]) == 1
    steps = []
    (resumed,) = recorded(
        trainer.train_group(HostGroup(program, [pair]), steps.append, Event(), True, tmp_path)
    )
    assert (steps[0], sum(steps)) == (132, 240)
    assert (resumed.status, resumed.scores, resumed.episodes) == (
        straight.status,
        straight.scores,
        straight.episodes,
    )
    np.testing.assert_array_equal(resumed.curve, straight.curve)
    assert resumed.policies.keys() == straight.policies.keys()
    for name, array in straight.policies.items():
        np.testing.assert_array_equal(resumed.policies[name], array)


@pytest.mark.slow
def test_an_evaluated_episode_that_is_lost_is_forgotten(breakout, monkeypatch):
    """A worker dies in the tenth step; its lane begins another episode, the other goes on."""
    from deadtime.envs.atari import pool as atari_pool

    spec = deep_spec("atari:Breakout", "recurrent", 3, SMALL | {"max_episode_steps": 15})
    program = host_programs.program_of(spec, "cpu")
    setups = host_programs.setups_of(program, [(spec, 0)])
    learner, decide, pools, kept = (
        frame_actor_critic.begin(program, setups).learner,
        FrameActorCritic.decide,
        [],
        [],
    )

    def act(self, program, setups, learner, memory, seen):
        kept.append(memory)
        if len(kept) == 10:
            pools[0]._workers[0].kill()
        return decide(self, program, setups, learner, memory, seen)

    def two(games, make=atari_pool.AtariPool):
        pools.append(make(games, 2))
        return pools[0]

    monkeypatch.setattr(atari_pool, "AtariPool", two)
    monkeypatch.setattr(FrameActorCritic, "decide", act)
    assert np.isfinite(
        host_scores.scores_of(program, [(spec, 0)], setups, learner, 2, Event())
    ).all()
    assert len(kept) == 25
    empty = [
        (i, lane)
        for i in range(1, 25)
        for lane in (0, 1)
        if not np.asarray(kept[i].cell[0, lane]).any()
    ]
    assert empty == [(10, 0)]


def test_usual_lanes():
    pytest.importorskip("ale_py")
    assert deep_spec("atari:Breakout", "recurrent", 0, {}).envs == 16
    assert deep_spec("atari:Breakout", "oblivious", 0, {}).envs == 8
    assert "envs" not in deep_spec("atari:Breakout", "recurrent", 0, {"envs": 16}).canonical()
