"""The interpreter of TorchScript graphs: it runs their nodes one by one on whatever values it is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import torch
import torch.fx.traceback

from onnxport.capture.diagnosis.user_lines import running
from onnxport.capture.replay.lines import frames_of, quoted_frames
from onnxport.capture.replay.ops.calls import call_operator
from onnxport.capture.replay.values.items import may_be_none, typed_for, with_handles
from onnxport.capture.replay.values.stand_ins import Number, ReplayValue, materialized
from onnxport.errors import CaptureError
from onnxport.torch_graph import (
    Block,
    Function,
    Graph,
    Node,
    Type,
    Value,
    arguments_of,
    graph_of,
    inputs_of,
    nodes_of,
    outputs_of,
    results_of,
)
from onnxport.torch_internals.torchscript import jit_state, pass_inline


class Core(Protocol):
    """The TorchScript module behind a mirror, ``torch._C.ScriptModule``."""

    def _get_forward_pre_hooks(self) -> list[Function]: ...
    def _get_forward_hooks(self) -> list[Function]: ...
    def _type(self) -> Type: ...
    def _method_names(self) -> list[str]: ...
    def _get_method(self, name: str) -> Function: ...
    def hasattr(self, name: str) -> bool: ...
    def getattr(self, name: str) -> object: ...


class Scripted(torch.nn.Module):
    """A module whose methods are graphs; a mirror is one."""

    methods: dict[str, Function]
    core: Core


Env = dict[int, ReplayValue]
"""The values of a graph that are known so far, by their numbers in it (``Value.unique``)."""


@dataclass(slots=True)
class NodeCall:
    """One node that is run: what a handler gets beside the values of the node's inputs."""

    run: Interpreter
    node: Node
    env: Env

    def trace(self) -> None:
        """Let what is captured from here on carry the user's line of the node."""
        self.run.trace()


Handler = Callable[..., ReplayValue]
"""Called with the node and one argument for each of its inputs; of a node with several outputs, it returns a list."""

HANDLERS: dict[str, Handler] = {}
"""What to do at a node, by its kind, where it isn't an operator that can be called as it is.

The modules in ``ops`` and ``control`` fill it; each kind has one handler.
"""


def handles(*kinds: str) -> Callable[[Handler], Handler]:
    """Register the handler of nodes of some kinds."""

    def register(handler: Handler) -> Handler:
        for kind in kinds:
            if kind in HANDLERS:
                raise ValueError(f"{kind} has a handler already: {HANDLERS[kind].__qualname__}.")
            HANDLERS[kind] = handler
        return handler

    return register


@dataclass(slots=True)
class Frame:
    """A block that is run: its nodes, and which of them runs.

    ``goes_on`` says whether what follows the block is run right after it, on the same values.
    """

    block: Block | Graph
    nodes: list[Node]
    function: str
    goes_on: bool
    position: int = 0


class Finished(Exception):
    """Raised where a graph's results are known before its end: what followed was run inside of a branch."""

    def __init__(self, results: list[ReplayValue]) -> None:
        super().__init__("The rest of the graph was run.")
        self.results = results


def _passes_on(frame: Frame) -> bool:
    """Whether a block returns what its running node gives, and runs nothing else."""
    given = [value.unique() for value in outputs_of(frame.nodes[frame.position])]
    rest = frame.nodes[frame.position + 1 :]
    returned = [value.unique() for value in results_of(frame.block)]
    return frame.goes_on and returned == given and all(node.kind() == "prim::Constant" for node in rest)


def _typed(opset: int, graph: Graph, results: ReplayValue) -> ReplayValue:
    types = [value.type() for value in results_of(graph)]
    if len(types) == 1:
        return results if results is None else typed_for(opset, results, types[0])
    assert isinstance(results, tuple)
    return tuple(typed_for(opset, *pair) for pair in zip(results, types, strict=True))


def result_of(node: Node, results: Sequence[ReplayValue]) -> ReplayValue:
    """What a handler returns of a node with these outputs."""
    return results[0] if node.outputsSize() == 1 else results


