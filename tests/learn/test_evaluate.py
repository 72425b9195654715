"""Evaluation of any policy under any delay."""

import json
import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import deadtime
from deadtime.envs.families import family_of
from deadtime.envs.registered import WalkEnv
from deadtime.runtime import load
from tests.commands import run


class Expert:
    """As Stable-Baselines3's policies are called."""

    def predict(self, observation, deterministic):
        assert deterministic
        return int(observation @ np.array([0.05, 0.1, 1.0, 0.3]) > 0), None


def test_a_third_partys_policy():
    balanced = deadtime.evaluate(Expert(), gym.make("CartPole-v1"), episodes=3)
    np.testing.assert_array_equal(balanced, [500, 500, 500])
    assert deadtime.evaluate(Expert(), gym.make("CartPole-v1"), delay=10, episodes=3).max() < 200
    assert deadtime.evaluate(Expert(), "cartpole", delay=10, episodes=3).max() < 200
    by_hand = deadtime.evaluate(
        lambda obs: int(obs[2] + obs[3] > 0), gym.make("CartPole-v1"), episodes=3
    )
    assert by_hand.min() > 100


@pytest.mark.parametrize("agent", ["delayed", "distribution", "oblivious"])
def test_another_delay_than_the_trained_one(agent):
    result = deadtime.train("maze", agent, delay=2, seeds=[3], size=4, episodes=2000)
    own = deadtime.evaluate(result.policy(3), "maze", size=4, maze_seed=3, episodes=20)
    assert own.shape == (20,)
    assert own.mean() == pytest.approx(result.scores[0], abs=0.05)
    if agent != "oblivious":
        later = deadtime.evaluate(
            result.policy(3), "maze", delay=4, size=4, maze_seed=3, episodes=20
        )
        assert later.mean() > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0, 3])
def test_the_walk(delay):
    result = deadtime.train("walk", "distribution", delay, episodes=3000, length=12)
    own = deadtime.evaluate(result.policy(0), "walk", length=12, episodes=400)
    assert own.mean() == pytest.approx(result.scores[0], abs=0.4)


def test_the_walk_has_the_law_of_its_tables():
    env = WalkEnv(length=5, momentum=0.8, near=1)
    P, r = env.settings.model()
    seen = np.zeros_like(P)
    rng = np.random.default_rng(0)
    for seed in range(2000):
        obs, ended = env.reset(seed=seed)[0], False
        while not ended:
            action = int(rng.integers(2))
            after, reward, ended, truncated, _ = env.step(action)
            assert (reward, truncated) == (r[obs, action], False)
            seen[obs, action, after] += 1
            obs = after
    times = seen.sum(axis=2, keepdims=True)
    spread = np.sqrt(P * (1 - P) / np.maximum(times, 1))
    assert (
        np.abs(seen / np.maximum(times, 1) - P)[times[..., 0] > 0] <= 5 * spread[times[..., 0] > 0]
    ).all()
    assert (seen[P == 0] == 0).all()
    with pytest.raises(
        ValueError, match=r"an action of the walk is 0 \(near\) or 1 \(far\); got 2"
    ):
        env.step(2)
    check_env(WalkEnv(), skip_render_check=True)


def test_what_cannot_be():
    result = deadtime.train("maze", "augmented", delay=2, seeds=1, size=3, episodes=50)
    with pytest.raises(
        ValueError,
        match="augmented has learned only from queues of exactly 2 actions; got a delay of 3",
    ):
        result.policy(0).at_delay(3)
    with pytest.raises(
        ValueError,
        match="augmented has learned only from queues of exactly 2 actions; got a delay of 3",
    ):
        deadtime.evaluate(result.policy(0), "maze", delay=3, size=3, episodes=1)
    with pytest.raises(ValueError, match="seed is a whole number, 0 or more; got -1"):
        deadtime.evaluate(result.policy(0), "maze", size=3, seed=-1)
    with pytest.raises(ValueError, match="settings are for environments by name"):
        deadtime.evaluate(Expert(), gym.make("CartPole-v1"), noise=0.1)
    with pytest.raises(
        ValueError,
        match="environments of gymnax have no Gymnasium form; maze, walk, cartpole",
    ):
        family_of("gymnax:CartPole-v1").gymnasium_form(None, 0)
    with pytest.raises(ValueError, match="episodes is a whole number"):
        deadtime.evaluate(Expert(), "cartpole", episodes=0)


