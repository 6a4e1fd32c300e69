"""Modules and functions of ``torch.onnx`` that symbolic functions are written with."""
