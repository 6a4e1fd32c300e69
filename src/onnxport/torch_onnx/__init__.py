"""Functions of ``torch.onnx`` other than ``export`` that export a model: each is a way to call it."""
