"""What packed sequences are in the file, and what is refused or warned of, with the line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import packed_programs as programs
import pytest
import torch
from packed_runs import tensors
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence, unpack_sequence

import onnxport
from comparison import assert_agrees, assert_close, exported_and_compared
from onnxport.errors import DynamicShapeError

EXAMPLE = (torch.randn(3, 6, 3), torch.tensor([2, 5, 3]))
OTHER = (torch.randn(4, 9, 3), torch.tensor([2, 7, 1, 2]))
AXES: list[dict[int, str] | None] = [{0: "batch", 1: "time"}, {0: "batch"}]


def pack(x: torch.Tensor, lengths: Any) -> PackedSequence:
    return pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)


def exported(function: Callable[..., Any], **options: Any) -> onnxport.ONNXProgram:
    return exported_and_compared(function, EXAMPLE, OTHER, axes=AXES, **options)


def kinds(program: onnxport.ONNXProgram) -> list[str]:
    return [node.op_type for node in program.model.graph]


@pytest.mark.parametrize(("cell", "kind"), [("lstm", "LSTM"), ("gru", "GRU"), ("relu", "RNN")])
def test_a_layer_between_packing_and_padding_takes_the_lengths(cell: str, kind: str) -> None:
    model = getattr(programs, "ThroughLSTM" if cell == "lstm" else "ThroughOne")(
        cell, {"num_layers": 2}, batch_first=True, enforce_sorted=False
    )
    program = exported(model.eval())
    found = [node for node in program.model.graph if node.op_type == kind]
    assert len(found) == 2
    lengths = [node.inputs[4] for node in found]
    assert all(value is not None and str(value.shape) == "[batch]" for value in lengths)
    # The packed rows are not there.
    assert not {"Compress", "CumSum", "NonZero"} & set(kinds(program))


def test_modules_one_after_another_keep_the_padded_form() -> None:
    class Chain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.low = programs.Encoder(3)
            self.high = programs.Encoder(4, both=True)

        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
            return pad_packed_sequence(self.high(self.low(pack(x, lengths))[0])[0], batch_first=True)

    program = exported(Chain().eval())
    assert kinds(program).count("LSTM") == 2
    assert "Compress" not in kinds(program)


def test_padding_to_the_length_of_the_input_cuts_nothing() -> None:
    program = exported(programs.ToInputLength(batch_first=True, enforce_sorted=False).eval())
    assert not {"Slice", "Pad"} & set(kinds(program))


def test_rows_are_taken_and_put_back_where_something_else_looks_at_them() -> None:
    program = exported(programs.OnData(batch_first=True, enforce_sorted=False).eval())
    assert kinds(program).count("Compress") == 2
    assert kinds(program).count("GRU") == 1


SHAPES_AND_NUMBERS = {
    "the batch as a number": lambda x, n: torch.ones(pack(x, n).batch_sizes[0].item(), 2) + n.unsqueeze(1),
    "the batch as a tensor": lambda x, n: torch.zeros(2, pack(x, n).batch_sizes[0], 3) + n.unsqueeze(1),
    "the batch as a plain number": lambda x, n: torch.ones(int(pack(x, n).batch_sizes[0]), 2),
    "the longest of a list": lambda x, n: pad_packed_sequence(pack(x, n), True, 0.0, max(n.tolist()))[0],
    "the steps": lambda x, n: torch.ones(pack(x, n).batch_sizes.size(0)),
    "the longest as a total": lambda x, n: pad_packed_sequence(pack(x, n), True, 0.0, n.max().item())[0],
    "another dtype": lambda x, n: pad_packed_sequence(pack(x, n.int()).double(), True),
    "lengths of lengths": lambda x, n: pad_packed_sequence(pack(x, pad_packed_sequence(pack(x, n), True)[1]), True),
    "copied batch sizes": lambda x, n: pad_packed_sequence(PackedSequence(pack(x, n).data, pack(x, n).batch_sizes + 0)),
}


@pytest.mark.parametrize("what", SHAPES_AND_NUMBERS)
def test_what_is_read_off_packed_sequences(what: str) -> None:
    exported(SHAPES_AND_NUMBERS[what])


def test_rows_written_in_place() -> None:
    def scaled(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = pack(x, lengths)
        packed.data.mul_(2)
        return pad_packed_sequence(packed, batch_first=True)

    exported(scaled)


def test_fewer_sequences_than_were_packed() -> None:
    def first(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = pack(x, lengths)
        sizes = packed.batch_sizes.clamp(max=1)
        rows = packed.data[packed.batch_sizes.cumsum(0) - packed.batch_sizes]
        return pad_packed_sequence(PackedSequence(rows, sizes))

    exported(first)


def test_a_list_of_as_many_sequences_as_the_batch_has_is_refused() -> None:
    with pytest.raises(DynamicShapeError, match=r"'batch', but the model forces it to be 3.\s+at .*test_packed_graphs"):
        exported(lambda x, lengths: unpack_sequence(pack(x, lengths)))


def test_the_number_of_steps_stays_open() -> None:
    def looped(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return torch.ones(len(pack(x, lengths).batch_sizes)) * x.sum()

    exported(looped)


def test_lengths_of_numpy_are_lengths() -> None:
    def packed(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return pad_packed_sequence(pack(x, lengths.numpy()), batch_first=True)[0]

    exported(packed)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_script_gives_as_many_sequences_as_there_are() -> None:
    model = programs.Unpacked(batch_first=True, enforce_sorted=False).eval()
    script = torch.jit.script(model)
    program = onnxport.export(script, EXAMPLE, dynamic_shapes=AXES)
    for example in (EXAMPLE, OTHER):
        with torch.no_grad():
            assert_close(list(tensors(list(program(*example)))), list(tensors(model(*example))))


FEW = (torch.randn(4, 9, 3), torch.tensor([1, 2, 1, 2]))


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_packing_in_branches_of_a_script(before: bool) -> None:
    model = programs.InBranches(before).eval()
    program = onnxport.export(torch.jit.script(model), EXAMPLE, dynamic_shapes=AXES)
    assert_agrees(program, model, EXAMPLE, OTHER, FEW)
    assert "If" in kinds(program)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_packing_in_a_loop_of_a_script() -> None:
    model = programs.InLoop().eval()
    example, other = (*EXAMPLE, torch.tensor(2)), (*OTHER, torch.tensor(3))
    program = onnxport.export(torch.jit.script(model), example, dynamic_shapes=(*AXES, None))
    assert_agrees(program, model, example, other)
    assert "Loop" in kinds(program)


LISTED = {
    "tensors of sizes": lambda x, n: torch.tensor([x.size(0), 2, x.size(1)]) + torch.as_tensor((n[0], n[1])).sum(),
    "sizes among numbers": lambda x, n: torch.tensor([[x.size(0), 1.5], [2, 3]]),
    "a list that becomes a tensor": lambda x, n: (
        torch.as_tensor(n.tolist()) + torch.tensor(n.tolist(), dtype=torch.float32)
    ),
    "floats of a list": lambda x, n: torch.tensor((n / 3).double().tolist()),
    "sizes that are tensors": lambda x, n: torch.ones((n[1], 2)) + torch.full((n[0], 2), 3.0).sum() + torch.zeros(2),
}


@pytest.mark.parametrize("what", LISTED)
def test_numbers_in_and_out_of_tensors(what: str) -> None:
    exported(LISTED[what])


def test_a_number_is_read_again_after_a_write() -> None:
    def ranges(x: torch.Tensor, lengths: torch.Tensor) -> list[torch.Tensor]:
        counts = lengths.clone()
        found = [torch.arange(counts[0].item()) + counts[0].item()]
        counts[0] += 2
        found.append(torch.arange(counts[0].item()))
        counts.mul_(2)
        return [*found, torch.arange(counts[0].item())]

    exported(ranges)
