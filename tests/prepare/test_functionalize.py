"""Writes, views and their combinations against eager."""

from __future__ import annotations

import warnings

import pytest
import torch
from prepared import Function, check, export, targets, translated

from onnxport.errors import OnnxExporterWarning, TranslationError
from onnxport.events import EventLog
from onnxport.prepare import prepare

F = torch.nn.functional


def ramp(*shape, dtype=torch.float32):
    return (torch.arange(torch.Size(shape).numel()) - 3).reshape(shape).to(dtype)


def returning(write):
    """Write to a copy of the first argument and return the whole of it."""

    def function(x, *rest):
        y = x.clone()
        write(y, *rest)
        return y, y * 2

    return function


VIEWS = {
    "slice": lambda y: y[1:],
    "slice to the end": lambda y: y[:],
    "slice with a step": lambda y: y[:, ::2],
    "slice from the back": lambda y: y[:, -3:-1],
    "select": lambda y: y[1],
    "select from the back": lambda y: y[:, -1],
    "narrow": lambda y: y.narrow(1, 1, 2),
    "narrow from the back": lambda y: y.narrow(1, -3, 2),
    "transpose": lambda y: y.transpose(0, 1),
    "t": lambda y: y.t(),
    "T": lambda y: y.T,
    "mT": lambda y: y.mT,
    "permute": lambda y: y.unsqueeze(0).permute(2, 0, 1),
    "movedim": lambda y: y.unsqueeze(0).movedim(2, 0),
    "movedims": lambda y: y.unsqueeze(0).movedim((2, 0), (0, 1)),
    "swapaxes": lambda y: y.swapaxes(0, 1),
    "unsqueeze": lambda y: y.unsqueeze(-1),
    "squeeze": lambda y: y.unsqueeze(1).squeeze(),
    "squeeze an axis": lambda y: y.unsqueeze(0).squeeze(0),
    "squeeze axes": lambda y: y.unsqueeze(1).squeeze((0, 1)),
    "view": lambda y: y.view(-1),
    "view as": lambda y: y.view_as(torch.empty(y.shape[1], y.shape[0])),
    "reshape that is a view": lambda y: y.reshape(y.shape[1], -1),
    "reshape that copies": lambda y: y.t().reshape(-1),
    "flatten": lambda y: y.flatten(),
    "flatten that copies": lambda y: y.t().flatten(),
    "reshape of a diagonal": lambda y: y[:3, :4].diagonal(1).reshape(1, -1),
    "reshape of a step": lambda y: y[:, ::2].reshape(-1, 2, y.shape[1] // 4),
    "ravel": lambda y: y.ravel(),
    "unflatten": lambda y: y.unflatten(1, (2, -1)),
    "contiguous that is itself": lambda y: y.contiguous(),
    "contiguous that copies": lambda y: y.t().contiguous(),
    "to the same dtype": lambda y: y.to(torch.float32),
    "to another dtype": lambda y: y.to(torch.float64),
    "float": lambda y: y.float(),
    "detach": lambda y: y.detach(),
    "diagonal": lambda y: y.diagonal(),
    "diagonal with an offset": lambda y: y.diagonal(1),
    "linalg diagonal": lambda y: torch.linalg.diagonal(y, offset=-1),
    "expand an added axis": lambda y: y.expand(1, *y.shape),
    "expand as itself": lambda y: y.expand_as(y),
    "unfold": lambda y: y.unfold(1, 2, 2),
    "split": lambda y: y.split(2, 1)[1],
    "split with sizes": lambda y: y.split([1, 3], 1)[1],
    "chunk": lambda y: y.chunk(2, 1)[0],
    "unsafe chunk": lambda y: torch.unsafe_chunk(y, 2, 1)[1],
    "tensor split": lambda y: y.tensor_split(3, 1)[1],
    "hsplit": lambda y: torch.hsplit(y, 2)[1],
    "vsplit": lambda y: torch.vsplit(y, [1])[1],
    "unbind": lambda y: y.unbind(1)[2],
    "real of a real": lambda y: y.real,
    "dropout that does nothing": lambda y: F.dropout(y, 0.5, training=False),
    "dropout of nothing": lambda y: F.dropout(y, 0.0, training=True),
    "einsum that permutes": lambda y: torch.einsum("ij->ji", y),
    "einsum that computes": lambda y: torch.einsum("ij,ij->ij", y, y),
    "atleast": lambda y: torch.atleast_3d(y),
    "meshgrid": lambda y: torch.meshgrid(y[0], y[1, :1], indexing="ij")[0],
    "broadcast tensors": lambda y: torch.broadcast_tensors(y, y[0])[0],
    "clone": lambda y: y.clone(),
    "deep": lambda y: y[1:].t().unsqueeze(0)[:, 1:].squeeze(0)[0],
    "view in place": lambda y: y[1:].unsqueeze_(0),
    "bits": lambda y: y.view(torch.int32),
}


@pytest.mark.filterwarnings("ignore:The exported model follows the example")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("view", VIEWS)
def test_write_through_a_view_reaches_the_tensor(view, dynamic):
    def function(x):
        y = x.clone()
        other = y[0]
        seen = VIEWS[view](y)
        seen.mul_(3)
        return y, seen, other, VIEWS[view](y) + 1

    counted = view.startswith(("split", "unbind"))  # the number of pieces is part of the captured program
    sizes = [(3, 4), (5, 4 if counted else 8)] if dynamic else [(3, 4)]
    check(function, *[(ramp(*size),) for size in sizes], dynamic=dynamic)


STATIC_VIEWS = {
    "as_strided": lambda y: y.as_strided((2, 2), (4, 1), 1),
    "as_strided of a view": lambda y: y[1:].as_strided((2, 2), (1, 2)),
    "adjoint": lambda y: y.mH,
}


@pytest.mark.parametrize("view", STATIC_VIEWS)
def test_write_through_a_static_view(view):
    check(returning(lambda y: STATIC_VIEWS[view](y).add_(10)), (ramp(3, 4),))


COMPLEX = {
    "real": lambda z: z.real.mul_(2),
    "imag": lambda z: z.imag.mul_(2),
    "view as real": lambda z: torch.view_as_real(z)[..., 0].add_(1),
    "conj": lambda z: z.conj().mul_(2),
    "adjoint": lambda z: z.mH.mul_(1j),
}


@pytest.mark.parametrize("write", COMPLEX)
def test_write_through_a_complex_view(write):
    check(returning(COMPLEX[write]), (torch.complex(ramp(2, 3), ramp(2, 3) + 5),))


def test_write_through_a_complex_view_of_a_real_tensor():
    check(returning(lambda y: torch.view_as_complex(y).mul_(1j)), (ramp(3, 2),))


def mask_rows(y):
    y[y > 0] = -1


def set_slice(y, v):
    y[:, 1:3] = v


def set_row(y):
    y[1] = y[0]


def set_by_index(y):
    y[torch.tensor([0, 2]), 1] = 7


WRITES = {
    "add": lambda y: y.add_(1),
    "add with alpha": lambda y: y.add_(y, alpha=2),
    "add a tensor of another dtype": lambda y: y.add_(torch.ones(4, dtype=torch.float64)),
    "add a smaller tensor": lambda y: y.add_(y[0].clone()),
    "compare": lambda y: y.gt_(0),
    "logical": lambda y: y.logical_not_(),
    "pow": lambda y: y.abs_().pow_(torch.full((4,), 2)),
    "floor divide": lambda y: y.floor_divide_(torch.tensor(2.0)),
    "float power": lambda y: y.double().float_power_(2),
    "clamp": lambda y: y.clamp_(0, 2),
    "relu": lambda y: F.relu_(y),
    "hardtanh": lambda y: F.hardtanh_(y),
    "leaky relu": lambda y: F.leaky_relu_(y, 0.1),
    "fill": lambda y: y.fill_(3),
    "fill with a tensor": lambda y: y.fill_(y[0, 0].clone()),
    "zero": lambda y: y.zero_(),
    "copy": lambda y: y.copy_(y.flip(0)),
    "copy a row": lambda y: y.copy_(y[0].clone()),
    "copy another dtype": lambda y: y.copy_(y.flip(0).to(torch.int32)),
    "copy itself": lambda y: y.copy_(y),
    "copy onto a view": lambda y: y[1:].copy_(y[:1].clone()),
    "masked fill": lambda y: y.masked_fill_(y > 2, -1),
    "masked scatter": lambda y: y.masked_scatter_(y > 2, torch.arange(12.0)),
    "mask": mask_rows,
    "row": set_row,
    "index": set_by_index,
    "index add": lambda y: y.index_add_(0, torch.tensor([0, 0]), torch.ones(2, 4)),
    "index copy": lambda y: y.index_copy_(0, torch.tensor([1]), torch.ones(1, 4)),
    "index fill": lambda y: y.index_fill_(1, torch.tensor([1, 3]), 9),
    "index put": lambda y: y.index_put_((torch.tensor([0, 0]),), torch.ones(4), accumulate=True),
    "scatter": lambda y: y.scatter_(1, torch.tensor([[0], [1], [2]]), 5.0),
    "scatter add": lambda y: y.scatter_add_(1, torch.tensor([[0, 0], [1, 1]]), torch.ones(2, 2)),
    "scatter reduce": lambda y: y.scatter_reduce_(1, torch.tensor([[0, 0], [1, 1]]), torch.ones(2, 2), "amax"),
    "fill diagonal": lambda y: y.fill_diagonal_(7),
    "fill diagonal that wraps": lambda y: y.t().contiguous().repeat(2, 1).fill_diagonal_(7, wrap=True),
    "addmm": lambda y: y.addmm_(torch.ones(3, 2), torch.ones(2, 4)),
    "lerp": lambda y: y.lerp_(torch.ones(3, 4), 0.5),
    "addcmul": lambda y: y.addcmul_(y, y, value=0.5),
    "out": lambda y: torch.add(y, 1, out=y),
    "out of several": lambda y: torch.max(y, 1, out=(y[:, 0], torch.zeros(3, dtype=torch.int64))),
    "out of another size": lambda y: torch.mul(y, 2, out=torch.empty(0)),
    "foreach": lambda y: torch._foreach_add_([y[0], y[1]], 1),
    "dropout in place": lambda y: F.dropout(y, 0.5, training=False, inplace=True).add_(1),
    "bitwise": lambda y: y.to(torch.int32).__iand__(3),
    "cumsum": lambda y: y.cumsum_(0),
    "tril": lambda y: y.tril_(),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("through", ["itself", "a view"])
def test_write(write, through):
    def function(x):
        y = x.clone()
        z = torch.cat([y, y]) if through == "a view" else y
        row = z[1]
        result = WRITES[write](z[:3] if through == "a view" else z)
        return z, row, result

    check(function, (ramp(3, 4),))


def test_a_tensor_that_is_set_to_another_shares_its_memory():
    def function(x):
        y, z = torch.tensor([1.0]), x * 2
        y.set_(z)
        z.add_(1)
        y[0] = 7
        return y * 2, z

    check(function, (ramp(3, 4),))


RESIZES = {
    "same": lambda y: y.resize_(4, 3),
    "smaller": lambda y: y.resize_(2, 3),
    "template": lambda y: y.resize_as_(y.new_zeros(2, 2)),
    "larger": lambda y: y.resize_(5, 4)[:3],
}


@pytest.mark.parametrize("resize", RESIZES)
def test_resize(resize):
    def function(x):
        y = x.clone()
        return RESIZES[resize](y) + 1, y.sum(0)[:2] * (resize != "larger")

    check(function, (ramp(3, 4),))


def test_resize_fixes_dynamic_sizes_as_torch_does():
    check(lambda x: x.clone().resize_as_(x * 2) + 1, (ramp(3, 4),), dynamic=True)


def test_a_view_is_not_resized():
    with pytest.raises(TranslationError, match="resizes a view"):
        check(lambda x: x.clone()[1:].resize_(2, 2), (ramp(3, 4),))


def alias_chain(x):
    y = x.clone()
    a, b = y[1:], y[:, 1:]
    a.add_(1)
    b.mul_(2)
    a.sub_(b[1:].sum())
    return y, a, b


def part_of_windows(x):
    y = x.clone()
    windows = y.unfold(0, 2, 1)
    windows[0].add_(1)
    last = windows[..., -1]
    last.mul_(3)
    y.mul_(2)
    return y, windows * 1, last


def all_windows(x):
    y = x.clone()
    y.unfold(0, 2, 1).clamp_(2, 5)
    y.expand(2, *y.shape)[1].sub_(1)
    return y


def overlapping_writes(x):
    y = x.clone()
    for i in range(3):
        y[i] += y[i - 1]
    return y


def written_twice(x):
    y = x.clone()
    r = y.relu_().add_(1)
    return r, y, r is y


def output_of_input(x):
    x.add_(1)
    return x, x[0], x.t()


def read_before_and_after(x):
    y = x * 1
    before = y + 0
    y += 1
    return before, y


def written_after_reading_a_piece(x):
    y = x.clone()
    a, b = y.split(2, 1)
    y.add_(1)
    b.mul_(a)
    return y, a, b


def list_of_pieces(x):
    y = x.clone()
    parts = torch.split(y, 2, 1)
    y.add_(1)
    return torch.cat(parts, 0)


def cache_update(cache, new, at):
    cache[:, at : at + new.shape[1]] = new
    return cache.sum(), cache[:, 1:]


PROGRAMS = {
    "overlapping views": (alias_chain, (ramp(3, 4),), (ramp(6, 5),)),
    "windows that share elements": (part_of_windows, (ramp(3, 4),), (ramp(6, 5),)),
    "the same for all windows": (all_windows, (ramp(3, 4),), (ramp(6, 5),)),
    "rows in turn": (overlapping_writes, (ramp(3, 4),), (ramp(6, 5),)),
    "chained writes": (written_twice, (ramp(3, 4),), (ramp(6, 5),)),
    "mutated input returned": (output_of_input, (ramp(3, 4),), (ramp(6, 5),)),
    "read before and after": (read_before_and_after, (ramp(3, 4),), (ramp(6, 5),)),
    "pieces": (written_after_reading_a_piece, (ramp(3, 4),), (ramp(6, 4),)),
    "list of pieces": (list_of_pieces, (ramp(3, 4),), (ramp(6, 4),)),
    "cache": (cache_update, (ramp(2, 8), ramp(2, 3), 2), (ramp(4, 9), ramp(4, 4), 2)),
    "slice assignment": (returning(set_slice), (ramp(3, 4), ramp(3, 1)), (ramp(6, 5), ramp(6, 1))),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, dynamic):
    function, args, other = PROGRAMS[name]
    check(function, args, *([other] if dynamic else []), dynamic=dynamic)


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64), persistent=False)
        self.register_buffer("idle", torch.ones(3))
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        self.count += x.sum(0)
        self.seen.add_(1)
        with torch.no_grad():
            self.weight.mul_(2)
        return x * self.count + self.idle, self.count.view(3, 1)


