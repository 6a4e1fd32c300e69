"""Random modules, eager against onnxruntime: ``python -m fuzz --seed 1 --programs 100`` with ``tests`` on the path."""
