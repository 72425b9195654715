"""A network policy as an ONNX graph: queue, scaling, forward models, network and bounds.

Inputs are `observation`, and where the policy uses them `pending_actions`, `action_age`,
`memory_cell` and `memory_output`. Outputs are `action`, then `values` or `logits` if actions are
numbered, then `next_memory_cell` and `next_memory_output`. There is no batch axis.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deadtime._support.extras import extras_needed
from deadtime.runtime.forward_models import ForwardModel, RolledModel
from deadtime.runtime.frame_layers import CONVOLUTIONS, patches
from deadtime.runtime.lstm_cell import Norm
from deadtime.runtime.network_policy import NetworkPolicy
from deadtime.runtime.onnx_nodes import Graph
from deadtime.runtime.policy import Policy

OPSET = 18
_IR_VERSION = 9
"""These versions can be read by ONNX Runtime 1.15 and later."""
MANIFEST_KEY = "deadtime-policy"
"""The name of the policy's manifest among the model's metadata."""


def to_onnx(policy: Policy) -> bytes:
    """Return a network policy as an ONNX model; raise if it can't be one."""
    _check(policy)
    assert isinstance(policy, NetworkPolicy)
    with extras_needed("onnx"):
        import onnx  # noqa: PLC0415  (extra)

    graph = Graph()
    _build(graph, policy)
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes, policy.agent, graph.inputs, graph.outputs, graph.constants
        ),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=_IR_VERSION,
        producer_name="deadtime",
    )
    onnx.helper.set_model_props(model, {MANIFEST_KEY: policy.manifest.to_json()})
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


def _check(policy: Policy) -> None:
    """Raise if a policy can't become a graph."""
    fault = ""
    if not isinstance(policy, NetworkPolicy):
        fault = "a table: save it as a file .safetensors"
    elif policy.looks_ahead:
        fault = "a policy that looks ahead with an emulator: export an agent such as augmented"
    elif policy.parts.inputs.shown is not None:
        fault = "a view with inputs of its own, which are Python: save it as a file .safetensors"
    elif not all(isinstance(model, RolledModel) for model in policy.parts.models):
        fault = "a forward model of your own, which is Python: save it as a file .safetensors"
    if fault:
        raise ValueError(f"ONNX takes networks whose parts are all built in; got {fault}")


def _build(graph: Graph, policy: NetworkPolicy) -> None:
    """Add a whole policy to a graph."""
    seen = _observed(graph, policy)
    queue = ""
    if policy.delay and (policy.sees_queue or policy.parts.models):
        kind = np.float32 if policy.action_shape else np.int64
        queue = graph.input("pending_actions", kind, policy.delay, *policy.action_shape)
    memory = None
    lstm = policy.parts.network.lstm
    if lstm is not None:
        units = len(lstm.bias) // 4
        parts = [graph.input(f"memory_{part}", np.float32, units) for part in ("cell", "output")]
        memory = [graph.reshaped(part, 1, units) for part in parts]
    predicted = [seen]
    if policy.delay and policy.parts.models:
        way = _way(graph, policy)
        predicted = [
            _rolled(graph, policy, model, seen, queue, way) for model in policy.parts.models
        ]
    found = []
    for x in predicted:
        outputs, memory = _outputs(graph, policy, _inputs(graph, policy, x, queue), memory)
        found.append(outputs)
    total = found[0] if len(found) == 1 else graph.add("Mean", *found)
    _head(graph, policy, total)
    if memory is not None:
        for part, value in zip(("cell", "output"), memory, strict=True):
            name = f"next_memory_{part}"
            graph.reshaped(value, units, name=name)
            graph.output(name, np.float32, units)


def _observed(graph: Graph, policy: NetworkPolicy) -> str:
    """Add the observation, and the convolutions if it is frames; return a row of numbers."""
    shape = policy.observation_shape
    torso = policy.parts.network.torso
    if not torso:
        x = graph.input("observation", np.float32, *shape)
        return graph.reshaped(x, 1, *shape)
    x = graph.input("observation", np.uint8, *shape)
    x = graph.add("Cast", x, to=1)
    x = graph.reshaped(x, 1, *shape)
    for (size, stride), (weight, bias) in zip(CONVOLUTIONS, torso, strict=True):
        kernel = graph.constant(_kernel(weight, size, stride))
        x = graph.add("Conv", x, kernel, graph.constant(bias), strides=[stride, stride])
        x = graph.add("Relu", x)
    x = graph.add("Transpose", x, perm=[0, 2, 3, 1])
    return graph.reshaped(x, 1, -1)