def test_mutated_state_is_reported():
    program = check(Counting(), (ramp(2, 3),))
    kinds = {(mutation.kind, mutation.target) for mutation in program.mutations}
    assert kinds == {
        ("BUFFER_MUTATION", "count"),
        ("BUFFER_MUTATION", "seen"),
        ("PARAMETER_MUTATION", "weight"),
    }


def test_mutated_input_is_reported():
    program = check(output_of_input, (ramp(2, 3),))
    assert [mutation.kind for mutation in program.mutations] == ["USER_INPUT_MUTATION"]


@pytest.mark.parametrize(
    "module",
    [
        torch.nn.BatchNorm1d(4),
        torch.nn.InstanceNorm1d(4, track_running_stats=True),
        torch.nn.RReLU(inplace=False).eval(),
    ],
    ids=["batch norm", "instance norm", "rrelu"],
)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_running_statistics(module, dynamic):
    x = torch.linspace(-1, 2, 24).reshape(2, 4, 3)
    check(module, (x,), *([(torch.cat([x, x + 1]),)] if dynamic else []), dynamic=dynamic, exact=False)


def test_a_write_to_a_value_without_views_is_one_call():
    program = check(lambda x: F.relu_(x + 1).add_(2).mul_(3), (ramp(3),))
    assert targets(program) == ["aten.add.Tensor", "aten.relu.default", "aten.add.Tensor", "aten.mul.Tensor"]


