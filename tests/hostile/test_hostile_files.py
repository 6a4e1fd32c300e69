"""Files that are damaged or mean harm: each is one sentence, or loads as what it is."""

from __future__ import annotations

import io
import json
import logging
import os
import random
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from safetensors.torch import save

import onnxport
from onnxport.command_line.archive_code import run_at_loading
from onnxport.command_line.examples import load_saved
from onnxport.command_line.models import load_model
from onnxport.errors import InputError, OnnxExporterError
from onnxport.torch_internals.archives import load_program
from onnxport.weights.external_data import read_model
from onnxport.weights.safetensors import mapped_tensors

SAFETENSORS = save({"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4, dtype=torch.int8), "c": torch.zeros(0, 2)})


def safetensors(header: object, data: int) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(data)


def entry(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "header is longer"),
        (b"\x01\x02", "header is longer"),
        (struct.pack("<Q", 2**63) + b"{}", "header is longer"),
        (safetensors(b"{", 0), "not JSON"),
        (safetensors(b"\xff\xfe{}", 0), "not JSON"),
        (safetensors(b"[" * 100_000, 0), "not JSON"),
        (safetensors(b'{"a": 1, "a": 1}', 0), "twice"),
        (safetensors([1], 0), "not a table"),
        (safetensors({"a": 3}, 8), "lacks a dtype"),
        (safetensors({"a": {"dtype": "F32"}}, 8), "lacks a dtype"),
        (safetensors({"a": entry(dtype="F7")}, 8), "dtype F7"),
        (safetensors({"a": entry(dtype=["F32"])}, 8), "dtype"),
        (safetensors({"a": entry(shape=[-1])}, 8), r"shape \[-1\]"),
        (safetensors({"a": entry(shape="2")}, 8), "shape 2"),
        (safetensors({"a": entry(shape=[2.0])}, 8), "shape"),
        (safetensors({"a": entry(offsets=[-8, 0])}, 8), "offsets"),
        (safetensors({"a": entry(offsets=[0])}, 8), "offsets"),
        (safetensors({"a": entry(offsets=[8, 0])}, 8), "-8 bytes"),
        (safetensors({"a": entry(offsets=[0, 0])}, 8), "0 bytes"),
        (safetensors({"a": entry(shape=[2**40, 2**40])}, 8), "8 bytes"),
        (safetensors({"a": entry(), "b": entry()}, 8), "where 8 is next"),
        (safetensors({"a": entry(offsets=[8, 16])}, 16), "where 0 is next"),
        (safetensors({"a": entry()}, 9), "take 8 bytes, and it has 9"),
        (safetensors({"a": entry()}, 4), "take 8 bytes, and it has 4"),
    ],
)
def test_safetensors_headers(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(content)
    with pytest.raises(InputError, match=message):
        mapped_tensors(tmp_path / "w.safetensors")


def test_a_missing_safetensors_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        mapped_tensors(tmp_path / "none.safetensors")


class Payload:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return os.mkdir, (str(self.path),)


def captured(folder: Path) -> Path:
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(torch.nn.Linear(4, 4), (torch.ones(3, 4),), dynamic_shapes=({0: batch},))
    torch.export.save(program, folder / "good.pt2")
    return folder / "good.pt2"


def changed(path: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    """A copy of an archive with other content in the records of a name."""
    result = path.with_name(f"changed{path.suffix}")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(result, "w", zipfile.ZIP_STORED) as target:
        for info in source.infolist():
            content = source.read(info)
            target.writestr(info.filename, change(content) if name in info.filename else content)
    return result


def pickled(value: object) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def test_a_captured_program_runs_no_code(tmp_path: Path) -> None:
    good = captured(tmp_path)
    assert isinstance(load_model(str(good)), torch.export.ExportedProgram)
    trace = tmp_path / "trace"
    make = f"__import__('os').mkdir({str(trace)!r})"
    changes: list[tuple[str, Callable[[bytes], bytes], str]] = [
        ("sample_inputs", lambda content: pickled(((Payload(trace),), {})), "a pickle"),
        ("models/model.json", lambda text: text.replace(b"torch.ops.aten.linear.default", b"torch.os.mkdir"), "mkdir"),
        ("models/model.json", lambda text: _other_sizes(text, make), "expression of sizes"),
    ]
    for name, change, reason in changes:
        bad = changed(good, name, change)
        with pytest.raises(InputError, match=f"run code from the file: .*{reason}.*--allow-pickle"):
            load_model(str(bad))
        assert not trace.exists()
    load_model(str(changed(good, *changes[0][:2])), allow_pickle=True)
    assert trace.exists(), "the payload is one"


def _other_sizes(text: bytes, expression: str) -> bytes:
    def visit(value: object) -> object:
        if isinstance(value, dict):
            return {key: expression if key == "expr_str" else visit(item) for key, item in value.items()}
        return [visit(item) for item in value] if isinstance(value, list) else value

    return json.dumps(visit(json.loads(text))).encode()


# TorchScript and torch.save


class Saving(torch.nn.Module):
    """Saves to a file when it is loaded."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(4))
        self.path = path

    @torch.jit.export
    def __getstate__(self) -> tuple[torch.Tensor, str, bool]:
        return self.w, self.path, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[torch.Tensor, str, bool]) -> None:
        self.w, self.path, self.training = state[0], state[1], state[2]
        torch.save(self.w, self.path)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.w


class ReadingFiles(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.from_file("/etc/passwd", size=4, dtype=torch.uint8)


def scripted(folder: Path, module: torch.nn.Module) -> Path:
    torch.jit.script(module).save(str(folder / "good.pt"))
    return folder / "good.pt"


def saved(folder: Path) -> Path:
    torch.save({"weight": torch.ones(4, 4), "bias": torch.ones(4)}, folder / "weights.pt")
    return folder / "weights.pt"


def test_a_script_touches_no_files(tmp_path: Path) -> None:
    written = tmp_path / "written"
    bad = scripted(tmp_path, Saving(str(written)))
    with pytest.raises(InputError, match=r"works with files: torch\.save in code/__torch__.*--allow-pickle"):
        load_model(str(bad))
    hidden = changed(bad, ".py", lambda text: text.replace(b"torch.save(", b"(torch. # it is\n save)("))
    with pytest.raises(InputError, match="works with files"):
        load_model(str(hidden))
    assert not written.exists()
    load_model(str(bad), allow_pickle=True)
    assert written.exists(), "the payload is one"
    with pytest.raises(InputError, match=r"works with files: torch\.from_file"):
        load_model(str(scripted(tmp_path, ReadingFiles())))


class Restoring(torch.nn.Module):
    """Puts back what it holds when it is loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(4))

    @torch.jit.export
    def __getstate__(self) -> tuple[torch.Tensor, bool]:
        return self.w, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[torch.Tensor, bool]) -> None:
        self.w = state[0]
        self.training = state[1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while x.sum() < 9:
            x = x + self.w
        return x


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("while True:\n      pass", "__setstate__ has a loop"),
        ("for _1 in range(9223372036854775807):\n      pass", "__setstate__ has a loop"),
        ("_1 = (self).forward(self.w, )", "forward has a loop"),
        ("_1 = torch.ones([99999999999])", "__setstate__ calls torch.ones"),
        ("_1 = (self).__setstate__(state, )", "__setstate__ calls itself"),
        ("(", "is no code that can be read"),
    ],
    ids=lambda text: text.split("(")[0][:20],
)
def test_a_script_runs_nothing_as_it_is_loaded(more: str, reason: str, tmp_path: Path) -> None:
    good = scripted(tmp_path, Restoring())
    assert load_model(str(good)) is not None
    head = b"    self.w = (state)[0]\n"
    bad = changed(good, ".py", lambda text: text.replace(head, head + f"    {more}\n".encode()))
    with pytest.raises(InputError, match=rf"would run as it is: .*{reason}.*--allow-pickle"):
        load_model(str(bad))


