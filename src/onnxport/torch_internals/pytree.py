"""Nested containers: torch.export flattens inputs and outputs with these functions, so the package does too."""

from torch.utils._pytree import (
    BUILTIN_TYPES,
    SUPPORTED_NODES,
    FlattenFunc,
    FlattenWithKeysFunc,
    GetAttrKey,
    KeyEntry,
    MappingKey,
    SequenceKey,
    TreeSpec,
    UnflattenFunc,
    _get_node_type,
    register_pytree_node,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_map_only,
    tree_structure,
    tree_unflatten,
)

__all__ = [
    "BUILTIN_TYPES",
    "SUPPORTED_NODES",
    "FlattenFunc",
    "FlattenWithKeysFunc",
    "GetAttrKey",
    "KeyEntry",
    "MappingKey",
    "SequenceKey",
    "TreeSpec",
    "UnflattenFunc",
    "children_of",
    "get_node_type",
    "register_pytree_node",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]

get_node_type = _get_node_type


def children_of(spec: TreeSpec) -> list[TreeSpec]:
    """The structures of what a container holds. ``TreeSpec.children()`` came with torch 2.10, in place of a field."""
    children: list[TreeSpec] = spec.children() if hasattr(spec, "children") else spec.children_specs
    return children
