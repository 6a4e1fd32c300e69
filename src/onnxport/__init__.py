"""onnxport: a standalone PyTorch to ONNX exporter."""