def test_a_write_to_all_of_an_axis_needs_no_scatter_there():
    program = check(returning(lambda y: y[:, 0].fill_(1)), (ramp(3, 4),))
    assert not [target for target in targets(program) if "slice_scatter" in target]


def test_new_nodes_say_where_they_come_from():
    class Model(torch.nn.Module):
        def forward(self, x):
            y = x.clone()
            y[1:].add_(1)
            return y

    program = check(Model(), (ramp(3, 4),))
    scatter = next(node for node in program.graph.nodes if str(node.target) == "aten.slice_scatter.default")
    assert "y[1:].add_(1)" in scatter.meta["stack_trace"]
    assert "nn_module_stack" in scatter.meta


def test_without_writes_the_graph_is_the_captured_one():
    exported = export(Function(lambda x: (x[1:] + 1).reshape(-1)), (ramp(3, 4),))
    program = prepare(exported, translated, EventLog())
    assert program.graph is exported.graph
    assert program.owner is exported.graph_module
    assert program.signature is exported.graph_signature


def test_state_is_not_copied():
    exported = export(Counting(), (ramp(2, 3),))
    program = prepare(exported, translated, EventLog())
    assert program.state["idle"] is exported.state_dict["idle"]
    assert program.state["weight"] is exported.state_dict["weight"]
    assert program.state["seen"] is exported.constants["seen"]


