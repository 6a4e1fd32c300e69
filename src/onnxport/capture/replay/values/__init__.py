"""Values of a TorchScript graph that Python code does not have."""
