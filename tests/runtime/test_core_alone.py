"""Policies need only NumPy and Gymnasium, and no module of the training."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import deadtime
from deadtime.envs.atari.emulator import SIDE, STACK
from deadtime.learn import settings
from deadtime.runtime import manifest
from deadtime.runtime.frame_layers import FRAMES
from tests.runtime.kinds import KINDS, acted

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "src/deadtime/runtime"
BLOCKED = (
    "jax",
    "jaxlib",
    "numba",
    "scipy",
    "matplotlib",
    "equinox",
    "optax",
    "jaxtyping",
    "ale_py",
    "Box2D",
    "PIL",
)
CODE = """
import json, pkgutil, sys
for name in json.loads(sys.argv[1]):
    sys.modules[name] = None
import numpy as np
import deadtime.runtime
for module in pkgutil.iter_modules(deadtime.runtime.__path__):
    __import__(f"deadtime.runtime.{module.name}")
from tests.runtime.kinds import KINDS, acted
chosen = {}
for kind, (_, build) in KINDS.items():
    with np.load(f"{sys.argv[2]}/{kind}.npz") as arrays:
        chosen[kind] = acted(build(dict(arrays)))
later = ("planning", "envs.atari.emulator", "learn", "runs", "studies", "cli")
loaded = [name for name in sys.modules for part in later if name.startswith(f"deadtime.{part}")]
print(json.dumps([chosen, loaded]))
"""


@pytest.mark.slow
def test_every_kind_acts_without_the_extras(tmp_path):
    rng = np.random.default_rng(0)
    expected = {}
    for kind, (draw, build) in KINDS.items():
        arrays = draw(rng)
        np.savez(tmp_path / f"{kind}.npz", **arrays)
        expected[kind] = acted(build(arrays))
    paths = f"{Path(deadtime.__file__).parents[1]}:{ROOT}"
    command = [sys.executable, "-c", CODE, json.dumps(BLOCKED), str(tmp_path)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": paths},
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    chosen, loaded = json.loads(done.stdout)
    assert chosen == expected
    assert loaded == []
    assert len({str(actions) for actions in expected.values()}) > 5


@pytest.mark.parametrize("path", sorted(RUNTIME.glob("*.py")), ids=lambda path: path.stem)
def test_runtime_imports_only_the_layers_before_it(path):
    allowed = ("deadtime._support", "deadtime.delays", "deadtime.wrappers", "deadtime.runtime")
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [name.name for name in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            assert not name.startswith("deadtime") or name.startswith(allowed), name


def test_constants_that_two_layers_share():
    assert manifest.LOOK_AHEADS == settings.PIXEL_MODELS
    assert FRAMES == (STACK, SIDE, SIDE)
