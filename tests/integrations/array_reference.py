"""Delay buffers, one environment at a time, by `deadtime.delays`; and random cases."""

import numpy as np
from gymnasium import spaces

from deadtime.delays import (
    AgeStream,
    Constant,
    GilbertElliott,
    Held,
    PendingActions,
    PerEpisode,
    RandomWalk,
    Trace,
    Uniform,
)

PROCESSES = [
    Constant(0),
    Constant(4),
    Uniform(1, 4),
    Uniform(0, 3),
    Held(0, 3, 0.3, 2),
    RandomWalk(0, 3),
    PerEpisode(Uniform(1, 3)),
    Trace([2, 1, 3, 0], repeat=True),
    GilbertElliott(Constant(1), Constant(3), 0.3, 0.5),
]
LANES, STEPS, WIDTH = 5, 40, 2


class Numbers:
    """A generator that returns the given numbers."""

    def __init__(self):
        self.next = None

    def random(self):
        return float(self.next)


class Case:
    """Items, resets and random numbers for some steps of a batch.

    The warm-up is one action, or `several`, one for each place of the queue.
    """

    def __init__(self, seed=0, several=0):
        rng = np.random.default_rng(seed)
        self.items = rng.normal(size=(STEPS, LANES, WIDTH)).astype(np.float32)
        self.resets = rng.random((STEPS, LANES)) < 0.15
        self.numbers = rng.random((2 * STEPS + 2, LANES), np.float32)
        shape = (several, WIDTH) if several else (WIDTH,)
        self.warmup = rng.normal(size=shape).astype(np.float32)


def _streams(process):
    streams = [AgeStream(process) for _ in range(LANES)]
    for stream in streams:
        stream._rng = Numbers()
    return streams


def _drawn(streams, row):
    for stream, number in zip(streams, row, strict=True):
        stream._rng.next = number


def executed(process, case):
    """Return the executed actions, the pending ones after each step, and the ages read."""
    space = spaces.Box(-np.inf, np.inf, (WIDTH,), np.float32)
    queues = [PendingActions(space, process.longest) for _ in range(LANES)]
    streams, numbers = _streams(process), iter(case.numbers)
    full = np.broadcast_to(case.warmup, (process.longest, WIDTH))
    _drawn(streams, next(numbers))
    ages = [stream.start() for stream in streams]
    for queue in queues:
        queue.fill(full)
    outputs, pending, read = [], [], []
    for t in range(STEPS):
        read.append(list(ages))
        outputs.append([q.push(case.items[t, i], ages[i])[0] for i, q in enumerate(queues)])
        if not process.chain.deterministic:
            _drawn(streams, next(numbers))
        ages = [stream.advance() for stream in streams]
        if process.constant is None:
            _drawn(streams, next(numbers))
        for i in np.flatnonzero(case.resets[t]):
            ages[i] = streams[i].start()
            queues[i].fill(full)
        pending.append([queue.actions for queue in queues])
    return np.array(outputs), np.array(pending), np.array(read)


def shown(process, case):
    """Return the observations shown, of which those after a reset are an episode's first."""
    streams, numbers = _streams(process), iter(case.numbers)
    _drawn(streams, next(numbers))
    ages = [stream.start() for stream in streams]
    past = [[] for _ in range(LANES)]
    outputs = []
    for t in range(STEPS):
        for i in range(LANES):
            past[i].append(case.items[t, i])
        outputs.append([past[i][-1 - min(ages[i], len(past[i]) - 1)] for i in range(LANES)])
        if not process.chain.deterministic:
            _drawn(streams, next(numbers))
        ages = [stream.advance() for stream in streams]
        if process.constant is None:
            _drawn(streams, next(numbers))
        for i in np.flatnonzero(case.resets[t]):
            ages[i] = streams[i].start()
            past[i].clear()
    return np.array(outputs)
