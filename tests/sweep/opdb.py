"""The sweep: torch's own samples of its operators, exported, run and compared with eager.

``python tests/sweep/opdb.py --dtype float32 --samples 4`` prints a summary and writes every outcome to a JSON file.
With ``--errors`` it takes the calls that torch says must fail instead, and tells which of them become models that run.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import itertools
import json
import multiprocessing
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

import onnxport
from comparison import assert_close, passes_as_zero
from onnxport.capture import capture
from onnxport.errors import CaptureError, OnnxExporterError
from onnxport.events import EventLog

TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float32: 2e-4, torch.float64: 1e-6, torch.complex64: 5e-4}

OPERATORS: dict[str, OpInfo] = {
    f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db
}

# For each sample torch looks for a unittest.TestCase through the whole stack, source lines too. There is none.
for module in (core, common_utils):
    module.extract_test_fn = lambda: None


@dataclass(frozen=True)
class Outcome:
    """What became of one sample."""

    operator: str
    sample: int
    verdict: str
    detail: str = ""


DTYPES = (torch.float32, torch.int64, torch.bool, torch.float16, torch.bfloat16, torch.complex64)
"""What ``make sweep`` goes through; an operator's first is the first of these that it takes."""


@dataclass(frozen=True)
class Pick:
    """One sample of an operator in one dtype, with every size fixed or every size of two or more left open.

    ``number`` counts on from the first sample when torch has fewer.
    """

    dtype: torch.dtype
    dynamic: bool
    number: int

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')} {'dynamic' if self.dynamic else 'static'} {self.number}"


def picks(name: str) -> list[Pick]:
    """The first sample of an operator, and another that its name decides: the same on every machine, and varied."""
    dtypes = [dtype for dtype in DTYPES if dtype in OPERATORS[name].supported_dtypes("cpu")]
    if not dtypes:
        return []
    seed = zlib.crc32(name.encode())
    other = Pick(dtypes[seed % len(dtypes)], bool(seed >> 8 & 1), (seed >> 16) % 97 + 1)
    return [Pick(dtypes[0], False, 0), other]


