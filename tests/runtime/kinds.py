"""Random arrays of networks and tables, and a policy of each kind."""

from itertools import pairwise

import numpy as np

from deadtime.runtime import Manifest, NetworkPolicy, TablePolicy

DELAY = 3
CHANNELS = (3, 4, 5)


def dense(rng, part, widths, lead=()):
    """Return the layers of a network as a record names them."""
    arrays = {}
    for i, (inputs, outputs) in enumerate(pairwise(widths)):
        limit = (6 / (inputs + outputs)) ** 0.5
        weight = rng.uniform(-limit, limit, (*lead, outputs, inputs))
        arrays[f"{part}/{i}/weight"] = weight.astype(np.float32)
        arrays[f"{part}/{i}/bias"] = rng.normal(0, 0.1, (*lead, outputs)).astype(np.float32)
    return arrays


def deep(rng, inputs, model="learned", members=1, numbers=4, actions=3, hidden=(8, 8)):
    """Return the arrays of a Q-network, its forward models and their scales."""
    shown = actions if model == "change" else 1
    arrays = dense(rng, "q", (inputs, *hidden, actions))
    arrays |= dense(rng, "model", (numbers + shown, *hidden, numbers), (members,))
    for part in ("inputs", "changes"):
        arrays[f"{part}/mean"] = rng.normal(0, 0.1, numbers).astype(np.float32)
        arrays[f"{part}/deviation"] = rng.uniform(0.1, 0.5, numbers).astype(np.float32)
    return arrays


def recurrent(rng, numbers=4, actions=3, units=5):
    """Return the arrays of a recurrent network with layer normalisation."""
    shapes = {
        "lstm/input": (4 * units, 8),
        "lstm/output": (4 * units, units),
        "lstm/bias": (4 * units,),
    }
    shapes |= {"layer/1/weight": (actions + 1, units), "layer/1/bias": (actions + 1,)}
    for i, size in enumerate((4 * units, 4 * units, units)):
        shapes |= {f"norm/{i}/gain": (size,), f"norm/{i}/shift": (size,)}
    return dense(rng, "layer", (numbers, 8)) | normals(rng, shapes)


