"""Modules over packed sequences, as people write them; all but a few can be scripted too."""

from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
)

FEATURES = 3
HIDDEN = 4
BATCH_FIRST = {"batch_first": True}

CELLS: dict[str, tuple[type[nn.RNNBase], dict[str, Any]]] = {
    "lstm": (nn.LSTM, {}),
    "gru": (nn.GRU, {}),
    "rnn": (nn.RNN, {}),
    "relu": (nn.RNN, {"nonlinearity": "relu"}),
}


def recurrent(cell: str, features: int = FEATURES, **options: Any) -> Any:
    """A recurrent layer by its name."""
    kind, own = CELLS[cell]
    return kind(features, HIDDEN, **own, **options)


class Packing(nn.Module):
    """What these modules have in common: how they pack, and how they pad."""

    total: Optional[int]  # noqa: UP045 (as scripts read it)

    def __init__(
        self,
        batch_first: bool = False,
        enforce_sorted: bool = True,
        padding_value: float = 0.0,
        total: int | None = None,
        pad_first: bool | None = None,
    ) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.enforce_sorted = enforce_sorted
        self.padding_value = padding_value
        self.total = total
        self.pad_first = batch_first if pad_first is None else pad_first

    def pack(self, x: Tensor, lengths: Tensor) -> PackedSequence:
        return pack_padded_sequence(x, lengths, self.batch_first, self.enforce_sorted)

    def pad(self, packed: PackedSequence) -> tuple[Tensor, Tensor]:
        return pad_packed_sequence(packed, self.pad_first, self.padding_value, self.total)


class Through(Packing):
    """Pack, one recurrent layer, pad."""

    def __init__(self, cell: str, options: dict[str, Any], **packing: Any) -> None:
        super().__init__(**packing)
        self.layer = recurrent(cell, batch_first=self.batch_first, **options)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Any]:
        raise NotImplementedError


class ThroughLSTM(Through):
    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        out, (h, c) = self.layer(self.pack(x, lengths))
        padded, counted = self.pad(out)
        return padded, counted, h, c


class ThroughOne(Through):
    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        out, h = self.layer(self.pack(x, lengths))
        padded, counted = self.pad(out)
        return padded, counted, h