def test_saved_and_loaded_program(tmp_path):
    def function(x):
        y = x.clone()
        y.reshape(-1).add_(1)
        y.contiguous().mul_(2)
        y.t().reshape(-1).zero_()
        return y

    torch.export.save(export(Function(function), (ramp(3, 4),)), tmp_path / "program.pt2")
    program = prepare(torch.export.load(tmp_path / "program.pt2"), translated, EventLog())
    outputs = torch.fx.Interpreter(program.owner, graph=program.graph).run(ramp(3, 4))
    torch.testing.assert_close(outputs[0], function(ramp(3, 4)))


def test_program_that_is_functional_already():
    exported = export(Counting(), (ramp(2, 3),)).run_decompositions({})
    program = prepare(exported, translated, EventLog())
    assert {mutation.target for mutation in program.mutations} == {"count", "seen", "weight"}
    output = next(node for node in program.graph.nodes if node.op == "output")
    assert len(output.args[0]) == 2


def test_writes_without_functional_form_are_refused_together():
    class Model(torch.nn.Module):
        def forward(self, x):
            y = x.clone()
            y[:1].expand(3, 4).index_put_((torch.tensor([0]),), torch.ones(4))
            y[:, :1].expand(3, 4).index_put_((torch.tensor([0]),), torch.ones(4))
            return y

    with pytest.raises(TranslationError) as error:
        prepare(export(Model(), (ramp(3, 4),)), translated, EventLog())
    assert str(error.value).count("shows an element several times") == 2
    assert __file__ in str(error.value)


