"""Branches and loops of a TorchScript graph, and how values pass into their blocks and out again."""
