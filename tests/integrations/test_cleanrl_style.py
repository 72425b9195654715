"""The example in CleanRL's style: how little a delay changes, and that it runs."""

import difflib
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = ("cleanrl_dqn.py", "cleanrl_dqn_delay.py")


def test_the_difference_is_at_most_twenty_lines():
    original, delayed = ((EXAMPLES / name).read_text("utf-8").splitlines() for name in FILES)
    changed = [line for line in difflib.ndiff(original, delayed) if line.startswith(("+ ", "- "))]
    assert 10 < len(changed) <= 20
    assert len(original) < 170


@pytest.mark.full
@pytest.mark.parametrize("name", FILES)
def test_it_runs(name, tmp_path):
    pytest.importorskip("torch", reason="needs pip install '.[sb3]'")
    settings = ("--total-steps", "1500", "--learning-starts", "100", "--evaluation-episodes", "2")
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *settings],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"mean return of the greedy policy: \d+\.\d", done.stdout)
