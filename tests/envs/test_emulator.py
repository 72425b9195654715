"""Emulators, their look-ahead, the pool of worker processes, and `AtariEnv`."""

import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from scipy.stats import chi2_contingency, chisquare

from deadtime.envs import make
from deadtime.envs.atari.emulator import Emulator
from deadtime.envs.atari.games import Atari, Game, games, meanings
from deadtime.envs.atari.gym_env import AtariEnv
from deadtime.envs.atari.lane import Lane
from deadtime.envs.atari.pool import AtariPool
from deadtime.envs.atari.shrinking import pixel_weights, shrink
from deadtime.envs.pools import Played

ale_py = pytest.importorskip("ale_py")
FIRE, RIGHT, LEFT = 1, 2, 3
"""Actions of Breakout, where every frame of an action moves the paddle."""


# ---- One emulator ----


@pytest.mark.parametrize(
    ("name", "actions", "steps", "occur"),
    [
        ("Breakout", 4, 250, {"rewards", "ends"}),
        ("Qbert", 6, 150, {"rewards"}),
        ("Klax", 18, 150, {"ends"}),
    ],
)
def test_frames_rewards_and_ends_equal_gymnasiums(name, actions, steps, occur):
    pytest.importorskip("cv2")
    gym.register_envs(ale_py)
    env = gym.make(f"ALE/{name}-v5", frameskip=1, repeat_action_probability=0.0)
    env = gym.wrappers.FrameStackObservation(gym.wrappers.AtariPreprocessing(env, noop_max=0), 4)
    ours = Emulator(Game(name, sticky=0.0))
    rng = np.random.default_rng(5)
    occurred = set()
    assert len(ours.actions) == actions == env.action_space.n
    obs, _ = env.reset(seed=0)
    ours.reset(0)
    np.testing.assert_array_equal(ours.stack, obs)
    for _ in range(steps):
        action = int(rng.integers(actions))
        obs, reward, terminated, _, info = env.step(action)
        assert ours.step(action, rng) == reward
        np.testing.assert_array_equal(ours.stack, obs)
        assert (ours.over, ours.lives) == (terminated, info["lives"])
        occurred |= {"rewards"} if reward else set()
        if terminated:
            occurred.add("ends")
            obs, _ = env.reset()
            ours.reset(0)
            np.testing.assert_array_equal(ours.stack, obs)
    assert occurred == occur


