"""Which readers of ONNX files take what onnxport and torch.onnx write: a table of small models, run by developers."""
