"""README: short, every Python block runs as written, and the sweep is one."""

import re
import tomllib
from pathlib import Path

import pytest

from deadtime.runs import sweep_file

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_readme_is_short():
    assert len(README.splitlines()) <= 120


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=["wrap", "train"])
def test_python_block_runs(block, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(block, {})
    assert capsys.readouterr().out


def test_the_first_example_reads_the_action_of_the_age_that_it_prints(capsys):
    exec(BLOCKS[0], names := {})
    before, after = capsys.readouterr().out.splitlines()
    *pending, age = (int(digit) for digit in re.findall(r"\d", before))
    assert f"age {age}: [-{age}] is executed next" in BLOCKS[0]
    assert after == f"{pending[-age]} {age}"
    assert len(pending) == 6
    assert names["info"]["pending_actions"][-1] == 1


def test_the_sweep_of_the_readme_is_one(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    asked = tomllib.loads(text)
    path = tmp_path / "mine.toml"
    path.write_text(text)
    runs = sweep_file.read(path)
    assert len(runs) == len(asked["environments"]) * len(asked["agents"]) * len(asked["delays"])
