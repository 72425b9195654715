"""The two worlds of `late_robot.py`: a plant in real time, and one with a simulated clock."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from late_plant import Plant, Task, UdpWire, Wire, run

from deadtime.runtime import FixedRate, Timing

PHASE = 0.25
"""When the agent decides: the part of a step after the plant."""
Row = dict[str, Any]
"""A message of the plant, with what the agent did."""
Clock = Callable[[], float]


@dataclass
class Driver:
    """The agent's side of the link: it decides once a step, and keeps what it saw and did."""

    decide: Callable[[Row | None, Row], Any]
    """A function of the message that came, None if none did, and of the newest one."""
    start: Callable[[], None] = lambda: None
    """A function that is called when an episode begins."""
    rows: list[Row] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    _newest: Row | None = None

    def step(self, wire: Wire, now: float) -> None:
        """Read the messages, decide, and send a command."""
        fresh = None
        for message in wire.receive():
            if self._newest is None or _place(message) > _place(self._newest):
                if self._newest is None or message["episode"] > self._newest["episode"]:
                    self.start()
                fresh = self._newest = message
                if message["ended"]:
                    self.returns.append(message["earned"])
        newest = self._newest
        if newest is None or newest["ended"]:
            return
        action = np.asarray(self.decide(fresh, newest)).tolist()
        wire.send({"episode": newest["episode"], "number": len(self.rows), "action": action})
        self.rows.append({**newest, "now": now, "fresh": fresh is not None, "action": action})


def _place(message: Row) -> tuple[int, int]:
    """Return the place of a message in the order in which the plant sent it."""
    return message["episode"], message["step"]


class RealTime:
    """The plant in another process, at the rate of its clock."""

    def __init__(self, task: Task):
        self.task = task
        self.clock: Clock = time.monotonic
        self.timing: Timing | None = None

    def play(self, driver: Driver, done: Callable[[], bool], seed: int) -> None:
        """Let a driver act until it is done."""
        with self._plant(seed) as (wire, start):
            rate = FixedRate(self.task.period)
            time.sleep(start - time.monotonic())
            wire.receive()  # messages from before the start
            time.sleep(max(start + PHASE * self.task.period - time.monotonic(), 0))
            for _ in rate.steps():
                driver.step(wire, time.monotonic())
                if done():
                    break
        self.timing = rate.timing

    @contextmanager
    def _plant(self, seed: int) -> Iterator[tuple[UdpWire, float]]:
        """Run the plant; yield the agent's end of the wire, and the time at which it starts."""
        wire = UdpWire()
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=run, args=(self.task, wire.port, seed), daemon=True)
        process.start()
        while not wire.receive():
            if not process.is_alive():
                raise RuntimeError("the plant's process has ended")
            time.sleep(0.01)
        start = time.monotonic() + 0.2
        wire.send({"start": start})
        try:
            yield wire, start
        finally:
            wire.send({"stop": True})
            process.join(5)
            process.terminate()
            wire.close()


class QueueWire:
    """One end of a connection within a process."""

    def __init__(self) -> None:
        self.inbox: list[str] = []
        self.other = self

    def send(self, message: Row) -> None:
        """Send a message."""
        self.other.inbox.append(json.dumps(message))

    def receive(self) -> list[Row]:
        """Return the messages that have come."""
        found = [json.loads(text) for text in self.inbox]
        self.inbox.clear()
        return found


class SimulatedTime:
    """The plant in this process, with a clock that is as fast as the computer."""

    timing: Timing | None = None

    def __init__(self, task: Task):
        self.task = task
        self.now = 0.0

    def clock(self) -> float:
        """Return the simulated time."""
        return self.now

    def play(self, driver: Driver, done: Callable[[], bool], seed: int) -> None:
        """Let a driver act until it is done."""
        ours, theirs = QueueWire(), QueueWire()
        ours.other, theirs.other = theirs, ours
        plant = Plant(self.task, theirs, seed)
        start = self.now
        step = 0
        while not done():
            for place in np.arange(0, 1, 0.05):  # the link moves messages 20 times a step
                self.now = start + float(step + place) * self.task.period
                plant.carry(self.now)
                if place == 0:
                    plant.step(self.now)
                if place == PHASE:
                    driver.step(ours, self.now)
            step += 1


World = RealTime | SimulatedTime