def test_calls_of_calls_are_counted() -> None:
    chain = "".join(f"  def f{n}(self):\n    self.f{n + 1}()\n    self.f{n + 1}()\n" for n in range(40))
    source = f"class M(Module):\n  def __setstate__(self, state):\n    self.f0()\n{chain}"
    assert "more than 10000 calls" in str(run_at_loading({"code.py": source.encode()}))
    packed = "class M(Module):\n  def __setstate__(self, state):\n    self.p = ops.quantized.linear_prepack(state)\n"
    assert run_at_loading({"code.py": packed.encode()}) is None


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("/data/0", lambda content: b"", "has 0 bytes, and its tensor needs"),
        ("/data/0", lambda content: content[:-1], "bytes, and its tensor needs"),
        ("/data.pkl", lambda content: b"", "is no pickle"),
        ("/data.pkl", lambda content: content[:-9], "is no pickle"),
        ("/data.pkl", lambda content: b"\x80\x02t.", "did not begin"),
        ("/data.pkl", lambda content: b"\x80\x02K\x01Q.", "states its memory in no form"),
    ],
)
@pytest.mark.parametrize("script", [True, False])
def test_records_shorter_than_their_tensors(
    script: bool, name: str, change: Callable[[bytes], bytes], message: str, tmp_path: Path
) -> None:
    good = scripted(tmp_path, torch.nn.Linear(4, 4)) if script else saved(tmp_path)
    bad = str(changed(good, name, change))
    arch = None if script else "torch.nn:Linear(4, 4)"
    with pytest.raises(InputError, match=message):
        load_model(bad, arch=arch)
    assert isinstance(load_model(str(good), arch=arch), torch.nn.Module)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"K\x04t(K\x01t", b"K\x05t(K\x01t", "reaches to element 5 of the 4"),
        (b"K\x04t(K\x01t", b"K\x04t(K\x02t", "reaches to element 7 of the 4"),
        (b"K\x04t(K\x01t", b"K\x04t(J\xff\xff\xff\xfft", "negative size or stride"),
        (b"K\x04tQ", b"K\xfftQ", "needs 1020"),
    ],
)
def test_tensors_beyond_their_memory(old: bytes, new: bytes, message: str, tmp_path: Path) -> None:
    good = scripted(tmp_path, torch.nn.Linear(4, 4))
    with pytest.raises(InputError, match=message):
        load_model(str(changed(good, "/data.pkl", lambda content: content.replace(old, new))))


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_unusual_tensors_of_good_files_are_read(tmp_path: Path) -> None:
    whole = torch.arange(24.0).reshape(4, 6)
    kinds = [torch.bfloat16, torch.float16, torch.float64, torch.complex64, torch.int16, torch.uint8, torch.bool]
    tensors = {"part": whole[1:3, ::2], "turned": whole.t(), "none": torch.ones(0, 3), "number": torch.tensor(2)}
    tensors |= {str(kind).removeprefix("torch."): torch.ones(3).to(kind) for kind in kinds}
    tensors["quantized"] = torch.quantize_per_tensor(torch.ones(3), 0.5, 1, torch.qint8)
    torch.save(tensors, tmp_path / "weights.pt")
    found = load_saved(tmp_path / "weights.pt")
    assert isinstance(found, dict) and found.keys() == tensors.keys()
    model = torch.nn.ParameterList([tensor for tensor in tensors.values() if tensor.is_floating_point()])
    torch.save(model, tmp_path / "module.pt")
    assert isinstance(load_model(str(tmp_path / "module.pt"), allow_pickle=True), torch.nn.ParameterList)


