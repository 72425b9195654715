"""Estimated and real times of commands: `python benchmarks/estimates.py [FIRST [LAST]]`.

The table has a line for each command: the estimate that it makes before it trains, the real time,
and the ratio of the two. A ratio from 0.5 to 2 is the aim. FIRST and LAST choose lines by number.

All commands share a folder of compiled programs that is empty at first. So the first command of a
program compiles it, and later ones load it. Nothing else may run meanwhile. Processor seconds are
printed too: on one core (`taskset -c 1`) they show the same on a busy machine.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

SWEEP = """
environments = ["noisy-maze", "cartpole"]
agents = ["delayed", "oblivious"]
delays = [2]
seeds = 2
presets = ["paper"]
[overrides.noisy-maze]
episodes = 2000
[overrides.cartpole]
steps = 20_000
"""
COMMANDS = (
    "train --env maze --agent delayed --delay 5",
    "train --env noisy-maze --agent augmented --delay 15 --seeds 5",
    "compare --env noisy-maze --delays 0 5 15 --seeds 3",
    "train --env cartpole --agent delayed --delay 5 --steps 5000",
    "train --env cartpole --agent delayed --delay 4 --steps 50000",
    "train --env cartpole --agent delayed --delay 3 --steps 60000",
    "train --env noisy-acrobot --agent augmented --delay 10 --preset paper --steps 60000",
    "train --env noisy-cartpole --agent projected --delay 12 --steps 20000 --seeds 3",
    "train --env cartpole --agent recurrent --delay 3 --steps 100000",
    "compare --env cartpole --agents delayed oblivious --delays 2 --preset paper --steps 20000",
    "train --env pendulum --agent projected --delay 4 --steps 3000",
    "train --env noisy-cartpole --agent delayed --delay uniform:1-6 --steps 20000",
    "train --env gym:CartPole-v1 --agent delayed --delay 3 --steps 5000",
    "train --env gym:MountainCar-v0 --agent oblivious --delay 2 --preset paper --steps 6000",
    "train --env gym:Pendulum-v1 --agent augmented --delay 2 --steps 6500",
    "train --env gym:HalfCheetah-v5 --agent delayed --delay 5 --steps 6500",
    "train --env table:FrozenLake-v1 --agent delayed --delay 2 --seeds 3",
    "sweep {sweep}",
    "reproduce complexity --seeds 1",
    "reproduce heatmap-maze --seeds 1",
    "reproduce misspecification --seeds 1 --next 1",
)


def told(path: str, words: list[str]) -> None:
    """Run one command in this process, and write the seconds that it estimates to a file."""
    driver = import_module("deadtime.runs.driver")
    seconds_needed = driver.seconds_needed

    def noted(*given: object, **named: object) -> float:
        seconds = seconds_needed(*given, **named)
        Path(path).write_text(str(seconds))
        return seconds

    driver.seconds_needed = noted
    import_module("deadtime.cli").main(words)


def measured(words: list[str], folder: Path) -> tuple[float, float, float]:
    """Return the estimated, the real and the processor seconds of a command."""
    path = folder / "estimate"
    path.unlink(missing_ok=True)
    caches = {"XDG_CACHE_HOME": str(folder), "NUMBA_CACHE_DIR": str(folder / "numba")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = perf_counter()
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run(
            [sys.executable, __file__, "--told", str(path), *words, "--out", out],
            capture_output=True,
            env=os.environ | caches,
            check=False,
        )
    took = perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"{words}: {done.stderr.decode()[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return float(path.read_text()), took, cpu


def main() -> None:
    first, last = (*map(int, sys.argv[1:]), *[1, len(COMMANDS)][len(sys.argv) - 1 :])[:2]
    print("estimate   real  ratio  processor  ratio")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sweep = folder / "sweep.toml"
        sweep.write_text(SWEEP)
        for number, command in enumerate(COMMANDS, 1):
            if not first <= number <= last:
                continue
            if "HalfCheetah" in command and not find_spec("mujoco"):
                print(f"{number}: {command}: needs pip install 'deadtime[mujoco]'")
                continue
            estimate, took, cpu = measured(command.format(sweep=sweep).split(), folder)
            print(
                f"{estimate:8.1f} {took:6.1f} {estimate / took:6.2f} {cpu:10.1f} "
                f"{estimate / cpu:6.2f}  {number}: {command}",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--told"]:
        told(sys.argv[2], sys.argv[3:])
    else:
        main()