class SampleModule(torch.nn.Module):
    """A call of an operator whose tensors are the inputs and whose other arguments are fixed."""

    def __init__(self, function: Any, sample: SampleInput) -> None:
        super().__init__()
        leaves, self.spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.places = [position for position, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = tuple(leaves[position].detach().clone() for position in self.places)
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.function = function
        # What torch itself compares: singular vectors, for one, are defined up to their sign only.
        self.defined = sample.output_process_fn_grad

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.leaves)
        for position, tensor in zip(self.places, tensors, strict=True):
            leaves[position] = tensor
        first, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        result = self.defined(self.function(first, *args, **kwargs))
        return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def samples(op: OpInfo, dtype: torch.dtype, count: int, seed: int = 0) -> Iterator[tuple[int, SampleInput]]:
    """Up to ``count`` samples with their places, spread over all that torch gives; a seed draws other numbers."""
    torch.manual_seed(seed)
    every = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    step = max(1, len(every) // count) if count else 1
    yield from list(enumerate(every))[seed % step :: step][: count if count else None]


def _dynamic(module: SampleModule) -> Any:
    auto = torch.export.Dim.AUTO
    return (tuple({axis: auto for axis, size in enumerate(t.shape) if size >= 2} for t in module.tensors),)


def run_sample(name: str, index: int, sample: SampleInput, dtype: torch.dtype, dynamic: bool, opset: int) -> Outcome:
    """Export one sample, run it, and judge the result."""
    op = OPERATORS[name]
    module = SampleModule(op.op, sample).eval()
    inputs = module.tensors
    try:
        torch.manual_seed(0)
        expected = module(*(x.clone() for x in inputs))
    except Exception as error:  # noqa: BLE001  (whatever eager itself raises is not ours to judge)
        return Outcome(name, index, "eager fails", str(error)[:200])
    if not expected:
        return Outcome(name, index, "no tensors")
    shapes = _dynamic(module) if dynamic and inputs else None
    try:
        captured = capture(module, tuple(x.clone() for x in inputs), None, dynamic_shapes=shapes, events=EventLog())
    except (CaptureError, OnnxExporterError) as error:
        return Outcome(name, index, "not captured", str(error)[:300])
    try:
        program = onnxport.export(captured.program, opset_version=opset)
    except OnnxExporterError as error:
        return Outcome(name, index, "not exported", str(error)[:600])
    try:
        program.initialize_inference_session()
        found = program(*inputs)
    except Exception as error:  # noqa: BLE001  (onnxruntime's exceptions have no common base)
        text = str(error)
        verdict = (
            "no kernel" if "NOT_IMPLEMENTED" in text or "Could not find an implementation" in text else "does not run"
        )
        return Outcome(name, index, verdict, text[:400])
    random = _is_random(op, sample)
    if op.name in TIES and (dtype.itemsize < 4 or not dtype.is_floating_point) and not sample.kwargs.get("stable"):
        expected, found = ([x for x in results if x.dtype == dtype] for results in (expected[:1], found[:1]))
    outcome = _judge(name, index, expected, found, random)
    if outcome.verdict == "wrong" and (dtype.is_floating_point or dtype.is_complex):
        wide = _in_double(module, expected)
        if wide is not None and _judge(name, index, wide, found, random).verdict == "passed":
            return Outcome(name, index, "passed", "closer to the exact result than eager is")
    return outcome


def _is_random(op: OpInfo, sample: SampleInput) -> bool:
    """Whether the values are drawn; multi-head attention has its dropout among numbers that have no name."""
    if op.name == "nn.functional.multi_head_attention_forward" and sample.kwargs.get("training"):
        return any(type(argument) is float and argument > 0 for argument in sample.args)
    return op.name in RANDOM or sample.kwargs.get("dropout_p", 0) > 0


def _in_double(module: SampleModule, like: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """What eager computes in double precision, in the dtypes it had; nothing where it can't.

    Where eager's own rounding decides a comparison, this is what tells who is right.
    """
    wider = {torch.complex64: torch.complex128}
    inputs = [
        x.to(wider.get(x.dtype, torch.float64)) if x.dtype.is_floating_point or x.dtype.is_complex else x.clone()
        for x in module.tensors
    ]
    try:
        torch.manual_seed(0)
        results = module(*inputs)
    except Exception:  # noqa: BLE001  (eager raises what it likes: the comparison stands as it was)
        return None
    return [x.to(y.dtype) for x, y in zip(results, like, strict=True)]


def _judge(name: str, index: int, expected: list[torch.Tensor], found: Any, random: bool) -> Outcome:
    if len(expected) != len(found):
        return Outcome(name, index, "wrong", f"{len(found)} outputs where eager has {len(expected)}")
    for ours, eager in zip(found, expected, strict=True):
        if ours.dtype.is_complex:
            ours = torch.view_as_real(ours)
        if eager.dtype.is_complex:
            eager = torch.view_as_real(eager.resolve_conj().resolve_neg())
        if ours.shape != eager.shape or ours.dtype != eager.dtype:
            return Outcome(name, index, "wrong", f"{ours.dtype}{list(ours.shape)} not {eager.dtype}{list(eager.shape)}")
        if random:
            continue
        tolerance = TOLERANCE.get(eager.dtype, 0.0)
        # Small results are compared by their own measure, or zeros would pass for them.
        scale = eager.abs().max().item() if passes_as_zero(eager, tolerance, tolerance) else 1.0
        try:
            assert_close(ours, eager, rtol=tolerance, atol=tolerance * scale)
        except AssertionError as error:
            return Outcome(name, index, "wrong", str(error)[:400])
    return Outcome(name, index, "passed")


RANDOM = {
    "bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "empty_strided", "exponential", "geometric",
    "log_normal", "multinomial", "new_empty", "new_empty_strided", "normal", "rand_like", "randint", "randint_like",
    "randn", "randn_like", "uniform", "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout", "nn.functional.rrelu", "rand", "svd_lowrank",
    "pca_lowrank", "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
}  # fmt: skip
"""Operators whose values can't be compared: random, or uninitialised."""

TIES = {"argsort", "kthvalue", "sort", "topk"}
"""Operators that leave open which of equal elements they mean; where equal ones abound only the values are compared."""


def run_errors(name: str, opset: int = 20) -> list[Outcome]:
    """What becomes of the calls of one operator that eager refuses: they too must be refused, sooner or later."""
    op = OPERATORS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        wrong = [] if op.error_inputs_func is None else list(op.error_inputs("cpu"))
        return [_run_error(name, index, item.sample_input, opset) for index, item in enumerate(wrong)]


def _run_error(name: str, index: int, sample: SampleInput, opset: int) -> Outcome:
    module = SampleModule(OPERATORS[name].op, sample).eval()
    inputs = module.tensors
    try:
        module(*(x.clone() for x in inputs))
    except Exception as error:  # noqa: BLE001  (that it raises is the point)
        refusal = str(error)
    else:
        return Outcome(name, index, "eager accepts")
    if not inputs:
        return Outcome(name, index, "no tensors")
    try:
        captured = capture(module, tuple(x.clone() for x in inputs), None, dynamic_shapes=None, events=EventLog())
    except OnnxExporterError as error:
        return Outcome(name, index, "not captured", str(error)[:200])
    try:
        program = onnxport.export(captured.program, opset_version=opset)
    except OnnxExporterError as error:
        return Outcome(name, index, "refused", str(error)[:300])
    try:
        program.initialize_inference_session()
        program(*inputs)
    except Exception as error:  # noqa: BLE001  (onnxruntime's exceptions have no common base)
        return Outcome(name, index, "refused when run", str(error)[:300])
    return Outcome(name, index, "runs", f"eager: {refusal[:300]}")


def run_operator(
    name: str, dtype: torch.dtype, count: int, dynamic: bool = False, opset: int = 20, seed: int = 0
) -> list[Outcome]:
    """All outcomes of one operator."""
    op = OPERATORS[name]
    if dtype not in op.supported_dtypes("cpu"):
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            run_sample(name, index, sample, dtype, dynamic, opset) for index, sample in samples(op, dtype, count, seed)
        ]


def run_pick(name: str, pick: Pick, opset: int = 20) -> Outcome:
    """What becomes of one sample."""
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        generated = OPERATORS[name].sample_inputs("cpu", pick.dtype, requires_grad=False)
        # No more are made than are needed: some operators have thousands.
        made = list(itertools.islice(generated, pick.number + 1))
        _close(generated)
        if not made:
            return Outcome(name, 0, "no samples")
        index = pick.number % len(made)
        return run_sample(name, index, made[index], pick.dtype, pick.dynamic, opset)


def _close(generated: Any) -> None:
    """End a generator now: torch's turn off gradients at their end, which would be recorded in a capture under way."""
    inner = getattr(generated, "child_iter", generated)
    while isinstance(inner, enumerate):
        inner = inner.__reduce__()[1][0]
    if hasattr(inner, "close"):
        inner.close()


def attempt(arguments: tuple[str, torch.dtype, int, bool, int, int] | tuple[str]) -> list[Outcome]:
    """The outcomes of one operator, of which a crash is one; given its name only, those of its erroneous calls."""
    torch.set_num_threads(1)
    try:
        return run_errors(*arguments) if len(arguments) == 1 else run_operator(*arguments)
    except Exception as error:  # noqa: BLE001  (one operator's surprise must not end the sweep; it is counted)
        return [Outcome(arguments[0], 0, "crashed", f"{type(error).__name__}: {error}"[:400])]


def summary(outcomes: list[Outcome]) -> dict[str, Any]:
    """Operators that pass (all captured samples do) among those with a captured sample, and samples by verdict."""
    skipped = {"not captured", "eager fails", "no tensors"}
    by_operator: dict[str, list[str]] = collections.defaultdict(list)
    for outcome in outcomes:
        if outcome.verdict not in skipped:
            by_operator[outcome.operator].append(outcome.verdict)
    passing = sum(all(verdict == "passed" for verdict in verdicts) for verdicts in by_operator.values())
    return {
        "operators": len(by_operator),
        "passing": passing,
        "share": passing / len(by_operator) if by_operator else 0.0,
        "samples": dict(collections.Counter(outcome.verdict for outcome in outcomes)),
    }


UNREMARKABLE = {"passed", "eager fails", "no tensors"}
UNREMARKABLE_ERRORS = {"not captured", "no tensors", "eager accepts", "refused", "refused when run"}


def main() -> None:
    """Run the sweep from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=4, help="0 for all")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--errors", action="store_true", help="the calls that eager refuses")
    parser.add_argument("--opset", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the numbers, and of which samples are taken")
    parser.add_argument("--only", default="", help="comma-separated patterns of operator names")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    wanted = [item for item in options.only.split(",") if item]
    names = [name for name in OPERATORS if not wanted or any(fnmatch.fnmatch(name, item) for item in wanted)]
    dtype = getattr(torch, options.dtype)
    tasks: list[Any] = [(name, dtype, options.samples, options.dynamic, options.opset, options.seed) for name in names]
    if options.errors:
        tasks = [(name,) for name in names]
    outcomes: list[Outcome] = []
    with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=100) as pool:
        for found in pool.imap_unordered(attempt, tasks):
            outcomes.extend(found)
    outcomes.sort(key=lambda outcome: (outcome.operator, outcome.sample))
    for outcome in outcomes:
        if outcome.verdict not in (UNREMARKABLE_ERRORS if options.errors else UNREMARKABLE):
            print(f"{outcome.operator}[{outcome.sample}] {outcome.verdict}: {' '.join(outcome.detail.split())[:300]}")
    counts = dict(collections.Counter(outcome.verdict for outcome in outcomes))
    print(json.dumps(counts if options.errors else summary(outcomes), indent=1))
    if options.out:
        Path(options.out).write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))


if __name__ == "__main__":
    main()
