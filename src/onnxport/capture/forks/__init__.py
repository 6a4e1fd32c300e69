"""Forks: where Python asks for the truth of a size or of data, the model is captured once for each answer."""
