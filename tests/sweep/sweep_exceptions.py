"""What is known not to pass the sweep: torch's samples of an operator, with the verdict and the reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """Why samples of an operator do not pass, and what becomes of each (the text of a pick, its verdict)."""

    reason: str
    verdicts: dict[str, str]


_SPARSE = "ONNX models have no sparse tensors to compute with"
_EIGENVALUES = "the order of general eigenvalues is the one in which LAPACK's iteration happens to find them"
_NO_SHAPES = "torch has no rule for the shape of its result, so that torch.export cannot pass it"
_GPU = "it is compiled for GPUs"
_NO_TENSOR = "its result is no tensor"

NOT_PASSED: dict[str, Known] = {
    "allclose": Known(_NO_TENSOR, {"float32 static 0": "no tensors", "float16 static 61": "no tensors"}),
    "as_strided.partial_views": Known(
        "it reaches for what lies around its input in memory, which a copy does not have",
        {"bool static 20": "eager fails"},
    ),
    "broadcast_shapes": Known(_NO_TENSOR, {"float32 static 0": "no tensors", "float32 dynamic 21": "no tensors"}),
    "equal": Known(_NO_TENSOR, {"float32 static 0": "no tensors", "complex64 dynamic 17": "no tensors"}),
    "hash_tensor": Known(
        "a hash of the bytes, which has no ONNX form",
        {"float32 static 0": "not exported", "float16 static 25": "not exported"},
    ),
    "histogram": Known(_NO_SHAPES, {"float32 dynamic 67": "not captured"}),
    "item": Known(_NO_TENSOR, {"float32 static 0": "no tensors", "bool dynamic 10": "no tensors"}),
    "jiterator_2inputs_2outputs": Known(
        _GPU, {"float32 static 0": "eager fails", "complex64 static 60": "eager fails"}
    ),
    "jiterator_4inputs_with_extra_args": Known(
        _GPU, {"float32 static 0": "eager fails", "float16 static 71": "eager fails"}
    ),
    "jiterator_binary": Known(_GPU, {"float32 static 0": "eager fails", "bfloat16 dynamic 7": "eager fails"}),
    "jiterator_binary_return_by_ref": Known(
        _GPU, {"float32 static 0": "eager fails", "float16 dynamic 31": "eager fails"}
    ),
    "jiterator_unary": Known(_GPU, {"float32 static 0": "eager fails", "int64 dynamic 43": "eager fails"}),
    "linalg.eig": Known(_EIGENVALUES, {"float32 static 0": "not exported", "float32 dynamic 44": "not exported"}),
    "linalg.eigvals": Known(_EIGENVALUES, {"float32 static 0": "not exported", "complex64 dynamic 81": "not exported"}),
    "linalg.lstsq": Known(_NO_SHAPES, {"float32 static 0": "not captured", "complex64 dynamic 41": "not captured"}),
    "linalg.lstsq.grad_oriented": Known(
        _NO_SHAPES, {"float32 static 0": "not captured", "complex64 static 9": "not captured"}
    ),
    "nn.functional.ctc_loss": Known(
        _NO_SHAPES, {"float32 static 0": "not captured", "float32 static 77": "not captured"}
    ),
    "sparse.mm.reduce": Known(_SPARSE, {"float32 static 0": "not exported", "bfloat16 dynamic 21": "not captured"}),
    "sparse.sampled_addmm": Known(_SPARSE, {"float32 static 0": "not exported", "float32 static 96": "not exported"}),
    "to_sparse": Known(_SPARSE, {"float32 static 0": "not exported", "bfloat16 dynamic 77": "not captured"}),
}

_OUT = "a dtype of `out=` that torch.export does not look at; the values are those that eager computes"
_VALUES = "weights of no distribution, which eager finds by looking at the values; models can't raise"

RUN_ALTHOUGH_EAGER_REFUSES: dict[str, dict[int, str]] = {
    "aminmax": {3: _OUT},
    "complex": {2: _OUT},
    "multinomial": {
        2: _OUT,
        6: "a limit of eager's own kernel",
        **dict.fromkeys(range(7, 21), _VALUES),
    },
}
"""Calls that torch says must fail (by number) and that become models which run, each with the reason."""
