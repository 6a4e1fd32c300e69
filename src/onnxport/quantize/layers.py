"""What quantizing did: each weight with its sizes and its error, what was left, and how far results moved."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

from onnxport.quantize.candidates import Left
from onnxport.quantize.lazy_weight import QuantizedWeight


@dataclass(frozen=True)
class QuantizedLayer:
    """One weight that was quantized.

    Attributes:
        name: The name of the weight.
        operators: The operators that read it.
        form: Its element type, and how many inputs share a scale.
        bytes_before: Its bytes in the model that was quantized.
        bytes_after: The bytes of its integers, scales and zero points.
        replaced: Whether the weight is gone from the file: something else may read it as it was (tied weights).
    """

    name: str
    operators: tuple[str, ...]
    form: str
    bytes_before: int
    bytes_after: int
    replaced: bool
    weight: QuantizedWeight = field(repr=False, compare=False)

    @functools.cached_property
    def error(self) -> float:
        """What rounding lost, as a part of the weight: the ratio of the roots of the mean squares."""
        return self.weight.error()


@dataclass
class QuantizationReport:
    """What quantizing a model did. Printing it gives a table.

    Attributes:
        layers: The weights that were quantized.
        left: The weights that were not, and why.
        scheme: What was asked for.
        converted: The weights that are stored in a 16-bit type.
        end_to_end: How far the results of the model moved on its example, if that was verified: by output, the ratio of
            the roots of the mean squares of difference and result.

    >>> import torch, onnxport
    >>> torch.manual_seed(0).seed() and None
    >>> program = onnxport.export(torch.nn.Linear(64, 32), (torch.randn(2, 64),), opset_version=21)
    >>> report = program.quantize("int4")
    >>> [(layer.name, layer.form, layer.bytes_before, layer.bytes_after) for layer in report.layers]
    [('weight', 'int4, blocks of 32', 8192, 1280)]
    """

    layers: Sequence[QuantizedLayer]
    left: Sequence[Left]
    scheme: str = ""
    converted: Sequence[str] = ()
    end_to_end: dict[str, float] = field(default_factory=dict)

    @property
    def bytes_before(self) -> int:
        """The bytes of all weights that were quantized, before."""
        return sum(layer.bytes_before for layer in self.layers)

    @property
    def bytes_after(self) -> int:
        """Their bytes now."""
        return sum(layer.bytes_after for layer in self.layers)

    def __str__(self) -> str:
        width = max([len(layer.name) for layer in self.layers] + [len(one.name) for one in self.left] + [6])
        lines = [f"{'weight':<{width}}  {'read by':<14} {'form':<20} {'bytes':>12} {'ratio':>6} {'error':>7}"]
        for layer in self.layers:
            ratio = layer.bytes_after / layer.bytes_before
            lines.append(
                f"{layer.name:<{width}}  {', '.join(layer.operators):<14} {layer.form:<20} "
                f"{layer.bytes_after:>12,} {ratio:>6.3f} {layer.error:>7.2%}"
            )
        lines += [f"{one.name:<{width}}  left as it is: {one.reason}" for one in self.left]
        if self.layers:
            ratio = self.bytes_after / self.bytes_before
            lines.append(
                f"{len(self.layers)} weights: {self.bytes_before:,} bytes became {self.bytes_after:,} ({ratio:.3f})."
            )
        if self.converted:
            lines.append(f"{len(self.converted)} weights are stored as {self.scheme}.")
        lines += [f"output {name}: moved by {error:.2%}" for name, error in self.end_to_end.items()]
        return "\n".join(lines)
