"""The engine that runs units on a Ray cluster: a running one, or one started on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from time import monotonic
from typing import Any

from deadtime._support import timeouts
from deadtime._support.ending import WRITING_SECONDS, Guard, unhurried
from deadtime._support.machine import CORES, started
from deadtime.runs.engines import Event, event_of
from deadtime.runs.ray_head import ADDRESS, LOOPBACK, QUIETLY
from deadtime.runs.unit_worker import done
from deadtime.runs.units import Unit, from_json


class Ray:
    """The engine of a Ray cluster at an address, or of one that it starts on this machine."""

    def __init__(self, address: str | None):
        """Connect to a cluster, or start one."""
        self._head: _Head | None = None
        self._running: dict[Any, Unit] = {}
        self._ray = _ray()
        self._connected = not self._ray.is_initialized()
        if self._connected:
            _check_answers(address or "")
            try:
                self._connect(address)
            except BaseException:
                self.close()
                raise
        self._refused: list[Event] = []
        self._nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        here = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            self._ray.get_runtime_context().get_node_id(), soft=True
        )
        self._board = self._ray.remote(num_cpus=0, max_restarts=-1, scheduling_strategy=here)(
            _Board
        ).remote()

    def _connect(self, address: str | None) -> None:
        if address is None:
            self._head = _Head()
        try:
            with _loopback() if self._head else nullcontext():
                self._ray.init(address=self._head.address if self._head else address, **QUIETLY)
        except ConnectionError:
            raise _no_cluster(address) from None
        except RuntimeError as error:  # such as other versions of Ray or Python
            why = " ".join(str(error).split())
            raise ConnectionError(
                f"Ray can't be used ({why}): install here the versions of Ray and Python that the "
                "cluster has"
            ) from error

    @property
    def gpus(self) -> int:
        """Return the number of GPUs of the whole cluster."""
        return int(self._ray.cluster_resources().get("GPU", 0))

    def start(self, unit: Unit, checkpoints: str) -> bool:
        """Submit a unit, unless enough are waiting; Ray decides when and where it runs."""
        most = 2 * int(self._ray.cluster_resources().get("CPU", 1)) + 8
        if len(self._running) + len(self._refused) >= most:
            return False
        widest = max(
            (int(node.get("CPU", 0)) for node in self._nodes if node.get("GPU", 0) >= unit.gpus),
            default=0,
        )
        largest = max((node.get("memory", 0) for node in self._nodes), default=0)
        memory = 0 if unit.gpus else unit.memory  # on a GPU, memory is the GPU's
        if not widest or memory > largest:
            what = (
                f"{memory / 2**30:.3g} GiB"
                if widest
                else "a core and a GPU"
                if unit.gpus
                else "a core"
            )
            self._refused.append(
                Event(unit, failed=f"it needs {what}, and no node of the cluster has that")
            )
            return True
        needs = {"num_cpus": min(unit.cpus, widest), "num_gpus": unit.gpus, "memory": memory}
        task = self._ray.remote(**needs, max_retries=0)(_on_ray)
        limit = os.environ.get(timeouts.VARIABLE, "")
        self._running[
            task.remote(unit.to_json(), needs["num_cpus"], limit, checkpoints, self._board)
        ] = unit
        return True

    def events(self) -> Iterator[Event]:
        """Yield the units that ended, and the progress of the others."""
        while self._refused:
            yield self._refused.pop()
        if not self._running:
            return
        ready, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0.5)
        by_id = {unit.id: unit for unit in self._running.values()}
        for unit_id, n in self._progress().items():
            if unit_id in by_id:
                yield Event(by_id[unit_id], progress=n)
        for reference in ready:
            unit = self._running.pop(reference)
            try:
                yield event_of(unit, self._ray.get(reference))
            except self._ray.exceptions.RayError as error:
                first, *_ = [*str(error).strip().splitlines(), ""]
                yield Event(unit, failed=f"{type(error).__name__}: {first}")

    def _progress(self) -> dict[str, int]:
        try:
            return self._ray.get(self._board.taken.remote(), timeout=5)
        except self._ray.exceptions.RayError:  # the board restarts, and only progress needs it
            return {}

    def close(self) -> None:
        """Cancel all units, which get a minute for checkpoints, and end a cluster started here."""
        with unhurried():
            try:
                self._cancel(force=False)
                if self._running:
                    with suppress(Exception):
                        self._ray.wait(
                            list(self._running),
                            num_returns=len(self._running),
                            timeout=WRITING_SECONDS,
                        )
                self._cancel(force=True)
            finally:  # also after a second interrupt
                if self._connected:
                    self._ray.shutdown()
                if self._head is not None:
                    self._head.end()

    def _cancel(self, force: bool) -> None:
        for reference in self._running:
            with suppress(Exception):
                self._ray.cancel(reference, force=force)


class _Head:
    """A Ray cluster that ends with this process, and listens to this machine only."""

    def __init__(self) -> None:
        """Start the cluster, and wait for its address."""
        self._guard = Guard()
        self._process = started(
            "deadtime.runs.ray_head",
            env=LOOPBACK,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=self._guard.group,
        )
        lines = (line.decode() for line in self._process.stdout)  # type: ignore[union-attr]
        self.address = next(
            (line.removeprefix(ADDRESS).strip() for line in lines if line.startswith(ADDRESS)), ""
        )
        if not self.address:
            self.end()
            raise ConnectionError(
                "Ray can't start a cluster on this machine; its output is above: "
                "leave --engine ray out"
            )

    def end(self) -> None:
        """End the cluster; processes that remain after the grace period are killed."""
        try:
            self._process.stdin.close()  # type: ignore[union-attr]
            self._guard.hurry()
            self._process.wait()
        finally:
            self._guard.end()
            self._process.wait()
            self._process.stdout.close()  # type: ignore[union-attr]


@contextmanager
def _loopback() -> Iterator[None]:
    """Let Ray use the loopback address and its token, as it does for a cluster that it starts."""
    from ray._private import ray_constants  # noqa: PLC0415  (Ray takes a while to load)
    from ray._raylet import Config  # type: ignore[attr-defined]  # noqa: PLC0415

    os.environ.setdefault("RAY_AUTH_MODE", "token")
    Config.initialize("")  # it reads the variable again
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _check_answers(address: str) -> None:
    """Raise if no cluster answers at once; Ray itself would wait for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError:
            raise _no_cluster(address) from None


