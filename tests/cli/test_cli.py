import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import deadtime
from tests import commands

COMMAND = Path(sys.executable).parent / "deadtime"


ROBOT = """
import gymnasium as gym
import numpy as np


class Arm(gym.Env):
    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, False, False, {}


gym.register("Arm-v0", Arm, max_episode_steps=7)
"""
SWEEP = """
environments = ["gym:my_robot:Arm-v0"]
agents = ["oblivious"]
delays = [1]
seeds = 1
[overrides]
steps = 20
hidden = [4]
evaluation_episodes = 1
"""


def run(*arguments, **how):
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False, **how)


def test_version():
    assert run("--version").stdout == f"deadtime {deadtime.__version__}\n"


@pytest.mark.slow
def test_help_and_no_arguments_say_the_same():
    assert "when actions land late" in run("--help").stdout
    assert run().stdout == run("--help").stdout


def test_unknown_argument():
    done = run("--vresion")
    assert done.returncode == 2
    assert "--vresion" in done.stderr


def test_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "deadtime", "--version"], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"deadtime {deadtime.__version__}\n"


@pytest.mark.parametrize(
    ("command", "help_of"),
    [
        (["train", "--env", "maze", "--seeds", "2.5"], "train"),
        (["train", "--env", "maze", "--dely", "2"], "train"),
        (["compare", "--env", "maze", "--seeds", "x"], "compare"),
        (["plan", "maze", "--tol", "small"], "plan"),
    ],
)
def test_errors_point_to_the_help_of_their_command(command, help_of):
    done = commands.run(*command)
    assert done.returncode == 2
    assert f"deadtime {help_of} --help" in done.stderr
    assert "deadtime --help" not in done.stderr


@pytest.mark.slow
def test_a_module_in_the_current_folder(tmp_path):
    """The command and its workers find it, and nothing there shadows an installed module."""
    (tmp_path / "my_robot.py").write_text(ROBOT)
    for shadow in ("numpy", "tyro", "queue"):
        (tmp_path / f"{shadow}.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "arm.toml").write_text(SWEEP)
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = run(
        "sweep",
        "arm.toml",
        "--engine",
        "local",
        "--allow-import",
        "my_robot",
        cwd=tmp_path,
        env=alone,
    )
    assert done.returncode == 0, done.stderr
    (record,) = tmp_path.glob("arm/*/run.json")
    assert json.loads(record.read_text())["scores"] == [7.0]


@pytest.mark.parametrize("last", ["--json", "--help"])
def test_a_reader_of_the_output_that_ends_is_no_error(last):
    """Such as `head` in `deadtime plan two-state | head -1`."""
    command = [sys.executable, "-m", "deadtime", "plan", "two-state", last]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1
