"""``python -m onnxport``: the command line."""

from onnxport.command_line import app

if __name__ == "__main__":
    app()
