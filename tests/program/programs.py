"""Small models made by hand, for the tests of ONNXProgram and of saving."""

from __future__ import annotations

import onnx_ir as ir
import torch

from onnxport.provenance import INPUT_KIND
from onnxport.weights.dtypes import from_torch_dtype
from onnxport.weights.torch_tensor import TorchTensor


def value(name: str, dtype: torch.dtype = torch.float32, shape: tuple[int | str, ...] | None = ()) -> ir.Value:
    return ir.Value(
        name=name,
        type=ir.TensorType(from_torch_dtype(dtype)),
        shape=None if shape is None else ir.Shape(shape),
    )


def initializer(name: str, tensor: torch.Tensor, kind: str | None = "PARAMETER") -> ir.Value:
    const = TorchTensor(tensor, name=name)
    made = ir.Value(name=name, type=ir.TensorType(const.dtype), shape=const.shape, const_value=const)
    if kind is not None:
        made.metadata_props[INPUT_KIND] = kind
    return made


def node(op: str, inputs: list[ir.Value], output: ir.Value, **attributes: ir.Attr) -> ir.Node:
    made = ir.Node("", op, inputs, list(attributes.values()), outputs=[output], name=f"node_{output.name}")
    made.metadata_props["namespace"] = "model"
    return made


def model(
    inputs: list[ir.Value], outputs: list[ir.Value], nodes: list[ir.Node], initializers: list[ir.Value] | None = None
) -> ir.Model:
    graph = ir.Graph(
        inputs,
        outputs,
        nodes=nodes,
        initializers=initializers or [],
        opset_imports={"": 20},
        name="main_graph",
        metadata_props={"pkg.torch.export.ExportedProgram.range_constraints": "{}"},
    )
    return ir.Model(graph, ir_version=10, producer_name="onnxport", producer_version="0", doc_string="made by hand")


def linear(rows: int = 8, columns: int = 64) -> ir.Model:
    """``matmul(x, weight) + bias``, and a literal that is no weight: ``+ 1`` at the end."""
    torch.manual_seed(0)
    x = value("x", shape=("batch", rows))
    weight = initializer("fc.weight", torch.randn(rows, columns))
    bias = initializer("fc.bias", torch.randn(columns), kind="BUFFER")
    one = initializer("one", torch.ones(columns * 2)[::2], kind=None)
    product, total, y = (value(name, shape=("batch", columns)) for name in ("product", "total", "y"))
    nodes = [
        node("MatMul", [x, weight], product),
        node("Add", [product, bias], total),
        node("Add", [total, one], y),
    ]
    return model([x], [y], nodes, [weight, bias, one])
