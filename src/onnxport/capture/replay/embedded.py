"""Scripts inside a model that is not one: what its Python code calls is replayed while it is captured."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import cast

import torch

from onnxport.capture.patches.replacing import attributes_replaced, items_replaced
from onnxport.capture.replay.interpreter import Interpreter
from onnxport.capture.replay.mirror import Mirror, mirror_of, signature_of
from onnxport.capture.replay.values.stand_ins import ReplayValue
from onnxport.torch_graph import Function
from onnxport.torch_internals.torchscript import get_tracing_state


@contextlib.contextmanager
def scripts_replayed(model: object) -> Iterator[None]:
    """While the block runs, the scripts in a model are mirrors of them, and functions that were scripted are replayed.

    So branches and loops of theirs are captured as such, where running them would need the data.
    """
    interpreter = Interpreter()
    mirrors: dict[int, Mirror] = {}
    places = []
    for module in model.modules() if isinstance(model, torch.nn.Module) else ():
        if not isinstance(module, torch.jit.ScriptModule | Mirror):
            scripts = {n: m for n, m in module._modules.items() if isinstance(m, torch.jit.ScriptModule)}
            places += [(module._modules, name, script) for name, script in scripts.items()]
    call: Callable[..., ReplayValue] = torch.jit.ScriptFunction.__call__

    def replay(function: object, /, *args: object, **kwargs: object) -> ReplayValue:
        if get_tracing_state() is not None:
            # The tracer notes the call itself; its recording is replayed later.
            return call(function, *args, **kwargs)
        script = cast(Function, function)
        _, bind = signature_of(script, 0)
        return Interpreter().run_top(None, script, bind(args, kwargs))

    with contextlib.ExitStack() as stack:
        stack.enter_context(attributes_replaced([(torch.jit.ScriptFunction, "__call__", replay)]))
        for modules, name, script in places:
            stack.enter_context(items_replaced(modules, {name: mirror_of(script, interpreter, mirrors)}))
        yield
