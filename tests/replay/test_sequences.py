"""Lists of tensors whose length only run time knows: returned, read, changed, carried by loops and branches."""

import dataclasses
import io
from collections.abc import Callable
from typing import Any

import onnx
import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn

import onnxport
from onnxport.capture.replay.values.sequences import pack, sequence_operator, unpack
from onnxport.errors import CaptureError, OnnxExporterError, OpsetError
from onnxport.verification import find_mismatch, verify_onnx_program

# Scripts read annotations when they are compiled, so they have to be types and not their text.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
X, LONGER, ONE, NONE = torch.randn(4, 3), torch.randn(7, 3), torch.randn(1, 3), torch.randn(0, 3)
DYNAMIC = {0: torch.export.Dim.DYNAMIC}


@dataclasses.dataclass(frozen=True)
class Row:
    """A function to be scripted, the inputs to compare on, and the operators on sequences in the graph."""

    function: Callable[..., Any]
    inputs: tuple[Tensor, ...]
    operators: str


ROWS: list[Row] = []


def row(operators: str = "", inputs: tuple[Tensor, ...] = (X, LONGER)) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        ROWS.append(Row(function, inputs, operators))
        return function

    return add


# --- lists that are returned ---------------------------------------------------------------------------------------


@row("SplitToSequence", (X, LONGER, ONE, NONE))
def unbinds(x: Tensor):
    return x.unbind(0)


@row("SplitToSequence", (X, LONGER, ONE))
def splits(x: Tensor):
    return x.split(2), (x * 2).t().split(3, 1)


@row("SplitToSequence", (X, LONGER, ONE))
def chunks(x: Tensor):
    return torch.chunk(x, 3)


@row("Loop SplitToSequence", (X, LONGER, ONE, NONE))
def collects_rows(x: Tensor):
    out: list[Tensor] = []
    for i in range(x.size(0)):
        out.append(x[i] * 2)
    return out


@row("SequenceEmpty Loop SequenceInsert", (X, LONGER, ONE, NONE))
def collects_prefixes(x: Tensor):
    out: list[Tensor] = []
    for i in range(x.size(0)):
        out.append(x[: i + 1])
    return out


@row("SequenceEmpty Loop SequenceInsert", (torch.full((2,), 0.5), torch.full((3,), 1.0), torch.full((3,), 20.0)))
def collects_until(y: Tensor):
    out: list[Tensor] = []
    while bool(y.sum() < 10):
        out.append(y)
        y = y * 2
    return out, y


@row("Loop SplitToSequence")
def collects_states(x: Tensor):
    h = torch.zeros(3)
    out: list[Tensor] = []
    for i in range(x.size(0)):
        h = torch.tanh(h + x[i])
        out.append(h)
    return {"all": out, "last": h}


@row("SequenceEmpty Loop SequenceInsert")
def collects_two_at_a_time(x: Tensor):
    out: list[Tensor] = []
    for i in range(x.size(0)):
        out.append(x[i])
        out.append(x[i] * 2)
    return out


@row("SequenceEmpty Loop Loop SequenceInsert")
def collects_in_nested_loops(x: Tensor):
    out: list[Tensor] = []
    for i in range(x.size(0)):
        for j in range(i):
            out.append(x[i] * x[j])
    return out


@row("SequenceConstruct Loop If SequenceInsert")
def breaks(x: Tensor):
    out: list[Tensor] = [x[0]]
    for i in range(x.size(0)):
        if i > 4:
            break
        out.append(x[i])
    return out


@row("SequenceEmpty Loop SequenceInsert")
def collects_into_a_dict(x: Tensor):
    found: dict[str, list[Tensor]] = {"rows": []}
    for i in range(x.size(0)):
        found["rows"].append(x[i])
    return found


@row("Loop SplitToSequence SequenceLength SequenceAt")
def comprehends(x: Tensor):
    return [t * 2 for t in x.unbind(0)], [t.sum() for t in x.split(3)]


@row("SequenceConstruct Loop SequenceInsert")
def collects_other_ranks(x: Tensor):
    out = [x, x[0]]
    for i in range(x.size(0)):
        out.append(x[i, :i])
    return out


@row("Loop SplitToSequence")
def collects_other_types(x: Tensor):
    out: list[Tensor] = []
    for t in x.long().unbind(0):
        out.append(t > 0)
    return out, x.long().split(3), x.double().split(3), x.half().split(3)


def fill(out: list[Tensor], x: Tensor):
    for i in range(x.size(0)):
        out.append(x[:i])


