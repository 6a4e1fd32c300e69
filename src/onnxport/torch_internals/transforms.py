"""Transforms of torch.func that are under way: torch keeps them on a stack."""

from torch._C import _functorch

__all__ = ["transform_under_way"]


def transform_under_way() -> str | None:
    """The name of the innermost transform that the caller runs in (``vmap``, ``grad``, ``jvp``), or None."""
    innermost = _functorch.peek_interpreter_stack()
    return None if innermost is None else str(innermost.key()).rpartition(".")[2].lower()
