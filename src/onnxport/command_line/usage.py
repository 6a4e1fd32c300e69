"""What is said of an option or argument that is not in its form, or names what there is not."""

from __future__ import annotations

from onnxport.errors import InputError


class UsageError(InputError):
    """An option or argument can't be read as what it stands for, whatever the model or file is."""


def check_known(
    target: str, quantize: str | None = None, opset: int | None = None, ir_version: int | None = None
) -> None:
    """Look the target, the quantization and the versions up before a model is loaded for them.

    Raises:
        UsageError: There is none of that name or number, or an option of it is not in its form.
    """
    from onnxport.errors import OpsetError
    from onnxport.legalize import check_ir_version, check_opset
    from onnxport.quantize import as_quantization
    from onnxport.targets import find_target

    try:
        find_target(target)
        if quantize is not None:
            as_quantization(quantize)
        if opset is not None:
            check_opset(opset)
        check_ir_version(ir_version)
    except (InputError, OpsetError) as error:
        raise UsageError(str(error)) from error
