"""Tracing: one run of a model on its example, recorded. What Python decides on the way is fixed, and told by line."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import TextIO, cast

import torch

from onnxport.capture.diagnosis.user_lines import line_of_warning
from onnxport.capture.patches.packed_layers import batches_of_any_size
from onnxport.capture.patches.replacing import attributes_replaced, items_replaced, method_replaced
from onnxport.capture.replay.interpreter import Interpreter
from onnxport.capture.replay.mirror import Mirror
from onnxport.capture.request.inputs import Inputs
from onnxport.errors import Problem
from onnxport.torch_graph import Graph
from onnxport.torch_internals import pytree
from onnxport.torch_internals.torchscript import TracerWarning, create_graph_by_tracing, jit_bindings, jit_trace
from onnxport.undoing import undone_after

_REASONS = (
    (re.compile(r"Converting a tensor to a Python (\w+)"), "A tensor becomes a Python {0}: its value is fixed."),
    (re.compile(r"Converting a tensor to a NumPy array"), "A tensor becomes a NumPy array: its values are fixed."),
    (re.compile(r"Iterating over a tensor"), "The code iterates over a tensor: the number of items is fixed."),
    (re.compile(r"Using len to get tensor shape"), "len() of a tensor is a plain number: it is fixed."),
    (re.compile(r"torch\.(\w+) results are registered as constants"), "torch.{0} makes a constant: it is fixed."),
    (re.compile(r"There are (\d+) live references"), "An item of a tensor is written that {0} variables refer to."),
)


@dataclass
class Recording:
    """What the tracer recorded of one call: a graph of the input tensors followed by the weights.

    ``asks`` is whether the model's code asked if it is being traced.
    """

    model: torch.nn.Module
    graph: Graph
    weights: list[tuple[torch.nn.Module, str]]
    results: list[object]
    out_spec: pytree.TreeSpec
    modules: list[tuple[str, str]]
    asks: bool
    interpreter: Interpreter = field(default_factory=Interpreter)

    @property
    def tensors(self) -> int:
        """How many tensors the recorded call returned."""
        return sum(leaf is _TENSOR for leaf in self.results)

    def forward(self, *args: object, **kwargs: object) -> object:
        """Replay the recorded call on other inputs."""
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        weights = [getattr(owner, name) for owner, name in self.weights]
        self.interpreter.modules, self.interpreter.is_whole = self.modules, True
        outcome = self.interpreter.run_graph(self.graph, [*tensors, *weights])
        values = iter(outcome if isinstance(outcome, tuple) else (outcome,))
        leaves = [next(values) if leaf is _TENSOR else leaf for leaf in self.results]
        return pytree.tree_unflatten(leaves, self.out_spec)


_TENSOR = object()


def traced(model: torch.nn.Module, inputs: Inputs, tell: Callable[[Problem], None]) -> Recording:
    """Run a model once and record what it does; ``tell`` gets each fact that the recording takes for granted."""
    leaves, in_spec = pytree.tree_flatten((inputs.args, inputs.kwargs))
    positions = [position for position, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    weights: dict[int, tuple[torch.nn.Module, str]] = {}
    tensors: list[torch.Tensor] = [leaves[position] for position in positions]
    modules: list[tuple[str, str]] = []
    scopes = {}
    for path, module in model.named_modules():
        scopes[module] = f"m{len(modules)}"
        modules.append((path, f"{type(module).__module__}.{type(module).__qualname__}"))
        for name, weight in (*module._parameters.items(), *module._buffers.items()):
            if weight is not None and id(weight) not in weights:
                weights[id(weight)] = (module, name)
                tensors.append(weight)
    results: list[object] = []
    out_specs: list[pytree.TreeSpec] = []

    def call(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        filled = list(leaves)
        for position, tensor in zip(positions, given, strict=False):
            filled[position] = tensor
        args, kwargs = pytree.tree_unflatten(filled, in_spec)
        flat, out_spec = pytree.tree_flatten(model(*args, **kwargs))
        results[:] = [_TENSOR if isinstance(leaf, torch.Tensor) else leaf for leaf in flat]
        out_specs[:] = [out_spec]
        return tuple(leaf for leaf in flat if isinstance(leaf, torch.Tensor))

    with _told(tell), _recording_scopes(scopes), _noting_questions() as askers, torch.no_grad():
        graph, _ = create_graph_by_tracing(call, tensors, lambda _: "", False, False)
    return Recording(model, cast(Graph, graph), list(weights.values()), results, out_specs[0], modules, bool(askers))


def has_packed_weights(model: object) -> bool:
    """Whether layers of a model have weights packed for quantized operators, which only a script can name."""
    if not isinstance(model, torch.nn.Module) or isinstance(model, torch.jit.ScriptModule | Mirror):
        return False
    return any(type(module).__module__.startswith(_PACKED) for module in model.modules())


_PACKED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized", "torch.nn.quantized")


def script_of(model: torch.nn.Module, inputs: Inputs) -> object:
    """A model as the script of one run of it; a script as it is."""
    if isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction | Mirror):
        return model
    given = _named(model, inputs)
    options: dict[str, object] = {"example_kwarg_inputs": given} if inputs.kwargs else {"example_inputs": inputs.args}
    with torch.no_grad(), batches_of_any_size():
        return torch.jit.trace(model, strict=False, check_trace=False, **options)


def _named(model: torch.nn.Module, inputs: Inputs) -> dict[str, object]:
    return dict(inspect.signature(model.forward).bind(*inputs.args, **inputs.kwargs).arguments)


@contextlib.contextmanager
def _noting_questions() -> Iterator[list[str]]:
    """While the block runs, note which modules outside of torch ask whether they are being traced."""
    askers: list[str] = []

    def noting(question: Callable[[], object]) -> Callable[[], object]:
        def asked() -> object:
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and frame.f_code is jit_trace.is_tracing.__code__:
                frame = frame.f_back
            name = "" if frame is None else str(frame.f_globals.get("__name__"))
            if name.partition(".")[0] not in ("torch", "onnxport"):
                askers.append(name)
            return question()

        return asked

    questions = ("_is_tracing", "_get_tracing_state")
    with attributes_replaced([(jit_bindings, name, noting(getattr(jit_bindings, name))) for name in questions]):
        yield askers


@contextlib.contextmanager
def _recording_scopes(scopes: dict[torch.nn.Module, str]) -> Iterator[None]:
    """Let the tracer note the module of each node, and keep encoders from fusing what only inference fuses."""
    fast = torch.backends.mha.get_fastpath_enabled()
    put_back = undone_after(functools.partial(torch.backends.mha.set_fastpath_enabled, fast))
    with attributes_replaced([(jit_trace, "_trace_module_map", scopes)]), put_back:
        torch.backends.mha.set_fastpath_enabled(False)
        yield


@contextlib.contextmanager
def _told(tell: Callable[[Problem], None]) -> Iterator[None]:
    """Hand over the tracer's warnings as facts, one for each line, and let the others through."""
    caught: list[tuple[Warning | str, type[Warning], str, int, str]] = []

    def note(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        where = line_of_warning(filename, lineno) if issubclass(category, TracerWarning) else ""
        caught.append((message, category, filename, lineno, where))

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.simplefilter("always", TracerWarning)
        warnings.showwarning = note
        yield
    seen = set()
    for message, category, filename, lineno, place in caught:
        if not issubclass(category, TracerWarning):
            warnings.warn_explicit(message, category, filename, lineno)
            continue
        text = _reason(str(message))
        # A script that is replayed while the tracer runs has no frame of its own, and notes its line instead.
        noted = getattr(message, "__notes__", None)
        where = noted[0] if noted else place
        if text is not None and (text, where) not in seen:
            seen.add((text, where))
            tell(Problem(text, where, "The exported model does for every input what it did for the example."))


def _reason(message: str) -> str | None:
    for pattern, sentence in _REASONS:
        match = pattern.search(message)
        if match:
            return sentence.format(*match.groups())
    return message.split("\n")[0]


@contextlib.contextmanager
def replaying(recording: Recording) -> Iterator[None]:
    """While the block runs, the model's forward is the recording, without the hooks that it has recorded."""
    model = recording.model

    def replay(*args: object, **kwargs: object) -> object:
        return recording.forward(*args, **kwargs)

    own = vars(model)
    hooks = {name: type(own[name])() for name in ("_forward_hooks", "_forward_pre_hooks")}
    with items_replaced(own, hooks), method_replaced(model, replay, inspect.signature(model.forward)):
        yield
