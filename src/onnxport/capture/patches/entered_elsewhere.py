"""The rows of the table of what is replaced in torch that take the model or the request, and where each is entered."""

from __future__ import annotations

from onnxport.capture.patches.patch import Patch

ENTERED_ELSEWHERE: tuple[Patch, ...] = (
    Patch(
        replaces=(
            "torch.onnx._internal.exporter._flags._is_onnx_exporting",
            "torch._dynamo.variables.torch.tracing_state_functions()",
        ),
        why="Models ask torch.onnx.is_in_onnx_export(), which has to be true during our export as well.",
        known="torch 2.9 to 2.13",
        until="torch.onnx offers a public way to say so",
        entered_in="onnxport.capture.patches.export_flag",
    ),
    Patch(
        replaces=("torch.export._trace.print", "logging.Logger.disabled"),
        why="torch tells of failures that the next strategy mends, on standard error and output.",
        known="torch 2.13",
        until="never: the strategies are ours",
        entered_in="onnxport.capture.patches.quiet",
    ),
    Patch(
        replaces=(
            "torch.fx.experimental.symbolic_shapes.ShapeEnv._set_replacement",
            "torch.fx.experimental.symbolic_shapes.ShapeEnv._log_guard",
            "torch.fx.experimental.symbolic_shapes.ShapeEnv.guard_or_defer_runtime_assert",
            "torch._subclasses.fake_impls.op_implementations_dict",
        ),
        why="torch keeps guards and replacements of sizes, but outside bytecode tracing not the user's line, and takes "
        "a count for the size that it is broadcast against.",
        known="torch 2.13",
        until="guards carry the user's stack in non-strict export",
        entered_in="onnxport.capture.diagnosis.forced_sizes",
    ),
    Patch(
        replaces=(
            *(f"torch.fx.experimental.sym_node.SymNode.{name}" for name in ("guard_bool", "expect_true")),
            *(f"torch.SymInt.__{name}__" for name in ("eq", "ne", "lt", "le", "gt", "ge")),
        ),
        why="What Python asks of sizes is answered as the example has it, and what it asks of data is refused: both "
        "are decisions, of which either way is captured.",
        known="all",
        until="never: torch.export captures one run",
        entered_in="onnxport.capture.forks.decisions",
    ),
    Patch(
        replaces=(
            "torch.fx.experimental.sym_node.SymNode.guard_int",
            "torch.fx.experimental.sym_node.SymNode.guard_float",
            *(f"torch.Tensor.__{name}__" for name in ("iter", "int", "float", "index", "array")),
            *(f"torch.SymInt.__{name}__" for name in ("repr", "divmod", "round", "hash")),
            *(f"torch.SymInt.__{r}{name}__" for r in ("", "r") for name in ("truediv", "floordiv", "mod")),
            *(f"torch.SymFloat.{name}" for name in ("is_integer", "__ceil__", "__floor__", "__trunc__")),
            "torch.SymInt.__mul__",
            *(f"torch.SymInt.{name}" for name in ("bit_length", "__xor__", "__rxor__")),
            "torch.SymBool.__eq__",
            "torch.SymBool.__ne__",
        ),
        why="Python makes a plain number of a size, or text, or as many rows as the example has: the function that "
        "does is rewritten, so that it does not. Of math.ceil(n / 2) torch proves little: it is (n + 1) // 2, and of "
        "int(h * (320 / min(h, w))) nothing: it is a number of its own.",
        known="torch 2.13",
        until="never: int, range, len and text of Python are plain",
        entered_in="onnxport.capture.forks.decisions",
    ),
    Patch(
        replaces=(
            *(f"{owner}.{name}" for owner in ("torch", "torch.Tensor") for name in ("split", "chunk", "unbind")),
            "torch._export.non_strict_utils._NonStrictTorchFunctionHandler._override",
        ),
        why="They make a list of as many pieces as the example has, of which mostly one is taken, or all are joined. "
        "An input that is given another shape in place would be another input to torch at the end.",
        known="torch 2.13",
        until="never: torch.export makes plain lists",
        entered_in="onnxport.capture.forks.decisions",
    ),
    Patch(
        replaces=("torch._subclasses.fake_impls.get_fast_op_impls()",),
        why="The size of a part is unknown to torch where expressions don't tell that the part lies inside. A piece of "
        "an axis does, by how it is computed.",
        known="torch 2.13",
        until="the rule for slice takes the example's word, as others do",
        entered_in="onnxport.capture.patches.pieces",
    ),
    Patch(
        replaces=(
            *(f"{owner}.{name}" for owner in ("torch", "torch.Tensor") for name in ("equal", "allclose")),
            "torch.Tensor.__contains__",
            "torch.Tensor.is_contiguous",
            *(f"torch.SymFloat.__{name}__" for name in ("eq", "ne", "ge", "le", "array_ufunc", "array_function")),
            *(f"torch._numpy.ndarray.__{name}__" for name in ("array_ufunc", "array_function", "bool", "int", "float")),
            *(
                f"torch._numpy.ndarray.__{r}{name}__"
                for r in ("", "r")
                for name in ("add", "sub", "mul", "truediv", "pow")
            ),
            *(f"torch._numpy.ndarray.{name}" for name in ("__iter__", "astype")),
        ),
        why="They answer at once, as for the example or as if no number were NaN: the answer is a decision.",
        known="torch 2.13",
        until="their fake kernels give the truth as a symbol",
        entered_in="onnxport.capture.forks.decisions",
    ),
    Patch(
        replaces=tuple(
            f"torch.Sym{kind}.{name}" for kind in ("Int", "Float", "Bool") for name in ("__class__", "__repr__")
        ),
        why="To isinstance and match in the model's code a size is no int, which it is in eager mode, and its text is "
        "the name of a symbol.",
        known="all",
        until="torch.SymInt is an int to isinstance, and asks for its value where its text is read",
        entered_in="onnxport.capture.forks.kinds",
    ),
    Patch(
        replaces=("the code of functions of the model",),
        why="A function that makes plain numbers of sizes, or loops as run time says, runs from a rewritten source.",
        known="all",
        until="never: torch.export unrolls Python's loops",
        entered_in="onnxport.capture.rewriting.functions",
    ),
    Patch(
        replaces=("torch._higher_order_ops.scan.first_slice_copy",),
        why="A scan looks at the first of its items, so that there must be one in the example.",
        known="torch 2.13",
        until="torch.scan takes an empty input",
        entered_in="onnxport.capture.rewriting.open_loops",
    ),
    Patch(
        replaces=("the functions of random and numpy.random that draw",),
        why="A number that is drawn while a model is captured is a constant of the file: the line that draws is noted.",
        known="all",
        until="never: what Python draws is plain",
        entered_in="onnxport.capture.diagnosis.drawn_numbers",
    ),
    Patch(
        replaces=("torch.nn.Module.__setattr__",),
        why="A number that forward writes to an attribute is a constant of the file: the line that writes is noted.",
        known="all",
        until="never: attributes of Python are no state of a file",
        entered_in="onnxport.capture.diagnosis.changed_attributes",
    ),
    Patch(
        replaces=("torch.jit.ScriptFunction.__call__",),
        why="Scripted functions that a Python model calls are replayed, so that their branches stay branches.",
        known="all",
        until="never: torch.export does not look into TorchScript",
        entered_in="onnxport.capture.replay.embedded",
    ),
    Patch(
        replaces=(
            "torch.ao.nn.quantized.dynamic.LSTM.forward_packed",
            "torch.ao.nn.quantized.dynamic.GRU.forward_packed",
        ),
        why="They make a plain number of how many sequences there are, which a trace keeps.",
        known="torch 2.13",
        until="they take it from a size",
        entered_in="onnxport.capture.patches.packed_layers",
    ),
    Patch(
        replaces=("torch.jit._trace._trace_module_map",),
        why="The tracer notes the module of each node only while a module of its own is being traced.",
        known="torch 2.13",
        until="torch.jit.trace returns the map",
        entered_in="onnxport.capture.replay.tracing",
    ),
    Patch(
        replaces=("torch._C._is_tracing", "torch._C._get_tracing_state"),
        why="A model that asks whether it is being traced may return less then: whether one asks is noted.",
        known="all",
        until="never: models ask",
        entered_in="onnxport.capture.replay.tracing",
    ),
    Patch(
        replaces=(
            "torch.ao.quantization.FusedMovingAvgObsFakeQuantize.forward",
            "the buffers observer_enabled and fake_quant_enabled of such modules",
        ),
        why="Whether a module observes is asked of a buffer, and the fused operator writes to all of its arguments.",
        known="torch 2.13, torchao 0.18",
        until="the switches are plain attributes",
        entered_in="onnxport.capture.patches.fake_quantization",
    ),
    Patch(
        replaces=(
            "torch.distributed.tensor.DTensor.from_local",
            "torch.distributed.tensor.distribute_tensor",
            "to_local, full_tensor, redistribute, device_mesh and placements of torch.Tensor, which has none",
            "weights that are DTensors",
        ),
        why="A distributed tensor is made of a description that no graph can hold; over one process it is a tensor.",
        known="torch 2.13",
        until="torch.export takes DTensorSpec as a constant",
        entered_in="onnxport.capture.patches.distributed",
    ),
    Patch(
        replaces=("bitsandbytes.nn.Embedding4bit._forward_with_partial_dequantize",),
        why="The operator that it calls takes plain numbers for the sizes of its result, which fixes them.",
        known="bitsandbytes 0.50",
        until="bitsandbytes::dequantize_4bit takes SymInt",
        entered_in="onnxport.capture.patches.packed_tables",
    ),
    Patch(
        replaces=("torch.nn.utils.stateless._reparametrize_module",),
        why="Plain tensors stand in for weights, without what a class of parameters (bitsandbytes) keeps beside them. "
        "What stands in for a buffer is noted, so that a branch on the buffer is taken as its values have it.",
        known="torch 2.13",
        until="never: a fake tensor has no values",
        entered_in="onnxport.capture.patches.weight_attributes",
    ),
    Patch(
        replaces=("torch.autograd.Function.forward",),
        why="A function with a symbolic method is kept whole, however `apply` was reached.",
        known="all",
        until="never: torch.export looks into autograd functions",
        entered_in="onnxport.capture.patches.autograd_functions",
    ),
    Patch(
        replaces=("torch.library fake kernels of operators without one", "ShapeEnv._maybe_guard_rel"),
        why="An operator that someone translates need not have a fake kernel: its results' sizes are found by running.",
        known="all",
        until="never: torch.export asks for a fake kernel",
        entered_in="onnxport.capture.patches.fake_kernels",
    ),
    Patch(
        replaces=("torch.compiler.is_compiling",),
        why="transformers puts off registering an output class that is first met while torch traces.",
        known="transformers 4.50 to 5",
        until="transformers registers such a class at once",
        entered_in="onnxport.capture.request.trees",
    ),
    Patch(
        replaces=("torch.compiler.is_compiling",),
        why="A model that is run for shapes takes the way that it takes when it is exported.",
        known="transformers 5",
        until="never: models ask",
        entered_in="onnxport.pretrained.dry_run",
    ),
)
