"""Time of a decision in a control loop: NumPy, the whole controller, and ONNX Runtime.

    python benchmarks/runtime.py [DECISIONS [ROUNDS]]

Each policy has the networks of preset `best` with random weights: two hidden layers of 64 numbers,
CartPole's observation and actions, 25 pending actions. That of SAC has two of 256 and 5 pending
actions. Times are medians and 99th percentiles on one thread, of the round with the smallest
median: other programs on the machine only add time.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import platform
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from deadtime.runtime import Controller, Manifest, NetworkPolicy

DELAY = 25


def dense(part: str, widths: tuple[int, ...], lead: tuple[int, ...] = ()) -> dict[str, np.ndarray]:
    """Return random layers."""
    rng = np.random.default_rng(0)
    found = {}
    for i, (inputs, outputs) in enumerate(pairwise(widths)):
        limit = (3 / (inputs + outputs)) ** 0.5
        weight = rng.uniform(-limit, limit, (*lead, outputs, inputs))
        found[f"{part}/{i}/weight"] = weight.astype(np.float32)
        found[f"{part}/{i}/bias"] = np.zeros((*lead, outputs), np.float32)
    return found


def policies() -> dict[str, NetworkPolicy]:
    """Return the policies that are measured."""
    own = {"observation_shape": (4,), "actions": 2, "one_hot_queue": True}
    scales = {f"{part}/mean": np.zeros(4, np.float32) for part in ("inputs", "changes")}
    scales |= {f"{part}/deviation": np.ones(4, np.float32) for part in ("inputs", "changes")}
    delayed = Manifest("delayed", "prediction", DELAY, model="change", **own)
    arrays = dense("q", (4, 64, 64, 2)) | dense("model", (6, 64, 64, 4), (1,)) | scales
    projected = Manifest("projected", "queue", DELAY, capacity=DELAY, **own)
    wide = dense("q", (4 + 2 * DELAY, 64, 64, 2))
    box = {"low": (-1.0,) * 3, "high": (1.0,) * 3, "head": "bounded"}
    sac = Manifest("sac", "queue", 5, observation_shape=(11,), capacity=5, **box)
    return {
        "delayed, m = 25, rolled": NetworkPolicy(delayed, arrays),
        "projected, m = 25": NetworkPolicy(projected, wide),
        "SAC that sees the queue, m = 5": NetworkPolicy(
            sac, dense("layer", (11 + 15, 256, 256, 6))
        ),
    }


def milliseconds(call: Callable[[], Any], decisions: int) -> tuple[float, float]:
    """Return the median and the 99th percentile of a call's time."""
    for _ in range(200):
        call()
    found = []
    for _ in range(decisions):
        before = time.perf_counter()
        call()
        found.append(time.perf_counter() - before)
    middle, late = np.quantile(found, [0.5, 0.99]) * 1e3
    return float(middle), float(late)


def onnx_call(policy: NetworkPolicy, obs: np.ndarray, queue: np.ndarray) -> Callable[[], Any]:
    """Return a function that decides with ONNX Runtime."""
    import onnxruntime

    from deadtime.runtime import to_onnx

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(to_onnx(policy), options)
    given = {"observation": obs, "pending_actions": queue}
    return lambda: session.run(["action"], given)


def main() -> None:
    decisions = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    print(f"{platform.processor() or platform.machine()}, NumPy {np.__version__}")
    print(f"milliseconds of a decision: median (99th percentile), best of {rounds} rounds")
    print(f"{'policy':32} {'act':>18} {'Controller.step':>18} {'ONNX Runtime':>18}")
    for name, policy in policies().items():
        rng = np.random.default_rng(0)
        obs = rng.normal(size=policy.observation_shape).astype(np.float32)
        queue = rng.integers(2, size=(policy.delay, *policy.action_shape))
        queue = queue.astype(np.float32 if policy.action_shape else np.int64)
        controller = Controller(policy, np.zeros(3) if policy.action_shape else 0)
        controller.warm()
        calls = (
            lambda policy=policy, obs=obs, queue=queue: policy.act(obs, queue),
            lambda controller=controller, obs=obs: controller.step(obs),
            onnx_call(policy, obs, queue),
        )
        best = [min(milliseconds(call, decisions) for _ in range(rounds)) for call in calls]
        print(f"{name:32}", *(f"{f'{middle:.4f} ({late:.4f})':>18}" for middle, late in best))


if __name__ == "__main__":
    main()
