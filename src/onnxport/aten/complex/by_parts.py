"""Operators that treat both parts of complex numbers alike: the real translation, once for each part."""

from __future__ import annotations

from typing import Any

from onnxport.aten import indexing, reduction, shapes  # noqa: F401  (what is applied)
from onnxport.translate import REGISTRY, Builder, Tensor
from onnxport.translate.registry import Translation

_ALIKE = """
_pad_circular _pad_enum as_strided_scatter block_diag constant_pad_nd diag diag_embed diagflat diagonal_scatter diff
gather index_add index_copy index_put masked_scatter pad put reflection_pad1d reflection_pad2d reflection_pad3d repeat
replication_pad1d replication_pad2d replication_pad3d scatter.src scatter_add select_scatter slice_scatter
take_along_dim tile trace tril triu _unsafe_index_put _unsafe_masked_index _unsafe_masked_index_put_accumulate
"""
_FILLINGS = frozenset({"value", "fill"})
"""Numbers that become elements, so that they have parts too; others say where or how."""


def _part(op: Builder, name: str, argument: Any, imaginary: bool) -> Any:
    if isinstance(argument, Tensor):
        if argument.is_complex:
            return argument.imag if imaginary else argument.real
        # A real tensor among complex ones has no imaginary part; indices and masks are the same for both.
        return argument * 0 if imaginary and argument.is_float else argument
    if isinstance(argument, list):
        return [_part(op, name, item, imaginary) for item in argument]
    if name in _FILLINGS and argument is not None:
        return complex(argument).imag if imaginary else complex(argument).real
    return argument


def _by_parts(name: str) -> None:
    real = REGISTRY.translations[name]

    def emit(op: Builder, **arguments: Any) -> Tensor:
        across, up = (
            real.function(op, **{key: _part(op, key, value, imaginary) for key, value in arguments.items()})
            for imaginary in (False, True)
        )
        shape = op.result_shapes()[0]
        return op.complex(across.with_shape(shape), up.with_shape(shape))

    REGISTRY.add([name], Translation(emit, (), False, real.parameters, real.static), complex="only")


for _name in _ALIKE.split():
    _by_parts(f"aten::{_name}")
