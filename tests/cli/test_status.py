"""`deadtime status`: the time left, as progress lines show it."""

import json

import pytest

from deadtime.runs.driven import STATUS, alone
from tests.commands import run

HALF = {
    "units": 4,
    "done": 2,
    "work": 1000,
    "work_done": 400,
    "seconds": 120.0,
    "running": [],
    "failed": [],
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / STATUS).write_text(json.dumps(HALF))
    return tmp_path


def test_the_time_left_of_a_running_driver(folder):
    with alone(folder):
        assert run("status", folder).stdout.endswith("\nrunning, about 3 min left\n")
        assert json.loads(run("status", folder, "--json").stdout)["seconds_left"] == 180


def test_no_time_is_left_without_a_driver(folder):
    lines = run("status", folder).stdout.splitlines()
    assert lines[-1] == "stopped; run the same command again to resume it"