def _kernel(weight: np.ndarray, size: int, stride: int) -> np.ndarray:
    """Return a convolution's weight with the axes outputs, channels, rows, columns."""
    inputs, outputs = weight.shape
    channels = inputs // (size * size)
    places = np.arange(inputs).reshape(size, size, channels)
    kernel = np.empty_like(weight)
    kernel[patches(places, size, stride).ravel()] = weight
    return kernel.reshape(size, size, channels, outputs).transpose(3, 2, 0, 1)


class _Way(NamedTuple):
    """The pending actions that are executed before the next one is, under a delay that varies."""

    places: str
    """Their places in the queue, then zeros."""
    steps: str
    """The number of these actions."""
    most: int


def _way(graph: Graph, policy: NetworkPolicy) -> _Way | None:
    """Add the way of the known age; return None if all pending actions are executed."""
    ways = policy.ways
    if ways is None:
        return None
    code = _known(graph, policy)
    most = max(map(len, ways))
    places = np.array([np.pad(one, (0, most - len(one))) for one in ways], np.int64)
    steps = np.array([len(one) for one in ways], np.int64)
    chosen = graph.add("Gather", graph.constant(places), code, axis=0)
    count = graph.add("Gather", graph.constant(steps), code, axis=0)
    return _Way(chosen, count, most)


def _known(graph: Graph, policy: NetworkPolicy) -> str:
    """Add 1 + the age that the agent knows, 0 for none; it is an input unless it is constant."""
    if not policy.sees_ages:
        return graph.constant(np.int64(policy.known(None)))
    age = graph.input("action_age", np.int64)
    return graph.add("Add", age, graph.constant(np.int64(1)))


def _rolled(
    graph: Graph,
    policy: NetworkPolicy,
    model: ForwardModel,
    seen: str,
    queue: str,
    way: _Way | None,
) -> str:
    """Add a forward model that follows the pending actions; return the prediction."""
    assert isinstance(model, RolledModel)
    layers = model.layers
    numbers = len(layers[-1][1])
    first, first_bias = layers[0]
    pushed = _pushed(graph, policy, model, first[:, numbers:], first_bias, queue)
    count = policy.delay
    if way is not None:
        pushed = graph.add("Gather", pushed, way.places, axis=0)
        count = way.most
    rows = [pushed] * min(count, 1)
    if count > 1:
        rows = graph.split("Split", pushed, names=[""] * count, axis=0, num_outputs=count)
    state = seen
    if model.scale is not None:
        mean, deviation = (graph.constant(part) for part in model.scale)
        state = graph.add("Div", graph.add("Sub", seen, mean), deviation)
    for step, row in enumerate(rows):
        x = graph.dense(state, first[:, :numbers], row)
        for weight, bias in layers[1:]:
            x = graph.dense(graph.add("Relu", x), weight, bias)
        following = x if model.scale is None else graph.add("Add", state, x)
        if way is not None:
            on_the_way = graph.add("Greater", way.steps, graph.constant(np.int64(step)))
            following = graph.add("Where", on_the_way, following, state)
        state = following
    if model.scale is None:
        return state
    return graph.add("Add", mean, graph.add("Mul", deviation, state))


def _pushed(
    graph: Graph,
    policy: NetworkPolicy,
    model: RolledModel,
    weight: np.ndarray,
    bias: np.ndarray,
    queue: str,
) -> str:
    """Add the part of the first layer that each pending action enters; return a row for each."""
    if model.one_hot:
        return graph.add("Gather", graph.constant(weight.T + bias), queue, axis=0)
    if not policy.action_shape:
        queue = graph.reshaped(graph.add("Cast", queue, to=1), policy.delay, 1)
    return graph.dense(queue, weight, bias)


