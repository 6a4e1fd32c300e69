"""What a model computes, compared with eager: the one comparison of all tests, which a wrong result cannot pass."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

import onnxport
from cases import Wrapped

RTOL = ATOL = 1e-5
"""What a float32 result may differ by where a test says nothing else."""


def assert_close(found: Any, expected: Any, *, rtol: float = RTOL, atol: float = ATOL) -> None:
    """Fail unless two results are the same: as many tensors, each in dtype, shape and value.

    It also fails where the tolerance is so wide that a result of zeros would pass (and so, all the more, one with every
    sign changed): such a comparison tells nothing. Where eager's result is exactly zero, zero is what is asked for.
    """
    ours, eager = (pytree.tree_leaves(side) for side in (found, expected))
    assert len(ours) == len(eager), f"{len(ours)} results where eager has {len(eager)}"
    for one, other in zip(ours, eager, strict=True):
        _assert_tensor_close(torch.as_tensor(one), torch.as_tensor(other).detach(), rtol, atol)


def _assert_tensor_close(ours: torch.Tensor, eager: torch.Tensor, rtol: float, atol: float) -> None:
    # ONNX has no complex numbers: a model gives their parts, along one more axis, and these are compared.
    eager = eager.resolve_conj().resolve_neg()
    ours, eager = (torch.view_as_real(side) if side.dtype.is_complex else side for side in (ours, eager))
    if not eager.dtype.is_floating_point and not eager.dtype.is_complex:
        rtol = 0.0  # a large index that is off by one is wrong
    torch.testing.assert_close(ours, eager, rtol=rtol, atol=atol, equal_nan=True)
    if passes_as_zero(eager, rtol, atol):
        largest = eager.abs().max().item()
        raise AssertionError(
            f"With rtol={rtol} and atol={atol} a result of zeros passes too: eager's largest value is {largest:.3g}. "
            "Compare more closely, or choose inputs with larger results."
        )


def passes_as_zero(eager: torch.Tensor, rtol: float, atol: float) -> bool:
    """Whether zeros are within the tolerance of a result that is something else."""
    if eager.dtype == torch.bool or not eager.any():
        return False
    magnitude = eager.abs() if eager.dtype.is_complex else eager.double().abs()
    # Neither infinity nor NaN is below a bound: a result that holds one is told from zeros.
    return bool((magnitude * (1 - rtol) <= atol).all())


def eager_result(model: Callable[..., Any], example: Sequence[Any] | Mapping[str, Any]) -> Any:
    """What the model itself gives for copies of these arguments, which it may write to."""
    example = copy.deepcopy(example)
    with torch.no_grad():
        return model(**example) if isinstance(example, Mapping) else model(*example)


def assert_agrees(
    program: onnxport.ONNXProgram,
    model: Callable[..., Any],
    *examples: Sequence[Any] | Mapping[str, Any],
    rtol: float = RTOL,
    atol: float = ATOL,
) -> None:
    """Run both on each example (arguments by position, or by name) and compare."""
    assert examples, "nothing to compare on"
    for example in examples:
        expected = eager_result(model, example)
        found = program(**example) if isinstance(example, Mapping) else program(*example)
        assert_close(list(found), expected, rtol=rtol, atol=atol)


def exported_and_compared(
    function: Callable[..., Any],
    *examples: Sequence[Any],
    axes: Sequence[dict[int, str] | None] | None = None,
    rtol: float = RTOL,
    atol: float = ATOL,
    **options: Any,
) -> onnxport.ONNXProgram:
    """Export a function or module on the first example and compare with eager on all of them.

    ``axes`` names the axes of each input that vary; the program must still have them under these names.
    """
    module = function if isinstance(function, torch.nn.Module) else Wrapped(function)
    shapes: Any = None
    if axes is not None:
        shapes = tuple(axes) if module is function else {"inputs": tuple(axes)}
    program = onnxport.export(module, tuple(copy.deepcopy(examples[0])), dynamic_shapes=shapes, **options)
    for value, named in zip(program.model.graph.inputs, axes if axes is not None else (), strict=False):
        assert value.shape is not None
        assert {axis: str(value.shape[axis]) for axis in named or ()} == (named or {}), value
    assert_agrees(program, module, *examples, rtol=rtol, atol=atol)
    return program
