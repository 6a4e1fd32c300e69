"""Operators that are known not to pass the sweep, by sweep, each with the reason."""

from __future__ import annotations

_SPARSE = "ONNX models have no sparse tensors to compute with"
_CHUNKED = "an operator of torch.nn without a decomposition"

EXCEPTIONS: dict[str, dict[str, str]] = {
    "float32": {
        "hash_tensor": "a hash of the bytes, which has no ONNX form",
        "linalg.eig": "the eigenvalues of general matrices are not translated",
        "linalg.eigvals": "the eigenvalues of general matrices are not translated",
        "linalg.ldl_factor": "not translated",
        "linalg.ldl_factor_ex": "not translated",
        "linalg.ldl_solve": "not translated",
        "nn.functional.linear_cross_entropy.chunked": _CHUNKED,
        "nn.functional.linear_cross_entropy.chunked_none": _CHUNKED,
        "resize_": "changes the storage, which functionalization does not follow",
        "sparse.mm.reduce": _SPARSE,
        "sparse.sampled_addmm": _SPARSE,
        "to_sparse": _SPARSE,
    },
}
