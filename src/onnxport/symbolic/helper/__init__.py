"""What symbolic functions are written with; ``onnxport.symbolic_helper`` is its public name."""
