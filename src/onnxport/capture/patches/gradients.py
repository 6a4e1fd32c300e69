"""Gradients that a model computes in its own forward, as the forces of a potential are.

``torch.autograd`` runs the formulas of gradients beneath what a capture records, and on what was recorded they leave
no call. So the calls between inputs and outputs are taken from the graph, run once more with the gradient behind them
where no capture sees it, and the calls that this makes are run in the model's place, with their results for its own.
torch.func's transforms are Python around the same question: they run without their wrappers, and ask it too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.weak import WeakTensorKeyDictionary

from onnxport.capture.patches.gradient_formulas import backward_formulas
from onnxport.capture.patches.gradient_regions import DifferentiatedCalls, calls_between, check_differentiable, is_write
from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.errors import CaptureError
from onnxport.torch_internals import pytree
from onnxport.torch_internals.fake_tensors import proxy_tensor
from onnxport.torch_internals.gradients import (
    BACKWARD,
    FUNCTION_TRANSFORMS,
    attribute_of_recording,
    nothing_recorded,
    recorded_as,
    temporarily_clear_interpreter_stack,
)
from onnxport.torch_internals.symbolic_sizes import get_proxy_mode, recorded_tensor

_Tensors = Sequence[torch.Tensor]
_Found = tuple[torch.Tensor | None, ...]


_Engine = Callable[..., Any]


@contextlib.contextmanager
def gradients_recorded() -> Iterator[None]:
    """While this is open, gradients of what is recorded are recorded too."""
    transforms = FUNCTION_TRANSFORMS
    engine = getattr(*BACKWARD)
    gradients = _Gradients(engine, torch.is_grad_enabled())
    track: Callable[..., object] = proxy_tensor.track_tensor

    def track_tensor(tensor: torch.Tensor, proxy: torch.fx.Proxy, *, tracer: Any, **options: object) -> object:
        gradients.note_recording(tensor, proxy.node, tracer.tensor_tracker.get(tensor))
        return track(tensor, proxy, tracer=tracer, **options)

    rows: list[tuple[object, str, object]] = [
        (*BACKWARD, _running_backward(engine, gradients)),
        (proxy_tensor, "track_tensor", track_tensor),
        (transforms, "_autograd_grad", _unless_recording(transforms._autograd_grad, gradients.of_function)),
        (transforms, "_jvp_with_argnums", _unless_recording(transforms._jvp_with_argnums, gradients.pushed)),
    ]
    rows += [
        (transforms, name, _unless_recording(getattr(transforms, name), instead))
        for name, instead in (
            ("grad_increment_nesting", lambda: contextlib.nullcontext(0)),
            ("_wrap_all_tensors", lambda tree, level: pytree.tree_map_only(torch.Tensor, torch.ops.aten.alias, tree)),
            ("_create_differentiable", lambda tree, level=None: tree),
            ("_undo_create_differentiable", lambda tree, level=None: tree),
        )
    ]
    with attributes_replaced(rows):
        yield


def _unless_recording(original: Callable[..., object], instead: Callable[..., object]) -> Callable[..., object]:
    return lambda *args, **kwargs: (original if get_proxy_mode() is None else instead)(*args, **kwargs)


def _running_backward(engine: _Engine, gradients: _Gradients) -> _Engine:
    def run_backward(
        outputs: _Tensors,
        directions: Sequence[torch.Tensor | None],
        retain_graph: bool,
        create_graph: bool,
        inputs: _Tensors,
        allow_unreachable: bool,
        accumulate_grad: bool,
    ) -> Any:
        if get_proxy_mode() is None:
            return engine(outputs, directions, retain_graph, create_graph, inputs, allow_unreachable, accumulate_grad)
        into = inputs if inputs or not accumulate_grad else _leaves()
        if not any(tensor.requires_grad for tensor in into):
            raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")
        # To torch a result has no gradient where a kernel of ours gave it.
        pairs = zip(outputs, directions, strict=True)
        along = [torch.ones_like(one) if direction is None else direction for one, direction in pairs]
        found = gradients.of(outputs, into, along)
        # The model's code, and torch's, ask whether there is a gradient of the gradient.
        found = tuple(one if one is None else one.requires_grad_() if create_graph else one.detach() for one in found)
        if accumulate_grad:
            return _accumulate(into, found)
        if not allow_unreachable and any(one is None for one in found):
            raise RuntimeError(
                "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True "
                "if this is the desired behavior."
            )
        return found

    return run_backward


def _leaves() -> list[torch.Tensor]:
    """The tensors of the model's code whose gradient ``backward()`` keeps; nobody reads those of its weights."""
    mode = get_proxy_mode()
    assert mode is not None
    known = [tensor for tensor in mode.tracer.tensor_tracker if tensor.requires_grad and tensor.is_leaf]
    return [tensor for tensor in known if not isinstance(tensor, torch.nn.Parameter)]