@pytest.mark.slow
def test_command(tmp_path):
    deadtime.train("maze", delay=2, seeds=2, size=4, noise=0.1, episodes=500).save(tmp_path / "run")
    arguments = ["evaluate", tmp_path / "run", "--episodes", 10, "--json"]
    for delay in (2, 4):
        said = json.loads(run(*arguments, "--delay", delay).stdout)
        assert said["trained_delay"] == 2
        assert said["delay"] == delay
        assert len(said["scores"]) == 2
    done = run("evaluate", tmp_path)
    assert done.returncode == 2
    assert "a record is a folder with a run.json" in done.stderr
    picture = tmp_path / "new" / "cost.png"
    delays = ["--delays", "1-2", 4, "uniform:1-2"]
    several = json.loads(run(*arguments, *delays, "--plot", picture).stdout)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert [row["delay"] for row in several["delays"][:3]] == [1, 2, 4]
    assert several["delays"][2]["scores"] == said["scores"]
    assert several["delays"][3]["delay"]["kind"] == "uniform"
    table = run(*arguments[:-1], *delays).stdout
    assert re.findall(r"│ (\S+)", table)[::2] == ["1", "2", "4", "uniform:1-2"]
    assert "2 (trained)" in table


@pytest.mark.slow
def test_delays_at_which_a_policy_can_not_act(tmp_path):
    settings = {"seeds": 1, "size": 4, "episodes": 50}
    deadtime.train("maze", "augmented", delay=2, **settings).save(tmp_path / "run")
    arguments = ["evaluate", tmp_path / "run", "--episodes", 2]
    found = json.loads(run(*arguments, "--delays", "2-3", "--json").stdout)["delays"]
    assert "return" in found[0]
    assert "queues of exactly 2 actions; got a delay of 3" in found[1]["refused"]
    table = run(*arguments, "--delays", "2-3").stdout
    assert "not possible: augmented has learned only from queues" in table
    done = run(*arguments, "--delays", "3")
    assert (done.returncode, "queues of exactly 2 actions" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--delay", 1, "--delays", "0-2"), "--delay is for one delay and --delays for several"),
        (("--plot", "x.png"), "--plot draws return against several delays; got no --delays"),
        (("--plot", "x.svg", "--delays", "1"), "pictures are written as PNG"),
    ],
)
def test_options_that_do_not_fit(arguments, words, tmp_path):
    done = run("evaluate", tmp_path, *arguments)
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.slow
def test_export(tmp_path):
    """A table and a network; what can't be written is refused."""
    folder = tmp_path / "run"
    deadtime.train("maze", delay=2, seeds=2, size=4, episodes=50).save(folder)
    done = run("export", folder, tmp_path / "new" / "policy.safetensors", "--seed", 1)
    assert done.returncode == 0, done.stderr
    assert "policy.safetensors: TablePolicy(delayed on maze, delay=2" in done.stdout
    policy = load(tmp_path / "new" / "policy.safetensors")
    assert policy.act(3, [0, 1]) == deadtime.load(folder, seed=1).act(3, [0, 1])
    for file, words in (
        ("policy.onnx", "ONNX takes networks whose parts are all built in; got a table"),
        ("policy.pt", "a policy is exported to a file .safetensors or .onnx; got"),
    ):
        done = run("export", folder, tmp_path / file)
        assert (done.returncode, words in done.stderr) == (2, True)
        assert not (tmp_path / file).exists()
