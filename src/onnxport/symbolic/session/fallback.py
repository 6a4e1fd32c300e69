"""Operators without an ONNX form that are to stay in the file as they are, for a runtime that knows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from onnxport.errors import TranslationError, warn
from onnxport.export_types import OperatorExportTypes
from onnxport.options import Options
from onnxport.torch_internals.operators import OpOverload
from onnxport.translate import Builder, Dim, Tensor
from onnxport.translate.engine import call_translation
from onnxport.translate.registry import Lookup, Translation

_ATEN = "org.pytorch.aten"


def kept_operators(options: Options) -> Lookup | None:
    """A look-up of last resort: a node of the operator's own name, or ``ATen`` with the name as an attribute.

    Only ATen's own operators have the second form; those of other libraries keep their names in either case.
    """
    kind = options.operator_export_type
    domains = {} if options.custom_opsets is None else options.custom_opsets
    if kind not in (OperatorExportTypes.ONNX_FALLTHROUGH, OperatorExportTypes.ONNX_ATEN_FALLBACK):
        return None

    def find(target: object, of_complex: bool = False) -> Translation | None:
        if not isinstance(target, OpOverload) or _is_decomposable(target) or of_complex:
            return None
        parameters = frozenset(argument.name for argument in target._schema.arguments)
        as_aten = kind == OperatorExportTypes.ONNX_ATEN_FALLBACK and target.namespace == "aten"
        return Translation(_writer(target, as_aten, domains), parameters=parameters)

    return find


def keeping_refused(find: Lookup, options: Options) -> Lookup:
    """A look-up whose translations keep ATen's operator where they refuse a call; for ``ONNX_ATEN``, always."""
    kind = options.operator_export_type
    domains = {} if options.custom_opsets is None else options.custom_opsets
    if kind == OperatorExportTypes.ONNX:
        return find

    def found(target: object, of_complex: bool = False) -> Translation | None:
        translation = find(target, of_complex)
        if translation is None or not isinstance(target, OpOverload) or target.namespace != "aten" or of_complex:
            return translation
        keep = _writer(target, kind != OperatorExportTypes.ONNX_FALLTHROUGH, domains)
        parameters = frozenset(argument.name for argument in target._schema.arguments)
        if kind == OperatorExportTypes.ONNX_ATEN:
            return Translation(keep, parameters=parameters)
        return Translation(_or_kept(target, translation, keep), parameters=parameters)

    return found


def _or_kept(target: OpOverload, translation: Translation, keep: Callable[..., object]) -> Callable[..., object]:
    def write(op: Builder, **arguments: object) -> object:
        start = len(op.nodes)
        known = {name: value for name, value in arguments.items() if name in translation.parameters}
        try:
            return call_translation(op, translation, known)
        except TranslationError as error:
            del op.nodes[start:]
            warn(f"{target} stays as it is, for a runtime that knows it: {error}")
            return keep(op, **arguments)

    return write


def _is_decomposable(target: OpOverload) -> bool:
    from onnxport.torch_internals.operators import decomposition_table

    # What a library calls an operator stays one, whatever it is made of.
    return target in decomposition_table or (target.namespace == "aten" and target._can_decompose())


def _writer(target: OpOverload, as_aten: bool, domains: Mapping[str, int]) -> Callable[..., object]:
    name = target._schema.name.partition("::")[2]
    domain = _ATEN if target.namespace == "aten" else target.namespace

    def write(op: Builder, **arguments: object) -> object:
        inputs: list[Tensor | None] = []
        attributes: dict[str, object] = {}
        for key, value in arguments.items():
            if value is None or isinstance(value, Tensor):
                inputs.append(value)
            elif isinstance(value, list | tuple) and value and all(isinstance(item, Tensor) for item in value):
                inputs.extend(value)
            elif isinstance(value, Dim):
                inputs.append(op.scalar(value, torch.int64))
            else:
                attributes[key] = _attribute(target, key, value)
        while inputs and inputs[-1] is None:
            inputs.pop()
        if as_aten:
            attributes = {"operator": name, "overload_name": target._schema.overload_name, **attributes}
        assert op.call is not None
        value = op.call.meta["val"]
        several = isinstance(value, list | tuple)
        outputs = [(item.dtype, op.shared.dim_names.shape(item)) for item in (value if several else [value])]
        results = op.custom(
            domain, "ATen" if as_aten else name, inputs, attributes, outputs, version=domains.get(domain)
        )
        return results if several else results[0]

    return write


def _attribute(target: OpOverload, name: str, value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float | str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(item, int | float | str) for item in value):
        return [int(item) if isinstance(item, bool) else item for item in value] if value else None
    if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format):
        return str(value)
    raise TranslationError(f"`{name}` of {target} is {value!r}, which can't be an attribute of a node")
