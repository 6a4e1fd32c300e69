"""Decode with int4 weights, our file beside the one of onnxruntime-genai's builder: ``make int4-decoding``.

A Llama-style model of 134 million parameters with random weights. Both files run in onnxruntime in turns, each in the
same loop: the results of a step are the cache of the next. The loss is that of fixed random text, from both files.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import torch

import onnxport
from benchmarks.measure import quiet
from benchmarks.pages import write_block

_VOCABULARY, _HEADS, _HEAD_SIZE = 32000, 12, 64
_STEPS = 16

Arrays = Mapping[str, npt.NDArray[Any]]


def write_checkpoint(folder: Path) -> None:
    """Write a checkpoint with random weights, and a tokenizer whose words are numbers, which the builder asks for."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=_VOCABULARY,
        hidden_size=_HEADS * _HEAD_SIZE,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=_HEADS,
        num_key_value_heads=_HEADS,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    words = Tokenizer(models.WordLevel({f"w{number}": number for number in range(_VOCABULARY)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = {"bos_token": "w1", "eos_token": "w2", "unk_token": "w0", "pad_token": "w0"}
    PreTrainedTokenizerFast(tokenizer_object=words, **marks).save_pretrained(folder)


def build_theirs(checkpoint: Path, out: Path) -> None:
    """Let onnxruntime-genai's builder write its int4 model, which it does in a process of its own."""
    command = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", str(checkpoint), "-o", str(out)]
    command += ["-p", "int4", "-e", "cpu", "-c", str(out.parent / "cache")]
    subprocess.run(command, check=True, capture_output=True)


def export_ours(checkpoint: Path, out: Path) -> None:
    """Write our int4 model, with the accuracy level that the builder has."""
    way = onnxport.Quantization("int4", accuracy_level=4)
    with quiet():
        onnxport.export_pretrained(checkpoint, out, quantize=way, target="onnxruntime", verify=False)


class Decoder:
    """A file in onnxruntime, and one sequence that it goes on with."""

    def __init__(self, folder: Path, threads: int, profile: Path | None = None) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        if profile is not None:
            options.enable_profiling, options.profile_file_prefix = True, str(profile)
        self.session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options)
        self._outputs = [value.name for value in self.session.get_outputs()]

    def start(self, tokens: npt.NDArray[np.int64]) -> None:
        """Read a prompt."""
        self._past: Arrays | None = None
        self._length = 0
        self._next = tokens[None]
        self.step()

    def step(self) -> None:
        """Read the tokens that are next, and choose the one after them."""
        found = self._run(self._next)
        self._length += self._next.shape[1]
        self._past = found
        self._next = found["logits"][:, -1].argmax(-1)[:, None]

    def loss(self, text: npt.NDArray[np.int64]) -> float:
        """The mean of the negative logarithms of what each token is given."""
        lost = []
        for row in text:
            self._past, self._length = None, 0
            logits = torch.from_numpy(self._run(row[None])["logits"][0, :-1]).double()
            lost.append(torch.nn.functional.cross_entropy(logits, torch.from_numpy(row[1:])))
        return float(torch.stack(lost).mean())

    def _run(self, tokens: npt.NDArray[np.int64]) -> Arrays:
        end = self._length + tokens.shape[1]
        given: dict[str, npt.NDArray[Any]] = {"input_ids": tokens}
        for value in self.session.get_inputs()[1:]:
            if value.name == "attention_mask":
                given[value.name] = np.ones((1, end), np.int64)
            elif value.name == "position_ids":
                given[value.name] = np.arange(self._length, end)[None]
            elif self._past is None:
                given[value.name] = np.zeros((1, _HEADS, 0, _HEAD_SIZE), np.float32)
            else:
                given[value.name] = self._past[value.name.replace("past_key_values", "present")]
        return dict(zip(self._outputs, self.session.run(None, given), strict=True))


@dataclass(frozen=True)
class Measured:
    """Ours and theirs, in this order: tokens in a second, bytes, loss, milliseconds of a step by operator."""

    tokens: tuple[float, float]
    ratio: float
    sizes: tuple[int, int]
    losses: tuple[float, float]
    operators: tuple[dict[str, float], dict[str, float]]

    def __str__(self) -> str:
        products, others = zip(*map(_parts, self.operators), strict=True)
        return "\n".join(
            [
                "| | onnxport | builder | ratio |",
                "|---|---:|---:|---:|",
                f"| tokens in a second | {self.tokens[0]:.1f} | {self.tokens[1]:.1f} | {self.ratio:.3f} |",
                f"| MatMulNBits, ms | {products[0]:.2f} | {products[1]:.2f} | {products[0] / products[1]:.3f} |",
                f"| everything else, ms | {others[0]:.2f} | {others[1]:.2f} | {others[0] / others[1]:.3f} |",
                f"| bytes of the file | {self.sizes[0]:,} | {self.sizes[1]:,} | {self.sizes[0] / self.sizes[1]:.4f} |",
                f"| loss | {self.losses[0]:.4f} | {self.losses[1]:.4f} | {self.losses[0] / self.losses[1]:.5f} |",
            ]
        )


def _parts(operators: Mapping[str, float]) -> tuple[float, float]:
    products = operators["MatMulNBits"]
    return products, sum(operators.values()) - products


def measure(folders: tuple[Path, Path], threads: int, turns: int) -> Measured:
    """Run both files in turns."""
    draw = np.random.default_rng(0)
    prompt, text = draw.integers(3, _VOCABULARY, 32), draw.integers(3, _VOCABULARY, (4, 128))
    decoders = [Decoder(folder, threads) for folder in folders]
    losses = tuple(decoder.loss(text) for decoder in decoders)
    for decoder in decoders:
        decoder.start(prompt)
    speeds: list[list[float]] = [[], []]
    for turn in range(turns):
        # Whoever runs second finds a hotter core: take turns.
        for index in (0, 1) if turn % 2 else (1, 0):
            start = time.perf_counter()
            for _ in range(_STEPS):
                decoders[index].step()
            speeds[index].append(_STEPS / (time.perf_counter() - start))
    ratio = statistics.median(ours / theirs for ours, theirs in zip(*speeds, strict=True))
    sizes = tuple(sum(path.stat().st_size for path in folder.glob("model.onnx*")) for folder in folders)
    tokens = (statistics.median(speeds[0]), statistics.median(speeds[1]))
    operators = tuple(_by_operator(folder, threads, prompt) for folder in folders)
    return Measured(tokens, ratio, (sizes[0], sizes[1]), (losses[0], losses[1]), (operators[0], operators[1]))


def _by_operator(folder: Path, threads: int, prompt: npt.NDArray[np.int64]) -> dict[str, float]:
    """The milliseconds of each operator in a step."""
    decoder = Decoder(folder, threads, folder / "profile")
    decoder.start(prompt)
    for _ in range(2 * _STEPS):
        decoder.step()
    path = Path(decoder.session.end_profiling())
    events = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()
    spent: Counter[str] = Counter()
    runs = [event["ts"] for event in events if event.get("name") == "model_run"]
    for event in events:
        # The prompt is the first run.
        if event.get("cat") == "Node" and event["name"].endswith("kernel_time") and event["ts"] >= sorted(runs)[1]:
            spent[event["args"]["op_name"]] += event["dur"]
    return {name: microseconds / 1000 / (2 * _STEPS) for name, microseconds in spent.items()}


def main() -> None:
    """Write both files where they are not there yet, measure, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantized.decoding", description=__doc__)
    parser.add_argument("--files", type=Path, default=Path("build/int4"), help="where files are, or are written")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--write", type=Path, help="the page that has the table between two marks")
    given = parser.parse_args()
    checkpoint, ours, theirs = (given.files / name for name in ("checkpoint", "ours", "theirs"))
    if not checkpoint.exists():
        write_checkpoint(checkpoint)
    if not theirs.exists():
        build_theirs(checkpoint, theirs)
    if not ours.exists():
        export_ours(checkpoint, ours)
    text = str(measure((ours, theirs), given.threads, given.turns))
    print(text)
    if given.write is not None:
        write_block(given.write, "decoding", text)


if __name__ == "__main__":
    main()
