"""The tree of decisions that a model's Python code makes, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from onnxport.capture.forks.paths import Fork, Tree


def decision_tree(tree: Tree) -> str:
    """Show at which lines the ways through a model part, and where each way ends.

    >>> import torch
    >>> from onnxport.capture.forks.decisions import Decision
    >>> from onnxport.capture.forks.paths import Fork, Path
    >>> program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    >>> way = Path(program, (), ((), {}))
    >>> print(decision_tree(Fork(Decision(0, None, True, True, "user", "model.py:3: if y.sum() > 0:", 0), way, way)))
    model.py:3: if y.sum() > 0:
      true: 1 calls
      false: 1 calls
    """
    return "\n".join(_lines(tree, "", ""))


def _lines(tree: Tree, label: str, indent: str) -> Iterator[str]:
    if not isinstance(tree, Fork):
        yield f"{indent}{label}{sum(node.op == 'call_function' for node in tree.program.graph.nodes)} calls"
        return
    yield f"{indent}{label}{tree.decision.where}"
    yield from _lines(tree.if_true, "true: ", f"{indent}  ")
    yield from _lines(tree.if_false, "false: ", f"{indent}  ")
