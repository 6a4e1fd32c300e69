"""What observed calls leave open: an export would fix it at what they happened to have."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from onnxport.capture.request.input_names import named_leaves
from onnxport.errors import Problem
from onnxport.observing.observed_calls import ObservedCall, varying_axes

_MASK = "attention_mask"
Seen = Mapping[str, Sequence[torch.Size]]


def left_open(
    calls: Sequence[ObservedCall], signature: inspect.Signature, varying: Mapping[str, object]
) -> Iterator[Problem]:
    """Say what the calls did not show, each with the line that would show it."""
    seen: dict[str, list[torch.Size]] = {}
    for call in calls:
        for name in call.arguments:
            for leaf in call.leaves(name):
                if isinstance(leaf.value, torch.Tensor):
                    seen.setdefault(leaf.path, []).append(leaf.value.shape)
    axes = {path: varying_axes(varying[path]) for path in seen}
    yield from _one_batch_size(len(calls), seen, axes)
    yield from _no_mask(calls, signature)
    yield from _fixed_twins(seen, axes)


def _one_batch_size(count: int, seen: Seen, axes: Mapping[str, list[int]]) -> Iterator[Problem]:
    firsts = {shape[0] for shapes in seen.values() for shape in shapes if len(shape) > 0}
    if len(firsts) != 1 or any(0 in found for found in axes.values()):
        return
    (size,) = firsts
    calls = "The one call that was observed" if count == 1 else f"Each of the {count} observed calls"
    what = f"{calls} had a batch of {size}: that is what the exported model takes."
    if count == 1 and not any(axes.values()):
        what = f"One call was observed, with a batch of {size}: the exported model takes these sizes and no others."
    yield Problem(
        what,
        remedy="Call the model inside `with observer(model):` with other sizes too, or write "
        "observer.for_export(set_batch_dimension_for=True).",
    )


def _no_mask(calls: Sequence[ObservedCall], signature: inspect.Signature) -> Iterator[Problem]:
    if _MASK not in signature.parameters or any(_MASK in call.arguments for call in calls):
        return
    batched = [name for name in ("input_ids", "inputs_embeds", "input_values") if name in calls[0].arguments]
    if not batched:
        return
    ones = f"{_MASK} = torch.ones({batched[0]}.shape[:2], dtype=torch.int64)"
    yield Problem(
        f"No call was given an {_MASK}: the exported model takes none, so that rows of a batch can't be padded.",
        remedy=f"Observe a padded batch: {ones}; {_MASK}[0, 0] = 0 (generate() drops a mask of ones alone).",
    )


def masked(calls: Sequence[ObservedCall]) -> list[ObservedCall]:
    """The calls, those without a mask with one of ones where others have one: generate() drops such a mask."""
    masks = [call.arguments[_MASK] for call in calls if _MASK in call.arguments]
    if not masks or not isinstance(masks[0], torch.Tensor) or masks[0].dim() != 2:
        return list(calls)
    return [call if _MASK in call.arguments else _unpadded(call, masks[0]) for call in calls]


def _unpadded(call: ObservedCall, like: torch.Tensor) -> ObservedCall:
    new = next((call.arguments[key] for key in ("input_ids", "inputs_embeds") if key in call.arguments), None)
    if not isinstance(new, torch.Tensor):
        return call
    states = [entry for key, value in call.arguments.items() for entry in named_leaves(value, key)]
    past = [
        int(entry.leaf.value.shape[entry.state.growing_axis])
        for entry in states
        if entry.state is not None and entry.state.growing_axis is not None and entry.state.window is None
    ]
    ones = like.new_ones(new.shape[0], new.shape[1] + (past[0] if past else 0))
    return replace(call, arguments={**call.arguments, _MASK: ones})


def _fixed_twins(seen: Seen, axes: Mapping[str, list[int]]) -> Iterator[Problem]:
    """Axes that had one size in all calls, where an axis that goes with them had that size in one call and others."""
    for path, shapes in seen.items():
        for axis, size in enumerate(shapes[0]):
            # An axis of 1 is broadcast, whatever the others are.
            if axis in axes[path] or size == 1:
                continue
            twin = next((other for other in seen if axis in axes[other] and _are_twins(path, other, axis)), None)
            if twin is not None and any(shape[axis] == size for shape in seen[twin]):
                yield Problem(
                    f"Axis {axis} of {path} had a size of {size} in every call, though axis {axis} of {twin} had "
                    "others: the exported model takes that size alone.",
                    remedy=f"Call the model inside `with observer(model):` with another size of {path} too.",
                )


def _are_twins(path: str, other: str, axis: int) -> bool:
    """Whether an axis means the same of two inputs: the batch of any, and all axes of entries of one list."""
    siblings = "[" in path and path.rpartition("[")[0] == other.rpartition("[")[0]
    is_text = all(name.endswith(("_ids", "_mask")) for name in (path, other))
    return axis == 0 or siblings or (is_text and axis == 1)
