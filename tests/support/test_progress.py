"""Progress where there is no terminal, and times in words."""

import pytest

from deadtime._support import progress
from deadtime._support.progress import LINE_EVERY_SECONDS, Lines, about


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self):
        return self.now


def test_a_line_now_and_then(capsys):
    clock = Clock()
    lines = Lines("3 runs", 1000, "steps", clock)
    for _ in range(int(2 * LINE_EVERY_SECONDS)):  # it imports and compiles
        clock.now += 1
        lines.add(0)
    assert capsys.readouterr().err.splitlines() == ["3 runs: 0/1,000 steps (0%)"] * 2
    for _ in range(int(2 * LINE_EVERY_SECONDS) + 1):
        clock.now += 1
        lines.add(10)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "3 runs: 300/1,000 steps (30%), about 1 min left"
    assert second == "3 runs: 600/1,000 steps (60%), about 40 s left"


def test_resumed_steps_say_nothing_of_the_rate(capsys):
    clock = Clock()
    lines = Lines("a run", 1000, "steps", clock)
    lines.add(900)  # a checkpoint
    clock.now += LINE_EVERY_SECONDS
    lines.add(0)
    clock.now += LINE_EVERY_SECONDS
    lines.add(10)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "a run: 900/1,000 steps (90%)"
    assert second == "a run: 910/1,000 steps (91%), about 9 min left"


def test_short_work_writes_nothing(capsys):
    with progress.bar("a run", 5, "steps") as add:
        add(5)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "a few seconds"),
        (9.9, "a few seconds"),
        (11, "about 10 s"),
        (17, "about 15 s"),
        (34, "about 30 s"),
        (56, "about 60 s"),
        (58, "about 1 min"),
        (100, "about 1.5 min"),
        (130, "about 2 min"),
        (14 * 60, "about 15 min"),
        (50 * 60, "about 50 min"),
        (5 * 3600, "about 5 h"),
        (30 * 3600, "about 30 h"),
        (960 * 3600, "about 1,000 h"),
    ],
)
def test_times_in_words(seconds, words):
    assert about(seconds) == words
