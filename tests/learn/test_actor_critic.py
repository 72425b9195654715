"""The compiled recurrent learner: known answers, the delay, and the same bits in other chunks."""

import json
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probe import Echo, Recall

import deadtime
from deadtime.cli.main import main
from deadtime.delays.convention import push
from deadtime.envs import family_of, make
from deadtime.learn import compiled_groups
from deadtime.learn.a2c import Memory, new_actor_critic, new_state, nothing
from deadtime.learn.actor_critic import ACTOR_CRITIC, Numbers
from deadtime.learn.compiled_loop import ahead, begin_all, evaluate_all, run_chunk, start, turn
from deadtime.learn.compiled_loop import step as loop_step
from deadtime.learn.deep_training import run_deep
from deadtime.learn.presets import preset
from deadtime.learn.program import Program, Setup, split_settings
from deadtime.learn.settings import A2C
from deadtime.runs.deep_specs import DeepSpec, deep_spec
from deadtime.runtime import NetworkPolicy
from deadtime.runtime.views import VIEWS
from tests.commands import full, recorded
from tests.runtime.kinds import recurrent_manifest

SMALL = A2C(hidden=(8,), lstm=16, actors=4, learning_rate=0.01, rms_start=0.0, gamma=0.5)
WIDE = replace(SMALL, actors=8)
TINY = {"hidden": (8,), "lstm": 8, "actors": 4}


def setup_of(env, delays, settings, steps=10**6, seeds=None):
    runs = len(delays)
    numbers = Numbers(
        *(jnp.full(runs, value, jnp.float32) for value in split_settings(settings)[1])
    )
    params = jax.tree.map(lambda value: jnp.full(runs, value, jnp.float32), env.default_params)
    keys = jax.vmap(jax.random.key)(jnp.array(seeds if seeds is not None else range(runs)))
    return Setup(
        keys, jnp.array(delays, jnp.int32), params, jnp.full(runs, steps, jnp.int32), numbers, ()
    )


def program_of(env, settings, capacity):
    return Program(env, VIEWS["recurrent"], split_settings(settings)[0], capacity)


def step(program, setup, learner, actor, now):
    """One step of an actor that has earned nothing yet."""
    actor, _, done, ended = loop_step(program, setup, learner, actor, jnp.zeros(()), now)
    return actor, done, ended


def trained(env, delays, settings, capacity, chunk, length=10**6):
    """Tests share the lengths of chunks, since each is a program to compile."""
    program, setups = program_of(env, settings, capacity), setup_of(env, delays, settings, length)
    runs, done, returns = begin_all(program, setups), 0, []
    for part in chunk:
        runs, new = run_chunk(program, setups, runs, jnp.int32(done), part)
        done += part
        returns.append(new)
    return program, setups, runs, jnp.concatenate(returns)


def pick(tree, i):
    return jax.tree.map(lambda leaf: leaf[i], tree)


def assert_same(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_what_was_shown_a_step_ago_is_remembered_and_no_longer():
    """19 of 20 steps can pay. A policy that forgets at each step is right half of the time."""
    program, setups, runs, _ = trained(Recall(), (0,), WIDE, 0, [160] * 50)
    scores = np.asarray(evaluate_all(program, setups, runs.learner, 50, 20))
    assert scores.mean() > 18.5
    policy = NetworkPolicy(
        recurrent_manifest(0, 1, 2), ACTOR_CRITIC.policy_arrays(program, pick(runs.learner, 0))
    )
    rng, right = np.random.default_rng(0), {True: 0, False: 0}
    for forgets in right:
        before = None
        for _ in range(200):
            shown = int(rng.integers(2))
            if forgets:
                policy.reset()
            right[forgets] += policy.act([shown]) == before
            before = shown
    assert right[False] >= 190
    assert right[True] < 140


@pytest.mark.full
def test_an_episode_begins_with_nothing_in_memory():
    program, setups, runs, _ = trained(Recall(), (0,), WIDE, 0, [160])
    assert not any(np.asarray(leaf).any() for leaf in runs.actors.memory)
    runs, _ = run_chunk(program, setups, runs, jnp.int32(160), 40)
    assert all(np.asarray(leaf).any() for leaf in runs.actors.memory)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [full(0), full(1), 3])
