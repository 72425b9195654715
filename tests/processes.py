"""Processes of tests, each with a marker in its environment that its child processes inherit."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

MARKER = "DEADTIME_TEST_MARKER"
ROOT = Path(__file__).parents[1]
_STARTED = []


def marked(marker):
    """Return the numbers of the running processes with a marker, zombies left out."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state = (path / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX" and f"{MARKER}={marker}".encode() in (
                path / "environ"
            ).read_bytes().split(b"\0"):
                found.add(int(path.name))
        except OSError:  # it has just ended, or is another user's
            continue
    return found


def start(*words, cwd=".", **more):
    """Start a Python process with a marker and the variables `more`; return both."""
    marker = uuid4().hex
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, MARKER: marker, "PYTHONPATH": paths, **more}
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, *words], cwd=cwd, env=env, text=True, **pipes)
    _STARTED.append((process, marker))
    return process, marker


def send(number, *pids):
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.fixture(autouse=True)
def nothing_left():
    """End what a test started and did not end, as one that failed."""
    yield
    while _STARTED:
        process, marker = _STARTED.pop()
        send(signal.SIGKILL, *marked(marker))
        process.stderr.close()
        process.wait()


def wait_for(true, seconds=600):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)
