"""The version of the file format: the one that goes with the opset, or another that was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest
import torch
from typer.testing import CliRunner

import onnxport
from onnxport.command_line import app
from onnxport.errors import OnnxExporterError, OpsetError
from onnxport.legalize import legalize
from onnxport.legalize.versions import NEWEST_IR, OLDEST_IR, ir_version_for
from onnxport.onnx_build.opsets import NEWEST_OPSET

X = torch.arange(6.0).reshape(2, 3)


class Net(torch.nn.Module):
    """A layer with weights, a literal and a module of its own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.linear(x) * 2).reshape(3, 2)


def exported(**options: Any) -> onnxport.ONNXProgram:
    return onnxport.export(Net(), (X,), **options)


@pytest.mark.parametrize(
    ("opset", "asked", "written"),
    [
        (20, None, 10),
        (20, 8, 8),
        (20, 3, 3),
        (13, 9, 9),
        (7, 4, 4),
        (23, 11, 11),
        (NEWEST_OPSET, None, ir_version_for(NEWEST_OPSET)),
        (9, NEWEST_IR, NEWEST_IR),
    ],
)
def test_version_in_the_file(tmp_path: Path, opset: int, asked: int | None, written: int) -> None:
    program = exported(opset_version=opset, ir_version=asked, f=tmp_path / "net.onnx")
    file = onnx.load(tmp_path / "net.onnx")
    assert (file.ir_version, file.opset_import[0].version) == (written, opset)
    onnx.checker.check_model(file, full_check=True)
    # Before version 4 weights are inputs with defaults.
    assert (len(file.graph.input) > 1) == (written < 4)
    if written < NEWEST_IR and opset < NEWEST_OPSET:
        torch.testing.assert_close(program(X)[0], Net()(X))


def test_legacy_call_takes_it(tmp_path: Path) -> None:
    exported(dynamo=False, opset_version=13, ir_version=6, f=tmp_path / "net.onnx")
    assert onnx.load(tmp_path / "net.onnx").ir_version == 6


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (OLDEST_IR - 1, f"IR version 2 cannot be written; pass an ir_version from {OLDEST_IR} to {NEWEST_IR}"),
        (NEWEST_IR + 1, f"IR version {NEWEST_IR + 1} cannot be written"),
        ("8", "ir_version must be an int or None, not '8'"),
        (True, "ir_version must be an int or None, not True"),
    ],
)
def test_not_a_version(version: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        exported(ir_version=version)
    assert isinstance(caught.value, OnnxExporterError)


def test_functions_need_eight() -> None:
    with pytest.warns(DeprecationWarning), pytest.raises(OpsetError, match=r"came with IR version 8, not 7"):
        exported(ir_version=7, export_modules_as_functions=True)
    with pytest.warns(DeprecationWarning):
        assert exported(ir_version=8, export_modules_as_functions=True).model.functions


@pytest.mark.parametrize(("version", "functions"), [(None, 1), (8, 1), (7, 0)])
def test_regions_are_functions_where_the_file_has_them(version: int | None, functions: int) -> None:
    @torch.compiler.nested_compile_region
    def region(x: torch.Tensor) -> torch.Tensor:
        return x.relu() + 1

    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return region(region(x))

    captured = torch.export.export(Twice(), (X,), strict=True)
    program = onnxport.export(captured, ir_version=version)
    assert len(program.model.functions) == functions
    torch.testing.assert_close(program(X)[0], X + 2)


TYPES = [
    ("FLOAT8E4M3FN", 19, 9),
    ("FLOAT8E5M2", 21, 9),
    ("INT4", 21, 10),
    ("UINT4", 23, 10),
    ("FLOAT4E2M1", 23, 11),
    ("FLOAT8E8M0", 24, 12),
    ("INT2", 25, 13),
]


def cast_to(name: str, opset: int) -> ir.Model:
    kind = ir.DataType[name]
    return ir.from_onnx_text(
        f'<ir_version: 13, opset_import: ["": {opset}]> agraph (float[2] x) => ({name.lower()}[2] y) '
        f"{{ y = Cast <to={int(kind)}> (x) }}"
    )


@pytest.mark.parametrize(("name", "opset", "first"), TYPES)
def test_element_types_need_their_version(name: str, opset: int, first: int) -> None:
    model = cast_to(name, opset)
    with pytest.raises(OpsetError) as caught:
        legalize(model, opset, ir_version=first - 1)
    text = str(caught.value)
    assert f"cannot be written with IR version {first - 1}" in text
    assert f"the element type {name.lower()} came with IR version {first}" in text
    assert "the value y" in text and f"ir_version={first}" in text
    for asked in (first, None):
        model = cast_to(name, opset)
        legalize(model, opset, ir_version=asked)
        assert model.ir_version >= first
        onnx.checker.check_model(ir.to_proto(model), full_check=True)


def test_all_types_are_named_at_once() -> None:
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["": 23]> agraph (float[2] x) => (int4[2] y, float8e5m2[2] z) '
        "{ y = Cast <to=22> (x) z = Cast <to=19> (x) }"
    )
    with pytest.raises(OpsetError, match=r"int4 came with IR version 10[\s\S]*float8e5m2 came with IR version 9"):
        legalize(model, 23, ir_version=8)


def test_command_line(tmp_path: Path) -> None:
    destination = tmp_path / "net.onnx"
    line = ["export", "torch.nn:ReLU", str(destination), "-i", "2,3", "--opset", "13", "--ir-version", "6"]
    assert CliRunner().invoke(app, line).exit_code == 0
    assert onnx.load(destination).ir_version == 6
    result = CliRunner().invoke(app, [*line[:-1], "99"])
    assert result.exit_code == 1
    assert "from 3 to" in result.output
