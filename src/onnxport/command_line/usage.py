"""What is said of an option or argument that is not in its form, or names what there is not."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from onnxport.errors import InputError

if TYPE_CHECKING:
    import typer


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


def refuse_given(context: typer.Context, names: Collection[str], why: str) -> None:
    """Refuse options of the running command that were given, on the command line or in a file, and mean nothing here.

    Raises:
        UsageError: One of them was.
    """
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in names and source is not None and source.name != "DEFAULT":
            raise UsageError(f"{parameter.opts[0]} {why}.")
