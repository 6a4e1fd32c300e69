"""The model and the process are as they were afterwards, whether the capture succeeds or fails."""

from __future__ import annotations

import functools
import os
import random
import subprocess
import sys
import threading
import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo.config
from torch import nn
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import onnxport
from onnxport.capture import capture, is_in_onnx_export
from onnxport.capture.diagnosis.drawn_numbers import DrawnNumbers
from onnxport.capture.patches.autograd_functions import CALLS
from onnxport.errors import OnnxExporterError, OnnxExporterWarning
from onnxport.events import EventLog
from onnxport.torch_internals.caches import MOST_SOURCES, sources
from onnxport.torch_internals.exporting import known_numpy_functions


class Vandal(nn.Module):
    """Changes all it can reach, then succeeds or fails."""

    def __init__(self, fails: bool) -> None:
        super().__init__()
        self.fails = fails
        self.linear = nn.Linear(4, 4)
        self.frozen = nn.Linear(4, 4).eval()
        self.frozen.requires_grad_(False)
        self.register_buffer("count", torch.zeros(1))
        self.calls = 0
        self.kept: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls = self.calls + 1
        self.kept = x
        self.frozen.train()
        self.linear.eval()
        self.linear.weight.requires_grad_(False)
        self.linear.register_forward_pre_hook(lambda *_: None)
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        torch.set_default_dtype(torch.float64)
        torch.set_autocast_cache_enabled(False)
        torch.use_deterministic_algorithms(True)
        torch._dynamo.config.recompile_limit = 77
        if self.fails:
            raise RuntimeError("on purpose")
        return self.linear(x)


def process() -> dict[str, Any]:
    return {
        "grad": torch.is_grad_enabled(),
        "dtype": torch.get_default_dtype(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "autocast cache": torch.is_autocast_cache_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "dynamo": torch._dynamo.config.recompile_limit,
        "oblivious": torch.fx.experimental._config.backed_size_oblivious,
        "torch random": torch.get_rng_state().tolist(),
        "random": random.getstate(),
        "numpy random": np.random.get_state()[1].tolist(),  # type: ignore[index,union-attr]
        "exporting": (is_in_onnx_export(), torch.onnx.is_in_onnx_export()),
        "shape env": ShapeEnv._set_replacement,
    }


def module(model: Vandal) -> dict[str, Any]:
    return {
        "training": [m.training for m in model.modules()],
        "hooks": [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()],
        "requires grad": [p.requires_grad for p in model.parameters()],
        "parameters": [id(p) for p in model.parameters()],
        "calls": model.calls,
        "kept": model.kept,
        "count": model.count.tolist(),
    }


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_all_is_as_before(fails: bool, grad: bool) -> None:
    model, x = Vandal(fails), torch.ones(3, 4)
    torch.manual_seed(7)
    with torch.set_grad_enabled(grad):
        before = process(), module(model), sorted(vars(x))
        try:
            capture(model, x, dynamic_shapes=({0: "n"},), events=EventLog())
        except OnnxExporterError as error:
            assert fails, error
        assert (process(), module(model), sorted(vars(x))) == before


class Updates(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + 1 if x.sum() > 0 else x - 1


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_draft_export_does_not_update_buffers() -> None:
    model = Updates()
    assert "draft" in capture(model, torch.ones(3), branches="follow", events=EventLog()).strategy
    assert model.count.tolist() == [0.0]


class Counts(nn.Module):
    def __init__(self, by: str) -> None:
        super().__init__()
        self.by, self.seen, self.made, self.rows, self.told = by, 0, 3, 2, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.told += 1
        if self.by == "counting":
            self.seen += 1
            x = x * self.seen
        elif self.by == "flag":
            x = x + self.made
            self.made = 5
        else:
            self.rows = 0
            for row in x.unbind(1):
                self.rows += 1
                x = x + self.rows * row[:, None]
        return x


@pytest.mark.parametrize(("by", "named"), [("counting", "seen"), ("flag", "made"), ("resetting", None)])
def test_an_attribute_that_is_changed_and_read_is_told(by: str, named: str | None) -> None:
    model = Counts(by)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OnnxExporterWarning)
        program = onnxport.export(model, (torch.ones(2, 3),))
    assert model.seen == 0
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == (named is not None)
    assert named is None or (f"`self.{named}` is " in texts[0] and "test_capture_state.py" in texts[0])
    torch.testing.assert_close(program(torch.ones(2, 3))[0], Counts(by)(torch.ones(2, 3)))


class Asks(nn.Module):
    def __init__(self, ask: Any, strict: bool) -> None:
        super().__init__()
        self.ask, self.strict = ask, strict

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.strict and not torch.compiler.is_dynamo_compiling():
            raise RuntimeError("leave it to bytecode tracing")
        return x.sin() if self.ask() else x.cos()


class AsksTorch(Asks):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.strict and not torch.compiler.is_dynamo_compiling():
            raise RuntimeError("leave it to bytecode tracing")
        return x.sin() if torch.onnx.is_in_onnx_export() else x.cos()


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "make", [lambda strict: Asks(is_in_onnx_export, strict), lambda strict: AsksTorch(None, strict)]
)
def test_the_model_can_ask_whether_it_is_being_exported(make: Any, strict: bool) -> None:
    captured = capture(make(strict), torch.ones(3), events=EventLog())
    assert [str(n.target) for n in captured.program.graph.nodes if n.op == "call_function"] == ["aten.sin.default"]
    assert not is_in_onnx_export()
    assert not torch.onnx.is_in_onnx_export()


