"""``InputObserver``: watches a model at work and says how to export it."""

from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from onnxport.capture.patches.replacing import method_replaced
from onnxport.capture.request.dynamic_shapes import nest
from onnxport.capture.request.input_names import NamedLeaf, named_leaves
from onnxport.capture.request.trees import Leaf, leaves
from onnxport.errors import InputError, Problem, warn, with_plain_errors
from onnxport.observing.growth import grown, observed_sizes
from onnxport.observing.left_open import left_open, masked
from onnxport.observing.naming import axis_names, output_names
from onnxport.observing.observed_calls import ObservedCall, bound, nested, result_tensors, varying_axes
from onnxport.program import ONNXProgram
from onnxport.program.runtime import Initializer
from onnxport.torch_internals import pytree

Identifiers = Collection[int | str] | bool | None


class InputObserver:
    """Records the inputs that a model is called with, and infers from them the arguments of an export.

    Axes that had different sizes are those that vary. The example is the call with the most tensors, so that of the
    steps of a generating language model it is one with a cache, made longer where an axis that varies had a size of 1.
    Tensors that a call lacks (the cache in the first step) are empty along the axes that vary.

    Args:
        value_if_missing: Arguments, by name or position, for calls that lack them and where that rule says nothing:
            an argument whose axes never vary.

    >>> import torch, onnxport
    >>> model, observer = torch.nn.Linear(3, 2), onnxport.InputObserver()
    >>> with observer(model):
    ...     _ = model(torch.ones(2, 3)), model(torch.ones(5, 3))
    >>> program = onnxport.export(model, **observer.for_export())
    >>> [isinstance(size, int) for size in program.model.graph.inputs[0].shape]
    [False, True]
    >>> [row["SUCCESS"] for row in observer.check_discrepancies(program)]
    [True, True]
    """

    def __init__(self, value_if_missing: Mapping[str | int, object] | None = None) -> None:
        self.value_if_missing = dict(value_if_missing or {})
        self.calls: list[ObservedCall] = []
        self._signature: inspect.Signature | None = None

    def num_obs(self) -> int:
        """How many calls were recorded."""
        return len(self.calls)

    @contextlib.contextmanager
    def __call__(
        self, model: torch.nn.Module, store_n_calls: int = 3, method_name: str = "forward"
    ) -> Iterator[InputObserver]:
        """Record the calls that are made in the block.

        Args:
            model: The model to watch.
            store_n_calls: How many calls to keep; later ones are made, but not recorded.
            method_name: The method to watch.
        """
        method = getattr(model, method_name, None)
        if not callable(method):
            raise InputError(f"{type(model).__name__} has no method {method_name!r} to observe.")
        signature = inspect.signature(method)
        self._signature = signature
        limit = len(self.calls) + store_n_calls

        def watched(*args: object, **kwargs: object) -> object:
            # Before the call: it may write to its inputs, as it does to a cache.
            call = bound(signature, args, kwargs) if len(self.calls) < limit else None
            start = time.perf_counter()
            result = method(*args, **kwargs)
            if call is not None:
                call.seconds = time.perf_counter() - start
                call.outputs = result_tensors(result)
                call.output_names = output_names(result)
                self.calls.append(call)
            return result

        # Libraries look at the parameters of forward to decide what to pass.
        with method_replaced(model, watched, signature, method_name):
            yield self

    @with_plain_errors
    def infer_dynamic_shapes(self, set_batch_dimension_for: Identifiers = None) -> Any:
        """Return the axes that vary, in the structure of ``infer_arguments()``.

        Args:
            set_batch_dimension_for: Arguments, by name or position, whose first axis varies although all calls had
                the same size there; True for all.
        """
        example = self._completed(self._best())
        varying = self._varying(set_batch_dimension_for)
        shapes = {}
        for name, value in example.arguments.items():
            specs = iter([varying[leaf.path] for leaf in leaves(value, name, (name,))])
            shapes[name] = nest(value, specs)
        return tuple(shapes.values()) if self._all_positional() else shapes

    @with_plain_errors
    def infer_arguments(
        self,
        index_or_args_or_kwargs: int | tuple[object, ...] | dict[str, object] | None = None,
        flat: bool = False,
        as_args_kwargs: bool = False,
    ) -> Any:
        """Return example inputs: a tuple if all came by position, else a dictionary by name.

        Args:
            index_or_args_or_kwargs: The number of a recorded call, or other arguments of the model: what they lack is
                completed. The default is the call with the most tensors, and no axis that varies shorter than two.
            flat: Return the tensors as a list.
            as_args_kwargs: Return a pair of positional and keyword arguments, as the calls were made.
        """
        given = index_or_args_or_kwargs
        if given is None:
            call = self._example(None)
        elif isinstance(given, int):
            self._require_calls()
            if not -len(self.calls) <= given < len(self.calls):
                raise InputError(f"There is no call {given}; {len(self.calls)} call(s) were recorded.")
            call = self._completed(self.calls[given])
        elif isinstance(given, tuple | dict) and self._signature is not None:
            args, kwargs = ((), given) if isinstance(given, dict) else (given, {})
            call = self._completed(bound(self._signature, args, kwargs))
        else:
            raise InputError(f"Pass the number of a call, a tuple or a dictionary of arguments, not {given!r}.")
        if flat:
            return [leaf for leaf in pytree.tree_leaves(call.arguments) if isinstance(leaf, torch.Tensor)]
        if as_args_kwargs:
            positional = self._positional()
            args = tuple(call.arguments[name] for name in positional)
            return args, {name: value for name, value in call.arguments.items() if name not in positional}
        return tuple(call.arguments.values()) if self._all_positional() else dict(call.arguments)

    @with_plain_errors
    def for_export(self, set_batch_dimension_for: Identifiers = None) -> dict[str, Any]:
        """Return the arguments of ``onnxport.export``: example inputs, the axes that vary, and names.

        Caches are named layer by layer (``past_key_values.0.key``, ``present.0.key``), outputs after the fields that
        the model returns, and axes ``batch``, ``sequence``, ``past`` and ``past + sequence`` where they are that.
        Whatever the calls left open, and the export would fix, is a warning; ``left_open`` has the same as a list.
        """
        example = self._example(set_batch_dimension_for)
        for problem in self.left_open(set_batch_dimension_for):
            warn(str(problem))
        positional = self._all_positional()
        found: dict[str, Any] = {
            "args": tuple(example.arguments.values()) if positional else (),
            "kwargs": {} if positional else example.arguments,
            "dynamic_shapes": self._named_shapes(example, set_batch_dimension_for),
        }
        varying = self._varying(set_batch_dimension_for)
        inputs = [entry for name, value in example.arguments.items() for entry in named_leaves(value, name)]
        if not any(varying[entry.leaf.path] is torch.export.Dim.DYNAMIC for entry in inputs):
            found["input_names"] = [entry.name for entry in inputs if isinstance(entry.leaf.value, torch.Tensor)]
        if example.output_names is not None:
            found["output_names"] = example.output_names
        return found

    @with_plain_errors
    def left_open(self, set_batch_dimension_for: Identifiers = None) -> list[Problem]:
        """Say what the calls did not show and an export would therefore fix, each with the line that would show it."""
        self._require_calls()
        assert self._signature is not None
        return list(left_open(masked(self.calls), self._signature, self._varying(set_batch_dimension_for)))

    @with_plain_errors
    def describe(self, set_batch_dimension_for: Identifiers = None) -> str:
        """Say what was concluded: a line for each input with its axes, and what the calls left open.

        >>> import torch, onnxport
        >>> model, observer = torch.nn.Linear(3, 2), onnxport.InputObserver()
        >>> with observer(model):
        ...     _ = model(torch.ones(2, 3)), model(torch.ones(5, 3))
        >>> print(observer.describe())
        2 calls
        input: float32[batch, 3]
        """
        example = self._completed(self._best())
        varying = self._varying(set_batch_dimension_for)
        names = self._axis_names(example, varying)
        count = len(self.calls)
        lines = [f"{count} call{'s' if count > 1 else ''}"]
        for name, value in example.arguments.items():
            for entry in named_leaves(value, name):
                lines.append(f"{entry.name}: {_described(entry, varying[entry.leaf.path], names)}")
        return "\n".join([*lines, *map(str, self.left_open(set_batch_dimension_for))])

    def _axis_names(self, example: ObservedCall, varying: Mapping[str, object]) -> dict[str, dict[int, str]]:
        complete = [call for call, problems in map(self._filled, self.calls) if not problems]
        inputs = [entry for name, value in example.arguments.items() for entry in named_leaves(value, name)]
        return axis_names(inputs, observed_sizes(example, complete, varying))

    def _named_shapes(self, example: ObservedCall, batch: Identifiers) -> Any:
        varying = self._varying(batch)
        names = self._axis_names(example, varying)

        def spec(path: str) -> object:
            declared = varying[path]
            return {**declared, **names.get(path, {})} if isinstance(declared, dict) else declared

        shapes = {}
        for name, value in example.arguments.items():
            shapes[name] = nest(value, iter([spec(leaf.path) for leaf in leaves(value, name, (name,))]))
        return tuple(shapes.values()) if self._all_positional() else shapes

    @with_plain_errors
    def check_discrepancies(
        self,
        onnx_program: ONNXProgram,
        atol: float = 1e-4,
        rtol: float = 0.1,
        progress_bar: bool = False,
        initializer: Initializer | None = None,
        skip_none: bool = True,
    ) -> list[dict[str, Any]]:
        """Run the exported model on the recorded inputs and compare with the recorded outputs.

        Args:
            onnx_program: What was exported.
            atol: The largest difference that is all right.
            rtol: The largest difference relative to the expected value (plus this number) that is all right.
            progress_bar: Whether to print a line for each call.
            initializer: Opens the session, see ``ONNXProgram.initialize_inference_session``.
            skip_none: Outputs that are None are never part of an ONNX model, so this makes no difference.

        Returns:
            A dictionary for each call: ``SUCCESS``, ``abs`` and ``rel`` or ``error``, and times.
        """
        del skip_none
        self._require_calls()
        if initializer is not None:
            onnx_program.initialize_inference_session(initializer)
        rows = []
        for index, call in enumerate(self.calls):
            rows.append({"index": index, **self._compare(onnx_program, call, atol, rtol)})
            if progress_bar:
                print(rows[-1])
        onnx_program.release()
        return rows

    def _compare(self, program: ONNXProgram, call: ObservedCall, atol: float, rtol: float) -> dict[str, object]:
        completed, problems = self._filled(call)
        tensors = [leaf for leaf in pytree.tree_leaves(completed.arguments) if isinstance(leaf, torch.Tensor)]
        row: dict[str, object] = {
            "duration_torch": call.seconds,
            "n_inputs": len(tensors),
            "n_none": len(tensors) - call.tensors(),
            "n_empty": sum(tensor.numel() == 0 for tensor in tensors),
        }
        if problems:
            return {**row, "ort_duration": 0.0, "SUCCESS": False, "error": str(_lacking(problems))}
        start = time.perf_counter()
        try:
            found = (
                program(**completed.arguments) if not self._all_positional() else program(*completed.arguments.values())
            )
        except Exception as error:  # noqa: BLE001 - the row says what went wrong; the other calls are compared all the same
            return {**row, "ort_duration": time.perf_counter() - start, "SUCCESS": False, "error": str(error)}
        row["ort_duration"] = time.perf_counter() - start
        if error_text := _mismatch(call.outputs, found):
            return {**row, "SUCCESS": False, "error": error_text}
        absolute = relative = 0.0
        for expected, actual in zip(call.outputs, found, strict=True):
            if expected.numel() > 0:
                wide = torch.float64 if not expected.dtype.is_complex else torch.complex128
                difference = (expected.to(wide) - actual.to(wide)).abs()
                absolute = max(absolute, difference.max().item())
                relative = max(relative, (difference / (expected.to(wide).abs() + rtol)).max().item())
        return {**row, "SUCCESS": absolute <= atol and relative <= rtol, "abs": absolute, "rel": relative}

    def _require_calls(self) -> None:
        if not self.calls:
            raise InputError("No call was observed. Call the model inside `with observer(model):`.")

    def _names(self) -> list[str]:
        """All arguments that any call had, as the signature orders them."""
        seen = dict.fromkeys(name for call in self.calls for name in call.arguments)
        assert self._signature is not None
        known = [name for name in self._signature.parameters if name in seen]
        return [*known, *(name for name in seen if name not in known)]

    def _positional(self) -> list[str]:
        """The arguments that came by position in every call that had them, up to the first that did not."""
        found = []
        for name in self._names():
            if not all(name in call.positional for call in self.calls):
                break
            found.append(name)
        return found

    def _all_positional(self) -> bool:
        return len(self._positional()) == len(self._names())

    def _best(self) -> ObservedCall:
        self._require_calls()
        return max(self.calls, key=ObservedCall.tensors)

    def _example(self, batch: Identifiers) -> ObservedCall:
        filled = [self._filled(call) for call in self.calls]
        # A call that can't be completed says nothing of which axes go together.
        complete = [call for call, problems in filled if not problems]
        return grown(self._completed(self._best()), complete, self._varying(batch))

    def _model_of(self, name: str) -> ObservedCall | None:
        """The call that shows an argument in full: the one with most tensors in it."""
        having = [call for call in self.calls if name in call.arguments]
        return max(having, key=lambda call: _tensor_count(call.leaves(name)), default=None)

    def _if_missing(self, name: str) -> object:
        position = self._names().index(name)
        return self.value_if_missing.get(name, self.value_if_missing.get(position))

    def _completed(self, call: ObservedCall) -> ObservedCall:
        """The call with all arguments and tensors that any call had."""
        completed, problems = self._filled(call)
        if problems:
            raise _lacking(problems)
        return completed

    def _filled(self, call: ObservedCall) -> tuple[ObservedCall, list[Problem]]:
        """The call with what it lacks as far as that can be told, and what can't."""
        problems: list[Problem] = []
        varying = self._varying(None)
        arguments = {}
        call = masked([*self.calls, call])[-1]
        for name in self._names():
            full = self._model_of(name)
            assert full is not None
            if name in call.arguments and _tensor_count(call.leaves(name)) == _tensor_count(full.leaves(name)):
                arguments[name] = call.arguments[name]
            elif (given := self._if_missing(name)) is not None:
                arguments[name] = given
            elif name not in call.arguments and not _tensor_count(full.leaves(name)):
                arguments[name] = full.arguments[name]
            else:
                arguments[name] = nested(
                    full.arguments[name],
                    lambda leaf: _emptied(leaf, varying_axes(varying[leaf.path]), _batch_size(call), problems),
                    name,
                )
        return replace(call, arguments=arguments), problems

    def _varying(self, batch: Identifiers) -> dict[str, object]:
        """For each leaf what to declare: the axes that vary, a number that varies, or None."""
        result: dict[str, object] = {}
        dynamic = torch.export.Dim.DYNAMIC
        chosen = set() if batch is None or isinstance(batch, bool) else set(batch)
        calls = masked(self.calls)
        for position, name in enumerate(self._names()):
            by_path: dict[str, list[object]] = {}
            # A cache grows whether or not the calls show it: a window may have been full in all of them.
            growing: dict[str, int] = {}
            for call in calls:
                for entry in named_leaves(call.arguments[name], name) if name in call.arguments else ():
                    by_path.setdefault(entry.leaf.path, []).append(entry.leaf.value)
                    if entry.state is not None and entry.state.growing_axis is not None and entry.side != "encoder":
                        growing[entry.leaf.path] = entry.state.growing_axis
            is_batch = batch is True or bool(chosen & {name, position})
            for path, values in by_path.items():
                tensors = [value for value in values if isinstance(value, torch.Tensor)]
                if tensors:
                    _check_ranks(path, tensors)
                    axes = [
                        axis
                        for axis in range(tensors[0].dim())
                        if len({tensor.shape[axis] for tensor in tensors}) > 1 or growing.get(path) == axis
                    ]
                    if is_batch and tensors[0].dim() and 0 not in axes:
                        axes.insert(0, 0)
                    result[path] = dict.fromkeys(axes, dynamic)
                else:
                    integers = all(type(value) is int for value in values)
                    result[path] = dynamic if integers and len(set(values)) > 1 else None
        return result


