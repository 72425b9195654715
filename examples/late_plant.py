"""The machine of `late_robot.py`: a Gymnasium environment in real time behind a late link.

`run` is the process of the plant. Messages are JSON in UDP datagrams on the loopback interface. The
link holds each one back for its latency, in both directions.
"""

from __future__ import annotations

import heapq
import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from deadtime.runtime import FixedRate

SILENCE = 60.0
"""The plant ends after as many seconds without a command."""


@dataclass(frozen=True)
class Task:
    """An environment in real time, its link, and the agent that learns it."""

    env: str
    period: float
    """Seconds of a step."""
    neutral: tuple[Any, ...]
    """The actions that the plant repeats in turn until the first command of an episode comes."""
    learn: dict[str, Any]
    """Arguments of `deadtime.train`."""
    state: Callable[[np.ndarray], np.ndarray]
    """A function from an observation to the environment's state, to draw it."""
    action_latency: float = 0.050
    observation_latency: float = 0.030
    """Seconds that the link holds a message back."""
    jitter: float = 0.001
    """Latencies are uniform within so many seconds around their mean."""


class Wire(Protocol):
    """One end of a connection, which never waits."""

    def send(self, message: dict[str, Any]) -> None:
        """Send a message."""

    def receive(self) -> list[dict[str, Any]]:
        """Return the messages that have come, in the order of their arrival."""


class UdpWire:
    """One end of a connection by UDP on the loopback interface."""

    def __init__(self, own: int = 0, other: int | None = None):
        """Bind a port, by default a free one; `other` is the port of the other end."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", own))
        self._socket.setblocking(False)
        self.other = other

    @property
    def port(self) -> int:
        """The port of this end."""
        return self._socket.getsockname()[1]

    def send(self, message: dict[str, Any]) -> None:
        """Send a message, if the other end is known."""
        if self.other is not None:
            self._socket.sendto(json.dumps(message).encode(), ("127.0.0.1", self.other))

    def receive(self) -> list[dict[str, Any]]:
        """Return the messages that have come."""
        found = []
        while True:
            try:
                content, (_, port) = self._socket.recvfrom(65536)
            except BlockingIOError:
                return found
            except ConnectionRefusedError:  # the other end is not there yet, or no more
                continue
            self.other = self.other or port
            found.append(json.loads(content))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class Link:
    """One direction of a link: a message comes out some time after it went in."""

    def __init__(self, latency: Callable[[], float]):
        """`latency` draws the seconds of one message."""
        self._latency = latency
        self._held: list[tuple[float, int, Any]] = []
        self._number = count()

    def put(self, message: Any, now: float) -> None:
        """Take a message."""
        heapq.heappush(self._held, (now + self._latency(), next(self._number), message))

    def take(self, now: float) -> list[Any]:
        """Return the messages whose time has come."""
        found = []
        while self._held and self._held[0][0] <= now:
            found.append(heapq.heappop(self._held)[2])
        return found


class Plant:
    """The environment: each step executes the newest command that has arrived."""

    def __init__(self, task: Task, wire: Wire, seed: int = 0):
        """Make the environment and the two directions of its link."""
        rng = np.random.default_rng(seed)

        def link(mean: float) -> Link:
            return Link(lambda: float(mean + rng.uniform(-task.jitter, task.jitter)))

        self.wire = wire
        self.stopped = False
        self._task = task
        self._env = gym.make(task.env)
        self._inward = link(task.action_latency)
        self._outward = link(task.observation_latency)
        self._episode = -1
        self._seed = seed
        self._start()

    def _start(self) -> None:
        """Start an episode."""
        self._episode += 1
        self._observation, _ = self._env.reset(seed=self._seed + self._episode)
        self._step = 0
        self._command: dict[str, Any] | None = None
        self._earned = 0.0
        self._ended = False

    def carry(self, now: float) -> bool:
        """Move messages through the link; return whether any command came in."""
        commands = self.wire.receive()
        for command in commands:
            self._inward.put(command, now)
        for message in self._outward.take(now):
            self.wire.send(message)
        return bool(commands)

    def step(self, now: float) -> None:
        """Send the observation, and execute the newest command."""
        for command in self._inward.take(now):
            self._obey(command)
        shown = {
            "episode": self._episode,
            "step": self._step,
            "stamp": now,
            "observation": self._observation.tolist(),
            "earned": self._earned,
            "ended": self._ended,
        }
        self._outward.put(shown, now)
        if self._ended:
            self._start()
            return
        neutral = self._task.neutral[self._step % len(self._task.neutral)]
        action = neutral if self._command is None else self._command["action"]
        space = self._env.action_space
        action = int(action) if isinstance(space, gym.spaces.Discrete) else np.float32(action)
        self._observation, reward, terminated, truncated, _ = self._env.step(action)
        self._earned += float(reward)
        self._ended = bool(terminated or truncated)
        self._step += 1

    def _obey(self, command: dict[str, Any]) -> None:
        """Take a command, unless a newer one came before it."""
        if "stop" in command:
            self.stopped = True
        elif command["episode"] == self._episode:
            newest = -1 if self._command is None else self._command["number"]
            if command["number"] > newest:
                self._command = command


def started(wire: UdpWire) -> float:
    """Tell the agent that the plant is ready, and return the monotonic time at which it starts."""
    for _ in range(round(SILENCE / 0.02)):
        wire.send({"ready": True})
        time.sleep(0.02)
        for message in wire.receive():
            return message["start"]
    raise TimeoutError("the agent did not start the plant")


def run(task: Task, port: int, seed: int) -> None:
    """Run the plant until it is stopped; `port` is that of the agent, which says when to start."""
    wire = UdpWire(other=port)
    plant = Plant(task, wire, seed)
    start = started(wire)
    heard = time.monotonic()

    def wait(seconds: float) -> None:
        """Sleep, and move messages in the meantime."""
        nonlocal heard
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if plant.carry(time.monotonic()):
                heard = time.monotonic()
            time.sleep(min(left, 0.001))

    wait(start - time.monotonic())
    for _ in FixedRate(task.period, sleep=wait).steps():
        now = time.monotonic()
        plant.carry(now)
        plant.step(now)
        if plant.stopped or now - heard > SILENCE:
            break
    wire.close()
