"""Every translation has a row, or a test of its own that is named here."""

from __future__ import annotations

from pathlib import Path

from matrix import rows

from onnxport.translate import REGISTRY

ELSEWHERE = {
    "onnxport::decided": "tests/branches/",
    "onnxport::sequence_": "tests/replay/test_sequences.py",
    "higher_order::": "tests/translate/test_control_flow.py",
    "onnx::": "tests/onnx_ops/",
    "onnx_symbolic::": "tests/onnx_ops/",
    "onnxport::": "tests/onnx_ops/",
    "aten::_pack_padded_sequence": "tests/ops/test_packed_sequences.py",
    "aten::_pad_packed_sequence": "tests/ops/test_packed_sequences.py",
    "aten::gru.data": "tests/ops/test_packed_sequences.py",
    "aten::lstm.data": "tests/ops/test_packed_sequences.py",
    "aten::rnn_relu.data": "tests/ops/test_packed_sequences.py",
    "aten::rnn_tanh.data": "tests/ops/test_packed_sequences.py",
    "aten::_reshape_from_tensor": "tests/surface/test_legacy_surface.py",
    "aten::_shape_as_tensor": "tests/surface/test_legacy_surface.py",
    "aten::_scaled_mm": "tests/quantized/test_float8.py",
    "aten::_weight_int4pack_mm_for_cpu": "tests/quantized/test_packed_weights.py",
    "bitsandbytes::": "tests/quantized/test_libraries.py",
    "quanto::": "tests/quantized/test_libraries.py",
    "torchao::": "tests/quantized/test_torchao.py",
    # What torch makes of attention on other devices; on the CPU only the form they share a translation with occurs.
    "aten::_scaled_dot_product_": "tests/ops/cases_attention.py",
}


def test_every_translation_has_a_row() -> None:
    covered = {name for row in rows() for name in row.covers}
    names = {*REGISTRY.translations, *REGISTRY.complex_translations}
    uncovered = {name for name in names - covered if not name.startswith(tuple(ELSEWHERE))}
    assert not uncovered


def test_the_list_of_operators_is_current() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "operators.md").read_text()
    listed = {line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line.startswith("| aten::")}
    names = {name for name in (*REGISTRY.translations, *REGISTRY.complex_translations) if name.startswith("aten::")}
    assert listed == names, "run `make operators`"
