"""The scripts in examples/, run as they stand."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
SHOWN = [
    ROOT / "README.md",
    *EXAMPLES.glob("*.py"),
    *(ROOT / "benchmarks").glob("*.py"),
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "docs" / "notebooks").glob("*.md"),
]
IMPORT = re.compile(r"^\s*from (deadtime[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)
"""An import of names from deadtime, on one line or in brackets."""


def run(cwd, script, *arguments):
    done = subprocess.run(
        [sys.executable, EXAMPLES / script, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_examples_benchmarks_and_pages_import_public_names_only():
    imports = [found for path in SHOWN for found in IMPORT.findall(path.read_text("utf-8"))]
    assert len(imports) > 20
    for module, names in imports:
        if module.startswith("deadtime.integrations"):
            continue  # the test of integrations below
        wanted = {name.split()[0] for name in names.strip("()").split(",") if name.strip()}
        assert wanted <= {*import_module(module).__all__}, module


@pytest.mark.full
def test_examples_benchmarks_and_pages_import_public_names_of_integrations_only():
    pytest.importorskip("stable_baselines3", reason="needs pip install '.[sb3]'")
    pytest.importorskip("torchrl", reason="needs pip install '.[torchrl]'")
    imports = [found for path in SHOWN for found in IMPORT.findall(path.read_text("utf-8"))]
    imports = [found for found in imports if found[0].startswith("deadtime.integrations.")]
    assert len(imports) > 5
    for module, names in imports:
        wanted = {name.split()[0] for name in names.strip("()").split(",") if name.strip()}
        assert wanted <= {*import_module(module).__all__}, module


@pytest.mark.full
def test_sb3_under_delay(tmp_path):
    pytest.importorskip("stable_baselines3", reason="needs pip install '.[sb3]'")
    arguments = ("--steps", "1100", "--seeds", "0", "--delay", "2")
    printed = run(tmp_path, "sb3_under_delay.py", *arguments)
    agents = ["plain", "queue", "predicted", "projected"]
    assert re.findall(r"(\w+), seed 0: mean return \d+", printed) == agents


@pytest.mark.full
def test_expert_under_delay(tmp_path):
    printed = run(tmp_path, "expert_under_delay.py", "0", "25")
    rows = {
        int(row[0]): [int(cell) for cell in row[1:]]
        for row in re.findall(r"│ (\d+) +" + r"│ (\d+) +" * 4, printed)
    }
    assert rows[0] == [500, 500, 500, 500]
    sees, predicts, _, _ = rows[25]
    assert sees < 100
    assert predicts == 500
    assert (tmp_path / "out" / "expert_under_delay.png").stat().st_size > 10_000


@pytest.mark.full
def test_train_with_sb3(tmp_path):
    pytest.importorskip("stable_baselines3", reason="needs pip install stable-baselines3")
    printed = run(tmp_path, "train_with_sb3.py", "--delay", "2", "--steps", "64")
    assert re.findall(r"PPO, delay 2, (.*): \d+ ± \d+", printed) == [
        "observation alone",
        "observation and queue",
    ]