def test_actions_are_executed_when_their_time_comes(delay):
    program, setup = program_of(Echo(), SMALL, 3), pick(setup_of(Echo(), (delay,), SMALL), 0)
    run = pick(begin_all(program, jax.tree.map(lambda leaf: leaf[None], setup)), 0)
    actor, chosen, shown = pick(run.actors, 2), [], []
    pending = np.asarray(actor.queue)[3 - delay :].tolist()
    move = jax.jit(partial(step, program))
    for t in range(15):
        actor, done, _ = move(setup, run.learner, actor, ahead(program, setup, jnp.int32(t)))
        chosen.append(int(done.action))
        shown.append(int(actor.obs[0]))
    assert shown == (pending + chosen)[:15]
    assert len(set(chosen)) == 2


@pytest.mark.slow
def test_the_action_is_credited_with_the_reward_of_its_step_and_what_follows():
    """One update by hand: returns and loss of a rollout, from a network evaluated step by step."""
    env, settings = (
        make("cartpole"),
        A2C(hidden=(8,), lstm=8, actors=2, rollout=3, layer_norm=False),
    )
    program, setup = program_of(env, settings, 2), pick(setup_of(env, (2,), settings), 0)
    run = pick(begin_all(program, jax.tree.map(lambda leaf: leaf[None], setup)), 0)
    net = run.learner.net

    def by_hand(net):
        total = 0.0
        for i in range(2):
            actor, memory, steps = pick(run.actors, i), nothing(8), []
            for k in range(3):
                actor, done, _ = step(
                    program, setup, run.learner, actor, ahead(program, setup, jnp.int32(2 * k + i))
                )
                steps.append(done)
            gained = jax.lax.stop_gradient(run.learner.net(actor.memory, actor.obs)[2])
            targets = []
            for _ in steps:
                gained = 1.0 + 0.99 * gained
                targets.insert(0, gained)
            for done, target in zip(steps, targets, strict=True):
                memory, logits, value = net(memory, done.obs)
                p = jax.nn.softmax(logits)
                gain = jax.lax.stop_gradient(target - value)
                total += (
                    0.25 * (target - value) ** 2
                    - gain * jnp.log(p[done.action])
                    + 0.01 * jnp.sum(p * jnp.log(p))
                )
        return total / 6

    gradient = jax.jit(jax.grad(by_hand))(net)
    norm = np.sqrt(sum(float((leaf**2).sum()) for leaf in jax.tree.leaves(gradient)))
    whole = jax.vmap(jax.vmap(partial(ahead, program, setup)))(jnp.arange(6).reshape(3, 2))
    after, _ = jax.jit(turn, static_argnums=0)(program, setup, run, whole)
    for old, new, slope in zip(
        *map(jax.tree.leaves, (net, after.learner.net, gradient)), strict=True
    ):
        g = np.asarray(slope) * min(1.0, 0.5 / norm)
        np.testing.assert_allclose(
            new - old, -7e-4 * g / np.sqrt(0.99 + 0.01 * g**2 + 1e-5), rtol=1e-2, atol=2e-7
        )


@pytest.mark.slow
def test_cut_off_episodes_are_worth_what_could_still_come():
    """The value after an episode's last step uses its final observation and its memory."""
    program, setup = program_of(Recall(), SMALL, 0), pick(setup_of(Recall(), (0,), SMALL), 0)
    run = pick(begin_all(program, jax.tree.map(lambda leaf: leaf[None], setup)), 0)
    net, actor = run.learner.net, pick(run.actors, 0)
    lived = Memory(jnp.linspace(-1, 2, 16), jnp.linspace(0.5, -0.5, 16))
    actor = actor._replace(env=actor.env._replace(time=jnp.float32(19.0)), memory=lived)
    memory, _, _ = net(actor.memory, actor.obs)
    values = [float(net(memory, jnp.array([shown]))[2]) for shown in (0.0, 1.0)]
    after, done, _ = step(program, setup, run.learner, actor, ahead(program, setup, jnp.int32(0)))
    assert bool(done.ended)
    assert not bool(done.terminated)
    assert min(abs(float(done.after) - value) for value in values) < 1e-6
    assert not np.asarray(after.memory.output).any()


