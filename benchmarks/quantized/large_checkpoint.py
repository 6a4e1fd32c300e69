"""Quantize a checkpoint of eight billion parameters while it is exported, and say what that took: ``make large-int4``.

The weights are one random block, repeated, in safetensors files that are removed afterwards: 16 GB, and 6 GB more.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
_BLOCK = 1 << 25
_GIGABYTE = 1e9


@dataclass(frozen=True)
class Shape:
    """The sizes of a Llama-style model; by default those of the one with eight billion parameters."""

    layers: int = 32
    hidden: int = 4096
    inner: int = 14336
    heads: int = 32
    key_heads: int = 8
    vocabulary: int = 128256

    def weights(self) -> dict[str, list[int]]:
        """The names and shapes of all weights."""
        keys = self.hidden // self.heads * self.key_heads
        found = {"model.embed_tokens.weight": [self.vocabulary, self.hidden]}
        for layer in range(self.layers):
            here = f"model.layers.{layer}"
            for name, rows in (("q", self.hidden), ("k", keys), ("v", keys), ("o", self.hidden)):
                found[f"{here}.self_attn.{name}_proj.weight"] = [rows, self.hidden]
            found[f"{here}.mlp.gate_proj.weight"] = [self.inner, self.hidden]
            found[f"{here}.mlp.up_proj.weight"] = [self.inner, self.hidden]
            found[f"{here}.mlp.down_proj.weight"] = [self.hidden, self.inner]
            found[f"{here}.input_layernorm.weight"] = [self.hidden]
            found[f"{here}.post_attention_layernorm.weight"] = [self.hidden]
        return found | {"model.norm.weight": [self.hidden], "lm_head.weight": [self.vocabulary, self.hidden]}

    def write_config(self, folder: Path) -> None:
        """Write what transformers builds the model from."""
        from transformers import LlamaConfig

        LlamaConfig(
            vocab_size=self.vocabulary,
            hidden_size=self.hidden,
            intermediate_size=self.inner,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.key_heads,
            max_position_embeddings=8192,
            tie_word_embeddings=False,
            architectures=["LlamaForCausalLM"],
            dtype="bfloat16",
        ).save_pretrained(folder)


def write_checkpoint(shape: Shape, folder: Path, files: int = 4) -> int:
    """Write weights of bfloat16 into some safetensors files, and give how many numbers they hold."""
    shape.write_config(folder)
    block = (torch.randn(_BLOCK, generator=torch.Generator().manual_seed(0)) * 0.02).to(torch.bfloat16)
    data = memoryview(block.view(torch.uint8).numpy()).cast("B")
    weights = list(shape.weights().items())
    where = {}
    for number in range(files):
        name = f"model-{number + 1:05}-of-{files:05}.safetensors"
        part = dict(weights[number::files])
        where |= dict.fromkeys(part, name)
        with (folder / name).open("wb") as file:
            file.write(_header(part))
            for sizes in part.values():
                _repeat(data, 2 * math.prod(sizes), file.write)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}), encoding="utf-8")
    return sum(math.prod(sizes) for _, sizes in weights)


def _header(part: dict[str, list[int]]) -> bytes:
    described, start = {}, 0
    for name, sizes in part.items():
        end = start + 2 * math.prod(sizes)
        described[name] = {"dtype": "BF16", "shape": sizes, "data_offsets": [start, end]}
        start = end
    text = json.dumps(described).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _repeat(data: memoryview, count: int, write: Callable[[memoryview], object]) -> None:
    while count > 0:
        write(data[: min(count, len(data))])
        count -= len(data)


@dataclass(frozen=True)
class Cost:
    """What an export took: bytes of memory at most, with and without pages of mapped files, seconds, bytes written."""

    resident: int
    own: int
    seconds: float
    processor_seconds: float
    file_bytes: int


class _Watch(threading.Thread):
    """Looks at the memory of the process again and again; a thread that is told to stop by ``done``."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.done = threading.Event()
        self.resident = self.own = 0

    def run(self) -> None:
        while not self.done.wait(0.02):
            lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
            self.resident = max(self.resident, int(lines["VmHWM"].split()[0]) * 1024)
            self.own = max(self.own, int(lines["RssAnon"].split()[0]) * 1024)


def export_here(checkpoint: Path, out: Path, scheme: str) -> Cost:
    """Export a checkpoint in this process, and say what it took from before onnxport is imported."""
    watch = _Watch()
    watch.start()
    start = time.perf_counter()
    import onnxport

    onnxport.export_pretrained(checkpoint, out, quantize=scheme, target="onnxruntime", verify=False)
    seconds = time.perf_counter() - start
    watch.done.set()
    watch.join()
    used = resource.getrusage(resource.RUSAGE_SELF)
    size = sum(path.stat().st_size for path in out.glob("model.onnx*"))
    return Cost(watch.resident, watch.own, seconds, used.ru_utime + used.ru_stime, size)


def main() -> None:
    """Write the checkpoint, export it in a process of its own, print what that took, and remove both."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantized.large_checkpoint", description=__doc__)
    parser.add_argument("--layers", type=int, default=Shape.layers)
    parser.add_argument("--scheme", default="int4")
    parser.add_argument("--folder", type=Path, help="where to write; 25 GB must be free")
    parser.add_argument("--export", nargs=2, type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.export is not None:
        print(json.dumps(asdict(export_here(*given.export, given.scheme))))
        return
    folder = Path(tempfile.mkdtemp(dir=given.folder))
    try:
        checkpoint, out = folder / "checkpoint", folder / "exported"
        checkpoint.mkdir()
        count = write_checkpoint(Shape(layers=given.layers), checkpoint)
        command = [sys.executable, "-m", "benchmarks.quantized.large_checkpoint", "--scheme", given.scheme]
        command += ["--export", str(checkpoint), str(out)]
        finished = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, env=os.environ)
        cost = Cost(**json.loads(finished.stdout.splitlines()[-1]))
    finally:
        shutil.rmtree(folder)
    print(
        f"{count / _GIGABYTE:.2f} billion parameters: {cost.own / _GIGABYTE:.2f} GB of memory, "
        f"{cost.resident / _GIGABYTE:.2f} GB with the pages of mapped files, {cost.seconds:.0f} s "
        f"({cost.processor_seconds:.0f} s of one core), {cost.file_bytes / _GIGABYTE:.2f} GB written"
    )


if __name__ == "__main__":
    main()
