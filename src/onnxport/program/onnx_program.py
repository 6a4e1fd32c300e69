"""ONNXProgram: the exported model, callable with torch tensors."""

from __future__ import annotations

import contextlib
import difflib
import os
import pydoc
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx
import onnx_ir as ir
import torch
from torch.export import ExportedProgram

from onnxport.errors import InputError, OnnxExporterError, Problem, listing, warn, with_plain_errors
from onnxport.events import EventLog
from onnxport.functions import inline_functions
from onnxport.optimize import optimize
from onnxport.prepare import FunctionalProgram
from onnxport.program.axis_names import rename_axes
from onnxport.program.feeds import as_called, bind_inputs, check_batches, check_limits
from onnxport.program.quantized import quantized
from onnxport.program.runtime import Initializer, RuntimeSession, default_session, output_to_torch, to_torch
from onnxport.program.summary import Summary, summarize
from onnxport.program.targeted import fitted
from onnxport.program.values import ComputedValues
from onnxport.provenance import FOLDED, aliases
from onnxport.quantize import Quantization, QuantizationReport, as_quantization
from onnxport.size_limits import SizeLimit
from onnxport.targets import PROFILES, Target, find_target
from onnxport.torch_internals.fake_tensors import disable_current_modes
from onnxport.torch_internals.subclasses import plain_tensors
from onnxport.weights.converted import ConvertedTensor
from onnxport.weights.disk import Disk
from onnxport.weights.in_place import WeightsInPlace
from onnxport.weights.lazy_integers import LazyIntegers
from onnxport.weights.metadata import Metadata, check_metadata
from onnxport.weights.safetensors import Files, mapped_tensors
from onnxport.weights.saving import save_model
from onnxport.weights.stored_form import StoredTensor
from onnxport.weights.torch_tensor import TorchTensor
from onnxport.weights.wire import Selection, as_proto, require_content
from onnxport.weights.written_arithmetic import Computed

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from onnxport.verification import Verification

_ARROW = "⬅️"


