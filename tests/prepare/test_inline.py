"""Wrappers, autocast regions, assertions, branches."""

from __future__ import annotations

import pytest
import torch
from prepared import Function, check, compare, export, targets, translated

from onnxport.errors import TranslationError
from onnxport.events import EventLog
from onnxport.prepare import prepare

F = torch.nn.functional
X = torch.linspace(-1, 1, 12).reshape(3, 4)
W = torch.linspace(-2, 1, 16).reshape(4, 4)


def captured_with_grad(module, args):
    """Gradients on, so that a change of grad mode is in the graph."""
    return torch.export.export(module, args, strict=False)


class NoGrad(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        with torch.no_grad():
            z = y.clone()
            z.add_(1)
            with torch.enable_grad():
                w = self.linear(z)
            a, b = z.split(2, 1)
            z.mul_(2)
        return y, z, w, a * b


def test_grad_regions_are_inlined():
    module = NoGrad()
    exported = captured_with_grad(module, (X,))
    assert any("wrap_with_set_grad_enabled" in str(node.target) for node in exported.graph.nodes)
    program = prepare(exported, translated, EventLog())
    assert not [node for node in program.graph.nodes if "wrap" in str(node.target) or node.op == "get_attr"]
    compare(program, module, (X,))
    inner = next(node for node in program.graph.nodes if str(node.target) == "aten.clone.default")
    assert "z = y.clone()" in inner.meta["stack_trace"]


def test_shared_regions_are_inlined():
    @torch.compiler.nested_compile_region
    def shared(x):
        return x.sin() + 1

    class Twice(torch.nn.Module):
        def forward(self, x):
            return shared(x) * shared(x + 1)

    exported = torch.export.export(Twice(), (X,), strict=True)
    assert any("invoke_subgraph" in str(node.target) for node in exported.graph.nodes)
    program = prepare(exported, translated, EventLog())
    assert targets(program).count("aten.sin.default") == 2
    compare(program, Function(lambda x: (x.sin() + 1) * ((x + 1).sin() + 1)), (X,), exact=False)


def nested(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
        with torch.autocast("cpu", enabled=False):
            y = y.float() @ w
        return y @ w


def in_region(function):
    def region(*args):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return function(*args)

    return region


AUTOCAST = {
    "matmul": lambda x, w: x @ w,
    "linear and add": lambda x, w: F.linear(x, w, w[0]) + x,
    "same tensor twice": lambda x, w: torch.matmul(w, w),
    "cast already": lambda x, w: (x.bfloat16() @ w) @ w,
    "full precision": lambda x, w: torch.prod((x @ w), 1),
    "widest": lambda x, w: torch.cat([x @ w, x]),
    "einsum": lambda x, w: torch.einsum("ij,jk->ik", x, w),
    "attention": lambda x, w: F.scaled_dot_product_attention(x[None], w[None], w[None]),
    "write": lambda x, w: (x @ w).add_(1).relu_(),
    "softmax": lambda x, w: torch.softmax(x @ w, -1),
    "conv": lambda x, w: F.conv1d(x[None], w[:, :3, None]),
}


@pytest.mark.parametrize("name", AUTOCAST)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_autocast_is_explicit(name, dynamic):
    if dynamic and name == "conv":
        return
    others = [(X.repeat(2, 1), W)] if dynamic else []
    program = check(in_region(AUTOCAST[name]), (X, W), *others, dynamic=dynamic, exact=False)
    assert not [node for node in program.graph.nodes if "wrap_with_autocast" in str(node.target)]


def test_nested_autocast():
    check(nested, (X, W), exact=False)


def test_assertions_are_dropped():
    def function(x):
        n = (x > 0).sum().item()
        torch._check(n >= 0)
        torch._check(n <= 100)
        return x.to(torch.float64) + n

    program = check(function, (X,))
    assert not [target for target in targets(program) if "assert" in target or "constrain" in target]


def test_unused_calls_are_dropped():
    def function(x):
        x.sum()
        return x + 1

    assert targets(check(function, (X,))) == ["aten.add.Tensor"]


def branches(x):
    def positive(x):
        y = x.clone()
        y[0].add_(1)
        return y

    def negative(x):
        return F.cosine_similarity(x, x + 1, dim=0) + x

    return torch.cond(x.sum() > 0, positive, negative, (x,))


def test_branches_are_prepared_too():
    def known(target, of_complex=False):
        return "cosine" not in str(target)

    program = check(branches, (X,), (X + 1,), (X - 1,), has_translation=known, exact=False)
    calls = [
        str(node.target)
        for module in program.owner.modules()
        if isinstance(module, torch.fx.GraphModule) and module is not program.owner
        for node in module.graph.nodes
        if node.op == "call_function"
    ]
    assert "aten.select_scatter.default" in calls
    assert not {call for call in calls if "add_" in call or "cosine" in call}


def test_branches_in_a_region():
    class Region(torch.nn.Module):
        def forward(self, x):
            with torch.no_grad():
                y = branches(x)
            return y * 2

    module = Region()
    with torch.enable_grad():
        program = prepare(captured_with_grad(module, (X,)), translated, EventLog())
    compare(program, module, (X + 1,), exact=False)
    compare(program, module, (X - 1,), exact=False)


def test_names_stay_but_for_writes():
    exported = export(Function(lambda x: (x + 1).mul_(2).sub(1)), (X,))
    program = prepare(exported, translated, EventLog())
    renamed = {"mul_": "mul"}
    assert [n.name for n in program.graph.nodes] == [renamed.get(n.name, n.name) for n in exported.graph.nodes]


def test_the_signature_has_the_new_names():
    program = prepare(export(Function(lambda x: (x + 1).mul_(2)), (X,)), translated, EventLog())
    assert [spec.arg.name for spec in program.signature.output_specs] == ["mul"]


def test_kernels_of_the_users_own_are_refused():
    from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_mutation

    exported = export(Function(lambda x: x + 1), (X,))
    with exported.graph.inserting_after(next(iter(exported.graph.nodes))):
        exported.graph.call_function(triton_kernel_wrapper_mutation, (), {"kernel_idx": 0})
    with pytest.raises(TranslationError, match="launches a Triton kernel"):
        prepare(exported, translated, EventLog())
