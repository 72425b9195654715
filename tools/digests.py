"""Digests of the results of training, which show whether a change of the code changed a result.

    python tools/digests.py OLD [NEW]     compare two checkouts (NEW: this one); exit 1 if different
    python tools/digests.py --write FILE  compute the digests of the installed deadtime

Each case trains a small run and digests its id, returns, curves, weights and actions. Cases cover
the tabular, compiled and host loops, the recurrent agent, Atari, and resumed runs. Bits depend on
the CPU and on the versions of JAX and NumPy, so both checkouts run here, with this Python. The
script uses public names only, since it must run in checkouts that differ inside.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parents[1]
PLAYED = 40
"""The number of random observations on which a policy acts."""
DEEP = {
    "steps": 600,
    "hidden": (8, 8),
    "batch_size": 16,
    "buffer_size": 200,
    "evaluation_episodes": 3,
}
HOST = DEEP | {"steps": 300}
RECURRENT = {"steps": 400, "hidden": (8,), "lstm": 8, "evaluation_episodes": 3}
PIXELS = {
    "steps": 120,
    "channels": (2, 2, 2),
    "hidden": 8,
    "envs": 2,
    "evaluation_episodes": 1,
    "max_episode_steps": 30,
}
FRAMES = PIXELS | {"learning_starts": 40, "buffer_size": 100}

FORMER_NAMES = {"batch_size": "batch", "buffer_size": "replay_transitions"}
"""Settings of the cases, with their names in older checkouts."""


def digest(value: Any) -> str:
    """Return a digest of numbers, texts, arrays, lists and dicts; all NaNs are equal."""
    found = hashlib.sha256()

    def take(one: Any) -> None:
        if isinstance(one, dict):
            for key in sorted(one, key=str):
                take(str(key))
                take(one[key])
        elif isinstance(one, str | bytes):
            found.update(one.encode() if isinstance(one, str) else one)
        elif isinstance(one, list | tuple) and any(
            isinstance(part, str | dict | list | tuple) for part in one
        ):
            for part in one:
                take(part)
        else:
            array = np.asarray(one)
            if array.dtype.kind == "f":
                array = np.where(np.isnan(array), np.nan, array)
            found.update(
                f"{array.dtype.str} {array.shape}".encode() + np.ascontiguousarray(array).tobytes()
            )

    take(value)
    return found.hexdigest()[:16]


def cases() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Yield the name of each case and the function that computes its digests."""
    for env, agents, delays, options in MATRIX:
        for agent, delay in product(agents, delays):
            about = " ".join(f"{key}={value}" for key, value in options.items() if key in SHOWN)
            yield f"{env} {agent} m={delay} {about}".strip(), _training(env, agent, delay, options)
    yield "planning", _planning
    yield "ids of the paper's runs", _paper_ids
    for name, arguments in RESUMED.items():
        yield f"resumed {name}", _resumption(arguments)


SHOWN = ("preset", "model", "envs", "until_return", "noise", "sticky", "members")
QUEUE = ("delayed", "augmented", "oblivious", "shifted")
MATRIX: list[tuple[str, tuple[str, ...], tuple[int, ...], dict[str, Any]]] = [
    ("maze", (*QUEUE, "distribution", "mbs"), (0, 3), {"size": 5, "episodes": 200, "seeds": 2}),
    (
        "noisy-maze",
        (*QUEUE, "distribution", "mbs"),
        (2,),
        {"size": 4, "episodes": 200, "seeds": 2, "noise": 0.2},
    ),
    ("maze", ("delayed",), (4,), {"size": 5, "episodes": 300, "until_return": 0.5}),
    ("walk", (*QUEUE, "distribution"), (0, 5), {"episodes": 200}),
    ("cartpole", QUEUE, (0, 3), DEEP | {"preset": "paper"}),
    ("noisy-cartpole", QUEUE, (4,), DEEP | {"preset": "best"}),
    ("noisy-cartpole", ("delayed",), (3,), DEEP | {"model": "simulator", "members": 2}),
    (
        "cartpole",
        ("delayed",),
        (3,),
        DEEP | {"model": "change", "members": 2, "evaluation_delays": (0, 5)},
    ),
    ("acrobot", QUEUE, (2,), DEEP | {"preset": "paper"}),
    ("gymnax:CartPole-v1", ("delayed", "augmented"), (2,), DEEP),
    ("cartpole", ("recurrent",), (0, 3), RECURRENT | {"preset": "paper"}),
    ("noisy-acrobot", ("recurrent",), (2,), RECURRENT | {"preset": "best"}),
    ("gym:CartPole-v1", QUEUE, (0, 3), HOST),
    ("gym:Acrobot-v1", ("delayed", "augmented"), (2,), HOST | {"envs": 3, "preset": "paper"}),
    ("atari:Breakout", ("delayed", "augmented", "oblivious"), (0, 3), FRAMES | {"preset": "paper"}),
    ("atari:Pong", ("delayed",), (2,), FRAMES | {"sticky": 0.25, "model": "kept"}),
    ("atari:Breakout", ("recurrent",), (2,), PIXELS | {"lstm": 8}),
]
RESUMED = {
    "compiled": shlex.split(
        "--env cartpole --agent delayed --delay 3 --steps 60000 --preset paper"
    ),
    "recurrent": shlex.split("--env cartpole --agent recurrent --delay 2 --steps 300000"),
    "atari": shlex.split(
        "--env atari:Breakout --agent delayed --delay 3 --steps 8000 --envs 2 "
        "--set=channels=[2,2,2] --set=hidden=8 --set=buffer_size=500 --set=learning_starts=100 "
        "--set=evaluation_episodes=1 --max-episode-steps 30"
    ),
}
"""The arguments of the runs that are interrupted and resumed."""