def _no_cluster(address: str | None) -> ConnectionError:
    return ConnectionError(
        f"no Ray cluster answers at {address}: start one (`ray start --head`), "
        "or leave --address out"
    )


def _ray() -> Any:
    try:
        import ray  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            f"--engine ray needs Ray, which can't be imported ({error}): pip install ray fsspec, "
            "or in a clone of this repository pip install '.[ray]'"
        ) from error
    return ray


class _Board:
    """The board on which units of a cluster report their progress."""

    def __init__(self) -> None:
        self._untaken: dict[str, int] = {}

    def add(self, unit: str, n: int) -> None:
        self._untaken[unit] = self._untaken.get(unit, 0) + n

    def taken(self) -> dict[str, int]:
        taken = self._untaken
        self._untaken = {}
        return taken


def _on_ray(text: str, cpus: int, limit: str, checkpoints: str, board: Any) -> bytes:
    """Run a unit on a node of a cluster; `limit` is the time limit for steps."""
    os.environ[CORES] = str(cpus)  # before JAX starts
    os.environ[timeouts.VARIABLE] = limit
    unit = from_json(text)
    unreported = 0
    last = 0.0

    def tell(n: int) -> None:
        nonlocal unreported, last
        unreported += n
        if monotonic() - last > 1.0:
            board.add.remote(unit.id, unreported)
            unreported = 0
            last = monotonic()

    return done(unit, checkpoints, tell)
