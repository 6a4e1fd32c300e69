"""Comparing an ONNX program with the model it was made from: its outputs, or value by value."""

from onnxport.verification.info import VerificationInfo, VerificationInfos
from onnxport.verification.nodes import Mismatch, find_mismatch
from onnxport.verification.verify import Run, Verification, verify, verify_onnx_program

__all__ = [
    "Mismatch",
    "Run",
    "Verification",
    "VerificationInfo",
    "VerificationInfos",
    "find_mismatch",
    "verify",
    "verify_onnx_program",
]
