"""onnxport and torch.onnx side by side: speed, memory, size and values."""
