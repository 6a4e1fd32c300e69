"""Running the torch side: the model itself, its exported program, or the functional graph node by node."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import onnx_ir as ir
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind

from onnxport.capture.forks.decisions import OtherWay
from onnxport.capture.preserved import buffers_preserved, preserved
from onnxport.capture.replay.values.sequences import unpack
from onnxport.capture.request.eager_calls import called_eagerly
from onnxport.errors import ArgumentTypeError, OnnxExporterError
from onnxport.events import EventLog
from onnxport.pipeline import functional_form
from onnxport.prepare import FunctionalProgram
from onnxport.prepare.emit import bind_node
from onnxport.program import ONNXProgram
from onnxport.program.feeds import as_complex, bind_inputs
from onnxport.torch_internals import pytree
from onnxport.torch_internals.operators import OpOverload
from onnxport.translate import lookup
from onnxport.verification.info import Compared


def model_outputs(model: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> list[Compared]:
    """Call a model on copies of the arguments; return its outputs flat, without None, and leave it as it was."""
    with preserved(model), buffers_preserved(model):
        result = called_eagerly(model, args, kwargs)
        # A result may be a view of a buffer that is put back afterwards.
        return [_copy(leaf) for leaf in pytree.tree_leaves(result) if leaf is not None]


def program_outputs(
    program: ExportedProgram, args: Sequence[object], kwargs: Mapping[str, object], values: Sequence[ir.Value] = ()
) -> list[Compared]:
    """The same of an exported program, at sizes it may not have been checked for.

    ``values`` are the outputs of the ONNX model: where they are sequences, so are the program's, and a tensor that may
    be None, or have any number of axes, is a sequence of the program.
    """
    outputs = model_outputs(program.module(check_guards=False), args, kwargs)
    sequences = [is_handle(value) for value in values]
    if not any(sequences):
        return outputs
    items: list[Compared] = []
    for output, packed in zip(outputs, sequences, strict=True):
        items += unpack(output) if packed and isinstance(output, torch.Tensor) else [output]
    return items


def taken_path(program: ONNXProgram, args: Sequence[object], kwargs: Mapping[str, object]) -> ExportedProgram:
    """The exported program of the way through the model that these arguments lead to."""
    only = exported_program(program)
    if len(program.paths) < 2:
        return only
    for path in program.paths:
        with contextlib.suppress(OtherWay):
            model_outputs(path.module(check_guards=False), args, kwargs)
            return path
    raise OnnxExporterError("These inputs lead to a way through the model that was left out because the model raises.")


def is_handle(value: ir.Value) -> bool:
    """Whether the captured program has a sequence in the place of a value, as the tensor that holds its items."""
    return isinstance(value.type, ir.SequenceType | ir.OptionalType) or value.shape is None


def is_random(program: ExportedProgram) -> bool:
    """Whether a program has operators that may draw random numbers."""
    return any(_may_be_random(node) for node in program.graph.nodes)


def differ(one: object, other: object) -> bool:
    """Whether two runs of the same computation gave different values."""
    pairs = zip(pytree.tree_leaves(one), pytree.tree_leaves(other), strict=True)
    return any(not _equal(a, b) for a, b in pairs)


class NodeByNode(torch.fx.Interpreter):
    """Runs the functional graph of a program and hands each result, with whether it is random, to ``visit``."""

    def __init__(self, functional: FunctionalProgram, visit: Callable[[torch.fx.Node, object, bool], None]) -> None:
        super().__init__(functional.owner, graph=functional.graph)
        self.functional = functional
        self.visit = visit
        self._random: set[torch.fx.Node] = set()

    def compute(self, program: ONNXProgram, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """Run on the arguments of the model."""
        with torch.no_grad():
            self.run(*_placeholder_values(self.functional, program, args, kwargs))

    def run_node(self, n: torch.fx.Node) -> object:
        """Run one node; one that may be random is run again to see whether it is."""
        result = super().run_node(n)
        if any(source in self._random for source in n.all_input_nodes) or (
            _may_be_random(n) and differ(result, super().run_node(n))
        ):
            self._random.add(n)
        if n.op == "call_function":
            self.visit(n, result, n in self._random)
        return result


def functional_program(program: ONNXProgram, args: Sequence[object], kwargs: Mapping[str, object]) -> FunctionalProgram:
    """The functional graph an ONNX program was translated from, or, for one that was put together, its like.

    Of several ways through the model it is the one that the arguments lead to.
    """
    path = taken_path(program, args, kwargs)
    if program.functional is not None and path is program.exported_program:
        return program.functional
    return functional_form(path, lookup(None), EventLog())


def exported_program(program: ONNXProgram) -> ExportedProgram:
    """The exported program of an ONNX program, which verification cannot do without."""
    if not isinstance(program, ONNXProgram):
        raise ArgumentTypeError(
            f"What is verified is the program that export() returned, not an object of type {type(program).__name__}. "
            "A file is compared with its model by `onnxport verify FILE --against model.py:build`."
        )
    if program.exported_program is None:
        raise OnnxExporterError(
            "The ONNX program has no exported program to compare with. Verify the program that export() returned."
        )
    return program.exported_program


def example_inputs(
    program: ONNXProgram, args: Sequence[object] | None, kwargs: Mapping[str, object] | None
) -> tuple[tuple[object, ...], dict[str, object]]:
    """The arguments to verify with: those given, if they fit, or the ones the model was exported with."""
    example = exported_program(program).example_inputs
    if args is not None or kwargs is not None:
        given = tuple(args or ()), dict(kwargs or {})
        bind_inputs(program.model, program.exported_program, *given)
        return given
    if example is None:
        raise OnnxExporterError("The exported program has no example inputs. Pass `args` and `kwargs` to verify with.")
    return tuple(example[0]), dict(example[1])


def _placeholder_values(
    functional: FunctionalProgram, program: ONNXProgram, args: Sequence[object], kwargs: Mapping[str, object]
) -> Iterator[object]:
    feeds = iter(bind_inputs(program.model, program.exported_program, args, kwargs).values())
    placeholders = (node for node in functional.graph.nodes if node.op == "placeholder")
    for node, spec in zip(placeholders, functional.signature.input_specs, strict=True):
        if spec.kind is not InputKind.USER_INPUT:
            yield functional.state[str(spec.target)].detach()
        elif isinstance(spec.arg, ConstantArgument):
            yield spec.arg.value
        else:
            yield _as_captured(next(feeds), node.meta.get("val"))


def _as_captured(feed: torch.Tensor, captured: object) -> object:
    if isinstance(captured, torch.SymInt | torch.SymFloat | torch.SymBool):
        return feed.item()
    is_complex = isinstance(captured, torch.Tensor) and captured.dtype.is_complex
    return as_complex(feed) if is_complex else feed


def _may_be_random(node: torch.fx.Node) -> bool:
    target = node.target
    if not isinstance(target, OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    # Operators with a dropout that is switched off are marked as random all the same.
    bound = bind_node(node)
    return not any(name in bound and not bound[name] for name in ("train", "training", "dropout_p"))


def _equal(one: object, other: object) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return bool(one == other)
    return one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())


def _copy(value: Compared) -> Compared:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value
