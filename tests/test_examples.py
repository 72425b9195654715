"""The scripts in examples/, run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


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