@pytest.mark.parametrize("of", [lambda y: y, lambda y: y.t().unsqueeze(2)])
def test_a_write_that_windows_would_repeat_is_refused(of):
    class Model(torch.nn.Module):
        def forward(self, x):
            y = x.clone()
            of(y).unfold(0, 2, 1).add_(1)
            return y

    with pytest.raises(TranslationError, match="shows an element several times"):
        prepare(export(Model(), (ramp(3, 4),)), translated, EventLog())


@pytest.mark.parametrize(
    ("take", "warns"),
    [
        (lambda x, y: (x.t().contiguous(), y), True),
        (lambda x, y: (x[:, 1:].flatten(), y), True),
        (lambda x, y: (x[:, ::2].reshape(-1), y), True),
        (lambda x, y: (x.reshape(-1), y), False),
        (lambda x, y: (x.t().clone(), y), False),
        (lambda x, y: (y.t().contiguous(), x), False),
        (lambda x, y: (y, x.add_(1).t().contiguous()), False),
    ],
)
def test_a_copy_at_some_sizes_only_is_an_assumption_where_a_write_tells(take, warns):
    class Model(torch.nn.Module):
        def forward(self, x):
            x, y = x * 2, x * 3
            copy, other = take(x, y)
            copy.add_(1)
            return x, other.sum()

    axes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    log = EventLog()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        prepare(torch.export.export(Model(), (ramp(3, 4),), dynamic_shapes=(axes,)), translated, log)
    ours = [str(each.message) for each in caught if issubclass(each.category, OnnxExporterWarning)]
    assert len(ours) == len(log.of("assumption")) == warns
    assert all(__file__ in text for text in ours)


