from __future__ import annotations

import io
import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import IO

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import programs
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from onnxport.errors import OnnxExporterError, SaveError
from onnxport.program import ONNXProgram
from onnxport.weights import disk, saving, wire
from onnxport.weights.inner_shapes import leave_sizes_to_the_reader
from onnxport.weights.torch_tensor import TorchTensor


def with_everything() -> ir.Model:
    """A model with every kind of initializer, metadata, a subgraph and a function."""
    made = programs.linear()
    graph = made.graph
    graph.register_initializer(programs.initializer("empty", torch.zeros(0, 3)))
    graph.register_initializer(programs.initializer("scalar", torch.tensor(3), kind=None))
    graph.register_initializer(programs.initializer("transposed", torch.randn(40, 30).t()))
    documented = programs.initializer("documented", torch.randn(300))
    documented.const_value.doc_string = "after the bytes"
    documented.const_value.metadata_props["also"] = "after"
    documented.meta["quant_parameter_tensor_names"] = {"SCALE_TENSOR": "scalar"}
    graph.register_initializer(documented)
    words = ir.StringTensor(np.array([b"word" * 100], dtype=object), name="words")
    graph.register_initializer(ir.Value(name="words", const_value=words))
    branch_out = programs.value("branch_out")
    branch = ir.Graph([], [branch_out], nodes=[programs.node("Identity", [documented], branch_out)], name="branch")
    condition = programs.initializer("condition", torch.tensor(True), kind=None)
    graph.register_initializer(condition)
    branches = {
        name: ir.AttrGraph(name, branch.clone(allow_outer_scope_values=True)) for name in ("then_branch", "else_branch")
    }
    graph.append(programs.node("If", [condition], programs.value("chosen"), **branches))
    a = programs.value("a")
    b = programs.value("b")
    inner = ir.Graph([a], [b], nodes=[programs.node("Relu", [a], b)], opset_imports={"": 20}, name="inner")
    function = ir.Function("custom", "Own", graph=inner, attributes=[])
    made.functions[function.identifier()] = function
    made.metadata_props["licence"] = "Apache-2.0"
    made.model_version = 3
    made.domain = "test.domain"
    return made


def written_by_protobuf(model: ir.Model) -> bytes:
    """What protobuf makes of a model: initializers are described by their tensors alone, and inner sizes unknown."""
    proto = ir.serde.serialize_model(model)
    described = {info.name: info for info in proto.graph.value_info}
    for tensor in proto.graph.initializer:
        if tensor.name in described:
            tensor.metadata_props.extend(described[tensor.name].metadata_props)
            proto.graph.value_info.remove(described[tensor.name])
    leave_sizes_to_the_reader(proto)
    return proto.SerializeToString()


@pytest.mark.parametrize("make", [programs.linear, with_everything])
def test_single_file_has_the_bytes_protobuf_would_write(make, tmp_path: Path) -> None:
    made = make()
    saving.save_model(made, tmp_path / "m.onnx")
    expected = written_by_protobuf(made)
    assert (tmp_path / "m.onnx").read_bytes() == expected
    assert saving.to_bytes(made) == expected
    stream = io.BytesIO()
    saving.save_model(made, stream)
    assert stream.getvalue() == expected


@pytest.mark.parametrize("make", [programs.linear, with_everything])
def test_external_data_holds_the_same_tensors(make, tmp_path: Path) -> None:
    made = make()
    saving.save_model(made, tmp_path / "m.onnx", external_data=True)
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "m.onnx.data"]
    reloaded = onnx.load(tmp_path / "m.onnx")
    for tensor in reloaded.graph.initializer:
        tensor.ClearField("data_location")
    assert reloaded.SerializeToString() == written_by_protobuf(made)


def test_data_is_aligned_and_small_tensors_stay_inline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "PAGED_FROM_BYTES", 2000)
    tensors = {"tiny": 63, "small": 65, "odd": 77, "large": 501}
    initializers = [programs.initializer(name, torch.randn(size)) for name, size in tensors.items()]
    saving.save_model(programs.model([], [], [], initializers), tmp_path / "m.onnx", external_data=True)
    proto = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    offsets = {t.name: {e.key: e.value for e in t.external_data}.get("offset") for t in proto.graph.initializer}
    assert offsets == {"tiny": None, "small": "0", "odd": "320", "large": "65536"}


