"""Values of a TorchScript graph that Python code does not have, and how they pass in and out of control flow."""