def _training(
    env: str, agent: str, delay: int, options: dict[str, Any]
) -> Callable[[], dict[str, Any]]:
    def compute() -> dict[str, Any]:
        import deadtime

        former = _former_names()
        named = {former.get(name, name): value for name, value in options.items()}
        result = deadtime.train(env, agent, delay, **named)
        found = _of_record(result.record)
        if options.get("model") != "simulator":
            policy = result.policy()
            found["actions"] = digest(_actions(policy, delay))
            if (
                env.startswith(("maze", "noisy-", "cartpole", "acrobot", "gym:"))
                and "gymnax" not in env
            ):
                settings = {name: options[name] for name in ("size", "noise") if name in options}
                settings |= {"maze_seed": result.seeds[0]} if "maze" in env else {}
                found["evaluated"] = digest(
                    deadtime.evaluate(policy, env, episodes=3, seed=7, **settings)
                )
        return found

    return compute


def _former_names() -> dict[str, str]:
    """Return the settings that have a former name in the checkout in use, with that name."""
    from deadtime.learn.settings import DoubleQ

    return {} if hasattr(DoubleQ, "batch_size") else FORMER_NAMES


def _of_record(record: Any) -> dict[str, Any]:
    """Return the digests of a record: its id, spec, numbers, curves and weights."""
    weights = {name: np.asarray(part) for name, part in record.policies.items()}
    numbers = {
        name: getattr(record, name)
        for name in ("seeds", "scores", "training_scores", "episodes", "status")
    }
    return {
        "id": record.id,
        "spec": digest(_without_former_names(record.spec)),
        "numbers": digest(numbers),
        "curve": digest({name: getattr(record, name) for name in ("points", "curve", "others")}),
        "weights": digest(weights),
    }


def _without_former_names(spec: dict[str, Any]) -> dict[str, Any]:
    today = {former: name for name, former in FORMER_NAMES.items()}
    changes = spec.get("changes", {})
    return spec | {"changes": {today.get(name, name): value for name, value in changes.items()}}


def _actions(policy: Any, delay: int) -> list[int]:
    """Return the actions of a policy on random observations and queues."""
    rng = np.random.default_rng(0)
    chosen = []
    for _ in range(PLAYED):
        queue = rng.integers(0, policy.num_actions, delay)
        if policy.num_states:
            chosen.append(policy.act(int(rng.integers(policy.num_states)), queue))
        elif len(policy.observation_shape) == 1:
            chosen.append(policy.act(rng.normal(size=policy.observation_shape), queue))
        else:
            frames, ahead = rng.integers(0, 256, (2, *policy.observation_shape), np.uint8)
            further = (ahead,) if getattr(policy, "looks_ahead", "") else ()
            chosen.append(policy.act(frames, queue, *further))
    return chosen


def _planning() -> dict[str, Any]:
    from deadtime.planning import MDP, solve

    rng = np.random.default_rng(1)
    found = {}
    for delay in (0, 1, 3):
        mdp = MDP(rng.dirichlet(np.ones(4), (4, 3)), rng.normal(size=(4, 3)), 0.9)
        solution = solve(mdp, delay)
        found[f"m={delay}"] = digest([solution.values, solution.policy])
    return found


