"""Operators that are known not to pass the sweep, by sweep, each with the reason."""

from __future__ import annotations

_SPARSE = "ONNX models have no sparse tensors to compute with"

EXCEPTIONS: dict[str, dict[str, str]] = {
    "float32": {
        "hash_tensor": "a hash of the bytes, which has no ONNX form",
        "linalg.eig": "the eigenvalues of general matrices are not translated",
        "linalg.eigvals": "the eigenvalues of general matrices are not translated",
        "linalg.ldl_factor": "not translated",
        "linalg.ldl_factor_ex": "not translated",
        "linalg.ldl_solve": "not translated",
        "sparse.mm.reduce": _SPARSE,
        "sparse.sampled_addmm": _SPARSE,
        "to_sparse": _SPARSE,
    },
}
