"""How long onnxruntime takes for a file of ours, of ours with ``target="onnxruntime"``, and of torch.onnx."""