@pytest.mark.parametrize(
    ("take", "warns"),
    [
        (lambda x: (x.contiguous(), x), True),
        (lambda x: (x, x.contiguous()), True),
        (lambda x: ((padded := torch.nn.functional.pad(x.t(), (0, 0, 1, 0)).t()).contiguous(), padded), True),
        (lambda x: (x.clone(), x), False),
        (lambda x: (x[:, 1:].flatten(), x), False),
        (lambda x: (x.contiguous(), x * 2), False),
        (lambda x: (torch.broadcast_tensors(x, x[:1])[1], x[:1]), False),
        (lambda x: ((row := x[:1], torch.broadcast_tensors(x, row)[1]), row)[0], True),
        (lambda x: ((row := x[:1], torch.broadcast_tensors(x, row)[1])[1], row), True),
        (lambda x: ((row := x[:1], row.expand_as(x))[1], row), False),
        (lambda x: ((row := x[:1], torch.broadcast_tensors(x, row)[0])[1], row), False),
    ],
)
def test_a_copy_at_some_sizes_only_is_an_assumption_where_another_shape_in_place_tells(take, warns):
    class Model(torch.nn.Module):
        def forward(self, x):
            reshaped, read = take((x * 2).t())
            reshaped.unsqueeze_(0)
            return read

    axes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    log = EventLog()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepare(torch.export.export(Model(), (ramp(3, 4),), dynamic_shapes=(axes,)), translated, log)
    assert len(log.of("assumption")) == warns


@pytest.fixture
def library():
    with torch.library._scoped_library("onnxport_prepare", "DEF") as library:
        library.define("inc_(Tensor(a!) x) -> Tensor(a!)")
        library.define("bump(Tensor(a!) x) -> ()")
        library.impl("inc_", lambda x: x.add_(1), "CompositeExplicitAutograd")
        library.impl("bump", lambda x: (x.add_(1), None)[1], "CompositeExplicitAutograd")
        yield torch.ops.onnxport_prepare


def test_an_operator_of_the_user_that_returns_what_it_writes_stays(library):
    def function(x):
        y = x.clone()
        library.inc_(y[0])
        return y

    program = prepare(export(Function(function), (ramp(3, 4),)), translated, EventLog())
    assert targets(program)[-2:] == ["onnxport_prepare.inc_.default", "aten.select_scatter.default"]


def test_an_operator_of_the_user_that_only_writes_is_refused(library):
    def function(x):
        y = x.clone()
        library.bump(y[0])
        return y

    with pytest.raises(TranslationError, match=r"bump.*does not return them(.|\n)*Let the operator return"):
        prepare(export(Function(function), (ramp(3, 4),)), translated, EventLog())