class ONNXProgram:
    """An exported model: an ONNX model that is called with torch tensors.

    Attributes:
        model: The ONNX model, as an ``onnx_ir.Model``.
        exported_program: The program it was translated from.
        events: What happened on the way, stage by stage, if it was recorded.
        functional: The functional graph that was translated, if the program came from ``export``.
        verification: How it compares with the model, if it was exported with ``verify=True``.
        metadata: How much files say of where nodes come from, unless ``save`` is told otherwise.
        target: The reader that files are written for, unless ``save`` is told otherwise.
        fold_batch_norm: Whether layers take up the batch normalisation behind them in what is written and run; the
            model in memory has both.
        computed_weights: Which values that are computed of weights alone are written and run as weights.
        quantization: What was quantized, if anything was.

    >>> import onnx_ir as ir, torch
    >>> from onnxport.program import ONNXProgram
    >>> x = ir.val("x", ir.DataType.FLOAT, ["batch"])
    >>> relu = ir.node("Relu", [x])
    >>> graph = ir.Graph([x], relu.outputs, nodes=[relu], opset_imports={"": 20}, name="main_graph")
    >>> program = ONNXProgram(ir.Model(graph, ir_version=10), None)
    >>> program(torch.tensor([-1.0, 2.0]))
    (tensor([0., 2.]),)
    """

    def __init__(
        self, model: ir.Model, exported_program: ExportedProgram | None, events: EventLog | None = None
    ) -> None:
        self.model = model
        self.exported_program = exported_program
        #: All ways through a model whose Python code branches; the exported program is one of them.
        self.paths: Sequence[ExportedProgram] = () if exported_program is None else (exported_program,)
        #: Beyond these the model's code raises, and so does a call.
        self.size_limits: Sequence[SizeLimit] = ()
        self.events = events
        self.functional: FunctionalProgram | None = None
        self.verification: Verification | None = None
        self.metadata: Metadata = "full"
        self.target: Target = PROFILES["onnx"]
        self.fold_batch_norm = False
        self.computed_weights: Computed = "never"
        self.quantization: QuantizationReport | None = None
        self._session: RuntimeSession | None = None
        self._initializer: Initializer = default_session

    @with_plain_errors
    def __call__(self, *args: object, **kwargs: object) -> tuple[Any, ...]:
        """Run the model in onnxruntime, with the arguments the torch model takes; return the graph's outputs.

        They are tensors, and a list of tensors where the model returns a list whose length only run time knows. A file
        has complex numbers as pairs on a last axis; a call with complex tensors gets complex tensors back.
        """
        feeds = self._feeds(args, kwargs)
        check_batches(self.model.graph, feeds)
        results = self._open().run(_names(self.model.graph.outputs), feeds)
        return tuple(as_called(self.exported_program, results, (args, kwargs)))

    def _feeds(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, torch.Tensor]:
        feeds = bind_inputs(self.model, self.exported_program, args, kwargs)
        check_limits(self.model.graph, self.size_limits, feeds)
        return feeds

    @with_plain_errors
    def call_reference(self, *args: object, **kwargs: object) -> tuple[Any, ...]:
        """Run the model in onnx's reference evaluator: slow, and a second opinion where onnxruntime is in doubt."""
        from onnx.reference import ReferenceEvaluator

        feeds = self._feeds(args, kwargs)
        arrays = {name: TorchTensor(tensor).numpy() for name, tensor in feeds.items()}
        outputs = ReferenceEvaluator(self.model_proto).run(None, arrays)
        return tuple(
            output_to_torch(array, value.dtype) for array, value in zip(outputs, self.model.graph.outputs, strict=True)
        )

    @with_plain_errors
    def compute_values(
        self, value_names: Sequence[str], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> ComputedValues:
        """Compute any values of the main graph, given the model's arguments.

        Args:
            value_names: Names of node outputs, graph inputs or initializers.
            args: The positional arguments of the model.
            kwargs: Its keyword arguments.

        Returns:
            The values in the order of their names; they can also be had by name.

        Raises:
            ValueError: A name is not in the graph. The message suggests similar ones.
        """
        names = [value_names] if isinstance(value_names, str) else list(value_names)
        known = self._values()
        unknown = [Problem(f"{name!r}{_suggestion(name, known)}") for name in names if name not in known]
        if unknown:
            raise InputError("The main graph has no values of these names.", unknown)
        feeds = self._feeds(args, {} if kwargs is None else kwargs)
        results: dict[str, Any] = dict(feeds)
        for name in names:
            if name in self.model.graph.initializers and name not in results:
                results[name] = self._initializer_value(name)
        wanted = [name for name in dict.fromkeys(names) if name not in results]
        if wanted:
            check_batches(self.model.graph, feeds)
            outputs = _names(self.model.graph.outputs)
            if set(wanted) <= set(outputs):
                session = self._open()
            else:
                selection = Selection(outputs=[known[name] for name in wanted])
                session = RuntimeSession.open(self.model, self._initializer, selection)
            results.update(zip(wanted, session.run(wanted, feeds), strict=True))
        return ComputedValues(names, [results[name] for name in names])

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The model as an ``onnx.ModelProto``, with a copy of the weights in it."""
        require_content(self.model)
        selection = Selection(
            metadata=self.metadata,
            inner_shapes=self.target.inner_shapes,
            fold_batch_norm=self.fold_batch_norm,
            computed_weights=self.computed_weights,
        )
        return as_proto(self.model, selection)

    @with_plain_errors
    def optimize(self, *, fold_batch_norm: bool = False) -> None:
        """Optimize the model in place: fold constants, and take out what is redundant or unused.

        Args:
            fold_batch_norm: Whether layers absorb the batch normalisation behind them in memory too, where the weights
                are no longer those of the state dict then. Files are written that way, see ``export``.

        >>> import torch, onnxport
        >>> block = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).eval()
        >>> program = onnxport.export(block, (torch.ones(1, 3, 8, 8),))
        >>> program.optimize(fold_batch_norm=True)
        >>> [node.op_type for node in program.model.graph]
        ['Conv']
        """
        optimize(self.model, fold_batch_norm=fold_batch_norm)
        self.release()

    @with_plain_errors
    def quantize(self, quantization: str | Quantization, *, target: str | Target | None = None) -> QuantizationReport:
        """Quantize the weights of the model in place, and return what was done; printing that gives a table.

        Weights are quantized while they are written, block by block, from where torch or a safetensors file has them.
        So give the program its weights first (``apply_weights``).

        Args:
            quantization: The name of a scheme, or a :class:`Quantization`, which has them all.
            target: The reader to write for; ``"onnxruntime"`` gets operators of its own. The default is the program's.

        >>> import torch, onnxport
        >>> program = onnxport.export(torch.nn.Linear(64, 64), (torch.ones(2, 64),), opset_version=21)
        >>> report = program.quantize(onnxport.Quantization("int4", block_size=16))
        >>> report.layers[0].bytes_before, report.layers[0].bytes_after
        (16384, 3072)
        """
        reader = self.target if target is None else find_target(target)
        self.quantization = quantized(self.model, as_quantization(quantization), reader, self.exported_program)
        self.release()
        return self.quantization

    @with_plain_errors
    def rename_axes(self, rename_mapping: Mapping[str | ir.SymbolicDim, str]) -> None:
        """Give axes that vary other names, in all shapes of the model.

        Args:
            rename_mapping: New names by old ones; a dimension of a shape stands for its name.

        >>> import torch, onnxport
        >>> dynamic = torch.export.Dim.DYNAMIC
        >>> program = onnxport.export(torch.nn.ReLU(), (torch.ones(2, 3),), dynamic_shapes=({0: dynamic},))
        >>> program.rename_axes({program.model.graph.inputs[0].shape[0]: "batch"})
        >>> str(program.model.graph.outputs[0].shape)
        '[batch,3]'
        """
        rename_axes(self.model, rename_mapping)
        self.release()

    @with_plain_errors
    def inline_functions(self) -> None:
        """Put the bodies of functions in the place of their calls, in place: one flat graph.

        >>> import torch, onnxport, warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     program = onnxport.export(
        ...         torch.nn.Sequential(torch.nn.ReLU()), (torch.ones(2),), export_modules_as_functions=True
        ...     )
        >>> [node.op_identifier() for node in program.model.graph]
        [('torch.nn.modules.activation', 'ReLU', '')]
        >>> program.inline_functions()
        >>> [node.op_type for node in program.model.graph]
        ['Relu']
        """
        inline_functions(self.model)
        self.release()

    @with_plain_errors
    def save(
        self,
        destination: str | os.PathLike[str] | SupportsWrite[Any],
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        unread_inputs: Collection[str] | None = None,
        external_data: bool | None = None,
        metadata: Metadata | None = None,
        target: str | Target | None = None,
        sync: bool = True,
        in_place: WeightsInPlace | None = None,
    ) -> None:
        """Save the model.

        Weights are the parameters and buffers of the torch model; constants of the graph always stay in it. They are
        written straight from torch's memory, and old files at the destination are replaced only by complete ones: a
        save that fails or is killed leaves the old model or the new one, each with its own data. A symbolic link is
        followed. What a killed save left is removed by the next one to that destination.

        Args:
            destination: A path. An open binary file will do when no external data is needed.
            include_initializers: Write the weights. If not, the file has only their names, to attach them later.
            keep_initializers_as_inputs: List the weights as inputs of the graph, so that inference can override them.
            unread_inputs: Which inputs to list of those that nothing in the graph reads, and that have to be fed
                nevertheless: all, or those with these names.
            external_data: Put the weights in ``<destination>.data``. Models above 2 GB always do.
            metadata: How much to say of where nodes come from: ``"full"`` has the call, its modules and its lines in
                the model's code, ``"names"`` only the modules, ``"none"`` nothing. The default is what ``export`` was
                told.
            target: The reader that the file is written for, as in ``export``, which is the default; the program stays
                as it is.
            sync: Wait until the files are on the device (``fsync``), so that they outlast a loss of power.
            in_place: Files beside the destination that hold weights already, which are referred to there.

        Raises:
            TypeError: ``external_data`` is true and the destination is not a path.
            SaveError: The destination cannot be written; what stood there is untouched.
            OnnxExporterError: Weights have no values, and are to be included.
            TargetError: The target can't hold the model.
        """
        amount = self.metadata if metadata is None else metadata
        check_metadata(amount)
        reader = self.target if target is None else find_target(target)
        # What is written are real numbers, in a block that makes fake tensors too.
        with (
            disable_current_modes(),
            contextlib.nullcontext() if self.events is None else self.events.stage("save"),
        ):
            save_model(
                self.model if target is None else fitted(self.model, reader),
                destination,
                selection=Selection(
                    include_initializers,
                    keep_initializers_as_inputs,
                    unread_inputs,
                    metadata=amount,
                    inner_shapes=reader.inner_shapes,
                    fold_batch_norm=self.fold_batch_norm,
                    computed_weights=self.computed_weights,
                    in_place=in_place,
                ),
                external_data=external_data,
                disk=Disk(sync=sync),
            )

    @with_plain_errors
    def apply_weights(self, state_dict: Mapping[str, torch.Tensor] | Files) -> None:
        """Give the model the weights of a state dict, by name; nothing changes if one of them does not fit.

        Paths of safetensors files stand for the tensors in them, which are mapped and never loaded as a whole.
        Use it to fill a model that was made with fake tensors, or to replace weights. A weight under several names
        (tied weights) can be given under any of them. Names the model does not have are listed in a warning.
        """
        if not isinstance(state_dict, Mapping):
            state_dict = mapped_tensors(state_dict)
        given = {part: plain for name, tensor in state_dict.items() for part, plain in plain_tensors(tensor, name)}
        targets = self._weights_by_name()
        unknown = [name for name in given if name not in targets]
        chosen: dict[str, tuple[str, TorchTensor]] = {}
        problems: list[Problem] = []
        for name, tensor in given.items():
            if name in unknown:
                continue
            value = targets[name]
            target = str(value.name)
            new = _new_content(value, tensor, target)
            problems += _mismatches(name, value, new)
            if target in chosen and not _same(chosen[target][1], new):
                problems.append(Problem(f"{name}: shares its weight with {chosen[target][0]}, but the values differ."))
            chosen.setdefault(target, (name, new))
        if problems:
            raise OnnxExporterError("The state dict does not fit the model; no weight was changed.", problems)
        for target, (_, new) in chosen.items():
            self.model.graph.initializers[target].const_value = new
        self.release()
        if unknown:
            headline = f"{len(unknown)} names of the state dict are not weights of the ONNX model and were left out:"
            message = listing(headline, [Problem(f"{name}{_suggestion(name, targets)}") for name in unknown])
            warn(message)

    def initialize_inference_session(self, initializer: Initializer = default_session) -> None:
        """Open the session that calls run in, and open later ones in the same way.

        Args:
            initializer: Gets the model as bytes, or as a path when it is above 2 GB, and returns an
                ``onnxruntime.InferenceSession``. The default takes CUDA if there is one, else the CPU.
        """
        self.release()
        self._initializer = initializer
        self._open()

    @contextlib.contextmanager
    def running_in(self, initializer: Initializer) -> Iterator[None]:
        """While this is open, calls run in a session that ``initializer`` opens."""
        held = self._session, self._initializer
        self._session, self._initializer = None, initializer
        try:
            yield
        finally:
            self._session, self._initializer = held

    def release(self) -> None:
        """Close the session, and free what it holds. The next call opens another."""
        self._session = None

    def display(self, *, page: bool = False) -> None:
        """Print the graph, or with ``page`` show it in the pager."""
        if page:
            pydoc.pager(str(self))
        else:
            print(str(self))

    def __str__(self) -> str:
        return _printable(str(self.model))

    def __repr__(self) -> str:
        return _printable(f"ONNXProgram({self.summary().one_line()})")

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def summary(self) -> Summary:
        """The program in a few figures: inputs, outputs, opset, operators, parameters; print it to read them.

        >>> import torch, onnxport
        >>> program = onnxport.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),), dynamic_shapes=({0: "batch"},))
        >>> summary = program.summary()
        >>> summary.parameters, summary.operators, summary.inputs
        (8, {'Gemm': 1}, {'input': 'FLOAT[batch,3]'})
        >>> program
        ONNXProgram(Linear: input[batch,3] -> output[batch,2]; opset 20, 1 node, 8 parameters)
        """
        return summarize(self.model, self.events, self.verification)

    def _open(self) -> RuntimeSession:
        if self._session is None:
            self._session = RuntimeSession.open(
                self.model,
                self._initializer,
                Selection(fold_batch_norm=self.fold_batch_norm, computed_weights=self.computed_weights),
            )
        return self._session

    def _values(self) -> dict[str, ir.Value]:
        graph = self.model.graph
        values = {str(value.name): value for value in graph.inputs}
        values.update(graph.initializers)
        values.update((value.name, value) for node in graph for value in node.outputs if value.name)
        return values

    def _initializer_value(self, name: str) -> torch.Tensor:
        tensor = self.model.graph.initializers[name].const_value
        if tensor is None:
            raise OnnxExporterError(f"The initializer {name!r} has no tensor; call ONNXProgram.apply_weights first.")
        return to_torch(tensor)

    def _weights_by_name(self) -> dict[str, ir.Value]:
        targets = dict(self.model.graph.initializers)
        for value in self.model.graph.initializers.values():
            targets.update((alias, value) for alias in aliases(value))
        return targets


def _names(values: Sequence[ir.Value]) -> list[str]:
    return [str(value.name) for value in values]


def _new_content(value: ir.Value, tensor: torch.Tensor, name: str) -> TorchTensor:
    """Another weight as the model holds the one it has."""
    held = value.const_value
    if isinstance(held, ConvertedTensor) and held.raw.dtype == tensor.dtype:
        return held.like(tensor)
    if isinstance(held, StoredTensor) and held.source.shape == tensor.shape and held.source.dtype == tensor.dtype:
        return held.like(tensor)
    return TorchTensor(tensor, name=name)


def _suggestion(name: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, known, n=3)
    return f"; did you mean {' or '.join(repr(match) for match in close)}?" if close else ""


def _mismatches(name: str, value: ir.Value, new: TorchTensor) -> list[Problem]:
    old = value if value.const_value is None else value.const_value
    problems = []
    if (norm := value.metadata_props.get(FOLDED)) is not None:
        problems.append(
            Problem(
                f"{name}: holds the batch normalisation {norm} as well.", remedy="Apply the weights before folding."
            )
        )
    if isinstance(old, LazyIntegers):
        problems.append(Problem(f"{name}: is quantized already.", remedy="Apply the weights before quantizing."))
    elif old.dtype is not None and old.dtype != new.dtype:
        problems.append(Problem(f"{name}: the model has {old.dtype.name}, the state dict {new.dtype.name}."))
    if old.shape is not None and list(old.shape) != list(new.shape):
        problems.append(Problem(f"{name}: the model has the shape {old.shape}, the state dict {new.shape}."))
    return problems


def _same(one: TorchTensor, other: TorchTensor) -> bool:
    if one.raw is other.raw or not (one.has_content and other.has_content):
        return True
    return one.raw.shape == other.raw.shape and torch.equal(one.raw, other.raw)


def _printable(text: str) -> str:
    """Keep to what standard output can show, so that printing a program never fails."""
    encoding = getattr(sys.stdout, "encoding", None)
    if encoding is None:
        return text
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.replace(_ARROW, "<-").encode(encoding, "backslashreplace").decode(encoding)
    return text