def normals(rng, shapes):
    """Return small random arrays of these shapes."""
    return {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


def table(rng, states=6, actions=3, outcomes=2, delay=DELAY):
    """Return the arrays of a table over states, one over pairs, and a model of counts."""
    visits = rng.integers(0, 4, (states, actions, outcomes))
    successors = rng.integers(states, size=visits.shape).astype(np.int32)
    likely = rng.integers(states, size=(states, actions)).astype(np.int32)
    model = {"successors": successors, "visits": visits.astype(np.int64), "likely": likely}
    return {"q": rng.integers(3, size=(states, actions)).astype(np.float64), **model}


def pairs(rng, states=6, actions=3, rows=40):
    """Return the arrays of a table over pairs of a state and a queue."""
    keys = np.stack([rng.integers(states, size=rows), rng.integers(4**DELAY, size=rows)], 1)
    keys = np.concatenate([np.zeros((1, 2), int), np.unique(keys, axis=0)])
    none = {
        "successors": np.full((1, actions, 1), -1, np.int32),
        "likely": np.zeros((1, actions), np.int32),
    }
    none |= {"visits": np.zeros((1, actions, 1), np.int64)}
    return {"keys": keys.astype(np.uint64), "q": rng.normal(size=(len(keys), actions)), **none}


def frames_q(rng, hidden=6, room=DELAY):
    """Return the arrays of a Q-network on frames."""
    shapes = torso() | {
        ".hidden": (hidden, 49 * CHANNELS[-1] + 18 * room),
        ".hidden_bias": (hidden,),
    }
    shapes |= {
        ".norm.gain": (hidden,),
        ".norm.shift": (hidden,),
        ".out": (19, hidden),
        ".out_bias": (19,),
    }
    return normals(rng, shapes)


def frames_recurrent(rng, hidden=6, units=4):
    """Return the arrays of an actor-critic on frames."""
    shapes = torso() | {".hidden": (hidden, 49 * CHANNELS[-1]), ".hidden_bias": (hidden,)}
    shapes |= {".lstm.from_input": (4 * units, hidden), ".lstm.from_output": (4 * units, units)}
    shapes |= {".lstm.bias": (4 * units,), ".out": (19, units), ".out_bias": (19,)}
    for i, size in enumerate((4 * units, 4 * units, units)):
        shapes |= {f".lstm.norms[{i}].gain": (size,), f".lstm.norms[{i}].shift": (size,)}
    return normals(rng, shapes)


def torso():
    """Return the shapes of the convolutions' arrays."""
    shapes = {}
    inputs = 4
    for i, (size, outputs) in enumerate(zip((8, 4, 3), CHANNELS, strict=True)):
        shapes |= {
            f".torso.weights[{i}]": (size**2 * inputs, outputs),
            f".torso.biases[{i}]": (outputs,),
        }
        inputs = outputs
    return shapes


def deep_manifest(agent="delayed", sees="prediction", delay=DELAY, capacity=DELAY, **how):
    """Return the manifest of a Q-network of numbers with the sizes of `deep`."""
    usual = {"observation_shape": (4,), "actions": 3, "capacity": capacity, "model": "learned"}
    return Manifest(agent, sees, delay, **usual | how)


def recurrent_manifest(delay=DELAY, numbers=4, actions=3, agent="recurrent"):
    """Return the manifest of an actor-critic of numbers with a memory."""
    how = {"observation_shape": (numbers,), "actions": actions}
    return Manifest(agent, delay=delay, head="logits", memory=True, **how)


def frames_manifest(agent="", sees="state", delay=DELAY, actions=9, **how):
    """Return the manifest of a network of frames; those with a memory have logits."""
    usual = {"observation_shape": (4, 84, 84), "encoder": "frames", "model": "fresh"}
    usual["head"] = "logits" if how.get("memory") else "dueling"
    return Manifest(agent, sees, delay, actions=actions, **usual | how)


def table_manifest(agent, sees, delay=DELAY, states=6, actions=3, seed=1):
    """Return the manifest of a table with the sizes of `table`."""
    return Manifest(agent, sees, delay, states=states, actions=actions, seed=seed)


def _pixel(agent, sees):
    manifest = frames_manifest(agent, sees, capacity=DELAY)
    return lambda arrays: NetworkPolicy(manifest, arrays)


def _deep(agent, sees, **how):
    return lambda arrays: NetworkPolicy(deep_manifest(agent, sees, **how), arrays)


def _table(agent, sees):
    return lambda arrays: TablePolicy(table_manifest(agent, sees), arrays)


def _unmodelled(rng):
    return pairs(rng) | {"q": rng.normal(size=(6, 3))}


KINDS = {
    "deep oblivious": (lambda rng: deep(rng, 4), _deep("oblivious", "state")),
    "deep augmented": (lambda rng: deep(rng, 4 + DELAY), _deep("augmented", "queue")),
    "deep one-hot": (
        lambda rng: deep(rng, 4 + 3 * DELAY),
        _deep("augmented", "queue", one_hot_queue=True),
    ),
    "deep delayed": (lambda rng: deep(rng, 4), _deep("delayed", "prediction")),
    "deep ensemble": (
        lambda rng: deep(rng, 4, "change", 2),
        _deep("delayed", "prediction", model="change", members=2),
    ),
    "recurrent": (recurrent, lambda arrays: NetworkPolicy(recurrent_manifest(), arrays)),
    "table oblivious": (_unmodelled, _table("oblivious", "state")),
    "table augmented": (pairs, _table("augmented", "queue")),
    "table delayed": (table, _table("delayed", "prediction")),
    "table distribution": (table, _table("distribution", "law")),
    "frames oblivious": (frames_q, _pixel("oblivious", "state")),
    "frames augmented": (frames_q, _pixel("augmented", "queue")),
    "frames delayed": (frames_q, _pixel("delayed", "prediction")),
    "frames recurrent": (
        frames_recurrent,
        lambda arrays: NetworkPolicy(frames_manifest("recurrent", memory=True), arrays),
    ),
}
"""The function that draws arrays and the function that builds a policy, by kind."""


def acted(policy, count=5):
    """Return the actions that a policy chooses for a few observations and queues."""
    rng = np.random.default_rng(7)
    chosen = []
    for _ in range(count):
        queue = rng.integers(policy.num_actions, size=DELAY)
        if policy.num_states:
            observation = rng.integers(policy.num_states)
        elif len(policy.observation_shape) == 1:
            observation = rng.normal(size=policy.observation_shape)
        else:
            observation = rng.integers(256, size=policy.observation_shape).astype(np.uint8)
        ahead = [observation] if getattr(policy, "looks_ahead", "") else []
        chosen.append(policy.act(observation, queue, *ahead))
    return chosen