@pytest.mark.full
def test_chunks_and_batch_mates_do_not_change_a_run(compiled_well):
    env = make("noisy-cartpole")
    _, _, whole, returns = trained(env, (0, 3), SMALL, 3, [100] * 6)
    _, _, parts, again = trained(env, (0, 3), SMALL, 3, [20, *[100] * 5, *[20] * 4])
    assert (~np.isnan(returns)).sum() > 10
    np.testing.assert_array_equal(returns, again)
    assert_same(whole, parts)
    _, _, beside, others = trained(env, (2, 3), SMALL, 3, [100] * 6)
    np.testing.assert_array_equal(returns[:, 1], others[:, 1])
    assert not np.array_equal(returns[:, 0], others[:, 0], equal_nan=True)
    assert_same(pick(whole, 1), pick(beside, 1))
    assert not np.array_equal(pick(whole, 0).actors.obs, pick(beside, 0).actors.obs)


@pytest.mark.full
def test_training_ends_with_the_last_whole_rollout():
    """Of 50 steps, 40 are two whole rollouts of 4 x 5; returns of later episodes are not told."""
    env = make("noisy-cartpole")
    _, _, runs, returns = trained(env, (0, 0), SMALL, 3, [100, 100], length=50)
    _, _, short, _ = trained(env, (0, 0), SMALL, 3, [20, 20])
    assert_same(runs.learner, short.learner)
    assert np.isnan(returns[50:]).all()
    _, _, longer, told = trained(env, (0, 0), SMALL, 3, [100, 100])
    assert not np.isnan(told[50:]).all()
    assert not np.array_equal(longer.learner.net.weights[0], runs.learner.net.weights[0])


@pytest.mark.full
def test_returns_are_told_at_their_step():
    """Episodes of Recall last 20 steps, so all eight actors end one at the steps 152 to 159."""
    _, _, _, returns = trained(Recall(), (0,), WIDE, 0, [160, 160])
    assert np.flatnonzero(~np.isnan(returns[:, 0])).tolist() == [*range(152, 160), *range(312, 320)]


@pytest.mark.full
def test_every_step_of_every_actor_has_its_own_random_numbers():
    _, _, once, _ = trained(Recall(), (0,), WIDE, 0, [160])
    _, _, twice, _ = trained(Recall(), (0,), WIDE, 0, [160, 160])
    first, second = np.asarray(once.actors.obs).ravel(), np.asarray(twice.actors.obs).ravel()
    assert len(set(first)) == len(set(second)) == 2
    assert not np.array_equal(first, second)


@pytest.mark.full
def test_a_diverging_run_is_reported_and_leaves_the_others_alone():
    env = make("noisy-cartpole")
    program, setups = program_of(env, SMALL, 3), setup_of(env, (2, 2), SMALL)
    runs, _ = run_chunk(program, setups, begin_all(program, setups), jnp.int32(0), 100)
    wild = setups._replace(numbers=setups.numbers._replace(learning_rate=jnp.array([1e38, 0.01])))
    wrecked, _ = run_chunk(program, wild, begin_all(program, wild), jnp.int32(0), 100)
    at = int(wrecked.learner.diverged_at[0])
    assert at > 0
    assert at % 20 == 19
    assert wrecked.learner.diverged_at[1] == -1
    assert_same(pick(runs, 1), pick(wrecked, 1))
    frozen = jax.tree.map(jnp.copy, wrecked.learner)
    later, _ = run_chunk(program, wild, wrecked, jnp.int32(100), 20)
    assert_same(pick(later.learner, 0), pick(frozen, 0))
    assert later.learner.diverged_at[0] == at