def test_a_record_that_stands_twice(tmp_path: Path) -> None:
    good = saved(tmp_path)
    with zipfile.ZipFile(good, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(archive.namelist()[0], b"")
    with pytest.raises(InputError, match="two records of one name"):
        load_model(str(good))


# ONNX


def onnx_model(folder: Path, external: bool = True) -> Path:
    path = folder / "model.onnx"
    program = onnxport.export(torch.nn.Linear(40, 40), (torch.ones(3, 40),), verbose=False)
    program.save(path, external_data=external)
    return path


def with_place(path: Path, **changes: str) -> Path:
    """A copy of a model with other entries for where its first tensor is."""
    proto = onnx.load(path, load_external_data=False)
    (first, *_) = (tensor for tensor in proto.graph.initializer if tensor.external_data)
    for entry in first.external_data:
        entry.value = changes.get(entry.key, entry.value)
    result = path.with_name("changed.onnx")
    result.write_bytes(proto.SerializeToString())
    return result


def test_what_fails_in_a_captured_program_is_not_logged(tmp_path: Path) -> None:
    written = io.StringIO()
    handler, log = logging.StreamHandler(written), logging.getLogger("torch.export")
    log.addHandler(handler)
    (tmp_path / "junk.pt2").write_bytes(b"PK\x03\x04 junk")
    try:
        with pytest.raises(zipfile.BadZipFile):
            load_program(tmp_path / "junk.pt2", run_code=False)
    finally:
        log.removeHandler(handler)
    assert written.getvalue() == "" and not log.disabled


def test_an_onnx_model_reads_its_data(tmp_path: Path) -> None:
    model = read_model(onnx_model(tmp_path))
    tensor = model.graph.initializers["weight"].const_value
    assert tensor is not None and tensor.numpy().shape == (40, 40)
    # As a cache of downloads has it: both files are links to one folder, under other names.
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot").mkdir()
    for name in os.listdir(tmp_path):
        if name.startswith("model.onnx"):
            (tmp_path / name).rename(tmp_path / "blobs" / f"x{len(name)}")
            (tmp_path / "snapshot" / name).symlink_to(f"../blobs/x{len(name)}")
    again = read_model(tmp_path / "snapshot" / "model.onnx").graph.initializers["weight"].const_value
    assert again is not None and again.numpy().shape == (40, 40)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"location": "../secret"}, "no place below its own folder"),
        ({"location": "a/../../secret"}, "no place below its own folder"),
        ({"location": "/etc/passwd"}, "no place below its own folder"),
        ({"location": r"..\secret"}, "no place below its own folder"),
        ({"location": r"C:\secret"}, "no place below its own folder"),
        ({"location": ""}, "no place below its own folder"),
        ({"location": "none"}, "No such file"),
        ({"location": "a\0b"}, "can't be read"),
        ({"location": "."}, "no place below its own folder"),
        ({"location": "folder"}, "not a file"),
        ({"location": "link"}, "leads out of its folder"),
        ({"location": "linked/secret"}, "leads out of its folder"),
        ({"offset": "-8"}, "bytes -8 to"),
        ({"offset": "1000000"}, "bytes 1000000 to"),
        ({"offset": "x"}, "does not say where"),
        ({"length": "4"}, "4 bytes where its shape takes"),
    ],
)
def test_places_of_external_data(changes: dict[str, str], message: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(1000))
    inner = tmp_path / "inner"
    (inner / "folder").mkdir(parents=True)
    (inner / "link").symlink_to(tmp_path / "secret")
    (inner / "linked").symlink_to(tmp_path)
    with pytest.raises(InputError, match=message):
        read_model(with_place(onnx_model(inner), **changes))