def _paper_ids() -> dict[str, Any]:
    for place in ("deadtime.studies.paper", "deadtime.experiments.command"):
        try:
            experiments = import_module(place).EXPERIMENTS
            break
        except ModuleNotFoundError:
            continue
    return {
        name: digest(sorted({spec.name for spec in one.runs.values()}))
        for name, one in experiments.items()
    }


def _resumption(arguments: list[str]) -> Callable[[], dict[str, Any]]:
    """Return a function that interrupts a run, resumes it, and digests its record."""

    def compute() -> dict[str, Any]:
        import deadtime

        with tempfile.TemporaryDirectory() as folder:
            options = arguments
            for name, former in _former_names().items():
                options = [one.replace(f"--set={name}=", f"--set={former}=") for one in options]
            command = [sys.executable, "-m", "deadtime", "train", *options, "--out", folder]
            _interrupt_on_the_way(command)
            if not any(Path(folder).rglob("*.safetensors")):
                raise RuntimeError(
                    f"{shlex.join(command)} left no checkpoint when it was interrupted"
                )
            subprocess.run(
                [*command, "--json"],
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            (record,) = (path.parent for path in Path(folder).glob("*/run.json"))
            policy = deadtime.load(record)
            content = json.loads((record / "run.json").read_text())
            weights = dict(np.load(record / "policies.npz"))
            scores = {
                name: content[name]
                for name in ("id", "scores", "training_scores", "episodes", "status")
            }
            delay = int(arguments[arguments.index("--delay") + 1])
            return {name: digest(value) for name, value in scores.items()} | {
                "weights": digest(weights),
                "actions": digest(_actions(policy, delay)),
            }

    return compute


def _interrupt_on_the_way(command: list[str]) -> None:
    """Start a training on a terminal, and interrupt it when its progress bar shows steps."""
    reader, terminal = os.openpty()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=terminal)
    os.close(terminal)
    shown = ""
    with suppress(OSError):  # the end of a terminal's output
        while not re.search(r"[1-9][\d,]*/[\d,]+ steps", shown):
            shown = (shown + os.read(reader, 4096).decode(errors="replace"))[-4096:]
        process.send_signal(signal.SIGTERM)  # SIGINT is ignored in a shell's background
        while os.read(reader, 4096):
            pass
    process.wait()
    os.close(reader)


def write(path: Path, only: str) -> None:
    """Compute the digests of every case whose name contains `only`, and write them as JSON."""
    found = {}
    for name, compute in cases():
        if only in name:
            print(name, file=sys.stderr, flush=True)
            try:
                found[name] = compute()
            except Exception as error:  # the other cases still count, and a difference is reported
                print(f"  failed: {error!r}", file=sys.stderr, flush=True)
                found[name] = {"failed": repr(error)}
            path.write_text(json.dumps(found, indent=1))


def computed(checkout: Path, only: str) -> dict[str, Any]:
    """Return the digests of a checkout, computed in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digests.json"
        environment = os.environ | {
            "PYTHONPATH": str(checkout / "src"),
            "XDG_CACHE_HOME": folder,
            "JAX_PLATFORMS": "cpu",
        }
        command = [sys.executable, __file__, "--write", str(path), "--only", only]
        subprocess.run(command, check=True, env=environment, cwd=folder)
        return json.loads(path.read_text())


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return a line for each digest that differs or is missing."""
    lines = []
    for name in sorted({*old, *new}):
        before, after = old.get(name, {}), new.get(name, {})
        parts = [part for part in sorted({*before, *after}) if before.get(part) != after.get(part)]
        if parts:
            lines.append(f"{name}: {', '.join(parts)}")
    return lines


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "checkouts",
        nargs="*",
        type=Path,
        help="one or two folders of checkouts, or files of --write",
    )
    parser.add_argument(
        "--write", type=Path, help="write the digests of the installed deadtime to this file"
    )
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    given = parser.parse_args()
    if given.write:
        write(given.write, given.only)
        return 0
    if not 1 <= len(given.checkouts) <= 2:
        parser.error("name one checkout to compare with this one, or two")
    pair = [*given.checkouts, HERE][:2]
    old, new = (
        json.loads(one.read_text()) if one.is_file() else computed(one.resolve(), given.only)
        for one in pair
    )
    lines = differences(old, new)
    print("\n".join(lines) or f"the same: {len(new)} cases")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
