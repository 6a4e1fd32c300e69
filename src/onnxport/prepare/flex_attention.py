"""``flex_attention`` as the calls it stands for.

Its score and mask functions are graphs of one score at a time. They are run once more, vectorised over batch, heads,
queries and keys, on the scores as a whole; the blocks that a mask was cut into only say what may be left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxport.onnx_build.attention import AttentionFormula, TorchAttention
from onnxport.prepare.trace import Attach, splice, trace_call
from onnxport.torch_internals.operators import HigherOrderOperator


def has_flex_attention(graph: torch.fx.Graph) -> bool:
    """Whether a graph calls ``flex_attention``."""
    return any(_is_flex_attention(node) for node in graph.nodes)


def expand_flex_attention(graph: torch.fx.Graph, attribute: Callable[[str], Any], attach: Attach) -> None:
    """Replace every call of ``flex_attention``, in place, by the products, functions and softmax it is made of."""
    for node in list(graph.nodes):
        if not _is_flex_attention(node):
            continue
        query, key, value, score_mod, block_mask, scale, _, score_extra, mask_extra = _arguments(node)
        score_function, mask_function = attribute(score_mod.target), attribute(block_mask[-1].target)
        node.args, node.kwargs = (query, key, value, tuple(score_extra), tuple(mask_extra)), {}
        splice(node, trace_call(node, _dense(score_function, mask_function, scale)), attach)


def _is_flex_attention(node: torch.fx.Node) -> bool:
    return isinstance(node.target, HigherOrderOperator) and node.target.name() == "flex_attention"


def _arguments(node: torch.fx.Node) -> Sequence[Any]:
    given = [*node.args, *node.kwargs.values()]
    return [*given, *[()] * (9 - len(given))]


def _dense(score_mod: Callable[..., Any], mask_mod: Callable[..., Any], scale: float) -> Callable[..., object]:
    def attend(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        score_extra: Sequence[object],
        mask_extra: Sequence[object],
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        sizes = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        places = [torch.arange(size, device=query.device) for size in sizes]

        def change(scores: torch.Tensor) -> torch.Tensor:
            # Chosen, not added: where a score is masked out, the function of the user may give anything.
            changed = _mapped(score_mod, 1, len(score_extra))(scores, *places, *score_extra).to(scores.dtype)
            allowed = _mapped(mask_mod, 0, len(mask_extra))(*places, *mask_extra)
            return torch.where(allowed, changed, -math.inf)

        formula = AttentionFormula(TorchAttention(), query, key, scale=scale, change=change)
        result = formula.result(formula.weights(), value).to(query.dtype)
        scores = formula.masked
        # The operator speaks of powers of two.
        return result, scores.logsumexp(-1) / math.log(2), scores.amax(-1) / math.log(2)

    return attend


def _mapped(function: Callable[..., object], scores: int, extra: int) -> Callable[..., Any]:
    """A function of single scores and their places as one of all scores and all places."""
    for axis in (3, 2, 1, 0):
        place = [0 if other == axis else None for other in range(4)]
        function = torch.vmap(function, in_dims=(*[0] * scores, *place, *[None] * extra))
    return function