class FromStatesLSTM(Through):
    def forward(self, x: Tensor, lengths: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        out, (h, c) = self.layer(self.pack(x, lengths), (h, c))
        padded, counted = self.pad(out)
        return padded, counted, h, c


class FromStatesOne(Through):
    def forward(self, x: Tensor, lengths: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        out, h = self.layer(self.pack(x, lengths), h)
        padded, counted = self.pad(out)
        return padded, counted, h


class ToInputLength(Packing):
    """Padded to as many steps as the input has, a size that varies."""

    def __init__(self, **packing: Any) -> None:
        super().__init__(**packing)
        self.layer = recurrent("gru", batch_first=self.batch_first)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        out, _ = self.layer(self.pack(x, lengths))
        steps = x.size(1 if self.batch_first else 0)
        padded, _ = pad_packed_sequence(out, self.batch_first, self.padding_value, steps)
        return padded + x.sum(2, keepdim=True)


class Classifier(Packing):
    """Embedding, LSTM over what is no padding, a linear layer on the last states."""

    def __init__(self, **packing: Any) -> None:
        super().__init__(**packing)
        self.embed = nn.Embedding(10, FEATURES)
        self.layer = recurrent("lstm", bidirectional=True, batch_first=self.batch_first)
        self.head = nn.Linear(2 * HIDDEN, 2)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        _, (h, _) = self.layer(self.pack(self.embed(tokens), lengths))
        return self.head(torch.cat([h[-2], h[-1]], 1))


class CountedLengths(Packing):
    """The lengths are counted from the tokens that are not padding."""

    def __init__(self, **packing: Any) -> None:
        super().__init__(**packing)
        self.embed = nn.Embedding(10, FEATURES)
        self.layer = recurrent("gru", batch_first=self.batch_first)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        lengths = tokens.ne(0).sum(1 if self.batch_first else 0)
        out, h = self.layer(self.pack(self.embed(tokens), lengths))
        return self.pad(out)[0], h


class ListedLengths(Packing):
    """The lengths as a list of numbers."""

    def __init__(self, **packing: Any) -> None:
        super().__init__(**packing)
        self.layer = recurrent("lstm", batch_first=self.batch_first)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        numbers = lengths.cpu().tolist()
        packed = pack_padded_sequence(x, numbers, self.batch_first, self.enforce_sorted)
        out, (h, _) = self.layer(packed)
        return self.pad(out)[0], h


class FixedLengths(Packing):
    """The lengths stand in the code: the batch is as many, the features in each step vary."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        packed = pack_padded_sequence(x, [4, 2, 1], self.batch_first, self.enforce_sorted)
        return self.pad(packed)


class OnData(Packing):
    """Layers on the packed rows before and after a recurrent one."""

    def __init__(self, cell: str = "gru", **packing: Any) -> None:
        super().__init__(**packing)
        self.first = nn.Linear(FEATURES, FEATURES)
        self.norm = nn.LayerNorm(HIDDEN)
        self.layer = recurrent(cell)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        p = self.pack(x, lengths)
        p = PackedSequence(torch.relu(self.first(p.data)) * 2, p.batch_sizes, p.sorted_indices, p.unsorted_indices)
        out, h = self.layer(p)
        rows = torch.sigmoid(self.norm(out.data)) + 1
        done = PackedSequence(rows, out.batch_sizes, out.sorted_indices, out.unsorted_indices)
        return self.pad(done)[0], h


class Replaced(Packing):
    """Rows put in by ``_replace``, which scripts don't know."""

    def __init__(self, **packing: Any) -> None:
        super().__init__(**packing)
        self.layer = recurrent("lstm")
        self.out = nn.Linear(HIDDEN, 2)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        out, _ = self.layer(self.pack(x, lengths)._replace(data=self.pack(x * 2, lengths).data + 1))
        return self.pad(out._replace(data=self.out(out.data)))[0]


class Rows(Packing):
    """The rows themselves, and what is computed over all of them."""

    def __init__(self, **packing: Any) -> None:
        super().__init__(**packing)
        self.layer = recurrent("gru")

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        p = self.pack(x, lengths)
        out, _ = self.layer(p)
        return out.data, out.batch_sizes, p.data.mean(), out.data.sum(0), torch.softmax(out.data, 0)


class Counts(Packing):
    """Numbers that are read off a packed sequence."""

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        p = self.pack(x, lengths)
        ones = torch.ones(p.batch_sizes[0].item(), p.data.size(1))
        return ones + x.sum(1 if self.batch_first else 0), p.data / p.data.size(0)


class Encoder(nn.Module):
    """A module that takes a packed sequence and gives one."""

    def __init__(self, features: int, both: bool = False) -> None:
        super().__init__()
        self.layer = nn.LSTM(features, HIDDEN, bidirectional=both)

    def forward(self, p: PackedSequence) -> tuple[PackedSequence, Tensor]:
        out, (h, _) = self.layer(p)
        return out, h


class Stacked(Packing):
    """Two modules one after another, and what the first gave added to what the second gives."""

    def __init__(self, **packing: Any) -> None:
        super().__init__(**packing)
        self.low = Encoder(FEATURES)
        self.high = Encoder(HIDDEN)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        low, h = self.low(self.pack(x, lengths))
        high, g = self.high(low)
        total = PackedSequence(low.data + high.data, high.batch_sizes, high.sorted_indices, high.unsorted_indices)
        return self.pad(total)[0], h, g


class TwoPackings(Packing):
    """Two batches of sequences with lengths of their own: an encoder whose last state starts a decoder."""

    def __init__(self, **packing: Any) -> None:
        super().__init__(**packing)
        self.encoder = recurrent("gru", batch_first=self.batch_first)
        self.decoder = recurrent("gru", batch_first=self.batch_first)

    def forward(self, x: Tensor, lengths: Tensor, y: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        _, h = self.encoder(self.pack(x, lengths))
        out, h = self.decoder(self.pack(y, others), h)
        return self.pad(out)[0], h


class Attended(Packing):
    """What an LSTM gives is weighed over time, padding left out."""

    def __init__(self, **packing: Any) -> None:
        super().__init__(**packing)
        self.layer = recurrent("lstm", bidirectional=True, batch_first=True)
        self.score = nn.Linear(2 * HIDDEN, 1)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        out, _ = self.layer(self.pack(x, lengths))
        padded, counted = pad_packed_sequence(out, batch_first=True)
        outside = torch.arange(padded.size(1)).unsqueeze(0) >= counted.unsqueeze(1)
        weights = torch.softmax(self.score(padded).squeeze(2).masked_fill(outside, -1e9), 1)
        return (weights.unsqueeze(2) * padded).sum(1)


class LastStep(Packing):
    """The output at each sequence's last step, gathered."""

    def __init__(self, **packing: Any) -> None:
        super().__init__(**packing)
        self.layer = recurrent("rnn", batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        out, _ = self.layer(self.pack(x, lengths))
        padded, counted = pad_packed_sequence(out, batch_first=True)
        places = (counted - 1).unsqueeze(1).unsqueeze(2).expand(-1, 1, padded.size(2))
        return padded.gather(1, places).squeeze(1)


class Repacked(Packing):
    """Padded, computed with, and packed again by the lengths that padding gave."""

    def __init__(self, **packing: Any) -> None:
        super().__init__(**packing)
        self.low = recurrent("lstm", batch_first=True)
        self.high = recurrent("gru", HIDDEN, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        low, _ = self.low(self.pack(x, lengths))
        padded, counted = pad_packed_sequence(low, batch_first=True)
        high, h = self.high(pack_padded_sequence(padded.tanh(), counted, True, self.enforce_sorted))
        return pad_packed_sequence(high, batch_first=True)[0], h


class Flat(Packing):
    """Sequences of numbers, and of matrices: any number of axes behind time and batch."""

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        p = self.pack(x, lengths)
        return self.pad(PackedSequence(p.data * 3, p.batch_sizes, p.sorted_indices, p.unsorted_indices))


class OfList(nn.Module):
    """Sequences of lengths of their own, given one by one."""

    def __init__(self, enforce_sorted: bool, batch_first: bool = False) -> None:
        super().__init__()
        self.enforce_sorted = enforce_sorted
        self.batch_first = batch_first
        self.layer = nn.GRU(FEATURES, HIDDEN, bidirectional=True)

    def forward(self, x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        out, h = self.layer(pack_sequence([x, y, z], self.enforce_sorted))
        padded, counted = pad_packed_sequence(out, self.batch_first)
        return padded, counted, h


class Padded(nn.Module):
    """``pad_sequence`` alone."""

    def __init__(self, batch_first: bool, padding_value: float, side: str) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.padding_value = padding_value
        self.side = side

    def forward(self, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        return pad_sequence([x, y, z], self.batch_first, self.padding_value, self.side) * 2


class Unpacked(Packing):
    """A list of sequences, each as long as it is: as many as the example has."""

    def __init__(self, **packing: Any) -> None:
        super().__init__(**packing)
        self.layer = recurrent("gru", batch_first=self.batch_first)

    def forward(self, x: Tensor, lengths: Tensor) -> list[Tensor]:
        out, _ = self.layer(self.pack(x, lengths))
        return unpack_sequence(out)


class GivenPacked(nn.Module):
    """A packed sequence is what the model takes."""

    def __init__(self, cell: str = "gru") -> None:
        super().__init__()
        self.layer = recurrent(cell)

    def forward(self, p: PackedSequence) -> tuple[Tensor, Tensor]:
        out, _ = self.layer(p)
        return pad_packed_sequence(out)


class GivesPacked(Packing):
    """A packed sequence is what the model gives."""

    def __init__(self, **packing: Any) -> None:
        super().__init__(**packing)
        self.layer = recurrent("gru")

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[PackedSequence, Tensor]:
        out, h = self.layer(self.pack(x, lengths))
        return out, h


class InBranches(nn.Module):
    """Packed in the branches of a condition on data, or before it."""

    def __init__(self, before: bool) -> None:
        super().__init__()
        self.before = before
        self.layer = nn.GRU(FEATURES, HIDDEN, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, lengths, True, False)
        if bool(lengths.sum() > 10):
            return pad_packed_sequence(self.layer(packed)[0], True, total_length=9)[0]
        if not self.before:
            packed = pack_padded_sequence(x * 2, lengths, True, False)
        return pad_packed_sequence(self.layer(packed)[0], True, total_length=9)[0] - 1


class InLoop(nn.Module):
    """Packed and padded as often as a tensor says."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(FEATURES, FEATURES, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor, count: Tensor) -> Tensor:
        for _ in range(int(count)):
            out, _h = self.layer(pack_padded_sequence(x, lengths, True, False))
            x = pad_packed_sequence(out, True, total_length=x.size(1))[0]
        return x
