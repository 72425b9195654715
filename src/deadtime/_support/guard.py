"""The guard process, which ends a group of processes after its owner.

`ending.Guard` starts it as `python guard.py OWNER GRACE WRITING`. The guard is in the group and
does nothing else. When its owner closes the guard's input or dies, the group has GRACE seconds. A
process that writes a file asks for more time with SIGUSR1, up to WRITING seconds in all.
"""

import os
import select
import signal
import sys
from time import monotonic, sleep


def main(owner: int, grace: float, writing: float) -> None:
    """Wait for the owner's end and then for the grace period, and kill the group."""
    asked: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, frame: asked.append(number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    while os.getppid() == owner and not select.select([0], [], [], 0.2)[0]:
        pass
    began = monotonic()
    deadline = began + grace
    while monotonic() < deadline:
        if asked:
            asked.clear()
            deadline = min(monotonic() + grace, began + writing)
        sleep(0.1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