def _inputs(graph: Graph, policy: NetworkPolicy, seen: str, queue: str) -> str:
    """Add the inputs of the first layer (see `InputLayout`)."""
    layout = policy.parts.inputs
    torso = policy.parts.network.torso
    numbers = 49 * len(torso[-1][1]) if torso else policy.observation_shape[0]
    used = layout.queue_width * policy.delay if layout.sees_queue else 0
    parts = [seen]
    if layout.age_inputs:
        rows = graph.constant(np.eye(layout.age_inputs, dtype=np.float32))
        age = graph.add("Gather", rows, _known(graph, policy), axis=0)
        parts.append(graph.reshaped(age, 1, layout.age_inputs))
    rest = layout.width - numbers - layout.age_inputs - used
    if rest > 0:
        unused = np.zeros((1, rest), np.float32)
        parts.append(graph.constant(unused))
    if used:
        if layout.one_hot:
            rows = graph.constant(np.eye(layout.queue_width, dtype=np.float32))
            queue = graph.add("Gather", rows, queue, axis=0)
        elif not policy.action_shape:
            queue = graph.add("Cast", queue, to=1)
        parts.append(graph.reshaped(queue, 1, used))
    return graph.add("Concat", *parts, axis=1) if len(parts) > 1 else seen


def _outputs(
    graph: Graph, policy: NetworkPolicy, x: str, memory: list[str] | None
) -> tuple[str, list[str] | None]:
    """Add the network; return its outputs and the next memory."""
    network = policy.parts.network
    for weight, bias in network.layers:
        x = graph.normalised(graph.dense(x, weight, bias), network.norm)
        x = graph.add("Tanh" if network.is_tanh else "Relu", x)
    if memory is not None:
        memory = _remembered(graph, policy, x, memory)
        x = memory[1]
    return graph.dense(x, *network.last), memory


def _remembered(graph: Graph, policy: NetworkPolicy, x: str, memory: list[str]) -> list[str]:
    """Add one step of the memory; return the next cell and output."""
    lstm = policy.parts.network.lstm
    assert lstm is not None
    norms: list[Norm | None] = [*lstm.norms] or [None] * 3
    cell, output = memory
    none = np.zeros(len(lstm.bias), np.float32)
    of_input = graph.normalised(graph.dense(x, lstm.from_input, none), norms[0])
    of_output = graph.normalised(graph.dense(output, lstm.from_output, none), norms[1])
    gates = graph.add("Add", graph.add("Add", of_input, of_output), graph.constant(lstm.bias))
    parts = graph.split("Split", gates, names=[""] * 4, axis=1, num_outputs=4)
    take, hold, show = (graph.add("Sigmoid", part) for part in parts[:3])
    kept = graph.add("Mul", hold, cell)
    cell = graph.add("Add", kept, graph.add("Mul", take, graph.add("Tanh", parts[3])))
    shown = graph.add("Tanh", graph.normalised(cell, norms[2]))
    return [cell, graph.add("Mul", show, shown)]


def _head(graph: Graph, policy: NetworkPolicy, outputs: str) -> None:
    """Add the action, and the values or logits."""
    head = policy.parts.head
    total = len(policy.parts.network.last[1])
    flat = graph.reshaped(outputs, total)
    found = _slice(graph, flat, 0, head.outputs)
    if head.kind == "bounded":
        reached = graph.add("Mul", graph.constant(head.reach), graph.add("Tanh", found))
        action = graph.add("Add", graph.constant(head.centre), reached)
        action = graph.add("Max", action, graph.constant(head.low))
        graph.add("Min", action, graph.constant(head.high), name="action")
        graph.output("action", np.float32, head.outputs)
        return
    if head.kind == "dueling":
        value = _slice(graph, flat, total - 1, total)
        mean = graph.add("ReduceMean", found, keepdims=1)
        found = graph.add("Add", found, graph.add("Sub", value, mean))
    name = "logits" if head.kind == "logits" else "values"
    found = graph.add("Identity", found, name=name)
    graph.add("ArgMax", found, name="action", axis=0, keepdims=0)
    graph.output("action", np.int64)
    graph.output(name, np.float32, head.outputs)


def _slice(graph: Graph, x: str, start: int, end: int) -> str:
    """Add a part of a vector."""
    ends = [graph.constant(np.array([place], np.int64)) for place in (start, end)]
    return graph.add("Slice", x, *ends)
