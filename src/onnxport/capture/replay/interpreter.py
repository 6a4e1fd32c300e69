"""The interpreter of TorchScript graphs: it runs their nodes one by one on whatever values it is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx.traceback

from onnxport.capture.diagnosis.user_lines import running
from onnxport.capture.replay.calls import callee
from onnxport.capture.replay.lines import frames_of, stack_trace
from onnxport.capture.replay.python_ops import FUNCTIONS
from onnxport.capture.replay.values.items import returned
from onnxport.capture.replay.values.kinds import Number, materialized
from onnxport.errors import CaptureError
from onnxport.torch_internals.torchscript import jit_state, pass_inline

Env = dict[int, Any]
Handler = Callable[["Interpreter", Any, list[Any], Env], Any]

HANDLERS: dict[str, Handler] = {}
"""What to do at a node, by its kind, where an operator can't simply be called; filled by the modules beside this."""


def handles(*kinds: str) -> Callable[[Handler], Handler]:
    """Register a handler: it gets the node, the values of its inputs and all values so far, and returns its output.

    Of a node with several outputs, it returns a list.
    """

    def register(handler: Handler) -> Handler:
        for kind in kinds:
            HANDLERS[kind] = handler
        return handler

    return register


class Interpreter:
    """Runs the graphs of one TorchScript model."""

    def __init__(self) -> None:
        self._stack: list[tuple[Any, str]] = []
        # The graphs of methods, by their owners and names.
        self.graphs: dict[Any, Any] = {}
        # What attributes of modules and objects hold, by the identities of these, with them: as it came with the
        # model, and as it was written.
        self.originals: dict[tuple[int, str], tuple[Any, Any]] = {}
        self.state: dict[tuple[int, str], tuple[Any, Any]] = {}
        # Tensors of modules that a branch or a loop body gets as operands, by the identity of the originals.
        self.substitutes: dict[int, Any] = {}
        # A traced graph is flat; each node has the number of its module instead.
        self.modules: list[tuple[str, str]] = []
        self._scopes: dict[str, dict[str, tuple[str, str]]] = {}
        self.root: Any = None
        # What is done with the results of nodes, by their kind and the values of their inputs.
        self.finish: Callable[[str, Sequence[Any], Any], Any] | None = None

    def forget(self) -> None:
        """Begin anew: attributes hold what they hold in the model."""
        self.originals.clear()
        self.state.clear()
        self.finish = None

    def run_top(self, module: Any, method: Any, arguments: Sequence[Any]) -> Any:
        """Run the graph that the user calls, with its own values turned into tensors in the results."""
        graph = with_known_functions(method.graph)
        if len(list(graph.inputs())) == len(arguments):
            return self.run_graph(graph, arguments, method.name)
        outer, self.root = self.root, module
        try:
            if method.name != "forward":
                return self.run_graph(graph, [module, *arguments], method.name)
            given = self._before(module, tuple(arguments))
            return materialized(self._after(module, given, self.run_graph(graph, [module, *given], method.name)))
        finally:
            self.root = outer

    def _before(self, module: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of the call after the hooks that the script has for them."""
        for hook in module.core._get_forward_pre_hooks():
            changed = self.run_graph(with_known_functions(hook.graph), [module, arguments], hook.name)
            if changed is not None:
                arguments = changed if isinstance(changed, tuple) else (changed,)
        return arguments

    def _after(self, module: Any, arguments: tuple[Any, ...], result: Any) -> Any:
        for hook in module.core._get_forward_hooks():
            changed = self.run_graph(with_known_functions(hook.graph), [module, arguments, result], hook.name)
            result = result if changed is None else changed
        return result

    def run_graph(self, graph: Any, arguments: Sequence[Any], function: str = "forward") -> Any:
        """Run a graph on its own."""
        with torch.fx.traceback.preserve_node_meta(), running(self):
            return materialized(returned(self.graph(graph, arguments, function)))

    def method(self, module: Any, name: str, arguments: Sequence[Any]) -> Any:
        """Run a method of a module."""
        key = (id(module), name)
        if key not in self.graphs:
            self.graphs[key] = with_known_functions(module.methods[name].graph)
        return self.graph(self.graphs[key], [module, *arguments], re.sub(r"\d+$", "", name))

    def graph(self, graph: Any, arguments: Sequence[Any], function: str) -> Any:
        """Run a graph in an environment of its own; several results are a tuple."""
        env: Env = {}
        for value, argument in zip(graph.inputs(), arguments, strict=True):
            env[value.unique()] = argument
        results = self.block(graph, env, function)
        return results[0] if len(results) == 1 else tuple(results)

    def block(self, block: Any, env: Env, function: str) -> list[Any]:
        """Run the nodes of a block and return its results."""
        for node in block.nodes():
            self._node(node, env, function)
        return [env[value.unique()] for value in block.outputs()]

    def _node(self, node: Any, env: Env, function: str) -> None:
        kind = node.kind()
        if kind == "prim::Constant":
            value = node.output()
            env[value.unique()] = _constant(value)
            return
        depth = len(self._stack)
        self._stack.append((node, function))
        try:
            values = [env[value.unique()] for value in node.inputs()]
            handler = HANDLERS.get(kind)
            if handler is None:
                self.trace()
                result = call(node, kind, values)
            else:
                result = handler(self, node, values, env)
            if self.finish is not None:
                result = self.finish(kind, values, result)
        except Exception as error:
            self._note(error)
            raise
        finally:
            del self._stack[depth:]
        count = node.outputsSize()
        if count == 1:
            env[node.output().unique()] = result
        elif count:
            for output, item in zip(node.outputs(), result, strict=True):
                env[output.unique()] = item

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
        return stack_trace(frames)

    def _note(self, error: Exception) -> None:
        """Name the user's line in an error, once."""
        if not getattr(error, "__notes__", None):
            lines = self.stack_trace()
            if lines:
                error.add_note(f"While the TorchScript graph was replayed:\n{lines}")


def find_function(kind: Any) -> Any:
    """The function that a constant of a graph refers to, or None if it is not one of this process."""
    return jit_state._python_cu.find_function(repr(kind))


def with_known_functions(graph: Any) -> Any:
    """A graph whose functions can be found: those that came with a file can't, and take the place of their calls."""
    calls = graph.findAllNodes("prim::CallFunction", recurse=True)
    if all(find_function(next(call.inputs()).type()) is not None for call in calls):
        return graph
    inlined = graph.copy()
    # Calls of modules stay calls: under another name torch does not see them as such.
    for call in inlined.findAllNodes("prim::CallMethod", recurse=True):
        held = inlined.create("onnxport::CallMethod", list(call.inputs()), 1)
        held.s_("name", call.s("name"))
        held.insertBefore(call)
        held.output().setType(call.output().type())
        call.output().replaceAllUsesWith(held.output())
        call.destroy()
    pass_inline(inlined)
    return inlined


def _constant(value: Any) -> Any:
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


def call(node: Any, kind: str, values: list[Any]) -> Any:
    """Call the operator of a node that nothing else is known of."""
    schema = node.schema()
    if kind.startswith("quantized::"):
        raise CaptureError(f"The operator {kind} can't be replayed. Leave what it is part of unquantized.")
    operator = callee(schema) if schema != "(no schema)" else None
    if operator is not None:
        return operator(values)
    function = FUNCTIONS.get(kind)
    if function is None:
        raise CaptureError(f"The operator {kind} of TorchScript can't be replayed: {schema}.")
    return function(*(value.value if type(value) is Number else value for value in values))
