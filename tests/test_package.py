"""The wheel and the source distribution: built, checked, and installed into empty environments."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import deadtime

ROOT = Path(__file__).parents[1]
NAME = f"deadtime-{deadtime.__version__}"
pytestmark = [pytest.mark.full, pytest.mark.xdist_group("package")]


def run(*arguments, cwd=ROOT):
    """Return what a program prints; it must end well."""
    command = [str(argument) for argument in arguments]
    clean = {name: os.environ[name] for name in os.environ if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=clean, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the wheel, which is built from the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return folder


def test_both_pass_twine_check(built):
    files = sorted(built.iterdir())
    assert [file.name for file in files] == [f"{NAME}-py3-none-any.whl", f"{NAME}.tar.gz"]
    assert run(sys.executable, "-m", "twine", "check", "--strict", *files).count("PASSED") == 2


def test_the_wheel_holds_every_source_file_and_the_licence(built):
    names = set(zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl").namelist())
    sources = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"deadtime/py.typed", "deadtime/studies/report.css"} <= sources <= names
    others = {name.split("/", 1)[1] for name in names - sources}
    assert others == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}


def test_the_source_distribution_leaves_records_out(built):
    with tarfile.open(built / f"{NAME}.tar.gz") as archive:
        names = {name.removeprefix(f"{NAME}/") for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "constraints.txt"} <= names
    assert not [name for name in names if name.startswith(("results", ".ci"))]


CORE = """
import gymnasium as gym
import numpy as np
import deadtime
env = deadtime.AugmentObservation(deadtime.ActionDelay(gym.make("CartPole-v1"), 3), flat=True)
print(env.reset(seed=0)[0].shape)
"""
PLANNED = """
from deadtime import planning
from deadtime.planning.examples import two_state
print(planning.solve(two_state(), delay=2).converged)
"""
LEARNED = """
import deadtime
result = deadtime.train("cartpole", "delayed", delay=2, steps=300)
print(result.policy(0).act([0.0, 0.0, 0.0, 0.0], [0, 1]) in (0, 1))
"""


@pytest.mark.parametrize(
    ("extra", "code", "printed", "command"),
    [
        ("", CORE, "(10,)", ("--help",)),
        ("plan", PLANNED, "True", ("plan", "two-state", "--json")),
        ("learn", LEARNED, "True", ("train", "--env", "maze", "--episodes", "20")),
    ],
)
def test_the_wheel_works_in_an_empty_environment(extra, code, printed, command, built, tmp_path):
    """The newest releases of what it needs are installed with it."""
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    wheel = built / f"{NAME}-py3-none-any.whl"
    wanted = f"{wheel}[{extra}]" if extra else wheel
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted)
    assert run(python, "-I", "-c", code, cwd=tmp_path).split("\n")[0] == printed
    assert run(python.parent / "deadtime", *command, cwd=tmp_path)
