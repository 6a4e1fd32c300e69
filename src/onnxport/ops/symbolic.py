"""Any ONNX operator as a torch operator: it stands in the graph for the node and computes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import torch

from onnxport.ops.library import define
from onnxport.weights.dtypes import carrier_dtype, from_torch_dtype

Attribute: TypeAlias = (
    "int | float | str | bool | torch.Tensor | Sequence[int] | Sequence[float] | Sequence[str] | Sequence[bool]"
    " | Sequence[torch.Tensor]"
)
Dtype: TypeAlias = torch.dtype | int


def symbolic(
    domain_op: str,
    /,
    inputs: Sequence[torch.Tensor | None],
    attrs: Mapping[str, Attribute] | None = None,
    *,
    dtype: Dtype,
    shape: Sequence[int | torch.SymInt],
    version: int | None = None,
    metadata_props: Mapping[str, str] | None = None,
) -> torch.Tensor:
    """Stand for one ONNX node with one output; exported, it is exactly that node.

    Eagerly the result is zeros of the stated dtype and shape, so guard it with ``onnxport.is_in_onnx_export()``
    in a model that also runs in PyTorch.

    Args:
        domain_op: Domain and operator, ``"custom::Invert"``; without ``::`` the operator is ONNX's own.
        inputs: The inputs; None where an optional one is left out.
        attrs: The attributes: numbers, text, constant tensors, or lists of these. A bool is an int.
        dtype: The dtype of the output, as torch's or as ONNX's number for it.
        shape: The shape of the output; sizes may be symbolic.
        version: The version of the domain's operator set. The default is 1 for other domains than ONNX's.
        metadata_props: Metadata for the node.

    Returns:
        The output.

    >>> import torch, onnxport
    >>> class Model(torch.nn.Module):
    ...     def forward(self, x):
    ...         return onnxport.ops.symbolic("custom::Scale", (x,), {"by": 2.0}, dtype=x.dtype, shape=x.shape)
    >>> program = onnxport.export(Model(), (torch.ones(3),))
    >>> [node.op_type for node in program.model.graph]
    ['Scale']
    """
    result: torch.Tensor = _one(*_encode(domain_op, inputs, attrs, [dtype], [shape], version, metadata_props))
    return result


def symbolic_multi_out(
    domain_op: str,
    /,
    inputs: Sequence[torch.Tensor | None],
    attrs: Mapping[str, Attribute] | None = None,
    *,
    dtypes: Sequence[Dtype],
    shapes: Sequence[Sequence[int | torch.SymInt]],
    version: int | None = None,
    metadata_props: Mapping[str, str] | None = None,
) -> Sequence[torch.Tensor]:
    """Stand for one ONNX node with as many outputs as there are dtypes; see :func:`symbolic`.

    >>> import torch, onnxport
    >>> a, b = onnxport.ops.symbolic_multi_out(
    ...     "custom::Split", (torch.ones(4),), dtypes=[torch.float32, torch.int64], shapes=[[2], [3, 1]]
    ... )
    >>> a.shape, b.dtype
    (torch.Size([2]), torch.int64)
    """
    if len(dtypes) != len(shapes):
        raise ValueError(f"{domain_op} is given {len(dtypes)} dtypes and {len(shapes)} shapes; each output needs both.")
    results: Sequence[torch.Tensor] = _several(
        *_encode(domain_op, inputs, attrs, dtypes, shapes, version, metadata_props)
    )
    return results


def _encode(
    domain_op: str,
    inputs: Sequence[torch.Tensor | None],
    attrs: Mapping[str, Attribute] | None,
    dtypes: Sequence[Dtype],
    shapes: Sequence[Sequence[int | torch.SymInt]],
    version: int | None,
    metadata_props: Mapping[str, str] | None,
) -> list[Any]:
    domain, separator, op_type = domain_op.partition("::")
    if not separator:
        domain, op_type = "", domain_op
    props = {} if metadata_props is None else metadata_props
    encoded = encode_attributes({} if attrs is None else attrs)
    tensors = encoded[-1]
    if not tensors and all(value is None for value in inputs):
        # torch finds the kernel of an operator by the tensors it is given; one that no attribute reads will do.
        tensors.append(torch.empty(0))
    return [
        list(inputs),
        domain,
        op_type,
        [dtype if isinstance(dtype, int) else int(from_torch_dtype(dtype)) for dtype in dtypes],
        [size for shape in shapes for size in shape],
        [len(shape) for shape in shapes],
        *encoded,
        list(props.keys()),
        list(props.values()),
        version,
    ]


Encoded: TypeAlias = "tuple[list[str], list[str], list[int], list[int], list[float], list[str], list[torch.Tensor]]"


def encode_attributes(attrs: Mapping[str, Attribute]) -> Encoded:
    """Attributes as lists of one type each, the only form in which an operator of torch can take them.

    Per attribute: its name, the list its items are in (with ``s`` behind it where it is a list itself), and how many.
    """
    names: list[str] = []
    kinds: list[str] = []
    counts: list[int] = []
    ints: list[int] = []
    floats: list[float] = []
    strings: list[str] = []
    tensors: list[torch.Tensor] = []
    for name, value in attrs.items():
        several = isinstance(value, Sequence) and not isinstance(value, str)
        items: list[Any] = list(cast(Sequence[Any], value)) if several else [value]
        if not items:
            raise ValueError(f"The attribute {name} is an empty list, of which ONNX could not tell the type.")
        if all(isinstance(item, int) for item in items):
            kind = "int"
            ints.extend([int(item) for item in items])
        elif all(isinstance(item, int | float) for item in items):
            kind = "float"
            floats.extend([float(item) for item in items])
        elif all(isinstance(item, str) for item in items):
            kind = "string"
            strings.extend(items)
        elif all(isinstance(item, torch.Tensor) for item in items):
            kind = "tensor"
            tensors.extend(items)
        else:
            raise TypeError(
                f"The attribute {name} is {value!r}; attributes are numbers, text, tensors, or lists of one of these."
            )
        names.append(name)
        kinds.append(kind + "s" if several else kind)
        counts.append(len(items))
    return names, kinds, counts, ints, floats, strings, tensors


def decode_attributes(
    names: Sequence[str],
    kinds: Sequence[str],
    counts: Sequence[int],
    ints: Sequence[int],
    floats: Sequence[float],
    strings: Sequence[str],
    tensors: Sequence[object],
) -> dict[str, Any]:
    """The attributes that :func:`encode_attributes` was given.

    >>> from onnxport.ops.symbolic import decode_attributes, encode_attributes
    >>> decode_attributes(*encode_attributes({"axis": 1, "scales": [1, 2.5], "mode": "up"}))
    {'axis': 1, 'scales': [1.0, 2.5], 'mode': 'up'}
    """
    sources = {"int": iter(ints), "float": iter(floats), "string": iter(strings), "tensor": iter(tensors)}
    decoded: dict[str, Any] = {}
    for name, kind, count in zip(names, kinds, counts, strict=True):
        items = [next(sources[kind.removesuffix("s")]) for _ in range(count)]
        decoded[name] = items if kind.endswith("s") else items[0]
    return decoded


def _zeros(*arguments: Any) -> list[torch.Tensor]:
    inputs, _, _, dtypes, sizes, ranks, _, _, _, _, _, _, tensors, *_ = arguments
    device = next(value.device for value in (*inputs, *tensors) if value is not None)
    results = []
    start = 0
    for dtype, rank in zip(dtypes, ranks, strict=True):
        shape = sizes[start : start + rank]
        start += rank
        results.append(torch.zeros(shape, dtype=carrier_dtype(dtype), device=device))
    return results


def _zero(*arguments: object) -> torch.Tensor:
    return _zeros(*arguments)[0]


_PARAMETERS = (
    "(Tensor?[] inputs, str domain, str op_type, int[] dtypes, SymInt[] sizes, int[] ranks,"
    " str[] names, str[] kinds, int[] counts, int[] ints, float[] floats, str[] strings, Tensor[] tensors,"
    " str[] props_keys, str[] props_values, int? version=None)"
)
_one = define(f"symbolic{_PARAMETERS} -> Tensor", _zero, _zero)
_several = define(f"symbolic_multi_out{_PARAMETERS} -> Tensor[]", _zeros, _zeros)
