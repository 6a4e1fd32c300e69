"""The code of the documentation of torch.onnx.ops, with the import changed, gives what it prints."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import pytest
import torch

import onnxport


class Model(torch.nn.Module):
    def forward(
        self,
        input_data: torch.Tensor,
        cos_cache_data: torch.Tensor,
        sin_cache_data: torch.Tensor,
        position_ids_data: torch.Tensor,
    ) -> Any:
        return onnxport.ops.rotary_embedding(
            input_data,
            cos_cache_data,
            sin_cache_data,
            position_ids_data,
        )


INPUTS = (
    torch.rand(2, 3, 4, 8),
    torch.rand(50, 4),
    torch.rand(50, 4),
    torch.randint(0, 50, (2, 3)).long(),
)
# As documented, but for the names: outputs and axes that nobody named are called what they are, not by call and symbol.
GRAPH = """\
    graph(
        name=main_graph,
        inputs=(
            %"input_data"<FLOAT,[batch,3,4,8]>,
            %"cos_cache_data"<FLOAT,[50,4]>,
            %"sin_cache_data"<FLOAT,[50,4]>,
            %"position_ids_data"<INT64,[batch,3]>
        ),
        outputs=(
            %"output"<FLOAT,[batch,3,4,8]>
        ),
    ) {
        0 |  # node_output
             %"output"<FLOAT,[batch,3,4,8]> ⬅️ ::RotaryEmbedding(%"input_data", %"cos_cache_data", %"sin_cache_data", %"position_ids_data")
        return %"output"<FLOAT,[batch,3,4,8]>
    }
    """  # noqa: E501


def test_an_operator_is_one_node() -> None:
    dynamic_shapes = {
        "input_data": {0: torch.export.Dim.DYNAMIC},
        "cos_cache_data": None,
        "sin_cache_data": None,
        "position_ids_data": {0: torch.export.Dim.DYNAMIC},
    }
    onnx_program = onnxport.export(Model(), INPUTS, dynamic_shapes=dynamic_shapes, dynamo=True, opset_version=23)
    printed = str(onnx_program)
    assert printed[printed.index("graph(") :].strip() == textwrap.dedent(GRAPH).strip()
    code = re.sub(r"\bs\d+\b", "s0", str(onnx_program.exported_program))
    call = "rotary_embedding.default(input_data, cos_cache_data, sin_cache_data, position_ids_data)"
    assert f'rotary_embedding: "f32[s0, 3, 4, 8]" = torch.ops.onnxport.{call}' in code


def test_operators_are_decomposed_to_aten() -> None:
    fitting = (torch.rand(2, 3, 4, 8), *INPUTS[1:3], torch.randint(0, 50, (2, 4)))
    ep = torch.export.export(Model(), fitting)
    ep_decomposed = ep.run_decompositions(onnxport.ops.aten_decompositions())
    targets = {str(node.target) for node in ep_decomposed.graph.nodes if node.op == "call_function"}
    assert targets and all(target.startswith("aten.") for target in targets - {"<built-in function getitem>"})
    torch.testing.assert_close(ep_decomposed.module()(*fitting), Model()(*fitting))


def test_the_documented_positions_fit_no_axis_and_computing_with_them_says_so() -> None:
    ep = torch.export.export(Model(), INPUTS)
    with pytest.raises(ValueError, match=r"position_ids has \(2, 3\) .* its sequence axis is 2"):
        ep.run_decompositions(onnxport.ops.aten_decompositions())


class Symbolic(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if onnxport.is_in_onnx_export():
            result: torch.Tensor = onnxport.ops.symbolic(
                "custom_domain::CustomOp",
                (x,),
                {"attr_key": "attr_value"},
                dtype=x.dtype,
                shape=x.shape,
                version=1,
            )
            return result
        return x * 2


def test_symbolic_operators_inside_an_export_only() -> None:
    program = onnxport.export(Symbolic(), (torch.ones(2),))
    (node,) = program.model.graph
    assert (node.domain, node.op_type, node.attributes["attr_key"].value) == ("custom_domain", "CustomOp", "attr_value")
    assert program.model.opset_imports["custom_domain"] == 1
    assert Symbolic()(torch.ones(2)).tolist() == [2.0, 2.0]
