"""Tensors that stay in torch's memory until they are written, and the writing of models to disk."""