@pytest.mark.parametrize("height", [210, 250])
def test_pictures_shrink_as_in_opencv(height):
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(height)
    noise = rng.integers(0, 256, (20, 2, height, 160), np.uint8)
    blocks = np.kron(rng.integers(0, 256, (20, 2, height // 10, 16)), np.ones((10, 10))).astype(
        np.uint8
    )
    for screens in [*noise, *blocks]:
        found = np.empty((84, 84), np.uint8)
        brighter = screens.max(axis=0)
        shrink(screens, found, *pixel_weights(height, 160))
        np.testing.assert_array_equal(
            found, cv2.resize(brighter, (84, 84), interpolation=cv2.INTER_AREA)
        )


def test_an_episode_starts_with_1_to_30_no_op_frames(monkeypatch):
    lane = Lane(Game("Breakout"))
    drawn = []
    lane.real.reset(17)
    assert lane.real.ale.getEpisodeFrameNumber() == 17
    monkeypatch.setattr(lane.real, "reset", drawn.append)
    for _ in range(3000):
        lane.reset()
    assert {*drawn} == {*range(1, 31)}
    assert chisquare(np.bincount(drawn)[1:]).pvalue > 1e-3


def test_lives_and_rewards_of_an_episode():
    lane = _begun(Game("Breakout", 2, 0.25, seed=3))
    rewards = []
    lost = []
    for _ in _decisions(lane):
        rewards.append(lane.reward)
        lost.append(lane.life_lost)
    assert (sum(lost), lost[-1], lane.real.lives) == (5, True, 0)
    assert lane.earned == sum(rewards) > 0


def test_names_are_those_of_gymnasium():
    gym.register_envs(ale_py)
    registered = {name for name in gym.registry if name.startswith("ALE/") and name.endswith("-v5")}
    assert {f"ALE/{name}-v5" for name in games()} == registered


# ---- Looking ahead without stickiness ----

CERTAIN = [("Qbert", 1), ("Klax", 5), ("Klax", 25)]


def _begun(game):
    lane = Lane(game)
    lane.reset()
    return lane


def _decisions(lane, seed=0):
    """Play at random to the end of an episode; yield before each decision and at the end."""
    rng = np.random.default_rng(seed)
    while not lane.terminated:
        yield
        lane.step(int(rng.integers(lane.num_actions)))
    yield


@pytest.mark.parametrize(("name", "delay"), CERTAIN)
def test_without_stickiness_predictions_come_true(name, delay):
    """The real states are those of a game that does not look ahead."""
    game = Game(name, delay, 0.0, "fresh", seed=3)
    lane, plain = _begun(game), _begun(replace(game, look_ahead=""))
    predicted = []
    real = []
    for _, _ in zip(_decisions(lane), _decisions(plain), strict=True):
        real.append((plain.real.stack.copy(), plain.ahead.ale.cloneState()))
        np.testing.assert_array_equal(lane.real.stack, plain.real.stack)
        if not lane.terminated:
            predicted.append((lane.shown.copy(), lane.ahead.ale.cloneState()))
    assert len(predicted) > delay + 50
    for t, (shown, state) in enumerate(predicted):
        stack, then = real[min(t + delay, len(predicted))]  # nothing moves after the end
        np.testing.assert_array_equal(shown, stack)
        assert state.equals(then)
    assert not predicted[0][1].equals(real[0][1])
    assert lane.emulated == lane.steps == plain.emulated


@pytest.mark.slow
@pytest.mark.parametrize(("name", "delay"), CERTAIN)
def test_without_stickiness_one_step_per_decision_equals_the_whole_queue(name, delay):
    game = Game(name, delay, 0.0, "fresh", seed=4)
    lane, plain = _begun(game), _begun(replace(game, look_ahead=""))
    second = Emulator(Game(name, sticky=0.0))
    for _, _ in zip(_decisions(lane), _decisions(plain), strict=True):
        if not lane.terminated:
            _roll(second, plain.real, lane.queue)
            np.testing.assert_array_equal(lane.shown, second.stack)
            assert second.same(*lane.ahead.point())


def _roll(emulated, start, queue, rng=None, seen=True):
    emulated.follow(start)
    for action in queue:
        if not emulated.over:
            emulated.step(int(action), rng, seen)


# ---- Stickiness ----


def test_a_copy_has_the_state_the_frames_and_the_repeated_action():
    one, other = Emulator(Game("Breakout")), Emulator(Game("Breakout"))
    one.reset(9)
    for action in (FIRE, RIGHT, RIGHT, LEFT):
        one.step(action, np.random.default_rng(0))
    state, last = one.point()
    arrays, numbers = one.saved()
    for become in (lambda: other.follow(one), lambda: other.restore(arrays, numbers)):
        other.reset(1)
        assert not other.same(state, last)
        become()
        assert other.same(state, last)
        assert not other.same(state, 0)
        copied, numbers_too = other.saved()
        assert numbers_too == numbers
        for name, array in arrays.items():
            np.testing.assert_array_equal(copied[name], array)


@pytest.mark.parametrize(("look", "cost"), [("fresh", 1 + 5), ("kept", 1 + 1)])
def test_a_kept_path_takes_one_step_per_decision_while_it_comes_true(look, cost):
    """If all actions are equal, every prediction comes true."""
    lane = _begun(Game("Breakout", 5, 0.25, look, seed=1))
    predicted = []
    for t in range(40):
        before = lane.emulated
        lane.step(0)
        predicted.append(lane.shown.copy())
        if t >= 15:
            assert lane.emulated - before == cost
            np.testing.assert_array_equal(lane.real.stack, predicted[t - 5])


def test_a_prediction_equals_one_run_through_the_queue():
    lane = _begun(Game("Klax", 6, 0.25, "fresh", seed=1))
    second = Emulator(Game("Klax", sticky=0.25))
    rng = np.random.default_rng()
    overs = 0
    rng.bit_generator.state = lane._paths.rng.bit_generator.state
    for _ in _decisions(lane, seed=1):
        if lane.steps and not lane.terminated:
            _roll(second, lane.real, lane.queue, rng)
            np.testing.assert_array_equal(lane.shown, second.stack)
            assert second.same(*lane.ahead.point())
            assert lane._paths.rng.bit_generator.state == rng.bit_generator.state
            overs += second.over
        rng.bit_generator.state = lane._paths.rng.bit_generator.state
    assert overs, "no prediction reached the end of an episode"


@pytest.mark.slow
def test_sticky_actions_have_the_law_of_the_emulators_own():
    """The emulator's memory shows when each of two actions, right and left, takes effect."""
    start = Emulator(Game("Breakout", sticky=0.0))
    plain = Emulator(Game("Breakout", sticky=0.0))
    late = 0.25
    start.reset(10)
    state = start.ale.cloneState()
    wanted = [start.actions[RIGHT]] * 4 + [start.actions[LEFT]] * 4
    law = Counter()
    begins = [late**k * (1 - late if k < 4 else 1) for k in range(5)]
    for first, second in product(range(5), repeat=2):
        executed = [0] * first + wanted[first:4]
        executed += [executed[-1]] * second + wanted[4 + second :]
        plain.follow(start)
        for action in executed:
            plain.ale.act(action)
        law[plain.ale.getRAM().tobytes()] += begins[first] * begins[second]
    assert len(law) > 12

    for sticky in (late, 0.15):
        ours = Emulator(Game("Breakout", sticky=sticky))
        rng = np.random.default_rng(1)
        found = Counter()
        for _ in range(500):
            _roll(ours, start, [RIGHT, LEFT], rng, seen=False)
            found[ours.ale.getRAM().tobytes()] += 1
        assert (_p_of_law(found, law) > 1e-3) == (sticky == late), sticky

    theirs = ale_py.ALEInterface()
    found = Counter()
    theirs.setFloat("repeat_action_probability", late)
    theirs.setInt("random_seed", 1)
    theirs.loadROM(ale_py.roms.get_rom_path("breakout"))
    for _ in range(500):
        for _ in range(8):
            theirs.act(0)  # so that only the no-op can be repeated
        theirs.restoreState(state)
        for action in wanted:
            theirs.act(action)
        found[theirs.getRAM().tobytes()] += 1
    assert _p_of_law(found, law) > 1e-3


def _p_of_law(found, law):
    """Return the p-value of counts under a law (chi-square); rare outcomes are merged."""
    assert found.keys() <= law.keys()
    total = found.total()
    common = [outcome for outcome in law if law[outcome] * total >= 5]
    counts = [found[one] for one in common]
    expected = [law[one] * total for one in common]
    return chisquare([*counts, total - sum(counts)], [*expected, total - sum(expected)]).pvalue


def _p_same(a, b):
    """Return the p-value that two counts have one law (chi-square); rare outcomes are merged."""
    common = [outcome for outcome in a | b if a[outcome] + b[outcome] >= 12]
    table = np.array(
        [
            [*(each[one] for one in common), sum(each.values()) - sum(each[one] for one in common)]
            for each in (a, b)
        ]
    )
    return chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue


@pytest.mark.slow
@pytest.mark.parametrize("look", ["fresh", "kept"])
def test_predictions_do_not_depend_on_the_last_choice_unless_paths_are_kept(look):
    """Many steps from one state: the next prediction has the law of roll-outs by hand."""
    lane = _begun(Game("Breakout", 2, 0.25, look, seed=2))
    plain = Emulator(Game("Breakout", sticky=0.0))
    for action in (0, 0, RIGHT, LEFT):
        lane.step(action)
    content = lane.saved()
    predicted = {RIGHT: Counter(), LEFT: Counter()}
    _roll(plain, lane.real, lane.queue, seen=False)
    usual = plain.ale.getRAM()
    reals = set()
    for repetition in range(300):
        lane.restore(content)
        lane._paths.rng = np.random.default_rng([repetition, 0])
        lane._paths.run(lane.real, lane.queue)
        chosen = RIGHT if (lane.ahead.ale.getRAM() == usual).all() else LEFT
        lane.step(chosen)
        reals.add(lane.real.ale.getRAM().tobytes())
        assert lane.queue.tolist() == [LEFT, chosen]
        predicted[chosen][lane.ahead.ale.getRAM().tobytes()] += 1
    assert len(reals) == 1
    apart = np.random.default_rng([0, 1])
    by_hand = Emulator(lane.game)
    probable = {}
    for chosen, found in predicted.items():
        rolled = Counter()
        for _ in range(300):
            _roll(by_hand, lane.real, [LEFT, chosen], apart, seen=False)
            rolled[by_hand.ale.getRAM().tobytes()] += 1
        assert found.total() > 80
        probable[chosen] = _p_same(found, rolled)
    if look == "fresh":
        assert min(probable.values()) > 1e-3
    else:
        assert max(probable.values()) < 1e-4


def _row(lane):
    facts = lane.executed, lane.reward, lane.earned, lane.terminated, lane.truncated, lane.life_lost
    if lane.terminated or lane.truncated:
        lane.reset()
    return *facts, lane.steps, lane.real.stack.tobytes()


def _paths(lane, actions):
    """Return the real steps, and the predictions."""
    real = []
    ahead = []
    for action in actions:
        lane.step(int(action))
        real.append(_row(lane))
        ahead.append((lane.shown.tobytes(), lane.queue.tolist(), lane.ahead.ale.getRAM().tobytes()))
    return real, ahead


def _whole(lane, actions):
    """Return all that a game shows of each step, over several episodes."""
    shown = []
    for action in actions:
        lane.step(int(action))
        ended = lane.terminated, lane.truncated
        shown.append((*_row(lane), *ended, lane.queue.tolist()))
    return shown


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Klax", "MsPacman", "Assault", "Frostbite"])
@pytest.mark.parametrize(("delay", "limit"), [(1, 60), (5, 27_000), (25, 40), (25, 20)])
def test_an_emulator_ahead_shows_the_real_path_of_an_emulator_of_the_present(name, delay, limit):
    """Assault starts differently after different states, so truncation must rewind."""
    game = Game(name, delay, 0.0, "fresh", limit, seed=6)
    plain, lane = _begun(replace(game, look_ahead="")), _begun(game)
    actions = np.random.default_rng(0).integers(0, lane.num_actions, 600)
    shown = _whole(lane, actions)
    assert shown == _whole(plain, actions)
    assert any(row[4] if limit < 100 else row[3] for row in shown) or name == "MsPacman"
    assert lane.emulated <= plain.emulated + delay * (1 + sum(row[4] for row in shown))


@pytest.mark.slow
@pytest.mark.parametrize("look", ["fresh", "kept"])
def test_the_look_ahead_does_not_change_the_real_path(look):
    actions = np.random.default_rng(0).integers(0, 18, 150)
    game = Game("Klax", 4, 0.25, look, seed=6)
    (real, ahead), (alone, _) = (
        _paths(_begun(one), actions) for one in (game, replace(game, look_ahead=""))
    )
    assert real == alone
    assert any(row[3] for row in real), "no episode ended"
    other = _begun(game)
    other._paths.rng = np.random.default_rng(99)
    again, predicted = _paths(other, actions)
    assert again == real
    assert sum(a != b for a, b in zip(ahead, predicted, strict=True)) > 40


# ---- Saving and restoring ----


@pytest.mark.parametrize(
    ("sticky", "look"), [(0.25, "fresh"), (0.25, "kept"), (0.0, "fresh"), (0.25, "")]
)
def test_a_restored_lane_gives_the_same_bits(sticky, look):
    """The memory of Assault differs each time a game starts."""
    game = Game("Assault", 4, sticky, look, max_steps=25, seed=8)
    lane, other = _begun(game), _begun(replace(game, seed=9))
    before, after = np.random.default_rng(1).integers(0, lane.num_actions, (2, 60))
    _paths(lane, before)
    content = lane.saved()
    emulated = lane.emulated
    expected = _paths(lane, after), lane.emulated
    for one in (lane, other):
        one.restore(content)
        assert one.emulated == emulated
        assert (_paths(one, after), one.emulated) == expected


# ---- Pools of worker processes ----

GAMES = [
    Game("Breakout", 0, 0.25, "", 40, seed=1),
    Game("MsPacman", 3, 0.25, "fresh", seed=2),
    Game("Klax", 5, 0.0, "fresh", seed=3),
    Game("Breakout", 2, 0.25, "kept", 25, seed=4),
    Game("Assault", 1, 0.25, "", 30, seed=5),
]
together = pytest.mark.xdist_group("emulator")


@pytest.fixture(scope="module")
def crew():
    """Return a pool that several tests share, and its first observations."""
    pool = AtariPool(GAMES, workers=2)
    begun = _copied(pool.reset())
    yield pool, begun
    pool.close()


@pytest.fixture(scope="module")
def peers():
    return [Lane(game) for game in GAMES]


@pytest.fixture
def pair(crew, peers):
    """Return the pool, and lanes in this process in the same states."""
    for game, lane in zip(GAMES, peers, strict=True):
        lane.seed(game.seed)
        lane.reset()
    _shows(crew[0].load([lane.saved() for lane in peers]), peers)
    return crew[0], peers


def _copied(played):
    return Played(*(None if part is None else part.copy() for part in played))


def _shows(played, lanes, but=()):
    """Check that a pool shows the observations of these lanes, except the lanes `but`."""
    for i in {*range(len(lanes))} - {*but}:
        lane, delay = lanes[i], lanes[i].game.delay
        np.testing.assert_array_equal(played.frame[i], lane.real.stack[-1])
        np.testing.assert_array_equal(played.shown[i], lane.shown)
        assert played.queue[i].tolist() == [0] * (5 - delay) + lane.queue.tolist()
        assert played.age[i] == lane.steps


def _stepped(pool, lanes, actions, resting=(), but=()):
    """Step the pool and the lanes, and check that they agree except on the lanes `but`."""
    pool.send(actions, np.asarray(resting) if len(resting) else None)
    played = pool.receive()
    paused = np.flatnonzero(resting).tolist()
    _agrees(played, lanes, actions, but, paused)
    return played


def _agrees(played, lanes, actions, but=(), paused=()):
    for i in {*range(len(lanes))} - {*but, *paused}:
        lane = lanes[i]
        lane.step(int(actions[i]))
        for name in ("executed", "reward", "earned", "terminated", "truncated", "life_lost"):
            assert getattr(played, name)[i] == getattr(lane, name), name
        if lane.terminated or lane.truncated:
            lane.reset()
    _shows(played, lanes, but)
    assert {*np.flatnonzero(played.lost).tolist()} == {*but}


def _chosen(lanes, rng):
    return np.array([rng.integers(lane.num_actions) for lane in lanes])


@pytest.mark.slow
@together
def test_a_pool_plays_as_lanes_do_and_lanes_can_rest(crew, pair):
    pool, begun = crew
    _, lanes = pair
    rng = np.random.default_rng(2)
    _shows(begun, lanes)
    assert len(pool._workers) == 2
    assert sorted(place for mine in pool._mine for place in mine) == [0, 1, 2, 3, 4]
    ends = np.zeros((2, len(lanes)), int)
    for _ in range(150):
        resting = rng.random(len(lanes)) < 0.1
        played = _stepped(pool, lanes, _chosen(lanes, rng), resting)
        ends += np.where(resting, 0, [played.terminated, played.truncated])
    assert (ends[1, [0, 3, 4]] >= 3).all()
    assert ends[0, 2] > 0
    assert pool.emulated == sum(lane.emulated for lane in lanes)


@pytest.mark.slow
@together
def test_another_pool_restores_the_same_bits(pair):
    pool, lanes = pair
    rng = np.random.default_rng(3)
    for _ in range(30):
        pool.step(_chosen(lanes, rng))
    states = pool.save()
    actions = [_chosen(lanes, rng) for _ in range(50)]
    rows = [_copied(pool.step(chosen)) for chosen in actions]
    other = AtariPool([replace(game, seed=77) for game in GAMES], workers=1)
    try:
        other.load(states)
        for chosen, row in zip(actions, rows, strict=True):
            for expected, found in zip(row, other.step(chosen), strict=True):
                np.testing.assert_array_equal(expected, found)
        assert other.emulated == pool.emulated
    finally:
        other.close()


# ---- Workers that die ----


def _state_of(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _wait_for(condition, seconds=10.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)


def _gone(pids):
    _wait_for(lambda: all(_state_of(pid) in ("", "Z") for pid in pids))


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs /proc, which lists processes"
)


def _anew(pool, lanes, lost):
    """Restart lanes as the pool does after their worker died: a new episode, another seed."""
    for i in lost:
        assert pool._games[i].seed != lanes[i].game.seed
        lanes[i].seed(pool._games[i].seed)
        lanes[i].reset()


@pytest.mark.slow
@together
@needs_proc
def test_a_worker_killed_between_steps_is_replaced_and_its_episodes_are_lost(pair):
    pool, lanes = pair
    rng = np.random.default_rng(4)
    mine = pool._mine[1]
    for _ in range(3):
        _stepped(pool, lanes, _chosen(lanes, rng))
    os.kill(pool._workers[1].pid, signal.SIGKILL)
    played = _stepped(pool, lanes, _chosen(lanes, rng), but=mine)
    _anew(pool, lanes, mine)
    _shows(played, lanes)
    assert not played.age[mine].any()
    for _ in range(5):
        _stepped(pool, lanes, _chosen(lanes, rng))


@pytest.mark.slow
@together
@needs_proc
def test_a_worker_killed_in_the_middle_of_a_step_is_replaced_too(pair):
    pool, lanes = pair
    rng = np.random.default_rng(5)
    mine = pool._mine[1]
    worker = pool._workers[1]
    for _ in range(200):
        actions = _chosen(lanes, rng)
        age = pool.memory["emulated"][mine[0]]
        pool.send(actions)
        _wait_for(lambda age=age: pool.memory["emulated"][mine[0]] != age)
        os.kill(worker.pid, signal.SIGSTOP)
        _wait_for(lambda: _state_of(worker.pid) == "T")
        if not select.select([worker.stdout], [], [], 0)[0]:
            break  # its first lane is done, but not all of them
        os.kill(worker.pid, signal.SIGCONT)
        _agrees(pool.receive(), lanes, actions)
    else:
        pytest.fail("each step was over before it could be stopped")
    os.kill(worker.pid, signal.SIGKILL)
    played = pool.receive()
    _agrees(played, lanes, actions, but=mine)
    _anew(pool, lanes, mine)
    _shows(played, lanes)
    for _ in range(5):
        _stepped(pool, lanes, _chosen(lanes, rng))


@pytest.mark.slow
@together
@needs_proc
def test_the_next_step_reports_a_worker_killed_before_saving(pair):
    pool, lanes = pair
    rng = np.random.default_rng(6)
    mine = pool._mine[0]
    for _ in range(3):
        _stepped(pool, lanes, _chosen(lanes, rng))
    os.kill(pool._workers[0].pid, signal.SIGKILL)
    states = pool.save()
    played = _stepped(pool, lanes, _chosen(lanes, rng), but=mine)
    _anew(pool, lanes, mine)
    _shows(played, lanes)
    _stepped(pool, lanes, _chosen(lanes, rng))

    os.kill(pool._workers[0].pid, signal.SIGKILL)
    played = pool.load(states)
    assert played.age.tolist() == [0 if i in mine else 3 for i in range(len(lanes))]
    assert not played.lost.any()
    for lane, state in zip(lanes, states, strict=True):
        lane.restore(state)
    _shows(played, lanes)
    _stepped(pool, lanes, _chosen(lanes, rng))


@pytest.mark.slow
@needs_proc
def test_workers_that_keep_dying_are_an_error_and_leave_nothing(monkeypatch):
    pool = AtariPool(GAMES[:2], workers=2)
    pool.reset()
    pids = [worker.pid for worker in pool._workers]
    started = []
    assert all(_state_of(pid) not in ("", "Z") for pid in pids)
    assert os.fstat(pool._file.fileno()).st_nlink == 0, (
        "the shared memory is a named file, which could be left behind"
    )
    monkeypatch.setattr(sys, "executable", "/bin/false")
    popen = subprocess.Popen
    monkeypatch.setattr(
        subprocess,
        "Popen",
        lambda *args, **kwargs: started.append(popen(*args, **kwargs)) or started[-1],
    )
    os.kill(pids[0], signal.SIGKILL)
    with pytest.raises(
        RuntimeError,
        match="keep dying, the last one with exit status 1: .*allow more memory",
    ):
        pool.step(np.zeros(2, int))
    _gone([*pids, *(worker.pid for worker in started)])
    assert len(started) == 3 * 2
    pool.close()


@pytest.mark.slow
@needs_proc
def test_close_ends_the_workers_whatever_they_do():
    pool = AtariPool(GAMES[:2], workers=2)
    pids = [worker.pid for worker in pool._workers]
    pool.reset()
    pool.send(np.zeros(2, int))
    pool.close()
    assert not any(_state_of(pid) for pid in pids)


DRIVER = """
import sys
import numpy as np
from deadtime.envs.atari.pool import AtariPool
from deadtime.envs.atari.games import Game

games = [Game("Breakout", 2, look_ahead="fresh", seed=seed) for seed in range(2)]
pool = AtariPool(games, workers=2)
pool.reset()
print(*[worker.pid for worker in pool._workers], flush=True)
while True:
    pool.step(np.zeros(2, int))
    if sys.argv[1:]:
        raise ValueError("of the driver's own")
"""


@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize(
    "end", [signal.SIGTERM, signal.SIGKILL, None], ids=["SIGTERM", "SIGKILL", "exception"]
)
def test_no_worker_outlives_its_driver(end):
    command = [sys.executable, "-c", DRIVER, *(["raise"] if end is None else [])]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    pids = [int(pid) for pid in driver.stdout.readline().split()]
    try:
        assert len(pids) == 2
        if end is not None:
            assert all(_state_of(pid) not in ("", "Z") for pid in pids)
            driver.send_signal(end)
        assert driver.wait(timeout=10) == (1 if end is None else -end)
        _gone(pids)
    finally:
        for pid in [driver.pid, *pids]:
            if _state_of(pid) not in ("", "Z"):
                os.kill(pid, signal.SIGKILL)
        driver.stdout.close()
        driver.wait()


# ---- Games by name, and the Gymnasium environment ----


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        (
            "MsPackman",
            {},
            "Atari has no game 'MsPackman'; did you mean 'MsPacman'\\?: use a name of Gymnasium",
        ),
        ("Combat", {}, "Atari has no game 'Combat'"),
        (
            "Breakout",
            {"sticky": 1.0},
            "sticky is a probability from 0 to below 1; got 1.0: pass 0.25",
        ),
        ("Breakout", {"sticky": -0.1}, "sticky is a probability from 0 to below 1; got -0.1"),
        ("Breakout", {"sticky": True}, "sticky is a probability from 0 to below 1; got True"),
        (
            "Breakout",
            {"max_episode_steps": 0},
            "max_episode_steps is a whole number, 1 or more; got 0",
        ),
        (
            "Breakout",
            {"noise": 0.1},
            "atari:Breakout has no setting 'noise': it takes sticky, max_episode_steps",
        ),
    ],
)
def test_wrong_games_and_settings_are_refused(name, settings, message):
    with pytest.raises(ValueError, match=message):
        make(f"atari:{name}", **settings)


