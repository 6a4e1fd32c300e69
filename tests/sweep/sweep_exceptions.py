"""Operators that are known not to pass the sweep, by sweep, each with the reason."""

from __future__ import annotations

_SPARSE = "ONNX models have no sparse tensors to compute with"
_EIGENVALUES = "the order of general eigenvalues is the one in which LAPACK's iteration happens to find them"

EXCEPTIONS: dict[str, dict[str, str]] = {
    "float32": {
        "hash_tensor": "a hash of the bytes, which has no ONNX form",
        "linalg.eig": _EIGENVALUES,
        "linalg.eigvals": _EIGENVALUES,
        "sparse.mm.reduce": _SPARSE,
        "sparse.sampled_addmm": _SPARSE,
        "to_sparse": _SPARSE,
    },
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