def _described(entry: NamedLeaf, declared: object, names: Mapping[str, Mapping[int, str]]) -> str:
    value = entry.leaf.value
    if not isinstance(value, torch.Tensor):
        return f"{value!r}" if declared is None else f"{type(value).__name__} that varies"
    own = names.get(entry.leaf.path, {})
    varying = varying_axes(declared)
    sizes = [own.get(axis, "?") if axis in varying else str(size) for axis, size in enumerate(value.shape)]
    return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(sizes)}]"


def _lacking(problems: list[Problem]) -> InputError:
    return InputError("Calls lack inputs that others have, and no axis says how to leave them empty:", problems)


def _tensor_count(found: list[Leaf]) -> int:
    return sum(isinstance(leaf.value, torch.Tensor) for leaf in found)


def _batch_size(call: ObservedCall) -> int | None:
    """The first size of the first tensor a call was given."""
    for name in call.arguments:
        for leaf in call.leaves(name):
            if isinstance(leaf.value, torch.Tensor) and leaf.value.dim():
                return int(leaf.value.shape[0])
    return None


def _emptied(leaf: Leaf, axes: Sequence[int], batch: int | None, problems: list[Problem]) -> object:
    """An empty tensor in the place of one that a call lacks; the first axis keeps the call's batch size."""
    if not isinstance(leaf.value, torch.Tensor):
        return leaf.value
    lengths = [axis for axis in axes if axis > 0] or axes
    if not lengths:
        problems.append(Problem(leaf.path, remedy=f"Pass InputObserver(value_if_missing={{{leaf.steps[0]!r}: ...}})."))
        return leaf.value
    shape = [0 if axis in lengths else size for axis, size in enumerate(leaf.value.shape)]
    if 0 not in lengths and batch is not None:
        shape[0] = batch
    return leaf.value.new_empty(shape)


def _check_ranks(path: str, tensors: list[torch.Tensor]) -> None:
    ranks = sorted({tensor.dim() for tensor in tensors})
    if len(ranks) > 1:
        raise InputError(
            f"{path} had {' and '.join(map(str, ranks))} dimensions in different calls; an export fixes their number."
        )


def _mismatch(expected: list[torch.Tensor], found: tuple[torch.Tensor, ...]) -> str:
    if len(expected) != len(found):
        return f"not the same number of outputs: {len(expected)} of the model, {len(found)} of the export"
    for index, (one, other) in enumerate(zip(expected, found, strict=True)):
        actual = torch.view_as_real(one) if one.is_complex() and not other.is_complex() else one
        if actual.shape != other.shape:
            shapes = f"{list(actual.shape)} of the model, {list(other.shape)} of the export"
            return f"not the same shape: output {index} is {shapes}"
        if actual.dtype != other.dtype:
            return f"not the same type: output {index} is {actual.dtype} of the model, {other.dtype} of the export"
    return ""
