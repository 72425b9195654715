"""README: every Python block run as written (the one with another library's agent where that is installed)."""

import ast
import builtins
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0][:40])
def test_python_block_runs(block, capsys):
    names = {}
    if "PPO" in block:
        pytest.importorskip("stable_baselines3", reason="needs pip install stable-baselines3")
        block = block.replace("50_000", "64")
    exec(block, names)
    assert "print" not in block or capsys.readouterr().out


def test_the_first_example_prints_what_its_comments_say(capsys):
    exec(BLOCKS[0], names := {})
    before, after = capsys.readouterr().out.splitlines()
    pending = [int(digit) for digit in re.findall(r"\d", before)]
    executed, *later = [int(digit) for digit in re.findall(r"\d", after)]
    assert [executed, *later] == [*pending, 1]
    assert len(pending) == 5
    assert names["info"]["executed_action"] == executed


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0][:40])
def test_python_block_imports_what_it_names(block):
    """Also of blocks whose libraries are not installed here."""
    tree = ast.parse(block)
    bound = {
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(tree)
        for alias in getattr(node, "names", [])
    }
    bound |= {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    read = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    assert not read - bound - {*dir(builtins)}
