"""What is replaced in torch while a model is captured or an operator is taken apart."""
