"""Axes of size 1 in the example, declared to vary, that the model broadcasts against another size.

Such an axis may be 1 or the other size and nothing else. torch.export takes one that varies for the other size, which
the example then doesn't have. Where the example is followed (``dynamo=False``), the axis is fixed with a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnxport.capture import strategies
from onnxport.capture.diagnosis import forced_sizes
from onnxport.capture.diagnosis.user_lines import line_of_error
from onnxport.capture.request.dynamic_shapes import Axis
from onnxport.errors import CaptureError, Problem, warn


def run_fixing_ones(
    request: strategies.Request,
    recorder: forced_sizes.Recorder,
    candidates: Sequence[strategies.Strategy],
    *,
    forking: bool,
) -> strategies.Success:
    """Capture as ``strategies.run`` does; where axes of size 1 are in the way, once more with these fixed."""
    try:
        return strategies.run(request, recorder, candidates, forking=forking)
    except CaptureError as refusal:
        mismatches = [error for _, error in refusal.failures if "must match the size of tensor" in str(error)]
        if not request.follows_example or not mismatches:
            raise
        for ones in _ways(request.declared.of_size_one):
            success = _fixed(request, recorder, candidates, ones, forking)
            if success is not None:
                for axis in ones:
                    _tell(request, axis, line_of_error(mismatches[0]))
                return success
        raise


def _ways(ones: Sequence[Axis]) -> Iterator[Sequence[Axis]]:
    """Each axis alone, to fix no more than is needed, then all of them."""
    for axis in ones:
        yield [axis]
    if len(ones) > 1:
        yield ones


def _fixed(
    request: strategies.Request,
    recorder: forced_sizes.Recorder,
    candidates: Sequence[strategies.Strategy],
    ones: Sequence[Axis],
    forking: bool,
) -> strategies.Success | None:
    try:
        with request.declared.fixing(ones):
            return strategies.run(request, recorder, candidates, forking=forking)
    except CaptureError:
        # What the first attempt said is what the caller is told.
        return None


def _tell(request: strategies.Request, axis: Axis, where: str) -> None:
    named = f" as '{axis.name}'" if axis.name is not None else ""
    shown = f"{str(axis)[0].upper()}{str(axis)[1:]}"
    what = f"{shown} was declared dynamic{named}, but the example has size 1 there, which the model broadcasts."
    request.events.add("warning", "capture", what, where=where)
    warn(str(Problem(what, where, "The file fixes it to 1; export with a larger example for other sizes.")))
