"""An environment that gets stuck in the way that the variable STUCK names, or not without it."""

import ctypes
import gc
import os
import signal
import threading
import time
from pathlib import Path

import gymnasium as gym
import numpy as np


class Stuck(gym.Env):
    """An environment with five steps an episode, which may get stuck from step `at` on."""

    def __init__(self, at=0):
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self._at = at
        self._steps = 0
        self._t = 0
        if (
            os.environ.get("STUCK") == "deaf"
            and threading.current_thread() is threading.main_thread()
        ):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
                signal.signal(number, signal.SIG_IGN)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        if self._steps >= self._at:
            how = os.environ.get("STUCK", "")
            if how in HOWS and how:
                Path(os.environ.get("ONCE", os.devnull)).touch()
            (HOWS | MORE)[how]()
        self._steps += 1
        self._t += 1
        return np.full(1, self._t / 5, np.float32), float(action), False, self._t == 5, {}


def sleep():
    while True:
        time.sleep(1000)


def hear_nothing():
    while True:
        try:
            sleep()
        except BaseException:
            continue


def sleep_once():
    """Sleep in the first process only, which creates the file ONCE."""
    if not Path(os.environ["ONCE"]).exists():
        Path(os.environ["ONCE"]).touch()
        sleep()


def begin_collecting():
    if collecting not in gc.callbacks:
        gc.callbacks.append(collecting)
        gc.set_threshold(1, 1, 1)


def collecting(phase, about):
    """Sleep in garbage collection, where exceptions are lost, until a signal arrives."""
    if (
        threading.current_thread() is threading.main_thread()
        and not Path(os.environ["ONCE"]).exists()
    ):
        Path(os.environ["ONCE"]).touch()
        time.sleep(1000)


def keep_the_interpreter():
    """Sleep without letting another thread of this process run."""
    ctypes.PyDLL(None).sleep(1000)


HOWS = {"": lambda: None, "sleep": sleep, "deaf": hear_nothing, "greedy": keep_the_interpreter}
MORE = {"once": sleep_once, "collecting": begin_collecting}
"""Ways that need the variable ONCE, the name of a file that they create when they begin."""
gym.register("deadtime-test/Stuck-v0", Stuck)
