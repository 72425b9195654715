"""The process that runs a Ray cluster of this machine: `python -m deadtime.runs.ray_head`.

It prints the cluster's address, and ends the cluster when its input ends. All processes that Ray
starts are in its group, so a guard ends them too (see `ending`), even if the driver is killed.
"""

from __future__ import annotations

import logging
import signal
import sys
from contextlib import suppress
from typing import Any

LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""The environment variable that makes Ray use the loopback address only, here also on Linux."""
ADDRESS = "address: "
"""The start of the line with the cluster's address."""
QUIETLY: dict[str, Any] = {
    "log_to_driver": False,
    "include_dashboard": False,
    "configure_logging": False,
}


def main() -> None:
    """Start the cluster, and wait."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C
    import ray  # noqa: PLC0415  (it takes a while to load)

    logging.getLogger("ray").setLevel(logging.ERROR)
    ray.init(address="local", _node_ip_address="127.0.0.1", **QUIETLY)
    with suppress(BrokenPipeError):  # the driver is gone already
        print(f"{ADDRESS}{ray.get_runtime_context().gcs_address}", flush=True)
        sys.stdin.read()
    ray.shutdown()


if __name__ == "__main__":
    main()
