"""Decoding in onnxruntime: the time of one token with a filled cache, of our files and of others', in one loop.

``--prepare`` builds the model with random weights and writes a folder for each exporter; without it the folders are
timed in turns, each with its own cache. The folder of onnxruntime-genai's builder is made by
``make decoding``, which has the environment for it; a folder that is not there is left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.latency.models import Step
from onnxport.generation.decoder_model import DecoderModel, Decoding
from onnxport.program.runtime import to_ort_value
from onnxport.weights.torch_tensor import TorchTensor

if TYPE_CHECKING:
    import onnxruntime

SIZES: dict[str, dict[str, int]] = {
    "134M": {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12},
    "1B": {
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_hidden_layers": 22,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
    },
}
POSITIONS = (128, 1024)
_TURNS = 5
OURS, PLAIN, TORCH, BUILDER = "onnxruntime", "default", "torch.onnx", "builder"


def prepare(size: str, folder: Path) -> None:
    """Write the checkpoint, and the folders of exporters that are here."""
    from transformers import LlamaConfig, LlamaForCausalLM

    import onnxport

    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=32_000, max_position_embeddings=2048, pad_token_id=0, **SIZES[size])
    model = LlamaForCausalLM(config).eval()
    model.save_pretrained(folder / "checkpoint")
    _write_tokenizer(folder / "checkpoint")
    onnxport.export_pretrained(model, folder / OURS, target="onnxruntime", verify=False)
    onnxport.export_pretrained(model, folder / PLAIN, verify=False)
    (folder / TORCH).mkdir(exist_ok=True)
    _export_by_torch(model, folder / TORCH / "model.onnx")


def _write_tokenizer(checkpoint: Path) -> None:
    """A tokenizer of five words, without which the builder makes nothing."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = {word: index for index, word in enumerate(("<unk>", "<s>", "</s>", "a", "b"))}
    made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    wrapped = PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    wrapped.save_pretrained(checkpoint)


def _export_by_torch(model: Any, path: Path) -> None:
    from torch.export import Dim

    config = model.config
    heads, size, layers = config.num_key_value_heads, config.head_dim, config.num_hidden_layers
    cache = [torch.randn(2, heads, 40, size) for _ in range(2 * layers)]
    batch, past = Dim("batch"), Dim("past", min=2)
    names = [f"{layer}.{kind}" for layer in range(layers) for kind in ("key", "value")]
    torch.onnx.export(  # noqa: TID251 - the other side of the comparison
        Step(model),
        (torch.randint(0, 30_000, (2, 1)), torch.ones(2, 41, dtype=torch.int64), cache),
        path,
        dynamo=True,
        external_data=True,
        dynamic_shapes=({0: batch}, {0: batch, 1: past + 1}, [{0: batch, 2: past}] * (2 * layers)),
        input_names=["input_ids", "attention_mask", *(f"past_key_values.{name}" for name in names)],
        output_names=["logits", *(f"present.{name}" for name in names)],
    )


class TimedDecoder(DecoderModel):
    """A decoder whose cache is full of random numbers from the start."""

    def __init__(
        self, session: onnxruntime.InferenceSession, seen: int, heads: int, size: int, *, buffers: bool
    ) -> None:
        super().__init__(session)
        self.seen, self.heads, self.size = seen, heads, size
        if buffers:
            self.buffers = frozenset(self.states)

    def empty_states(self, batch: int, positions: int) -> dict[str, onnxruntime.OrtValue]:
        made = {}
        for name in self.states:
            length = positions if name in self.buffers else self.seen
            filled = torch.randn(batch, self.heads, length, self.size)
            made[name] = to_ort_value(TorchTensor(filled))
        return made


class Timed:
    """One file while it decodes, and the seconds of its steps."""

    def __init__(self, folder: Path, seen: int, steps: int, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options)
        self.name, self.seen, self.seconds = folder.name, seen, list[float]()
        config = json.loads((folder.parent / "checkpoint" / "config.json").read_text(encoding="utf-8"))
        heads, size = config["num_key_value_heads"], config["head_dim"]
        model = TimedDecoder(session, seen, heads, size, buffers=folder.name == BUILDER)
        self._decoding: Decoding = model.start(1, seen + steps)

    def step(self) -> None:
        self.seen += 1
        tokens, mask = torch.full((1, 1), 5), torch.ones(1, self.seen, dtype=torch.int64)
        start = time.perf_counter()
        self._decoding.advance(tokens, mask)
        self.seconds.append(time.perf_counter() - start)


def timed(folder: Path, positions: int, steps: int, threads: int) -> dict[str, float]:
    """The median of milliseconds a token, by exporter; in turns, of which each has the machine to itself.

    The threads of a session that waits go on looking for work, so that another would share its cores with them.
    """
    names = [name for name in (OURS, PLAIN, TORCH, BUILDER) if (folder / name / "model.onnx").is_file()]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(_TURNS):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            file = Timed(folder / name, positions, steps, threads)
            for _ in range(steps):
                file.step()
            seconds[name].append(statistics.median(file.seconds[steps // 5 :]))
            del file
    return {name: 1000 * statistics.median(found) for name, found in seconds.items()}


def _row(size: str, positions: int, found: dict[str, float]) -> str:
    ours = found[OURS]
    cells = [
        f"{found[name]:.1f} ({found[name] / ours:.2f})" if name in found else "–" for name in (PLAIN, TORCH, BUILDER)
    ]
    return f"| {size} | {positions:,} | {ours:.1f} | {' | '.join(cells)} |"


def main() -> None:
    """Prepare the folders of a model, or time them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the folders of exporters are")
    parser.add_argument("--size", choices=SIZES, default="134M")
    parser.add_argument("--prepare", action="store_true", help="write the folders")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    if asked.prepare:
        asked.folder.mkdir(parents=True, exist_ok=True)
        prepare(asked.size, asked.folder)
        return
    rows = []
    for positions in POSITIONS:
        rows.append(_row(asked.size, positions, timed(asked.folder, positions, asked.steps, asked.threads)))
    print("\n".join(rows))


if __name__ == "__main__":
    main()