@pytest.mark.full
def test_resuming_from_a_checkpoint_is_bit_exact(tmp_path, monkeypatch):
    spec = DeepSpec(
        "noisy-cartpole", "recurrent", 2, "best", steps=910, evaluation_episodes=3, changes=TINY
    )
    monkeypatch.setattr(compiled_groups, "CHUNK_STEPS", 100)
    monkeypatch.setattr(compiled_groups, "WRITE_EVERY_SECONDS", -1.0)
    straight = next(iter(recorded(run_deep([(spec, 3)], lambda n: None))))
    seen = []

    def interrupt(n):
        seen.append(n)
        if len(seen) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_deep([(spec, 3)], interrupt, checkpoints=tmp_path / "kept"))
    assert len(list((tmp_path / "kept").iterdir())) == 1
    steps = []
    (resumed,) = recorded(run_deep([(spec, 3)], steps.append, checkpoints=tmp_path / "kept"))
    assert 300 < steps[0] < 910
    assert sum(steps) == 910
    assert resumed.scores == straight.scores
    np.testing.assert_array_equal(resumed.curve, straight.curve)
    for name, array in straight.policies.items():
        np.testing.assert_array_equal(resumed.policies[name], array)


@pytest.mark.slow
@pytest.mark.parametrize("layer_norm", [full(False), True])
def test_a_policy_decides_as_the_program_does(layer_norm):
    net = new_actor_critic(jax.random.key(0), 6, 3, A2C(hidden=(8,), lstm=8, layer_norm=layer_norm))
    net = jax.tree.map(
        lambda leaf: leaf + 0.3 * jax.random.normal(jax.random.key(leaf.size), leaf.shape), net
    )
    policy = NetworkPolicy(
        recurrent_manifest(3, 6, 3),
        ACTOR_CRITIC.policy_arrays(program_of(Echo(), SMALL, 3), new_state(net, A2C())),
    )
    forward = jax.jit(lambda *given: net(*given))
    memory, rng = nothing(8), np.random.default_rng(0)
    seen = [rng.normal(size=6).astype(np.float32) for _ in range(20)]
    for obs in seen:
        memory, logits, _ = forward(memory, jnp.array(obs))
        np.testing.assert_array_equal(policy.predicted_observation(obs, [0, 1, 2]), obs)
        np.testing.assert_allclose(policy.see(obs), logits, rtol=2e-4, atol=2e-4)
    fresh, again = (
        policy.at_delay(5),
        [int(np.argmax(forward(nothing(8), jnp.array(obs))[1])) for obs in seen],
    )
    assert (policy.delay, fresh.delay) == (3, 5)
    assert fresh.act(seen[0], [0, 1, 2, 0, 0]) == again[0]
    acted = []
    for obs in seen:
        policy.reset()
        acted.append(policy.act(obs, [0, 1, 2]))
    assert acted == again
    assert len(set(acted)) > 1
    with pytest.raises(ValueError, match="an observation is 6 finite numbers"):
        policy.act([1.0, np.nan])


@pytest.mark.slow
def test_evaluation_earns_what_its_policy_does():
    env = make("noisy-cartpole")
    program, setups = program_of(env, SMALL, 3), setup_of(env, (2, 2), SMALL, seeds=[5, 6])
    learner = begin_all(program, setups).learner
    scores = np.asarray(evaluate_all(program, setups, learner, 3, 500))[0]
    setup, net, move = pick(setups, 0), pick(learner, 0).net, jax.jit(env.step_env)
    forward = jax.jit(lambda *given: net(*given))
    for key, score in zip(
        jax.random.split(jax.random.fold_in(setup.key, 2**31 - 1), 3), scores, strict=True
    ):
        state, obs, queue, *_ = start(program, setup, key)
        memory = nothing(16)
        earned = 0.0
        ended = False
        t = 0
        while not ended:
            t += 1
            memory, logits, _ = forward(memory, obs)
            executed, queue = push(queue, jnp.argmax(logits), setup.delay)
            obs, state, reward, ended, _ = move(
                jax.random.split(jax.random.fold_in(key, t))[1], state, executed, setup.params
            )
            earned += float(reward)
        assert earned == score


