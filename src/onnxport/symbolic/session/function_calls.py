"""Autograd functions in the graph: written by their ``symbolic`` method, by what is registered for them, or inlined."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from onnxport.capture.patches.autograd_functions import CALLS, FunctionCall, FunctionClass, SizePlace, TensorPlace
from onnxport.errors import OnnxExporterError, TranslationError
from onnxport.options import Options
from onnxport.prepare.trace import trace_call
from onnxport.symbolic.session.calling import blamed, expected_results, run_symbolic
from onnxport.symbolic.session.graph_context import FUNCTION_KIND, CallNode
from onnxport.symbolic.session.inner_graphs import prepare_inner
from onnxport.symbolic.session.registration import registered_symbolic
from onnxport.symbolic.session.session import SymbolicSession
from onnxport.torch_internals import pytree
from onnxport.translate import Builder, Int, Tensor

PYTHON_OP = "prim::PythonOp"


def keeps_whole(options: Options) -> Callable[[FunctionClass], bool]:
    """Which autograd functions are not looked into: those that someone writes, and all if they are not inlined."""
    all_of_them = not options.inlines_autograd or registered_symbolic(PYTHON_OP, options.opset) is not None

    def wanted(function: FunctionClass) -> bool:
        # torch's own functions are part of how it computes, and of how it captures.
        return hasattr(function, "symbolic") or (all_of_them and not function.__module__.startswith("torch."))

    return wanted


def function_translation(options: Options) -> Callable[..., object]:
    """The translation of the operator that stands for autograd functions."""

    def translate(op: Builder, tensors: Sequence[Tensor], sizes: Sequence[Int], key: str) -> Sequence[Tensor | None]:
        call = CALLS[key]
        results = _by_symbolic(op, call, tensors, sizes, options)
        if results is not None:
            return results
        return _inlined(op, call, tensors, sizes) if options.inlines_autograd else _as_node(op, call, tensors)

    return translate


def _by_symbolic(
    op: Builder, call: FunctionCall, tensors: Sequence[Tensor], sizes: Sequence[Int], options: Options
) -> list[Tensor | None] | None:
    name = call.function.__name__
    own = getattr(call.function, "symbolic", None)
    function = registered_symbolic(PYTHON_OP, options.opset) if own is None else own
    if function is None:
        return None
    session = SymbolicSession(op, options)
    values = [session.give(tensor, requires_grad=needs) for tensor, needs in zip(tensors, _needs(op), strict=True)]
    arguments = call.arguments(values, [session.give(size) for size in sizes])
    expected, _ = expected_results(op)
    node = session.add(FUNCTION_KIND, values, len(expected))
    node.s_("name", name)
    scalars = [leaf for leaf in call.leaves if not isinstance(leaf, TensorPlace)]
    convention = "".join("d" if isinstance(leaf, TensorPlace) else "c" for leaf in call.leaves)
    called = CallNode(node, call.function, scalars, convention)
    kwargs = {"name": name} if own is None else {}
    try:
        results = run_symbolic(function, session, called, expected, arguments, kwargs)
    except OnnxExporterError as error:
        raise blamed(name, function, error) from error
    if results is None and own is not None:
        raise TranslationError(f"the symbolic method of {name} returned None")
    return results


def _needs(op: Builder) -> list[bool]:
    assert op.call is not None
    tensors = op.call.args[0]
    assert isinstance(tensors, list | tuple)
    return [
        isinstance(tensor, torch.fx.Node) and bool(getattr(tensor.meta.get("val"), "requires_grad", False))
        for tensor in tensors
    ]


def _inlined(op: Builder, call: FunctionCall, tensors: Sequence[Tensor], sizes: Sequence[Int]) -> list[Tensor]:
    """What the forward of the function computes, where it stands."""
    assert op.call is not None

    def run(tensors: Sequence[torch.Tensor], sizes: Sequence[int], key: str) -> list[torch.Tensor]:
        leaves = pytree.tree_leaves(call.run(tensors, sizes))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    owner = prepare_inner(trace_call(op.call, run).owner)
    # With the look-up of the export: what the forward calls may have a symbolic function too.
    return op.body(op, owner, [*tensors, *sizes])


def _as_node(op: Builder, call: FunctionCall, tensors: Sequence[Tensor]) -> list[Tensor]:
    """One node that names the function, its fixed arguments as attributes by their position."""
    attributes: dict[str, object] = {"name": f"{call.function.__module__}.{call.function.__qualname__}"}
    for position, leaf in enumerate(call.leaves):
        if isinstance(leaf, SizePlace):
            raise TranslationError(f"{call.function.__name__} is given a run-time size, which a node can't have")
        if isinstance(leaf, bool | int | float | str):
            attributes[f"arg_{position}"] = leaf
    expected, _ = expected_results(op)
    return list(op.custom("prim", "PythonOp", list(tensors), attributes, list(expected)))
