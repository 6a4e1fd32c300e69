"""An interrupt at any moment of an export: torch is afterwards as it was, and the next export gives the same file."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

import pytest
import torch

import onnxport
from onnxport.capture.patches import one_export_at_a_time
from onnxport.undoing import noted_so_far, pushed, undo_down_to, undone_after, with_interrupts


class Model(torch.nn.Module):
    """A write, so that the preparation runs operators again, and functions that are replaced."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + torch.linspace(0, 1, x.shape[0])
        y[1:] = 0
        return y


def exported() -> bytes:
    file = io.BytesIO()
    onnxport.export(Model(), (torch.ones(3),), file, dynamic_shapes=({0: "n"},), verbose=False)
    return file.getvalue()


class Profile:
    """Sees what is entered and left, and interrupts the first time that it is at a moment."""

    def __init__(self, moment: Moment | None = None) -> None:
        self.moment = moment
        self.has_come = False

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        if self.moment is None or frame.f_code.co_name != self.moment.function or event != self.moment.event:
            return
        entered = frame.f_locals.get("self")
        if self.moment.what == getattr(getattr(entered, "gen", None), "__name__", type(entered).__name__):
            sys.setprofile(None)
            self.has_come = True
            raise KeyboardInterrupt


@dataclass(frozen=True)
class Moment:
    """Where ``what`` is entered or left: the function has ended, or what it calls is about to begin or has ended."""

    what: str
    function: str = "__enter__"
    event: str = "return"


MOMENTS = [
    Moment("FakeTensorMode"),
    Moment("ProxyTorchDispatchMode", "__exit__", "c_call"),
    Moment("in_kernel_invocation_manager", event="c_return"),
    Moment("_pop_mode_temporarily", event="c_return"),
    Moment("_suppress_guards", event="c_return"),
    Moment("attributes_replaced", event="c_return"),
    Moment("attributes_replaced", "__exit__", "c_call"),
]


@contextlib.contextmanager
def profiled(profile: Profile) -> Iterator[None]:
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


def state() -> dict[str, object]:
    """What others see of torch: the modes that are on, and what the table of patches replaces first."""
    found: dict[str, object] = {
        "modes": (torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack()),
        "before dispatch": torch._ops._len_torch_dispatch_stack_pre_dispatch(),
        "keys": (str(torch._C._dispatch_tls_local_include_set()), str(torch._C._dispatch_tls_local_exclude_set())),
        "context": torch._guards.TracingContext.try_get(),
        "guards": getattr(torch.fx.experimental.symbolic_shapes.TLS, "suppress_guards", False),
        "gradients": torch.is_grad_enabled(),
        "flags": (torch.compiler.is_compiling(), torch.compiler.is_exporting(), torch.onnx.is_in_onnx_export()),
        "replaced": (torch.linspace, torch.nn.functional.one_hot, torch.nn.Module.__call__, max, min),
        "kernels": dict(torch.ops.aten.max_pool1d.default.py_kernels),
        "noted": noted_so_far(),
    }
    return found


def test_an_interrupt_where_something_is_entered_or_left() -> None:
    expected, before = exported(), state()
    for moment in MOMENTS:
        profile = Profile(moment)
        with pytest.raises(KeyboardInterrupt), profiled(profile):
            exported()
        assert profile.has_come and state() == before, moment
    assert exported() == expected


def test_what_is_undone_late_is_undone_once() -> None:
    done: list[str] = []
    count = noted_so_far()
    block = undone_after(lambda: done.append("undone"))
    block.__enter__()
    undo_down_to(count)
    assert done == ["undone"]
    block.__exit__(None, None, None)
    assert done == ["undone"] and noted_so_far() == count


def test_an_interrupt_while_things_are_put_back() -> None:
    stack: list[int] = []
    interrupts = [KeyboardInterrupt()]

    def undo() -> None:
        if interrupts:
            raise interrupts.pop()

    @one_export_at_a_time
    def run(*blocks: contextlib.AbstractContextManager[object]) -> None:
        for block in blocks:
            block.__enter__()

    with pytest.raises(KeyboardInterrupt):
        run(pushed(stack, 1), undone_after(undo))
    assert stack == []


def test_an_interrupt_is_told_though_another_error_follows_it() -> None:
    def leaves_in_the_wrong_order(stack: list[int]) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            stack.pop()

    with pytest.raises(KeyboardInterrupt):
        with_interrupts(leaves_in_the_wrong_order, [])