@dataclass(frozen=True, eq=False)
class CopiedSlice:
    """A slice that had to be copied, where torch gives a view: what is written to it is written to its source."""

    source: torch.Tensor
    axis: int
    positions: torch.Tensor
    copy: torch.Tensor

    def write_back(self) -> None:
        """Let the source hold what the copy does."""
        self.source.index_copy_(self.axis, self.positions, self.copy)

    def read_again(self) -> None:
        """Let the copy hold what the source does."""
        self.copy.copy_(self.source.index_select(self.axis, self.positions))


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


class Finish(Protocol):
    """What is done with the results of nodes, by their kind and the values of their inputs, and with the model's."""

    def __call__(self, kind: str, values: Sequence[ReplayValue], result: ReplayValue) -> ReplayValue: ...

    def returned(self, results: ReplayValue) -> ReplayValue:
        """What leaves the model."""
        ...


class Interpreter:
    """Runs the graphs of one TorchScript model."""

    def __init__(self) -> None:
        self._stack: list[tuple[Node, str]] = []
        # The blocks of the graph that is run, from its own to the innermost.
        self.frames: list[Frame] = []
        # Those of the graphs that called it, outermost first.
        self.callers: list[list[Frame]] = []
        # Whether the script is the whole model: then what it returns leaves the ONNX model.
        self.is_whole = False
        # The opset whose types results leave the model with; without one, lists and tuples are taken apart.
        self.typed_for: int | None = None
        # The graphs of methods, by their owners and names.
        self.graphs: dict[object, Graph] = {}
        # What attributes of modules and objects hold, by the identities of these, with them: as it came with the
        # model, and as it was written.
        self.originals: dict[tuple[int, str], tuple[object, ReplayValue]] = {}
        self.state: dict[tuple[int, str], tuple[object, ReplayValue]] = {}
        # Tensors of modules that a branch or a loop body gets as operands, by the identity of the originals.
        self.substitutes: dict[int, ReplayValue] = {}
        # A traced graph is flat; each node has the number of its module instead.
        self.modules: list[tuple[str, str]] = []
        self._scopes: dict[str, dict[str, tuple[str, str]]] = {}
        self.root: torch.nn.Module | None = None
        # What is done with the results of nodes, by their kind and the values of their inputs.
        self.finish: Finish | None = None
        # Slices by steps that only run time knows, from the first on.
        self.copies: list[CopiedSlice] = []

    def forget(self) -> None:
        """Begin anew: attributes hold what they hold in the model."""
        self.originals.clear()
        self.state.clear()
        self.copies.clear()
        self.finish = None

    def run_top(self, module: Scripted | None, method: Function, arguments: Sequence[ReplayValue]) -> ReplayValue:
        """Run the graph that the user calls, with its own values turned into tensors in the results."""
        graph = with_known_functions(graph_of(method))
        name = str(method.name)
        if len(arguments_of(graph)) == len(arguments):
            return self.run_graph(graph, arguments, name)
        assert module is not None
        outer, self.root = self.root, module
        try:
            if name != "forward":
                return self.run_graph(graph, [module, *arguments], name)
            given = self._before(module, tuple(arguments))
            return materialized(self._after(module, given, self.run_graph(graph, [module, *given], name)))
        finally:
            self.root = outer

    def _before(self, module: Scripted, arguments: tuple[ReplayValue, ...]) -> tuple[ReplayValue, ...]:
        """The arguments of the call after the hooks that the script has for them."""
        for hook in module.core._get_forward_pre_hooks():
            changed = self.run_graph(with_known_functions(graph_of(hook)), [module, arguments], str(hook.name))
            if changed is not None:
                arguments = changed if isinstance(changed, tuple) else (changed,)
        return arguments

    def _after(self, module: Scripted, arguments: tuple[ReplayValue, ...], result: ReplayValue) -> ReplayValue:
        for hook in module.core._get_forward_hooks():
            changed = self.run_graph(with_known_functions(graph_of(hook)), [module, arguments, result], str(hook.name))
            result = result if changed is None else changed
        return result

    def run_graph(self, graph: Graph, arguments: Sequence[ReplayValue], function: str = "forward") -> ReplayValue:
        """Run a graph on its own."""
        with torch.fx.traceback.preserve_node_meta(), running(self):
            results = self.graph(graph, arguments, function)
            if self.is_whole and self.finish is not None:
                results = self.finish.returned(results)
            if self.is_whole and self.typed_for is not None:
                results = _typed(self.typed_for, graph, results)
            # What may be None leaves the model as such; Python code around a script needs to know.
            return materialized(with_handles(results) if self.is_whole or not may_be_none(results) else results)

    def method(self, module: Scripted, name: str, arguments: Sequence[ReplayValue]) -> ReplayValue:
        """Run a method of a module."""
        key = (id(module), name)
        if key not in self.graphs:
            self.graphs[key] = with_known_functions(graph_of(module.methods[name]))
        return self.graph(self.graphs[key], [module, *arguments], re.sub(r"\d+$", "", name))

    def graph(self, graph: Graph, arguments: Sequence[ReplayValue], function: str) -> ReplayValue:
        """Run a graph in an environment of its own; several results are a tuple."""
        env: Env = {}
        for value, argument in zip(arguments_of(graph), arguments, strict=True):
            env[value.unique()] = argument
        self.callers.append(self.frames)
        self.frames = []
        try:
            results = self.block(graph, env, function, goes_on=True)
        except Finished as finished:
            results = finished.results
        finally:
            self.frames = self.callers.pop()
        return results[0] if len(results) == 1 else tuple(results)

    def block(
        self, block: Block | Graph, env: Env, function: str | None = None, goes_on: bool = False
    ) -> list[ReplayValue]:
        """Run the nodes of a block and return its results; ``function`` is the name of the one it is part of."""
        function = self.function if function is None else function
        frame = Frame(block, nodes_of(block), function, goes_on)
        self.frames.append(frame)
        try:
            for position, node in enumerate(frame.nodes):
                frame.position = position
                self._node(node, env, function)
        finally:
            self.frames.pop()
        return [env[value.unique()] for value in results_of(block)]

    def returns_at_once(self) -> bool:
        """Whether what the running graph gives is what the model returns, and nothing else is done with it."""
        return self.is_whole and all(_passes_on(frame) for frames in self.callers for frame in frames)

    def rest(self, env: Env, results: Sequence[ReplayValue]) -> list[ReplayValue]:
        """Run what follows the running node to the end of its graph, as if the node gave these results."""
        frames = [(frame, frame.position) for frame in self.frames]
        try:
            while True:
                frame = self.frames[-1]
                for output, result in zip(outputs_of(frame.nodes[frame.position]), results, strict=True):
                    env[output.unique()] = result
                for position in range(frame.position + 1, len(frame.nodes)):
                    frame.position = position
                    self._node(frame.nodes[position], env, frame.function)
                results = [env[value.unique()] for value in results_of(frame.block)]
                if len(self.frames) == 1:
                    return results
                self.frames.pop()
        except Finished as finished:
            return finished.results
        finally:
            self.frames[:] = [frame for frame, _ in frames]
            for frame, position in frames:
                frame.position = position

    def _node(self, node: Node, env: Env, function: str) -> None:
        kind = node.kind()
        if kind == "prim::Constant":
            value = node.output()
            env[value.unique()] = _constant(value)
            return
        depth = len(self._stack)
        self._stack.append((node, function))
        try:
            values = [env[value.unique()] for value in inputs_of(node)]
            handler = HANDLERS.get(kind)
            if handler is None:
                self.trace()
                result = call_operator(node, values)
            else:
                result = handler(NodeCall(self, node, env), *values)
            if self.finish is not None:
                result = self.finish(kind, values, result)
            if self.copies and kind.endswith("_") and not kind.endswith("__"):
                self._write_back(values[0])
        except Exception as error:
            self._note(error)
            raise
        finally:
            del self._stack[depth:]
        outputs = outputs_of(node)
        if len(outputs) == 1:
            env[outputs[0].unique()] = result
        elif outputs:
            assert isinstance(result, list | tuple)
            for output, item in zip(outputs, result, strict=True):
                env[output.unique()] = item

    def _write_back(self, written: ReplayValue) -> None:
        """Carry what was written to a slice of a slice … to the tensor that they are of, and to its other slices."""
        if not isinstance(written, torch.Tensor):
            return
        changed = {_memory(written)}
        carried = []
        for slice_ in reversed(self.copies):
            if _memory(slice_.copy) in changed:
                slice_.write_back()
                carried.append(slice_)
                changed.add(_memory(slice_.source))
        for slice_ in self.copies:
            if slice_ not in carried and _memory(slice_.source) in changed:
                slice_.read_again()
                changed.add(_memory(slice_.copy))

    def trace(self) -> None:
        """Let what is captured from here on carry the line of the node that runs."""
        torch.fx.traceback.set_stack_trace([self.stack_trace()])
        if self.modules:
            torch.fx.traceback.current_meta["nn_module_stack"] = self._module_stack()

    def _module_stack(self) -> dict[str, tuple[str, str]]:
        scope = self._stack[0][0].scopeName()
        stack = self._scopes.get(scope)
        if stack is None:
            numbers = [int(part[1:]) for part in scope.split("/") if part]
            stack = self._scopes[scope] = {self.modules[n][0]: self.modules[n] for n in numbers}
        return stack

    def line(self) -> str:
        """The user's line that runs, as a quoted frame, or nothing."""
        return self.stack_trace() if self._stack else ""

    @property
    def function(self) -> str:
        """The name of the function that the running node is part of."""
        return self._stack[-1][1] if self._stack else "forward"

    def stack_trace(self) -> str:
        """The lines that led to the running node, outermost first."""
        frames: list[tuple[str, int, str]] = []
        last = len(self._stack) - 1
        for depth, (node, function) in enumerate(self._stack):
            if depth < last and node.kind() in ("prim::If", "prim::Loop"):
                continue
            found = frames_of(node, function)
            # A traced node knows its whole stack, a scripted one its own line.
            frames = found if len(found) > 1 else frames + found
        return quoted_frames(frames)

    def _note(self, error: Exception) -> None:
        """Name the user's line in an error, once."""
        if not getattr(error, "__notes__", None):
            lines = self.stack_trace()
            if lines:
                error.add_note(f"While the TorchScript graph was replayed:\n{lines}")