def test_too_large_for_protobuf_goes_external_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = programs.linear()
    monkeypatch.setattr(saving, "MAX_PROTOBUF_BYTES", 2000)
    for external_data in (None, False):
        saving.save_model(made, tmp_path / f"{external_data}.onnx", external_data=external_data)
        assert (tmp_path / f"{external_data}.onnx.data").stat().st_size >= 8 * 64 * 4
    assert saving.to_bytes(made) is None
    with pytest.raises(SaveError, match="needs a data file"):
        saving.save_model(made, io.BytesIO())


def test_onnxruntime_reads_both_forms(tmp_path: Path) -> None:
    made = programs.linear()
    x = np.ones((2, 8), np.float32)
    weights = {name: v.const_value.numpy() for name, v in made.graph.initializers.items()}
    for external_data in (True, False):
        saving.save_model(made, tmp_path / "m.onnx", external_data=external_data)
        session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
        (y,) = session.run(None, {"x": x})
        np.testing.assert_allclose(y, x @ weights["fc.weight"] + weights["fc.bias"] + 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("weights", "as_inputs", "inputs", "initializers"),
    [
        (True, False, ["x"], ["fc.weight", "fc.bias", "one"]),
        (True, True, ["x", "fc.weight", "fc.bias"], ["fc.weight", "fc.bias", "one"]),
        (False, False, ["x"], ["one"]),
        (False, True, ["x", "fc.weight", "fc.bias"], ["one"]),
    ],
)
@pytest.mark.parametrize("external_data", [True, False])
def test_selection(weights, as_inputs, inputs, initializers, external_data, tmp_path: Path) -> None:
    made = programs.linear()
    before = str(made)
    selection = wire.Selection(weights, as_inputs)
    saving.save_model(made, tmp_path / "m.onnx", selection=selection, external_data=external_data)
    proto = onnx.load(tmp_path / "m.onnx")
    assert [entry.name for entry in proto.graph.input] == inputs
    assert [entry.name for entry in proto.graph.initializer] == initializers
    assert "fc.weight" in proto.graph.node[0].input
    assert str(made) == before
    if as_inputs or weights:
        onnx.checker.check_model(proto, full_check=True)