def test_an_unknown_look_ahead_is_refused():
    with pytest.raises(
        ValueError, match='look_ahead is "fresh", "kept", or "" for none; got \'frsh\''
    ):
        AtariEnv(Atari("Breakout"), 2, "frsh")


def test_without_ale_py_the_error_names_the_install_command(monkeypatch):
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "ale_py", None)
        games.cache_clear()
        game = make("atari:Breakout")
        with pytest.raises(
            ImportError, match=r"atari:NAME needs ale-py, .*: pip install ale-py, .* '.\[atari\]'"
        ):
            AtariEnv(game, 1)
    assert "Breakout" in games()


@pytest.mark.parametrize(("delay", "look"), [(0, ""), (3, "fresh")])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_check_env(delay, look):
    check_env(AtariEnv(Atari("Breakout"), delay, look))


def test_as_an_environment_it_follows_the_convention_and_its_seed():
    """The memory of Assault differs each time a game starts, unless a seed is given."""
    env = AtariEnv(make("atari:Assault", sticky=0.1, max_episode_steps=12), 3, "fresh")
    actions = np.random.default_rng(0).integers(0, env.action_space.n, 12)

    def episode(seed):
        obs, info = env.reset(seed=seed)
        rows = []
        assert info.keys() == {"pending_actions", "predicted_observation"}
        rows.append((obs, info["predicted_observation"]))
        queue = info["pending_actions"].tolist()
        assert len(queue) == 3
        for i, action in enumerate(actions):
            obs, reward, terminated, truncated, info = env.step(action)
            queue.append(int(action))
            assert info["executed_action"] == queue.pop(0)
            assert info["pending_actions"].tolist() == queue
            assert obs in env.observation_space
            assert info["predicted_observation"] in env.observation_space
            assert (terminated, truncated) == (False, i == 11)
            rows.append((obs, info["predicted_observation"]))
        return np.array(rows)

    with pytest.raises(ResetNeeded, match="no episode is running"):
        env.step(0)
    first, second = episode(1), episode(2)
    with pytest.raises(ResetNeeded, match="no episode is running: call reset"):
        env.step(0)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(episode(1), first)
    assert not np.array_equal(episode(None), first)
    assert meanings("Assault") == ("NOOP", "FIRE", "UP", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE")
