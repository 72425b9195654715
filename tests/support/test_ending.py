"""The end of processes: guards, signals, and a command's last message."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from deadtime._support import ending
from deadtime.runs.specs import make_spec
from tests.processes import marked, nothing_left, send, start, wait_for  # noqa: F401
from tests.runs.stuck_env import __name__ as stuck

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="finds processes in /proc"
)
CHILD = (
    "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (2, 10, 15)]; "
    "print(1, flush=True); time.sleep(1000)"
)
OWNER = f"""
import os, subprocess, sys, time
from deadtime._support.ending import Guard
guard = Guard(grace=0.5)
child = [sys.executable, "-c", {CHILD!r}]
how = dict(process_group=guard.group, stdout=subprocess.PIPE)
children = [subprocess.Popen(child, **how) for _ in range(2)]
for one in children:
    one.stdout.readline()
open("ready", "w").close()
time.sleep(1000)
"""


@pytest.mark.slow
@needs_proc
def test_a_group_ends_after_its_owner_was_killed(tmp_path):
    owner, marker = start("-c", OWNER, cwd=tmp_path)
    wait_for((tmp_path / "ready").exists)
    assert len(marked(marker)) == 4
    owner.kill()
    owner.wait()
    wait_for(lambda: not marked(marker))


@pytest.mark.slow
@needs_proc
def test_a_group_whose_guard_was_killed_has_another(tmp_path):
    """Its processes ignore all signals but SIGKILL, and their owner is killed later."""
    owner, marker = start("-c", OWNER, cwd=tmp_path)
    wait_for((tmp_path / "ready").exists)
    before = marked(marker)
    guard = next(pid for pid in before if os.getpgid(pid) == pid)
    send(signal.SIGKILL, guard)
    wait_for(lambda: len(marked(marker) - before) == 1)
    owner.kill()
    owner.wait()
    wait_for(lambda: not marked(marker))


def test_a_group_ends_when_its_owner_asks():
    guard = ending.Guard()
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], process_group=guard.group, stdout=subprocess.PIPE
    )
    child.stdout.readline()
    guard.end()
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    guard.end()  # a second time does no harm


def test_a_guard_that_was_killed_is_replaced():
    guard = ending.Guard()
    first = guard.group
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: guard.group != first)
    guard.end()


@pytest.mark.slow
def test_a_process_that_writes_a_file_gets_more_time(tmp_path):
    """The child works for longer than the grace period, and ends by itself."""
    asks = (
        "import os, sys, time\nfor _ in range(40): os.kill(int(sys.argv[1]), 10); time.sleep(0.1)"
    )
    guard = ending.Guard(grace=2.0)
    first = guard.group
    child = subprocess.Popen([sys.executable, "-c", asks, str(first)], process_group=first)
    guard.hurry()
    assert child.wait() == 0
    assert guard.group == first
    guard.end()


def test_a_lost_interrupt_is_repeated(monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", ending.raise_again)
    before = signal.signal(signal.SIGUSR1, ending.interrupt)

    class Lost:
        def __del__(self):
            raise KeyboardInterrupt(signal.SIGUSR1)

    def lose():
        Lost()
        threading.Event().wait(10)

    try:
        with pytest.raises(KeyboardInterrupt) as pressed:
            lose()
        assert ending.number_of(pressed.value) == signal.SIGUSR1
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert ending.number_of(KeyboardInterrupt()) == signal.SIGINT
    shown = []
    ending.raise_again(SimpleNamespace(exc_type=ValueError, exc_value=ValueError()), shown.append)
    assert len(shown) == 1


def test_an_interrupt_waits_for_the_end_of_an_uninterrupted_block():
    """The outer of two blocks counts, also if a block fails."""
    before = signal.signal(signal.SIGUSR1, ending.interrupt)
    done = []

    def work():
        with ending.uninterrupted():
            with ending.uninterrupted():
                os.kill(os.getpid(), signal.SIGUSR1)
                done.append("inner")
            done.append("outer")
            raise ImportError
        done.append("after")

    try:
        with pytest.raises(KeyboardInterrupt) as pressed:
            work()
        assert ending.number_of(pressed.value) == signal.SIGUSR1
        assert done == ["inner", "outer"]
        with pytest.raises(KeyboardInterrupt):  # nothing is held back afterwards
            os.kill(os.getpid(), signal.SIGUSR1)
        with ending.uninterrupted():
            pass
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_other_threads_hold_no_interrupt_back():
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with ending.uninterrupted():
            inside.set()
            leave.wait(10)

    before = signal.signal(signal.SIGUSR1, ending.interrupt)
    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert inside.wait(10)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        leave.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)


def test_environments_may_not_change_what_signals_do(monkeypatch):
    monkeypatch.setenv("STUCK", "deaf")
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    make_spec(
        f"gym:{stuck}:deadtime-test/Stuck-v0", "oblivious", 0, {"preset": "paper", "steps": 10}
    ).environment(0)
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.slow
def test_the_exit_status_of_a_module_survives_an_interrupt_within_exec(tmp_path):
    """A signal may come while a dataclass is made, which compiles a text."""
    (tmp_path / "interrupted.py").write_text(
        "import sys\n"
        "from deadtime._support import ending\n"
        "try:\n"
        "    exec('raise KeyboardInterrupt(15)')\n"
        "except KeyboardInterrupt:\n"
        "    ending.forget_handled_interrupt()\n"
        "sys.exit(143)\n"
    )
    command = [sys.executable, "-m", "interrupted"]
    assert subprocess.run(command, check=False, cwd=tmp_path).returncode == 143