def test_evaluation_starts_every_episode_anew():
    class Counts:
        delay, resets, acts = 1, 0, 0

        def reset(self):
            self.resets += 1

        def act(self, observation, pending_actions):
            return 0

    policy = Counts()
    deadtime.evaluate(policy, "cartpole", episodes=3)
    assert policy.resets == 3


def test_settings():
    assert preset("paper", family_of("cartpole"), "recurrent") == A2C()
    spec = deep_spec("cartpole", "recurrent", 5, {"learning_rate": 0.01})
    assert spec.learner.learning_rate == 0.01
    assert isinstance(spec.learner, A2C)
    others = [
        DeepSpec("cartpole", "recurrent", 5),
        DeepSpec("cartpole", "recurrent", 5, "paper"),
        DeepSpec("cartpole", "oblivious", 5),
    ]
    assert len({one.id for one in [spec, *others]}) == 4
    pairs = [
        (DeepSpec("cartpole", agent, m), 0) for agent in ("recurrent", "delayed") for m in (0, 5)
    ]
    assert [len(group) for _, group in compiled_groups.parts_of(pairs, "gpu")] == [2, 2]


@pytest.mark.parametrize(
    ("env", "options", "words"),
    [
        ("cartpole", {"model": "change"}, "recurrent predicts nothing, so model would do nothing"),
        ("cartpole", {"batch_size": 32}, "recurrent has no setting 'batch_size'"),
        ("cartpole", {"actors": 0}, "actors is a whole number, 1 or more; got 0"),
        ("acrobot", {"shaped": True}, "acrobot has no shaped reward"),
        ("maze", {}, "recurrent learns from numbers, not from the cells of maze"),
        ("walk", {}, "recurrent learns from numbers"),
    ],
)
def test_what_cannot_run_is_refused(env, options, words):
    with pytest.raises(ValueError, match=words):
        deadtime.train(env, "recurrent", 1, **options)
    if env == "cartpole" and "batch_size" in options:
        with pytest.raises(ValueError, match="delayed has no setting 'rollout'"):
            deadtime.train(env, "delayed", 1, rollout=5)


@pytest.mark.full
def test_gymnax_environments_train():
    spec = deep_spec(
        "gymnax:Acrobot-v1", "recurrent", 2, {"steps": 160, "evaluation_episodes": 2, **TINY}
    )
    (record,) = recorded(run_deep([(spec, 0)], lambda n: None))
    assert record.status == ["complete"]
    assert -500 <= record.scores[0] < 0


@pytest.mark.full
def test_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        with pytest.raises(SystemExit) as done:
            main(arguments)
        said = capsys.readouterr()
        assert done.value.code == 0, said.err
        return said.out

    small = ["--env", "noisy-cartpole", "--steps", "400", "--seeds", "1", "--json"]
    said = json.loads(
        run("train", *small, "--agent", "recurrent", "--delay", "2", "--learning-rate", "0.001")
    )
    assert said["learning_rate"] == 0.001
    assert isinstance(deadtime.load(said["record"]), NetworkPolicy)
    assert run("watch", said["record"], "--out", "pole.gif").startswith("pole.gif: ")
    scored = json.loads(
        run("evaluate", said["record"], "--delay", "4", "--episodes", "3", "--json")
    )
    assert scored["delay"] == 4
    arguments = [
        "--agents",
        "recurrent",
        "oblivious",
        "--delays",
        "2",
        "--learning-rate",
        "0.001",
        "--figure",
        "c.png",
    ]
    both = json.loads(run("compare", *small, *arguments))
    assert both["delays"][0]["recurrent"]["mean"] == pytest.approx(said["scores"][0])
    assert (tmp_path / "c.png").stat().st_size > 10_000
