"""One call of a symbolic function: its graph, what it is given, and how what it wrote reaches the ONNX model."""