@pytest.mark.parametrize("external_data", [True, False])
def test_weights_without_values(external_data: bool, tmp_path: Path) -> None:
    with FakeTensorMode():
        fakes = [torch.nn.Parameter(torch.empty(100, 7)), torch.empty(3, dtype=torch.int64)]
    names = ["a.weight", "b.count"]
    initializers = [programs.initializer(name, fake) for name, fake in zip(names, fakes, strict=True)]
    initializers.append(programs.initializer("c", torch.empty(9, device="meta")))
    made = programs.model([], [], [], initializers)
    with pytest.raises(
        OnnxExporterError,
        match=r"(?s)3 weights have no values.*apply_weights.*a\.weight: FLOAT \[100,7\].*b\.count.*c: ",
    ):
        saving.save_model(made, tmp_path / "m.onnx", external_data=external_data)
    with pytest.raises(OnnxExporterError, match="include_initializers=False"):
        initializers[0].const_value.numpy()
    assert os.listdir(tmp_path) == []
    saving.save_model(made, tmp_path / "m.onnx", selection=wire.Selection(weights=False), external_data=external_data)
    assert os.listdir(tmp_path) == ["m.onnx"]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("missing/m.onnx", "the folder .*missing does not exist. Create it first."),
        ("a_file/m.onnx", "a_file is not a folder"),
        ("a_folder", "it is a folder. Name a file in it."),
    ],
)
def test_impossible_destinations(where: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a_file").write_text("")
    (tmp_path / "a_folder").mkdir()
    with pytest.raises(SaveError, match=message) as caught:
        saving.save_model(programs.linear(), tmp_path / where)
    assert isinstance(caught.value, OSError)


@pytest.mark.parametrize(
    ("closed", "message"), [("m.onnx", "file there is read-only"), ("", "folder .* is not writable")]
)
def test_closed_destinations(closed: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Asked of the system rather than set as file modes: those do not bind a superuser.
    (tmp_path / "m.onnx").write_text("old")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path / closed)
    with pytest.raises(SaveError, match=message):
        saving.save_model(programs.linear(), str(tmp_path / "m.onnx"))
    assert (tmp_path / "m.onnx").read_text() == "old"


@pytest.mark.parametrize(
    ("destination", "external_data", "message"),
    [
        (io.BytesIO(), True, "external_data=True needs a path"),
        (3, None, "must be a path or an open binary file, not an object of type int"),
    ],
)
def test_destinations_of_the_wrong_type(destination, external_data, message) -> None:
    with pytest.raises(TypeError, match=message):
        saving.save_model(programs.linear(), destination, external_data=external_data)


class Failing(TorchTensor):
    """A weight whose bytes cannot be had."""

    def slabs(self):
        yield memoryview(b"some of it")
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("external_data", [True, False])
def test_failed_save_leaves_the_old_files(external_data: bool, tmp_path: Path) -> None:
    old = programs.linear()
    saving.save_model(old, tmp_path / "m.onnx", external_data=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    new = programs.linear()
    new.graph.initializers["fc.weight"].const_value = Failing(torch.ones(8, 64))
    with pytest.raises(SaveError, match=r"m\.onnx failed: .*No space left.* untouched"):
        saving.save_model(new, tmp_path / "m.onnx", external_data=external_data)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_failed_second_rename_brings_the_old_data_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saving.save_model(programs.linear(), tmp_path / "m.onnx", external_data=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    rename = os.replace

    def failing(source: Path, target: Path) -> None:
        if Path(target).name == "m.onnx":
            raise PermissionError("in use")
        rename(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(SaveError, match="in use"):
        saving.save_model(programs.linear(rows=9), tmp_path / "m.onnx", external_data=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def run_in_process(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parents[1] / "src")])
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("external_data", [True, False])
def test_killed_save_leaves_the_old_files(external_data: bool, tmp_path: Path) -> None:
    saving.save_model(programs.linear(), tmp_path / "m.onnx", external_data=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    killed = run_in_process(
        """
        import os, signal, sys, programs, torch
        from onnxport.weights import saving, torch_tensor

        class Killing(torch_tensor.TorchTensor):
            def slabs(self):
                yield memoryview(bytes(1 << 22))
                os.kill(os.getpid(), signal.SIGKILL)

        model = programs.linear()
        model.graph.initializers["fc.bias"].const_value = Killing(torch.ones(1 << 21))
        saving.save_model(model, sys.argv[1], external_data=sys.argv[2] == "True")
        """,
        str(tmp_path / "m.onnx"),
        str(external_data),
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


@pytest.mark.parametrize("external_data", [True, False])
def test_saving_needs_no_memory_for_the_weights(external_data: bool, tmp_path: Path) -> None:
    measured = run_in_process(
        """
        import resource, sys, programs, torch
        from onnxport.weights import saving

        plain = torch.ones(300, 1 << 18)
        weights = [programs.initializer("plain", plain), programs.initializer("transposed", plain[:64].t())]
        model = programs.model([], [], [], weights)
        saving.save_model(programs.linear(), sys.argv[1])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        saving.save_model(model, sys.argv[1], external_data=sys.argv[2] == "True")
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / weights[0].const_value.nbytes)
        """,
        str(tmp_path / "m.onnx"),
        str(external_data),
    )
    assert measured.returncode == 0, measured.stderr
    assert float(measured.stdout) < 0.1


def test_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        saving.save_model(with_everything(), tmp_path / name / "m.onnx", external_data=True)
    for name in ("m.onnx", "m.onnx.data"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_file_modes_are_those_of_an_ordinary_file_or_of_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "ordinary").write_text("")
    saving.save_model(programs.linear(), tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").stat().st_mode == (tmp_path / "ordinary").stat().st_mode
    (tmp_path / "m.onnx").chmod(0o640)
    saving.save_model(programs.linear(), tmp_path / "m.onnx")
    assert stat.S_IMODE((tmp_path / "m.onnx").stat().st_mode) == 0o640


def test_a_device_is_written_to_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    saving.save_model(programs.linear(), pipe)
    received, _ = reader.communicate(timeout=30)
    assert received == saving.to_bytes(programs.linear())
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_killed_saves_leave_a_whole_model_and_the_next_one_clears_up(tmp_path: Path) -> None:
    """At every step of the writer, and ONNXPORT_KILLS times at a random moment of two saves at once."""
    script = Path(__file__).with_name("faults.py")
    code = f"import runpy, sys; sys.argv[0] = {str(script)!r}; runpy.run_path(sys.argv[0], run_name='__main__')"
    run = run_in_process(code, str(tmp_path), os.environ.get("ONNXPORT_KILLS", "8"))
    assert (run.returncode, run.stdout) == (0, ""), run.stdout + run.stderr


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("after", [True, False])
def test_what_stood_there_leaves_no_trace(before: bool, after: bool, tmp_path: Path) -> None:
    for name in ("fresh", "used"):
        (tmp_path / name).mkdir()
    saving.save_model(programs.linear(rows=9), tmp_path / "used" / "m.onnx", external_data=before)
    for name in ("fresh", "used"):
        saving.save_model(programs.linear(), tmp_path / name / "m.onnx", external_data=after)
    assert files(tmp_path / "used") == files(tmp_path / "fresh")


def test_a_data_file_of_another_model_stays(tmp_path: Path) -> None:
    saving.save_model(programs.linear(), tmp_path / "m.onnx")
    (tmp_path / "m.onnx.data").write_text("somebody's")
    saving.save_model(programs.linear(), tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx.data").read_text() == "somebody's"


def test_temporary_files_of_a_live_process_stay(tmp_path: Path) -> None:
    names = [".m.onnx.0123abcd.tmp", ".m.onnx.data.0123abcd.tmp", ".other.onnx.0123abcd.tmp", ".m.onnx.mine.tmp"]
    for name in names:
        (tmp_path / name).write_text("")
    with (tmp_path / names[0]).open("rb") as live:
        assert disk.hold(live)
        saving.save_model(programs.linear(), tmp_path / "m.onnx")
        assert sorted(os.listdir(tmp_path)) == sorted(["m.onnx", names[0], names[2], names[3]])
    saving.save_model(programs.linear(), tmp_path / "m.onnx")
    assert sorted(os.listdir(tmp_path)) == sorted(["m.onnx", names[2], names[3]])


class WithoutLinks(disk.Disk):
    def link(self, source: Path, target: Path) -> None:
        raise PermissionError("no second names here")


def test_where_a_file_has_only_one_name_the_pair_is_whole_too(tmp_path: Path) -> None:
    for rows in (8, 9, 8, 9):
        saving.save_model(programs.linear(rows=rows), tmp_path / "m.onnx", external_data=True, disk=WithoutLinks())
        assert len(os.listdir(tmp_path)) == 2
        onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])


class Noting(disk.Disk):
    """Notes which parts of a file are begun to be brought to the device, and how much of it stands by then."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[tuple[int, int]] = []

    def begin(self, file: IO[bytes], start: int, length: int) -> None:
        super().begin(file, start, length)
        assert os.fstat(file.fileno()).st_size >= start + length
        self.begun.append((start, length))


def test_parts_of_large_files_go_to_the_device_while_others_are_written(tmp_path: Path) -> None:
    """Each part once and in order, of rows that are turned as well; a small file waits for nothing."""
    model, noting = programs.linear(), Noting()
    saving.save_model(model, tmp_path / "m.onnx", disk=noting)
    assert noting.begun == []
    for name, tensor in (("wide", torch.randn(3000, 1500)), ("turned", torch.randn(2000, 3000).t())):
        model.graph.register_initializer(programs.initializer(name, tensor))
    saving.save_model(model, tmp_path / "m.onnx", disk=noting)
    ends = [start + length for start, length in noting.begun]
    assert len(ends) == 2 and [start for start, _ in noting.begun] == [0, ends[0]]
    saving.save_model(model, tmp_path / "again.onnx", disk=disk.Disk(sync=False))
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "m.onnx").read_bytes()


@pytest.mark.parametrize("exists", [True, False])
def test_a_symbolic_link_is_followed(exists: bool, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    if exists:
        (tmp_path / "real" / "m.onnx").write_text("old")
    (tmp_path / "link.onnx").symlink_to(Path("real") / "m.onnx")
    saving.save_model(programs.linear(), tmp_path / "link.onnx", external_data=True)
    assert (tmp_path / "link.onnx").is_symlink()
    assert sorted(os.listdir(tmp_path / "real")) == ["m.onnx", "m.onnx.data"]
    assert sorted(os.listdir(tmp_path)) == ["link.onnx", "real"]


def test_names_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    for name, message in [("a\0b", "NUL"), ("circle", "leads to itself"), ("x" * 300, "name too long")]:
        with pytest.raises(SaveError, match=message):
            saving.save_model(programs.linear(), tmp_path / name)


@pytest.mark.parametrize("sync", [True, False])
def test_files_are_on_the_device_before_they_are_renamed(
    sync: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    rename = os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: order.append("sync"))
    monkeypatch.setattr(os, "replace", lambda *names: (order.append("rename"), rename(*names)))
    ONNXProgram(programs.linear(), None).save(tmp_path / "m.onnx", external_data=True, sync=sync)
    expected = ["sync", "sync", "rename", "sync", "rename", "sync"]
    assert order == (expected if sync else ["rename", "rename"])