def _accumulate(into: _Tensors, found: _Found) -> None:
    for tensor, gradient in zip(into, found, strict=True):
        if gradient is not None:
            tensor.grad = gradient if tensor.grad is None else tensor.grad + gradient


def _without_holes(found: _Found, inputs: _Tensors) -> _Tensors:
    pairs = zip(found, inputs, strict=True)
    return tuple(torch.zeros_like(tensor) if one is None else one for one, tensor in pairs)


@dataclass(frozen=True)
class _Gradients:
    """Gradients of what is recorded. ``enabled`` is whether gradients were when the model was called."""

    engine: _Engine
    enabled: bool
    #: The call that gave a tensor, where one since has returned it as it was (`x.contiguous()`).
    first: WeakTensorKeyDictionary = field(default_factory=WeakTensorKeyDictionary)

    def note_recording(self, tensor: torch.Tensor, node: torch.fx.Node, known: Any) -> None:
        """Note that a call is about to be recorded as the one that gave a tensor. ``known`` is what was, if any."""
        if known is None or is_write(node):
            self.first.pop(tensor, None)
        elif tensor not in self.first:
            self.first[tensor] = known.proxy.node

    def _node_of(self, tensor: torch.Tensor) -> torch.fx.Node | None:
        first: torch.fx.Node | None = self.first.get(tensor)
        return recorded_tensor(tensor) if first is None else first

    def of_function(
        self,
        outputs: _Tensors,
        inputs: _Tensors,
        grad_outputs: _Tensors | None = None,
        retain_graph: bool = False,
        create_graph: bool = True,
    ) -> _Tensors:
        """What transforms of functions ask for."""
        directions = [torch.ones_like(one) for one in outputs] if grad_outputs is None else grad_outputs
        return _without_holes(self.of(outputs, inputs, directions), inputs)

    def pushed(
        self,
        function: Callable[..., Any],
        primals: Any,
        tangents: Any,
        argnums: int | tuple[int, ...] | None,
        *,
        strict: bool = False,
        has_aux: bool,
    ) -> Any:
        """How results change with arguments: the gradient of their gradient, which is linear in its direction."""
        returned = FUNCTION_TRANSFORMS._vjp_with_argnums(function, *primals, argnums=argnums, has_aux=has_aux)
        results, pull, *rest = returned
        flat, structure = pytree.tree_flatten(results)
        directions = [torch.zeros_like(one) for one in flat]
        pulled = pytree.tree_leaves(pull(pytree.tree_unflatten(directions, structure)))
        along = pytree.tree_leaves(tangents)
        pushed = _without_holes(self.of(pulled, directions, along), directions)
        return (results, pytree.tree_unflatten(list(pushed), structure), *rest)

    def of(self, outputs: _Tensors, inputs: _Tensors, directions: _Tensors) -> _Found:
        """The gradients of recorded tensors with respect to others, as calls in the graph; None where there is none."""
        mode = get_proxy_mode()
        assert mode is not None
        ends, starts = [recorded_tensor(one) for one in outputs], [self._node_of(one) for one in inputs]
        known = [node for node in dict.fromkeys(starts) if node is not None]
        region = calls_between(mode.tracer.graph, known, [node for node in ends if node is not None], grad=self.enabled)
        used = [pair for pair in zip(ends, directions, strict=True) if pair[0] is not None and pair[0] in region.used]
        if not used:
            return (None,) * len(inputs)
        along = [direction for _, direction in used]
        read = [*region.read, *(node for node in known if node not in region.calls and node not in region.read)]
        constants = {node: attribute_of_recording(str(node.target)) for node in read if "val" not in node.meta}
        nodes = [node for node in read if node not in constants]
        present: list[bool] = []

        def run(values: Sequence[object], directions: _Tensors) -> list[torch.Tensor]:
            filled = {**dict(zip(nodes, values, strict=True)), **constants}
            found = self._differentiated(region, filled, known, [node for node, _ in used], directions)
            present[:] = [one is not None for one in found]
            return [one for one in found if one is not None]

        traced = _traced(run, [node.meta["val"] for node in nodes], along)
        results = iter(traced([_standing_for(node) for node in nodes], along))
        by_node = {node: next(results) if there else None for node, there in zip(known, present, strict=True)}
        return tuple(None if node is None else by_node[node] for node in starts)

    def _differentiated(
        self,
        region: DifferentiatedCalls,
        values: dict[torch.fx.Node, Any],
        inputs: Sequence[torch.fx.Node],
        outputs: Sequence[torch.fx.Node | None],
        directions: _Tensors,
    ) -> _Found:
        """Run the calls of a region again, and take the gradients of the outputs."""
        for node in inputs:
            if node in values:
                values[node].requires_grad_()
        for node in region.calls:
            args, kwargs = torch.fx.node.map_arg((region.arguments(node), node.kwargs), values.__getitem__)
            with torch.set_grad_enabled(node in region.enabled):
                values[node] = node.target(*args, **kwargs)  # type: ignore[operator]
            check_differentiable(node, values)
        ends = [values[node] for node in outputs if node is not None]
        pairs = [(end, one) for end, one in zip(ends, directions, strict=True) if end.requires_grad]
        if not pairs:
            return (None,) * len(inputs)
        differentiated, along = zip(*pairs, strict=True)
        # As if their gradients were to follow: else some formulas read what has none.
        wanted = tuple(values[node] for node in inputs)
        found: _Found = self.engine(differentiated, along, True, True, wanted, True, False)
        return found


