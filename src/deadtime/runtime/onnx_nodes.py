"""The nodes, constants, inputs and outputs of an ONNX graph that is being built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from deadtime.runtime.lstm_cell import Norm

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto, ValueInfoProto


class Graph:
    """The nodes, constants, inputs and outputs of a graph that is being built."""

    def __init__(self) -> None:
        """Start with an empty graph."""
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.inputs: list[ValueInfoProto] = []
        self.outputs: list[ValueInfoProto] = []
        self._names: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        """The names of constants by their content."""

    def add(self, op: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add a node with one output, and return the name of the output."""
        return self.split(op, *inputs, names=[name], **attributes)[0]

    def split(self, op: str, *inputs: str, names: Sequence[str], **attributes: Any) -> list[str]:
        """Add a node with several outputs, and return their names; "" asks for a new one."""
        import onnx  # noqa: PLC0415

        start = len(self.nodes)
        found = [name or f"{op.lower()}_{start}_{i}" for i, name in enumerate(names)]
        self.nodes.append(onnx.helper.make_node(op, inputs, found, **attributes))
        return found

    def constant(self, array: ArrayLike) -> str:
        """Add a constant, and return its name."""
        import onnx  # noqa: PLC0415

        array = np.array(array, order="C")
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._names:
            self._names[key] = f"constant_{len(self.constants)}"
            self.constants.append(onnx.numpy_helper.from_array(array, self._names[key]))
        return self._names[key]

    def input(self, name: str, kind: type[np.generic], *shape: int) -> str:
        """Add an input of the graph, and return its name."""
        self.inputs.append(_info(name, kind, shape))
        return name

    def output(self, name: str, kind: type[np.generic], *shape: int) -> None:
        """Declare a value as an output of the graph."""
        self.outputs.append(_info(name, kind, shape))

    def dense(self, x: str, weight: np.ndarray, bias: np.ndarray | str) -> str:
        """Add a layer; the bias is an array, or the name of a value with one row."""
        added = bias if isinstance(bias, str) else self.constant(bias)
        return self.add("Gemm", x, self.constant(weight), added, transB=1)

    def reshaped(self, x: str, *shape: int, name: str = "") -> str:
        """Add a change of shape."""
        return self.add("Reshape", x, self.constant(np.array(shape, np.int64)), name=name)

    def normalised(self, x: str, norm: Norm | None) -> str:
        """Add a layer normalisation, if there is one."""
        if norm is None:
            return x
        gain, shift = (self.constant(part) for part in norm)
        return self.add("LayerNormalization", x, gain, shift, epsilon=1e-5)


def _info(name: str, kind: type[np.generic], shape: tuple[int, ...]) -> ValueInfoProto:
    import onnx  # noqa: PLC0415

    element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    return onnx.helper.make_tensor_value_info(name, element, shape)
