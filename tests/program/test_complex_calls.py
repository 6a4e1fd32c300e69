"""Complex tensors in a call: pairs in the file, complex numbers for those who pass them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import onnxport

Z = torch.complex(torch.linspace(-1, 1, 6).reshape(3, 2), torch.linspace(1, 2, 6).reshape(3, 2))


class Turned(nn.Module):
    def forward(self, z: Any, x: Any) -> Any:
        return z * 1j, x + 1, {"sum": z.sum()}


def test_complex_in_complex_out() -> None:
    x = torch.ones(3)
    program = onnxport.export(Turned(), (Z, x), dynamic_shapes=({0: "n"}, None), verify=True)
    assert program.verification is not None and program.verification.matches
    turned, plain, rest = Turned()(Z, x)
    found = program(Z, x)
    torch.testing.assert_close(found, (turned, plain, rest["sum"]))
    pairs = program(torch.view_as_real(Z), x)
    torch.testing.assert_close(torch.view_as_complex(pairs[0]), turned)
    assert [str(value.shape) for value in program.model.graph.inputs] == ["[n,2,2]", "[3]"]
    assert any("z is complex" in event.message for event in program.events.of("note"))  # type: ignore[union-attr]
