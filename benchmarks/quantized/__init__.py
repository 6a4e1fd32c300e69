"""Quantized models: decoding beside onnxruntime-genai's builder, and a large checkpoint in little memory."""
