"""The trainer: when a group writes checkpoints."""

from threading import Event

import pytest

from deadtime.learn import trainer


class Clock:
    """A clock that only groups move."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Slow:
    """A group that trains one step a second, and takes `writing` seconds for a checkpoint."""

    length = 1000
    pairs = ()
    write_every_seconds = 60.0

    def __init__(self, clock, writing):
        self.clock = clock
        self.writing = writing
        self.done = 0
        self.written_at = []

    def advance(self):
        self.clock.now += 1.0
        self.done += 1
        return 1

    def write(self):
        self.written_at.append(self.done)
        self.clock.now += self.writing


@pytest.mark.parametrize(
    ("writing", "steps"), [(0.5, [61 * i for i in range(1, 17)]), (10.0, [61, 262, 463, 664, 865])]
)
def test_a_slow_checkpoint_is_written_less_often(monkeypatch, writing, steps):
    """Every 60 seconds, or so that writing takes a twentieth of the time."""
    clock = Clock()
    monkeypatch.setattr(trainer, "monotonic", clock)
    group = Slow(clock, writing)
    assert trainer._advanced(group, lambda n: None, Event(), group.write)
    assert group.written_at == steps
