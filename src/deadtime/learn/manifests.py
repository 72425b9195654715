"""The fields of a policy's manifest for each learner, from its arrays and settings."""

from __future__ import annotations

from typing import Any

import numpy as np

from deadtime.learn.run_spec import Run, TabularRun
from deadtime.runtime.dense_layers import outputs_of
from deadtime.runtime.frame_layers import FRAMES, MOST_ACTIONS, torso_outputs

Arrays = dict[str, np.ndarray]
Fields = dict[str, Any]


def of_table(spec: TabularRun, arrays: Arrays) -> Fields:
    """Return the fields of a table."""
    return {"states": spec.states, "actions": arrays["q"].shape[1]}


def of_deep_q(spec: Run, arrays: Arrays) -> Fields:
    """Return the fields of a Q-network on numbers."""
    return {
        "observation_shape": arrays["inputs/mean"].shape,
        "actions": outputs_of(arrays, "q"),
        "capacity": int(arrays["capacity"]),
        "age_inputs": int(arrays.get("age_inputs", 0)),
        "one_hot_queue": spec.learner.one_hot_queue,
        "members": spec.learner.members,
    }


def of_sac(spec: Run, arrays: Arrays) -> Fields:
    """Return the fields of an actor on numbers."""
    pending = int(arrays["capacity"]) * len(arrays["low"])
    ages = int(arrays.get("age_inputs", 0))
    return {
        "observation_shape": (arrays["layer/0/weight"].shape[1] - ages - pending,),
        "age_inputs": ages,
        "capacity": int(arrays["capacity"]),
        "members": spec.learner.members,
    } | _box(arrays)


def of_actor_critic(spec: Run, arrays: Arrays) -> Fields:
    """Return the fields of an actor-critic on numbers."""
    # without hidden layers, the LSTM sees the observation
    first = arrays["layer/0/weight" if "layer/1/weight" in arrays else "lstm/input"]
    fields: Fields = {"observation_shape": first.shape[1:], "memory": True}
    if "low" not in arrays:
        return fields | {"actions": outputs_of(arrays, "layer") - 1, "head": "logits"}
    return fields | _box(arrays)


def _box(arrays: Arrays) -> Fields:
    """Return the fields of actions within a box."""
    low, high = (tuple(arrays[name].tolist()) for name in ("low", "high"))
    return {"low": low, "high": high, "head": "bounded"}


def of_frame_q(spec: Run, arrays: Arrays) -> Fields:
    """Return the fields of a Q-network on frames."""
    seen = torso_outputs(spec.learner.channels)
    return {
        "observation_shape": FRAMES,
        "actions": _actions_of(spec, arrays),
        "encoder": "frames",
        "head": "dueling" if spec.learner.dueling else "values",
        "capacity": max(arrays[".hidden"].shape[1] - seen, 0) // MOST_ACTIONS,
    }


def of_frame_actor_critic(spec: Run, arrays: Arrays) -> Fields:
    """Return the fields of an actor-critic on frames."""
    return {
        "observation_shape": FRAMES,
        "actions": _actions_of(spec, arrays),
        "encoder": "frames",
        "head": "logits",
        "memory": True,
    }


def _actions_of(spec: Run, arrays: Arrays) -> int:
    """Return the number of a game's actions; for old records, which lack it, ask the emulator."""
    return int(arrays["actions"]) if "actions" in arrays else spec.environment(0).num_actions
