"""Symbolic functions by operator name and opset, for the whole process."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Hashable, Iterator

import torch

from onnxport.errors import ArgumentTypeError, OnnxExporterError, OpsetError, with_plain_errors
from onnxport.onnx_build.opsets import NEWEST_OPSET, OLDEST_OPSET
from onnxport.torch_internals.operators import OpOverload, defined_in_python, dispatch_get_all_op_names

Symbolic = Callable[..., object]

_NAME = re.compile(r"[\w.-]+::[\w-]+")
# Namespaces of torch: its operators either know their results without values, or are none that a model calls.
_NAMESPACES = """
aten prim prims quantized _quantized quantization symm_mem static_runtime c10d _c10d_functional
_c10d_functional_autograd onednn mkldnn mkldnn_prepacked mkl sparse inductor inductor_prims profiler
_test debugprims rngprims _native debug_mode_ops export _dtensor onnx onnxport higher_order
"""
_TORCHS_OWN = frozenset(_NAMESPACES.split())
_SYMBOLICS: dict[str, dict[int, Symbolic]] = {}


@with_plain_errors
def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Symbolic, opset_version: int) -> None:
    """Let a symbolic function write an operator, in preference to the translation there may be.

    The function is called as ``symbolic_fn(g, *inputs)`` with all arguments of the operator's schema in order, and
    returns the value or values that stand for its outputs. ``g.op`` writes nodes of the opset that is exported to.

    Args:
        symbolic_name: The operator with its namespace, ``"aten::elu"`` or ``"mylib::op"``; all overloads are meant.
            ``"prim::PythonOp"`` is every ``torch.autograd.Function`` without a ``symbolic`` method.
        symbolic_fn: The function.
        opset_version: The first opset it is for; it is also used for later ones.

    >>> import torch, onnxport
    >>> def elu(g, input, alpha, scale, input_scale):
    ...     return g.op("mydomain::Elu", input, alpha_f=onnxport.symbolic_helper._scalar(alpha))
    >>> onnxport.register_custom_op_symbolic("aten::elu", elu, 9)
    >>> program = onnxport.export(torch.nn.ELU(0.5), (torch.ones(3),))
    >>> [(node.domain, node.op_type) for node in program.model.graph]
    [('mydomain', 'Elu')]
    >>> onnxport.unregister_custom_op_symbolic("aten::elu", 9)
    """
    if not callable(symbolic_fn):
        raise ArgumentTypeError(f"The symbolic function for {symbolic_name} is {symbolic_fn!r}, which can't be called.")
    table = _SYMBOLICS.setdefault(_checked(symbolic_name), {})
    for version in _versions(opset_version):
        table[version] = symbolic_fn


@with_plain_errors
def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Forget the symbolic function that was registered for an operator, for this opset and later ones.

    >>> import onnxport
    >>> onnxport.unregister_custom_op_symbolic("aten::elu", 9)
    """
    table = _SYMBOLICS.get(_checked(symbolic_name), {})
    for version in _versions(opset_version):
        table.pop(version, None)


def registered_symbolic(name: str, opset: int) -> Symbolic | None:
    """The symbolic function for an operator at an opset, if one was registered."""
    table = _SYMBOLICS.get(name)
    return None if table is None else table.get(opset)


def operators_of_libraries() -> tuple[OpOverload, ...]:
    """The operators that other libraries than torch have defined."""
    # To ask the dispatcher takes longer than all else that a small export does. Python's operators are counted by
    # torch, and those of C++ come with a module or with torch.ops.load_library.
    return _listed(frozenset(defined_in_python), frozenset(torch.ops.loaded_libraries), len(sys.modules))


@functools.lru_cache(maxsize=1)
def _listed(*defined_by: Hashable) -> tuple[OpOverload, ...]:
    return tuple(_operators_of_libraries())


def _operators_of_libraries() -> Iterator[OpOverload]:
    own = tuple(f"{namespace}::" for namespace in _TORCHS_OWN)
    for full in dispatch_get_all_op_names():
        if not full.startswith(own):
            namespace, _, rest = full.partition("::")
            name, _, overload = rest.partition(".")
            packet = getattr(getattr(torch.ops, namespace), name, None)
            found = getattr(packet, overload if overload else "default", None)
            if isinstance(found, OpOverload):
                yield found


def _versions(since: int) -> range:
    if not isinstance(since, int) or isinstance(since, bool):
        raise OpsetError(f"opset_version must be an int, not {since!r}.")
    return range(max(since, OLDEST_OPSET), NEWEST_OPSET + 1)


def _checked(name: str) -> str:
    full = f"aten{name}" if name.startswith("::") else name
    if not _NAME.fullmatch(full):
        raise OnnxExporterError(
            f"{name!r} is not the name of an operator: it is written with its namespace and without an overload, "
            '"mylib::op".'
        )
    if full.startswith("onnx::"):
        raise OnnxExporterError(
            f"{name!r} is an operator of ONNX itself, which no model calls; onnxport.ops has those that one can call."
        )
    return full