def _traced(run: Callable[..., object], values: Sequence[object], along: _Tensors) -> torch.fx.GraphModule:
    """The calls that a function makes, beneath what the capture records."""
    # Attention as its formula, since the gradients of its kernels are kernels.
    formulas = sdpa_kernel(SDPBackend.MATH)
    with nothing_recorded(), temporarily_clear_interpreter_stack(), torch.enable_grad(), formulas:
        try:
            fresh = [_fresh(value) for value in values], [_fresh(one) for one in along]
            traced = make_fx(run, backward_formulas(), _allow_non_fake_inputs=True)(*fresh)
        except CaptureError:
            raise
        except RuntimeError as error:
            raise CaptureError(f"A gradient that the model computes can't be taken: {error}") from error
    for node in traced.graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
        # What a formula saved of a result. In the graph, the gradient of the gradient flows through it.
        node.replace_all_uses_with(node.args[0])
    traced.graph.eliminate_dead_code()
    traced.recompile()
    return traced


def _fresh(value: Any) -> Any:
    """A tensor of the same sizes that nothing has seen, and no transform wraps; numbers are themselves."""
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=value.device)


def _standing_for(node: torch.fx.Node) -> Any:
    """A tensor for the result of a recorded call, which the model's code may have let go of."""
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return value
    with nothing_recorded():
        stands = value.detach()
    return recorded_as(stands, node)