def test_the_users_grad_mode_is_the_captured_one() -> None:
    class Graded(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin() if torch.is_grad_enabled() else x.cos()

    for enabled, name in ((True, "aten.sin.default"), (False, "aten.cos.default")):
        with torch.set_grad_enabled(enabled):
            captured = capture(Graded(), torch.ones(3), events=EventLog())
        assert [str(n.target) for n in captured.program.graph.nodes if n.op == "call_function"] == [name]


def test_importing_does_not_load_the_tracer() -> None:
    code = "import sys, onnxport.capture; sys.exit('torch._dynamo' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


MASKS: dict[int, torch.Tensor] = {}
RAMPS: list[torch.Tensor] = []
LAST: torch.Tensor | None = None


@functools.lru_cache
def positions(length: int) -> torch.Tensor:
    return torch.arange(length).float()


class Remembering(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        global LAST
        length = x.shape[1]
        if length not in MASKS:
            MASKS[length] = torch.ones(length, length).tril()
        if not RAMPS:
            RAMPS.append(torch.ones(length))
        LAST = x @ MASKS[length] + RAMPS[0] + positions(length)
        return LAST


def test_what_a_file_remembers_is_no_part_of_a_capture() -> None:
    model, x = Remembering(), torch.randn(2, 3)
    program = onnxport.export(model, (x,), dynamic_shapes=({0: "n"},))
    assert LAST is None and not MASKS and not RAMPS
    torch.testing.assert_close(program(x)[0], model(x))


def test_lists_that_forward_appends_to_are_as_before() -> None:
    class Appends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[torch.Tensor] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.append(x)
            return x + self.seen[-1]

    model = Appends()
    program = onnxport.export(model, (torch.ones(2),))
    assert model.seen == []
    assert program(torch.ones(2))[0].tolist() == [2.0, 2.0]


HELD: dict[str, torch.Tensor] = {}
LATEST: torch.Tensor | None = None
CALLED = 0


class Remembers(nn.Module):
    """Keeps a result of one call for the next, in one of many places."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where
        self.before: torch.Tensor | None = None
        self.table: dict[int, torch.Tensor] = {}
        self.items: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(self, f"in_{self.where}")(x)  # type: ignore[no-any-return]

    def in_attribute(self, x: torch.Tensor) -> torch.Tensor:
        y = x if self.before is None else x + self.before
        self.before = x
        return y

    def in_list(self, x: torch.Tensor) -> torch.Tensor:
        self.items.append(x)
        return x * len(self.items)

    def in_variable(self, x: torch.Tensor) -> torch.Tensor:
        global LATEST
        y = x if LATEST is None else x + LATEST
        LATEST = x * 2
        return y

    def in_table(self, x: torch.Tensor) -> torch.Tensor:
        y = x + HELD["x"] if "x" in HELD else x
        HELD["x"] = x
        return y

    def in_count(self, x: torch.Tensor) -> torch.Tensor:
        global CALLED
        CALLED += 1
        return x * CALLED

    def in_memory_of_positions(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] not in self.table:
            self.table[x.shape[1]] = torch.arange(x.shape[1])
        return x + self.table[x.shape[1]]

    def in_sight(self, x: torch.Tensor) -> torch.Tensor:
        self.before = x.mean()
        return (x * 2).to(torch.float8_e4m3fn)


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("attribute", "self.before"),
        ("list", "self.items"),
        ("variable", "LATEST"),
        ("table", "HELD"),
        ("count", "CALLED"),
    ],
)
def test_what_is_kept_for_the_next_call_is_told(where: str, named: str) -> None:
    model = Remembers(where)
    with pytest.warns(OnnxExporterWarning, match=f"`{named}` has nothing of an earlier call") as caught:
        onnxport.export(model, (torch.ones(2, 3),), dynamic_shapes=({0: "n"},))
    (told,) = [str(warning.message) for warning in caught if issubclass(warning.category, OnnxExporterWarning)]
    assert f"{__file__}:" in told and f" in in_{where}: " in told
    assert (HELD, LATEST, CALLED, model.before, model.items) == ({}, None, 0, None, [])


@pytest.mark.parametrize("where", ["memory_of_positions", "sight"])
def test_what_makes_no_difference_to_the_next_call_is_not(where: str) -> None:
    with warnings.catch_warnings(action="error", category=OnnxExporterWarning):
        onnxport.export(Remembers(where), (torch.ones(2, 3),), dynamic_shapes=({0: "n"},))


def test_exports_leave_little_behind() -> None:
    """torch keeps the source of every graph, and we every call of an autograd function."""

    class Model(nn.Module):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Scaled.apply(x, self.number)

    for number in range(24):
        onnxport.export(Model(number), (torch.ones(3, 4),), verbose=False)
    assert len(sources()) <= MOST_SOURCES
    calls = len(CALLS)
    onnxport.export(Model(0), (torch.ones(3, 4),), verbose=False)
    assert len(CALLS) == calls


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: int) -> torch.Tensor:
        return x * factor

    @staticmethod
    def symbolic(g: Any, x: Any, factor: int) -> Any:
        return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(float(factor))))


def test_numbers_that_python_draws_are_told_of() -> None:
    def own(x: torch.Tensor) -> torch.Tensor:
        return x * random.random() if np.random.rand() < 2 else x

    with pytest.warns(OnnxExporterWarning, match="drawn once, when the model is captured") as caught:
        onnxport.export(own, (torch.ones(2),))
    (told,) = [str(warning.message) for warning in caught]
    assert "random.random" in told and "numpy.random.rand" in told and f"{__file__}:" in told
    assert not hasattr(random.random, "__wrapped__")


def test_numbers_that_are_drawn_with_torch_are_not() -> None:
    with warnings.catch_warnings(action="error", category=OnnxExporterWarning):
        onnxport.export(lambda x: x * torch.rand(2), (torch.ones(2),))


def test_dynamo_learns_of_numpys_functions_and_not_of_what_stands_in_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_numpy_functions, "function_ids", None)
    with DrawnNumbers().noted():
        known_numpy_functions()
    assert id(np.random.rand) in known_numpy_functions


STOPPED = False


class SeesAnotherThread(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        thread = threading.Thread(target=setattr, args=(sys.modules[__name__], "STOPPED", True))
        thread.start()
        thread.join()
        return x + 1


def test_what_another_thread_assigns_meanwhile_stays() -> None:
    assert not STOPPED
    onnxport.export(SeesAnotherThread(), (torch.ones(3),), verbose=False)
    assert STOPPED