def test_onnx_files_that_are_none(tmp_path: Path) -> None:
    good = onnx_model(tmp_path, external=False).read_bytes()
    proto = onnx.load_from_string(good)
    proto.graph.initializer[0].dims[0] = -1
    negative = proto.SerializeToString()
    proto.graph.initializer[0].dims[0] = 41
    path = tmp_path / "bad.onnx"
    for content in (b"", b"junk", good[:-10], good[: len(good) // 2], negative, proto.SerializeToString()):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"bad\.onnx can't be read as an ONNX model"):
            read_model(path)
    with pytest.raises(InputError, match="No such file"):
        read_model(tmp_path / "none.onnx")
    path.write_bytes(good.replace(b"pkg.torch", b"pkg.\xfforch"))
    with pytest.raises(InputError, match="is not UTF-8"):
        read_model(path)


def test_a_part_of_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "bad.pt2"
    content = captured(tmp_path).read_bytes()
    # Where a large archive says how many parts it has.
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, 0, 7)
    end = content.rindex(b"PK\x05\x06")
    path.write_bytes(content[:end] + locator + content[end:])
    with pytest.raises(InputError, match=r"bad\.pt2"):
        load_model(str(path))


def mutated(content: bytes, chance: random.Random) -> bytes:
    kind = chance.choice(["cut", "flip", "zero", "insert", "junk"])
    at = chance.randrange(len(content))
    if kind == "cut":
        return content[:at]
    if kind == "flip":
        changed = bytearray(content)
        for _ in range(chance.randint(1, 20)):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        return bytes(changed)
    if kind == "zero":
        return content[:at] + bytes(min(64, len(content) - at)) + content[at + 64 :]
    return content[:at] + chance.randbytes(16) + content[at:] if kind == "insert" else chance.randbytes(200)


def with_mutated_record(content: bytes, chance: random.Random) -> bytes:
    """An archive that is whole, with other bytes in one record, or without it."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(result, "w") as target:
        chosen = chance.choice([name for name in source.namelist() if source.getinfo(name).file_size])
        for name in source.namelist():
            if name != chosen:
                target.writestr(name, source.read(name))
            elif chance.random() < 0.9:
                target.writestr(name, mutated(source.read(name), chance))
    return result.getvalue()


def test_mutated_files_are_refused_or_loaded(tmp_path: Path) -> None:
    """In a process of its own, which torch's readers must not take down."""
    run = subprocess.run(
        [sys.executable, __file__, str(tmp_path), os.environ.get("ONNXPORT_MUTATIONS", "200")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stdout + run.stderr[-2000:]


def read_whole(path: Path) -> None:
    for value in read_model(path).graph.initializers.values():
        if value.const_value is not None:
            value.const_value.numpy()


def main(folder: Path, count: int) -> None:
    chance = random.Random(0)
    script = folder / "script.pt"
    torch.jit.trace(torch.nn.Linear(4, 4), torch.ones(3, 4)).save(str(script))
    sources = {
        "safetensors": SAFETENSORS,
        "pt2": captured(folder).read_bytes(),
        "pt": script.read_bytes(),
        "onnx": onnx_model(folder).read_bytes(),
    }
    readers = {"safetensors": mapped_tensors, "onnx": read_whole}
    for number in range(count):
        kind = list(sources)[number % len(sources)]
        # Beside the model, whose data is found there.
        path = folder / f"bad{number}.{kind}"
        path.write_bytes(mutated(sources[kind], chance))
        if kind == "pt" and number % 8 < 4:
            path.write_bytes(with_mutated_record(sources[kind], chance))
        try:
            readers[kind](path) if kind in readers else load_model(str(path))
        except OnnxExporterError as error:
            assert str(path) in str(error)
        except Exception as error:  # noqa: BLE001 - what the test is about
            print(f"{path.name}: {type(error).__name__}: {error}")
    print("done")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