def find_function(kind: object) -> Function | None:
    """The function that a constant of a graph refers to, or None if it is not one of this process."""
    return cast(Function | None, jit_state._python_cu.find_function(repr(kind)))


def with_known_functions(graph: Graph) -> Graph:
    """A graph whose functions can be found: those that came with a file can't, and take the place of their calls."""
    calls = graph.findAllNodes("prim::CallFunction", recurse=True)
    if all(find_function(call.inputsAt(0).type()) is not None for call in calls):
        return graph
    inlined = graph.copy()
    # Calls of modules stay calls: under another name torch does not see them as such.
    for call in inlined.findAllNodes("prim::CallMethod", recurse=True):
        held = inlined.create("onnxport::CallMethod", inputs_of(call), 1)
        held.s_("name", call.s("name"))
        held.insertBefore(call)
        held.output().setType(call.output().type())
        call.output().replaceAllUsesWith(held.output())
        call.destroy()
    pass_inline(inlined)
    return inlined


def _constant(value: Value) -> ReplayValue:
    if value.type().kind() == "FunctionType":
        return value.type()
    try:
        constant = value.toIValue()
    except RuntimeError as error:
        raise CaptureError(
            f"A constant of type {value.type()} is of an enum or class that is not in this process. Import the module "
            "that defines it, and script something that uses it, before exporting."
        ) from error
    if isinstance(constant, torch.Tensor) and constant.dim() == 0 and constant.dtype in _NUMBERS:
        # The tracer wraps the plain numbers of the user's code like this.
        return Number(constant.item(), constant.dtype)
    return constant


_NUMBERS = (torch.float64, torch.int64, torch.bool, torch.complex128)
