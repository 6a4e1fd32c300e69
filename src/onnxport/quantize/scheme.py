"""What a model is quantized to: one frozen object, or the name of a scheme that stands for one with defaults."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Literal, get_args

import onnx_ir as ir

from onnxport.errors import InputError
from onnxport.quantize.calibration import RangeMethod

Scheme = Literal["int8", "int4", "uint4", "dynamic-int8", "static-int8", "float16", "bfloat16"]
Refinement = Literal["hqq"]

_BLOCK_SIZES = (16, 32, 64, 128, 256)
_DEFAULT_BLOCK = 32


@dataclass(frozen=True)
class Quantization:
    """How the weights of a model are written, as ``export(quantize=...)`` and ``ONNXProgram.quantize`` take it.

    ``"int8"``, ``"int4"`` and ``"uint4"`` keep the weights of products (MatMul, Gemm), and on request of embeddings, as
    integers with a scale for each block of their inputs; results are computed in the type that the model has.
    Convolutions and recurrent layers have 8 bits and a scale for each channel in all three. What would not become
    smaller stays as it is.

    ``"dynamic-int8"`` also rounds the other side of each product to 8 bits, by its range at run time, and multiplies
    integers. ``"static-int8"`` does so in grids that are fixed by running the model on ``calibration``, for
    convolutions too, and rounds what they give. ``"float16"`` and ``"bfloat16"`` store weights and compute in that
    type, but for sums, squares, exponentials and normalisations, which stay in float32; inputs and outputs keep
    their types.

    Attributes:
        scheme: What the weights become.
        block_size: How many inputs of a product share a scale: 16, 32, 64, 128 or 256. None is 32 for 4 bits, and one
            scale for each output for 8 bits, which is all that opsets below 21 have.
        symmetric: Whether zero is the middle of the grid, so that there are no zero points. None is true for int8 and
            int4 and false for uint4.
        refine: ``"hqq"`` moves the grid of each block to where the error is least, by the half-quadratic method and
            without data; None rounds to the nearest of the grid that spans the block.
        include: Patterns of the names of weights that are quantized, as ``"*.mlp.*"``.
        exclude: Patterns of the names of weights that stay as they are.
        include_lm_head: Whether the product that gives scores for a vocabulary is quantized too.
        include_embeddings: Whether tables that indices look up are quantized too. One that a product reads as well
            (tied weights) is written once, for both.
        reduce_range: Whether the weights of products of integers use 7 bits only. With 8, sums of products saturate in
            onnxruntime on processors without VNNI, and results are wrong there.
        calibration: Inputs that are like those to come, for ``"static-int8"``: tuples of arguments, or dictionaries of
            keyword arguments.
        calibrate: How a range is found from what was seen: all of it (``"min-max"``), all but tails (``"percentile"``),
            or where the distribution changes least (``"entropy"``).
        percentile: How much of what was seen lies within, in percent.
        accuracy_level: Of com.microsoft::MatMulNBits, for ``target="onnxruntime"``: 1 computes in float32, 4 may round
            the other side of a product to 8 bits, which is faster.

    >>> import torch, onnxport
    >>> layer = torch.nn.Linear(256, 64)
    >>> way = onnxport.Quantization("int4", block_size=64, refine="hqq")
    >>> program = onnxport.export(layer, (torch.randn(2, 256),), quantize=way)
    >>> weight = program.model.graph.initializers["weight"]
    >>> weight.dtype.name, str(weight.shape), program.model.opset_imports[""]
    ('INT4', '[256,64]', 21)
    """

    scheme: Scheme
    block_size: int | None = None
    symmetric: bool | None = None
    refine: Refinement | None = None
    include: Sequence[str] = ("*",)
    exclude: Sequence[str] = ()
    include_lm_head: bool = True
    include_embeddings: bool = False
    reduce_range: bool = True
    calibration: Sequence[tuple[object, ...] | Mapping[str, object]] = field(default=(), repr=False)
    calibrate: RangeMethod = "min-max"
    percentile: float = 99.99
    accuracy_level: int | None = None

    def __post_init__(self) -> None:
        if self.scheme not in get_args(Scheme):
            close = difflib.get_close_matches(str(self.scheme).lower(), get_args(Scheme), n=1)
            meant = f"; did you mean {close[0]!r}?" if close else "."
            known = ", ".join(map(repr, get_args(Scheme)))
            raise InputError(f"There is no quantization {self.scheme!r}{meant} Known are {known}.")
        if self.block_size is not None and self.block_size not in _BLOCK_SIZES:
            known = ", ".join(map(str, _BLOCK_SIZES))
            raise InputError(f"A block of {self.block_size} inputs can't be quantized: `block_size` is one of {known}.")
        if self.refine is not None and self.refine not in get_args(Refinement):
            raise InputError(f"`refine` is {self.refine!r}, but it is 'hqq' or None.")
        if self.accuracy_level not in (None, 0, 1, 2, 3, 4):
            raise InputError(f"`accuracy_level` is {self.accuracy_level!r}, but MatMulNBits has 0 to 4.")
        if self.calibrate not in get_args(RangeMethod):
            methods = ", ".join(get_args(RangeMethod))
            raise InputError(f"`calibrate` is {self.calibrate!r}, but it is one of {methods}.")
        if not isinstance(self.percentile, int | float) or not 50 < self.percentile <= 100:
            raise InputError(f"`percentile` is {self.percentile!r}, but it is a number above 50 and at most 100.")
        self._check_inputs()
        self._check_patterns()
        self._check_truths()

    def _check_inputs(self) -> None:
        given = self.calibration
        if not isinstance(given, Sequence) or any(not isinstance(one, tuple | list | Mapping) for one in given):
            raise InputError(
                "`calibration` is a list of inputs of the model: each a tuple of arguments, as in [(x,), (y,)], or a "
                "dictionary of keyword arguments."
            )
        if (self.scheme == "static-int8") != bool(given):
            raise InputError(
                "`calibration` is a list of inputs of the model, which 'static-int8' needs, and only that."
            )

    def _check_patterns(self) -> None:
        for name in ("include", "exclude"):
            patterns = getattr(self, name)
            if isinstance(patterns, str):
                raise InputError(f"`{name}` is a list of patterns: [{patterns!r}].")
            if not isinstance(patterns, Sequence) or any(not isinstance(one, str) for one in patterns):
                raise InputError(f"`{name}` is {patterns!r}, but it is a list of patterns of names, as in ['*.mlp.*'].")
            object.__setattr__(self, name, tuple(patterns))

    def _check_truths(self) -> None:
        for name in ("symmetric", "include_lm_head", "include_embeddings", "reduce_range"):
            value = getattr(self, name)
            if not isinstance(value, bool) and not (name == "symmetric" and value is None):
                raise InputError(f"`{name}` is {value!r}, but it is True or False.")
        set_for_nothing = [name for name in ("block_size", "symmetric", "refine") if getattr(self, name) is not None]
        if self.half is not None and set_for_nothing:
            raise InputError(f"`{set_for_nothing[0]}` is of integers, and {self.scheme!r} has none.")
        if self.scheme in ("dynamic-int8", "static-int8") and self.symmetric is False:
            raise InputError(f"`symmetric=False` can't be had with {self.scheme!r}: its weights have no zero points.")

    @property
    def bits(self) -> int:
        """The bits of a weight of a product."""
        return 4 if self.scheme in ("int4", "uint4") else 8

    @property
    def block(self) -> int | None:
        """The inputs that share a scale; None for all of them."""
        return _DEFAULT_BLOCK if self.block_size is None and self.bits == 4 else self.block_size

    @property
    def is_symmetric(self) -> bool:
        """Whether there are no zero points."""
        return self.scheme != "uint4" if self.symmetric is None else self.symmetric

    @property
    def needed_opset(self) -> int:
        """The oldest opset whose own operators can say it."""
        if self.half is not None:
            return 13
        if self.scheme == "dynamic-int8":
            return 11
        return 13 if self.bits == 8 and self.block is None else 21

    @property
    def half(self) -> ir.DataType | None:
        """The 16-bit type that the model is to compute in, if it is."""
        return {"float16": ir.DataType.FLOAT16, "bfloat16": ir.DataType.BFLOAT16}.get(self.scheme)

    def with_eight_bits(self) -> Quantization:
        """The same with a byte for each weight."""
        return replace(self, scheme="int8", block_size=self.block, symmetric=self.is_symmetric)


def as_quantization(given: str | Quantization) -> Quantization:
    """What was asked for: the object itself, the name of a scheme, or a name with options as the command line has it.

    >>> from onnxport.quantize import as_quantization
    >>> as_quantization("int4").block
    32
    >>> as_quantization("uint4:block_size=64,include_embeddings=true,exclude=*.gate+lm_head.*").exclude
    ('*.gate', 'lm_head.*')
    """
    if isinstance(given, Quantization):
        return given
    if not isinstance(given, str):
        raise InputError(f"`quantize` is {given!r}; write the name of a scheme, as in 'int8', or a Quantization.")
    scheme, _, rest = given.partition(":")
    known = {one.name for one in fields(Quantization)} - {"scheme", "calibration"}
    options: dict[str, object] = {}
    for part in rest.split(",") if rest else ():
        name, equals, text = part.partition("=")
        if not equals or name not in known:
            raise InputError(
                f"{part!r} is no option of a quantization; write name=value, of {', '.join(sorted(known))}."
            )
        options[name] = _read_option(name, text)
    return Quantization(scheme, **options)  # type: ignore[arg-type]


def _read_option(name: str, text: str) -> object:
    if name in ("include", "exclude"):
        return text.split("+")
    if text.isdecimal():
        return int(text)
    if name == "percentile":
        try:
            return float(text)
        except ValueError:
            return text
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)
