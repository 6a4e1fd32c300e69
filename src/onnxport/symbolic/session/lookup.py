"""What the user has registered, as the engine looks it up."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from onnxport.capture.patches.autograd_functions import functions_kept
from onnxport.capture.patches.fake_kernels import operators_by_example
from onnxport.options import Options
from onnxport.symbolic.session.calling import by_symbolic
from onnxport.symbolic.session.function_calls import function_translation, keeps_whole
from onnxport.symbolic.session.registration import Symbolic, operators_of_libraries, registered_symbolic
from onnxport.symbolic.session.traced_names import Arrange, traced_as
from onnxport.torch_internals.operators import OpOverload
from onnxport.translate import REGISTRY
from onnxport.translate.registry import Lookup, Translation

_FUNCTION = "onnxport::autograd_function"


@contextlib.contextmanager
def kept_for_symbolics(options: Options, find: Lookup) -> Iterator[None]:
    """While this is open, what symbolic functions write is captured as it is called, and not what it is made of.

    Operators that ``find`` knows need not tell the sizes of their results without values.
    """
    known = (operator for operator in operators_of_libraries() if find(operator, False) is not None)
    with functions_kept(keeps_whole(options)), operators_by_example(known):
        yield


def symbolic_lookup(options: Options) -> Lookup:
    """The look-up of symbolic functions for one export."""
    of_functions = Translation(function_translation(options), parameters=frozenset({"tensors", "sizes", "key"}))

    def find(target: object, of_complex: bool = False) -> Translation | None:
        if not isinstance(target, OpOverload):
            return None
        name = target._schema.name
        if name == _FUNCTION:
            return of_functions
        function = registered_symbolic(name, options.opset)
        if function is not None:
            return made(function, target, target, None, of_complex)
        traced = traced_as(target)
        function = None if traced is None else registered_symbolic(traced[0]._schema.name, options.opset)
        return None if function is None or traced is None else made(function, target, *traced, of_complex)

    def made(
        function: Symbolic,
        target: OpOverload,
        written_as: OpOverload,
        arrange: Arrange | None,
        of_complex: bool,
    ) -> Translation:
        own = REGISTRY.find(target, of_complex)
        parameters = frozenset(argument.name for argument in target._schema.arguments)
        return Translation(by_symbolic(function, written_as, own, options, arrange), parameters=parameters)

    return find
