"""Sizes that would fill memory or never end are refused before any work is done."""

import pytest

from tests.commands import run

TOO_MUCH = {
    "seeds of train": (
        ["train", "--env", "maze", "--seeds", "2147483647"],
        "a run has at most 100,000 seeds; got 2,147,483,647",
    ),
    "seeds of compare": (
        ["compare", "--env", "maze", "--seeds", "2147483647"],
        "a run has at most 100,000 seeds",
    ),
    "delay of train": (
        ["train", "--env", "maze", "--delay", "2147483647"],
        "no decision is ever executed",
    ),
    "delay of deep agents": (["train", "--env", "cartpole", "--delay", "2147483647"], "delay"),
    "delay of plan": (
        ["plan", "two-state", "--delay", "2147483647"],
        "plan solves delays up to 1,000,000; got 2,147,483,647",
    ),
    "size of a maze": (["train", "--env", "maze", "--size", "100000"], "size"),
    "size of a planned maze": (["plan", "maze", "--size", "100000"], "size"),
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_too_much_is_refused_first(what, tmp_path):
    command, why = TOO_MUCH[what]
    found = run(*command, cwd=tmp_path)
    assert found.returncode == 2, found.stderr
    assert why in found.stderr
    assert "Traceback" not in found.stderr
    assert not [*tmp_path.iterdir()]
