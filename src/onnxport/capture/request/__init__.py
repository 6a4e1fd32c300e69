"""What a capture is asked for: the model's inputs and outputs, and the axes that vary."""
