"""An environment's own arguments: by name, in `env_kwargs`, on the command line and in sweeps."""

import re

import gymnasium as gym
import pytest
import tyro
from gymnasium import spaces

import deadtime
from deadtime.cli.options import Options
from deadtime.envs import make
from deadtime.runs import sweep_file
from deadtime.runs.result import Result
from deadtime.runs.specs import make_spec

CLASH = "gym:deadtime-tests/Clash-v0"


class Clash(gym.Env):
    """An environment with arguments that are named as settings of the training."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(-1, 1, (1,))

    def __init__(self, steps: int = 5, rollout: int = 1, wide: bool = False):
        """`steps` is the length of an episode."""


@pytest.fixture(autouse=True)
def _registered():
    gym.register("deadtime-tests/Clash-v0", Clash, max_episode_steps=50)
    yield
    del gym.registry["deadtime-tests/Clash-v0"]


@pytest.mark.parametrize(
    ("env", "settings"),
    [("maze", {"size": 4, "noise": 0.1}), ("noisy-cartpole", {"noise": 0.3}), (CLASH, {"wide": 1})],
)
def test_env_kwargs_are_the_flat_settings(env, settings):
    flat = make_spec(env, "delayed", 2, settings)
    inside = make_spec(env, "delayed", 2, {}, settings)
    assert (inside, inside.id) == (flat, flat.id)
    assert flat.settings == settings
    assert inside.id != make_spec(env, "delayed", 2, {}).id
    if env != CLASH:
        assert make(env, env_kwargs=settings) == make(env, **settings)


def test_a_name_that_both_have_needs_env_kwargs():
    with pytest.raises(
        ValueError,
        match=re.escape(
            f"steps is a setting of the training and an argument of {CLASH}; got steps=200: pass "
            "the argument in env_kwargs (--env-kwargs steps=... on the command line), then "
            "steps sets the training"
        ),
    ):
        deadtime.train(CLASH, steps=200)
    with pytest.raises(ValueError, match="rollout is a setting of the training and an argument"):
        make_spec(CLASH, "delayed", 0, {"rollout": 2})  # of a learner that this agent has not
    spec = make_spec(CLASH, "delayed", 0, {"steps": 200}, {"steps": 7})
    assert (spec.steps, spec.settings) == (200, {"steps": 7})
    spec = make_spec(CLASH, "delayed", 0, {"steps": 200}, {"steps": 5})  # its own default
    assert (spec.steps, spec.settings) == (200, {})


@pytest.mark.parametrize(
    ("settings", "env_kwargs", "words"),
    [
        ({}, {"siz": 3}, "maze has no setting 'siz'; did you mean 'size'?"),
        ({}, {"episodes": 3}, "maze has no setting 'episodes'"),
        ({"size": 3}, {"size": 3}, "got size in env_kwargs and outside it: leave one out"),
        ({}, [3], "env_kwargs holds the environment's arguments by name; got [3]: pass a dict"),
    ],
)
def test_wrong_env_kwargs(settings, env_kwargs, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        deadtime.train("maze", env_kwargs=env_kwargs, **settings)


def test_evaluate_takes_env_kwargs():
    returns = deadtime.evaluate(lambda _: 0, "maze", episodes=3, env_kwargs={"size": 3})
    flat = deadtime.evaluate(lambda _: 0, "maze", episodes=3, size=3)
    assert returns.tolist() == flat.tolist() != []
    with pytest.raises(ValueError, match="settings are for environments by name; got {'size': 3}"):
        deadtime.evaluate(lambda _: 0, gym.make("CartPole-v1"), env_kwargs={"size": 3})


def test_env_kwargs_on_the_command_line(tmp_path):
    words = ["--env-kwargs", "size=4", "--set", "gamma=1", "--env-kwargs", "perturb=masses"]
    options = tyro.cli(Options, args=words)
    assert options.environment() == {"size": 4, "perturb": "masses"}
    assert options.given() == {"gamma": 1}
    with pytest.raises(ValueError, match="a setting is NAME=VALUE, each name once; got 'size'"):
        Options(env_kwargs=("size",)).environment()


def test_the_command_of_a_record_names_the_environments_arguments():
    result = deadtime.train("maze", episodes=3, env_kwargs={"size": 3}, evaluation_episodes=2)
    assert isinstance(result, Result)
    assert result.command.endswith(
        "--set episodes=3 --set evaluation_episodes=2 --env-kwargs size=3"
    )


def test_env_kwargs_in_a_sweep(tmp_path):
    path = tmp_path / "mine.toml"
    head = (
        f'environments = ["{CLASH}", "cartpole"]\nagents = ["oblivious"]\ndelays = [0]\nseeds = 1\n'
    )
    path.write_text(
        f'{head}[overrides]\nsteps = 90\n[env_kwargs."{CLASH}"]\nsteps = 9\n'
        "[env_kwargs.cartpole]\nnoise = 0.2\n"
    )
    clash, cartpole = (spec for spec, _ in sweep_file.read(path))
    assert (clash.steps, clash.settings) == (90, {"steps": 9})
    assert cartpole.settings == {"noise": 0.2}
    path.write_text(f"{head}[env_kwargs.cartpole]\nnoise = 0.2\nnoize = 1\n")
    with pytest.raises(ValueError, match="line 7: cartpole has no setting 'noize'"):
        sweep_file.read(path)
    path.write_text(f"{head}[overrides]\nsteps = 90\n")
    with pytest.raises(ValueError, match="line 6: steps is a setting of the training and an"):
        sweep_file.read(path)
    path.write_text(f"{head}[env_kwargs.oblivious]\nnoise = 1\n")
    with pytest.raises(ValueError, match="line 5: env_kwargs are for an environment of this sweep"):
        sweep_file.read(path)
