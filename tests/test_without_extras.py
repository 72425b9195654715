"""The core without its extras: wrappers work, and what needs an extra says which."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
EXTRAS = (
    "ale_py",
    "equinox",
    "fsspec",
    "gymnax",
    "jax",
    "jaxlib",
    "jaxtyping",
    "matplotlib",
    "numba",
    "optax",
    "PIL",
    "ray",
    "scipy",
    "stable_baselines3",
    "tensordict",
    "torch",
    "torchrl",
)
BLOCK = f"""
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
"""


def core(code, *arguments, cwd=ROOT):
    """Run code where no extra can be imported."""
    command = [sys.executable, "-c", BLOCK + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def test_wrappers_need_no_extra():
    done = core(
        "import pytest; sys.exit(pytest.main(sys.argv[1:]))",
        *("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "not recording and not jax"),
        *("-m", "not slow and not full", "tests/wrappers/test_gym.py"),
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout or "100%" in done.stdout


def said(extra, package):
    return (
        f"this needs the extra `{extra}`; {package} is not installed: "
        f"pip install 'deadtime[{extra}]', or in a clone pip install '.[{extra}]'"
    )


@pytest.mark.parametrize(
    ("arguments", "extra", "packages"),
    [
        (["plan", "two-state"], "plan", ("numba", "scipy")),
        (["verify"], "plan", ("numba", "scipy")),
        (["train", "--env", "maze"], "learn", ("numba", "scipy")),
        (["train", "--env", "cartpole"], "learn", ("numba", "scipy", "jax")),
        (["compare", "--env", "acrobot"], "learn", ("numba", "scipy", "jax", "matplotlib")),
        (["reproduce", "summary"], "learn", ("numba", "scipy", "matplotlib")),
        (["report"], "learn", ("numba", "scipy", "matplotlib")),
    ],
)
def test_a_command_names_the_extra_that_it_needs(arguments, extra, packages, tmp_path):
    code = "from deadtime.cli import main; sys.argv[0] = 'deadtime'; sys.exit(main())"
    (tmp_path / "results" / "paper").mkdir(parents=True)
    done = core(code, *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip() in {f"deadtime: {said(extra, package)}" for package in packages}


@pytest.mark.parametrize(
    ("code", "extra", "packages"),
    [
        ("import deadtime; deadtime.train", "learn", ("numba", "scipy")),
        ("import deadtime.planning", "plan", ("numba", "scipy")),
        ("import deadtime.envs; deadtime.envs.make('cartpole')", "learn", ("jax",)),
        ("import deadtime.envs; deadtime.envs.make('maze')", "learn", ("jax",)),
        ("import deadtime.integrations.sb3", "sb3", ("torch",)),
        ("import deadtime.integrations.torchrl", "torchrl", ("torch",)),
        ("import deadtime.integrations.jax_arrays", "learn", ("jax",)),
    ],
)
def test_python_names_the_extra_that_it_needs(code, extra, packages):
    done = core(code)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] in {
        f"ModuleNotFoundError: {said(extra, package)}" for package in packages
    }


def test_a_recorded_policy_is_loaded_and_evaluated(tmp_path):
    import deadtime

    small = {"steps": 60, "hidden": (4,), "batch_size": 4, "evaluation_episodes": 1}
    deadtime.train("gym:CartPole-v1", "delayed", 2, **small).save(tmp_path / "deep")
    deadtime.train("maze", "augmented", 2, size=3, episodes=20).save(tmp_path / "tabular")
    code = """
import deadtime
for folder, env in (("deep", "gym:CartPole-v1"), ("tabular", "maze")):
    policy = deadtime.load(folder)
    settings = {"size": 3, "maze_seed": 0} if env == "maze" else {}
    print(deadtime.evaluate(policy, env, episodes=2, **settings).shape, policy.agent)
"""
    done = core(code, cwd=tmp_path)
    assert done.stdout.splitlines() == ["(2,) delayed", "(2,) augmented"], done.stderr
    shown = core(
        "from deadtime.cli import main; sys.exit(main(['evaluate', 'deep', '--episodes', '2']))",
        cwd=tmp_path,
    )
    assert "trained at delay 2, evaluated at delay 2\nmean return " in shown.stdout, shown.stderr
