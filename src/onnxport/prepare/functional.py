"""What the preparation stage hands to the translation: a graph without side effects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch.export.graph_signature import ExportGraphSignature

MutationKind = Literal["BUFFER_MUTATION", "PARAMETER_MUTATION", "USER_INPUT_MUTATION"]


@dataclass(frozen=True)
class Mutation:
    """A buffer, parameter or input that the model writes to, and the value it holds on return."""

    kind: MutationKind
    target: str
    node: torch.fx.Node


@dataclass
class FunctionalProgram:
    """A captured model in which no call writes to its arguments.

    ``graph`` has its placeholders in the order of the signature and one output node whose first argument is the
    tuple of user outputs. It is the captured graph itself when nothing had to change, so treat it as read only.
    """

    graph: torch.fx.Graph
    owner: torch.fx.GraphModule
    signature: ExportGraphSignature
    state: Mapping[str, torch.Tensor]
    range_constraints: Mapping[Any, Any]
    mutations: list[Mutation] = field(default_factory=list)
