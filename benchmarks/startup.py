"""CPU time of starting commands: `python benchmarks/startup.py [PYTHON ...]`.

There is a column for each interpreter. A time is the least of five starts, user and system time
together. With another checkout's interpreter as a second argument, both are measured in one run.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

STARTS = 5
STATUS = (
    '{"units": 1, "done": 1, "work": 5, "work_done": 5, "seconds": 1.0, "running": [], '
    '"failed": [], "driver": "", "beat": 1, "written": ""}'
)
MODULE = ("-m", "deadtime")
COMMANDS = {
    "deadtime --help": (*MODULE, "--help"),
    "deadtime plan --help": (*MODULE, "plan", "--help"),
    "deadtime train --help": (*MODULE, "train", "--help"),
    "deadtime status FOLDER": (*MODULE, "status", "{folder}"),
    "import deadtime": ("-c", "import deadtime"),
    "deadtime plan two-state": (*MODULE, "plan", "two-state"),
}


def seconds(command: list[str], folder: str) -> float:
    """Return the least CPU time of several starts."""
    found = []
    for _ in range(STARTS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, capture_output=True, cwd=folder, env=os.environ, check=False)
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stderr.decode()[-500:]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


def main() -> None:
    pythons = sys.argv[1:] or [sys.executable]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / ".status.json").write_text(STATUS)
        for name, arguments in COMMANDS.items():
            given = [argument.format(folder=folder) for argument in arguments]
            times = [f"{seconds([python, *given], folder):.2f} s" for python in pythons]
            print(f"{name:26}", *times)


if __name__ == "__main__":
    main()