@row("SequenceEmpty Loop SequenceInsert")
def fills_in_a_function(x: Tensor):
    out: list[Tensor] = []
    fill(out, x)
    return out


# --- lists that are read -------------------------------------------------------------------------------------------


@row("SequenceEmpty Loop SequenceInsert SequenceAt SequenceLength")
def reads_items(x: Tensor):
    out: list[Tensor] = []
    for i in range(x.size(0)):
        out.append(x[: i + 1] * 2)
    return out[-1] + 1, out[0] + 1, out[x.size(0) // 2].sum(), out[int(x[0, 0] > 0)].sum(), len(out)


@row("SplitToSequence SequenceAt", (X, LONGER, ONE))
def reads_ends(x: Tensor):
    return x.split(2)[-1], x.split(3)[0], x.unbind(0)[-1] + x.unbind(0)[0]


@row("SplitToSequence SequenceLength Loop SequenceAt")
def iterates(x: Tensor):
    total = torch.zeros(3)
    for t in x.split(2):
        total = total + t.mean(0)
    return total


@row("SequenceEmpty Loop SequenceInsert ConcatFromSequence", (torch.full((2,), 0.5), torch.full((3,), 1.0)))
def joins_after_a_loop_on_data(y: Tensor):
    out: list[Tensor] = []
    while bool(y.sum() < 10):
        out.append(y)
        y = y * 2
    return torch.stack(out), torch.cat(out), torch.stack(out, 1), torch.stack(out, -1)


@row("SplitToSequence ConcatFromSequence SequenceInsert")
def joins_parts(x: Tensor):
    wide = x.unsqueeze(1).unbind(0)
    rows = x.unbind(0)
    return torch.cat(x.split(2) + [x * 2]), torch.cat(wide + [x]), torch.stack(rows + [x[0]])  # noqa: RUF005


@row("SplitToSequence SequenceAt SequenceErase SequenceLength If", (X, LONGER[:3]))
def unpacks(x: Tensor):
    parts = x.split(1)
    del parts[0]
    if len(parts) == 3:
        del parts[0]
    one, other = parts
    return one - other


@row("SequenceConstruct Loop SequenceAt SequenceInsert")
def reads_what_it_adds(x: Tensor):
    out: list[Tensor] = [x[0]]
    for i in range(x.size(0)):
        out.append(out[-1] + x[i])
    return out


@row("SequenceEmpty Loop SequenceLength If SequenceAt SequenceInsert")
def reads_what_may_be_empty(x: Tensor):
    out: list[Tensor] = []
    for i in range(x.size(0)):
        if len(out) > 0:
            out.append(out[-1] + x[i])
        else:
            out.append(x[i])
    return out


@row("SplitToSequence SequenceLength Loop SequenceAt")
def pads(x: Tensor):
    parts = x.split(3)
    out = torch.zeros(len(parts), 3, x.size(1))
    for i, part in enumerate(parts):
        out[i, : part.size(0)] = part
    return out


# --- lists that are changed ----------------------------------------------------------------------------------------


@row("SplitToSequence SequenceAt SequenceErase", (X, LONGER))
def pops(x: Tensor):
    parts = x.split(1)
    last, first = parts.pop(), parts.pop(0)
    return parts, last - first


@row("SplitToSequence SequenceInsert SequenceErase SequenceLength", (X, LONGER))
def inserts_sets_and_deletes(x: Tensor):
    parts = x.split(1)
    parts.insert(1, x)
    parts.insert(0, x * 2)
    parts[0] = x * 3
    parts[-1] = x * 4
    parts[-2] = x * 5
    parts[int(x[0, 0] > 0) - 1] = x * 6
    del parts[1]
    return parts


@row("SplitToSequence SequenceLength SequenceEmpty Loop SequenceAt SequenceInsert")
def reverses_and_slices(x: Tensor):
    parts = x.split(1)
    parts.reverse()
    rows = x.unbind(0)
    rows.reverse()
    return parts, parts[1:], parts[::2], parts[:-1], rows, rows[1:3], parts[:]


@row("SplitToSequence SequenceInsert SequenceLength Loop SequenceAt")
def extends(x: Tensor):
    parts = x.split(2)
    parts.append(x)
    parts.extend([x * 2, x * 3])
    other = parts + x.split(3)
    parts += [x * 4]
    copy = parts.copy()
    parts.clear()
    front = [x]
    front.extend(copy)
    return copy, other, front, parts


@row("Loop SplitToSequence")
def removes_rows(x: Tensor):
    rows: list[Tensor] = []
    for i in range(x.size(0)):
        rows.append(x[i])
    rows.pop()
    del rows[0]
    return rows, len(rows), rows[0]


# --- branches and loops that pass lists on -------------------------------------------------------------------------


@row("If SequenceConstruct", (X, X.abs(), -X.abs()))
def lengthens_in_a_branch(x: Tensor):
    out = [x]
    if bool(x.sum() > 0):
        out.append(x * 2)
        out.append(x[:1])
    return out


@row("If SequenceConstruct SplitToSequence", (X, X.abs(), -LONGER.abs()))
def returns_early(x: Tensor) -> list[Tensor]:
    if bool(x.sum() > 0):
        return x.split(2)
    return [x]


@row("If", (X, X.abs(), -X.abs()))
def chooses_lists_of_one_length(x: Tensor):
    out = [x, x * 2]
    if bool(x.sum() > 0):
        out = [x * 3, x * 4]
    return out


@row("SequenceEmpty Loop If SequenceInsert SequenceLength", (X, X.abs(), -LONGER.abs(), LONGER))
def sorts_into_two(x: Tensor):
    high: list[Tensor] = []
    low: list[Tensor] = []
    for i in range(x.size(0)):
        if bool(x[i, 0] > 0):
            high.append(x[i])
        else:
            low.append(x[i])
    return high, low, len(low)


@row("Loop")
def carries_a_list_of_fixed_length(x: Tensor):
    h = [x[0], x[1]]
    for i in range(x.size(0)):
        h[0] = h[0] + x[i]
        h[1] = h[1] * h[0]
    return h


@row("If SequenceConstruct SequenceEmpty SequenceLength Loop SequenceAt SequenceErase SequenceInsert")
def works_off_a_stack(x: Tensor):
    stack = [x]
    total = torch.zeros(3)
    while len(stack) > 0:
        part = stack.pop()
        if part.size(0) > 1:
            stack.append(part[: part.size(0) // 2])
            stack.append(part[part.size(0) // 2 :])
        else:
            total = total * 2 + part.sum(0)
    return total


@row("SequenceConstruct Loop SequenceLength SequenceAt SequenceInsert")
def grows_to_a_length(x: Tensor):
    out = [x, x]
    while len(out) < x.size(0):
        out.append(out[len(out) - 1] * 2)
    return out


@row("If Loop", (X, X.abs(), -LONGER.abs()))
def writes_to_a_dict(x: Tensor):
    found = {"sum": x.sum()}
    if bool(x.sum() > 0):
        found["sum"] = x.mean()
    for i in range(x.size(0)):
        found["sum"] = found["sum"] + x[i].sum()
    return found


# --- the tests -----------------------------------------------------------------------------------------------------


def exported(function: Any, example: Any = X, **options: Any) -> onnxport.ONNXProgram:
    """A function that is scripted and exported with a first axis that varies."""
    return onnxport.export(torch.jit.script(function), (example,), dynamic_shapes=(DYNAMIC,), **options)


def nested(value: Any) -> Any:
    """Results as lists in lists; those of lists of fixed length beside each other, as the graph has them."""
    if isinstance(value, dict):
        return [nested(item) for item in value.values()]
    return [nested(item) for item in value] if isinstance(value, list | tuple) else torch.as_tensor(value)


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert isinstance(found, list | tuple) and len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    else:
        torch.testing.assert_close(found, expected)


def sequence_operators(program: onnxport.ONNXProgram) -> set[str]:
    kinds = {node.op_type for node in program.model.graph.all_nodes()}
    return {kind for kind in kinds if "Sequence" in kind or kind in ("If", "Loop", "Scan")}


def results_of(script: Any, function: Any, x: Tensor) -> list[Any]:
    """What the graph should give: a list for each list, but the items of a list of fixed length one by one."""
    result = script(x)
    if function in (carries_a_list_of_fixed_length, chooses_lists_of_one_length):
        return list(nested(result))
    values = list(result) if isinstance(result, tuple) else [result]
    values = list(result.values()) if isinstance(result, dict) else values
    # A list that was cleared has no items, and their number is known.
    return [nested(value) for value in values if not (function is extends and value == [])]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.function.__name__)
def test_lists_of_run_time_length(row: Row) -> None:
    script = torch.jit.script(row.function)
    program = exported(row.function, row.inputs[0])
    assert sequence_operators(program) == set(row.operators.split())
    onnx.checker.check_model(program.model_proto, full_check=True)
    for x in row.inputs:
        assert_same(list(program(x)), results_of(script, row.function, x))


@pytest.mark.parametrize("row", ROWS[::3], ids=lambda row: row.function.__name__)
def test_the_captured_program_computes_the_same(row: Row) -> None:
    program = exported(row.function, row.inputs[0])
    for x in row.inputs[:2]:
        assert all(info.matches for info in verify_onnx_program(program, (x,)))


FUNCTIONS = {row.function.__name__: row for row in ROWS}
OPSETS = [
    ("splits", 10, "SplitToSequence does not exist in opset 10(.|\n)*pass opset_version=11"),
    ("collects_rows", 11, None),
    ("splits", 11, None),
    ("reads_items", 11, "Loop cannot be expressed in opset 11: it passes on a list(.|\n)*pass opset_version=13"),
    ("returns_early", 12, "If cannot be expressed in opset 12: it passes on a list(.|\n)*pass opset_version=13"),
    *((name, opset, None) for name in ("reads_items", "sorts_into_two") for opset in (13, 14, 17, 24)),
]


@pytest.mark.parametrize(("name", "opset", "refusal"), OPSETS)
def test_opsets(name: str, opset: int, refusal: str | None) -> None:
    row = FUNCTIONS[name]
    if refusal is not None:
        with pytest.raises(OpsetError, match=refusal):
            exported(row.function, row.inputs[0], opset_version=opset)
        return
    program = exported(row.function, row.inputs[0], opset_version=opset)
    onnx.checker.check_model(program.model_proto, full_check=True)
    script = torch.jit.script(row.function)
    for x in row.inputs:
        assert_same(list(program(x)), results_of(script, row.function, x))


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> list[Tensor]:
        out: list[Tensor] = []
        for part in x.split(2):
            out.append(self.linear(part))
        return out


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = Parts()
        self.linear = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        out: list[Tensor] = []
        for part in self.parts(x):
            out.append(self.linear(part))
        return out, torch.cat(out)


@torch.jit.script
def prefixes(x: Tensor) -> list[Tensor]:
    out: list[Tensor] = []
    for i in range(x.size(0)):
        out.append(x[: i + 1])
    return out


class CallsScript(nn.Module):
    def forward(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        found = prefixes(x)
        return found, torch.cat(found)


def _saved(model: nn.Module) -> Any:
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(model), file)
    file.seek(0)
    return torch.jit.load(file)


def _legacy(model: Any) -> onnxport.ONNXProgram:
    options: dict[str, Any] = {"input_names": ["x"], "dynamic_axes": {"x": {0: "rows"}}}
    return onnxport.export(model, (X,), dynamo=False, output_names=["parts", "joined"], **options)


def _main(model: Any) -> onnxport.ONNXProgram:
    return onnxport.export(model, (X,), dynamic_shapes=(DYNAMIC,), output_names=["parts", "joined"])


WAYS: list[tuple[nn.Module, Callable[[nn.Module], onnxport.ONNXProgram]]] = [
    (Whole(), lambda model: _main(torch.jit.script(model))),
    (Whole(), lambda model: _legacy(torch.jit.script(model))),
    (Whole(), lambda model: _main(_saved(model))),
    (CallsScript(), lambda model: _main(torch.jit.trace(model, (X,)))),
    (CallsScript(), lambda model: _legacy(torch.jit.trace(model, (X,)))),
]


@pytest.mark.parametrize(
    ("model", "export"), WAYS, ids=["script", "legacy call", "file", "trace", "trace, legacy call"]
)
def test_ways_to_export(model: nn.Module, export: Callable[[nn.Module], onnxport.ONNXProgram]) -> None:
    program = export(model)
    assert [value.name for value in program.model.graph.outputs] == ["parts", "joined"]
    for x in (X, LONGER):
        with torch.no_grad():
            assert_same(list(program(x)), nested(model(x)))


class KeepsPrefixes(nn.Module):
    kept: list[Tensor]

    def __init__(self):
        super().__init__()
        self.kept = []

    def forward(self, x: Tensor) -> tuple[list[Tensor], int]:
        out = [x]
        self.kept = out
        for i in range(x.size(0)):
            self.kept.append(x[:i])
        return self.kept, len(out)


class KeepsOrReplaces(nn.Module):
    kept: list[Tensor]

    def __init__(self):
        super().__init__()
        self.kept = []

    def forward(self, x: Tensor) -> list[Tensor]:
        self.kept = [x]
        if bool(x.sum() > 0):
            self.kept.append(x * 2)
        else:
            self.kept = [x, x, x]
        return self.kept


class KeepsATable(nn.Module):
    table: dict[str, Tensor]

    def __init__(self):
        super().__init__()
        self.table = {}

    def forward(self, x: Tensor) -> Tensor:
        self.table["x"] = x
        for i in range(x.size(0)):
            self.table["x"] = self.table["x"] * 2 + i
        return self.table["x"]


@pytest.mark.parametrize("kind", [KeepsPrefixes, KeepsOrReplaces, KeepsATable])
def test_containers_that_attributes_hold(kind: type[nn.Module]) -> None:
    program = exported(kind())
    script = torch.jit.script(kind())
    for x in (X, LONGER, X.abs(), -X.abs()):
        expected = script(x)
        assert_same(list(program(x)), nested(expected if isinstance(expected, tuple) else [expected]))


def test_a_program_that_returns_lists(tmp_path: Any) -> None:
    program = exported(reads_what_it_adds, verify=True)
    assert program.verification is not None and program.verification.matches and len(program.verification.runs) > 1
    output = program.model.graph.outputs[0]
    assert output.type == ir.SequenceType(ir.TensorType(ir.DataType.FLOAT)) and "Sequence(Tensor(FLOAT))" in str(
        program
    )
    expected = nested(reads_what_it_adds(LONGER))
    assert_same(program.call_reference(LONGER)[0], expected)
    assert_same(program.compute_values([str(output.name)], (LONGER,))[0], expected)
    infos = verify_onnx_program(program, (LONGER,), compare_intermediates=True)
    assert any(info.name.startswith("len(") for info in infos) and all(info.matches for info in infos)
    assert find_mismatch(program) is None
    program.save(tmp_path / "model.onnx")
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
    assert program.exported_program is not None
    assert_same(onnxport.export(program.exported_program)(LONGER)[0], expected)


def texts(x: Tensor):
    out: list[str] = []
    for _ in range(x.size(0)):
        out.append("a")
    return x, out


def mixes_types(x: Tensor):
    out = [x.long()]
    for i in range(x.size(0)):
        out.append(x[:i])
    return out


def reads_another_rank(x: Tensor):
    out = [x, x[0]]
    for i in range(x.size(0)):
        out.append(x[:i])
    return out[x.size(0) // 2] * 2


def takes_a_list(x: Tensor):
    return torch.meshgrid(x.unbind(0))


def multiplies(x: Tensor):
    return x.split(2) * 2


def sorts(x: Tensor):
    rows = x.unbind(0)
    rows.sort()
    return rows


REFUSED = [
    (texts, "has a str in it; ONNX has lists of tensors only"),
    (mixes_types, "tensors of torch.int64 and of torch.float32 in it"),
    (reads_another_rank, "different numbers of dimensions"),
    (takes_a_list, "An operator takes a list of tensors whose length only run time knows"),
    (multiplies, "aten::mul is called on a list whose length only run time knows"),
    (sorts, "aten::sort is called on a list whose length only run time knows"),
]


@pytest.mark.parametrize(("function", "said"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_refusals(function: Any, said: str) -> None:
    with pytest.raises(CaptureError, match=f"{said}(.|\n)*test_sequences.py:[0-9]+ in {function.__name__}"):
        exported(function)


def sums(xs: list[Tensor]):
    total = xs[0]
    for x in xs:
        total = total + x
    return total


def test_lists_that_are_given_have_a_fixed_length() -> None:
    script = torch.jit.script(sums)
    program = onnxport.export(script, ([X, X],))
    torch.testing.assert_close(program([X, X * 2])[0], X * 4)
    with pytest.raises(OnnxExporterError, match=r"xs: a list of 3 items, but it was exported with 2(.|\n)*stack them"):
        program([X, X, X])
    with pytest.raises(OnnxExporterError, match=r"2 entries, because the input is a list .whose length is fixed."):
        onnxport.export(script, ([X, X],), dynamic_shapes=(torch.export.Dim.DYNAMIC,))


DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64])
def test_handles_hold_the_items(dtype: torch.dtype) -> None:
    items = [torch.ones(2, 1).to(dtype), torch.zeros(3).to(dtype), torch.ones([]).to(dtype)]
    handle = pack(items, dtype)
    assert handle.dtype == dtype and sequence_operator("length")(handle).item() == 3
    assert_same(unpack(handle.clone()), items)
    assert_same(sequence_operator("at")(handle, -1, []), items[-1])
