"""The table of what is replaced in torch during an export: what, why, since which torch, and when it can go.

A row with ``enter`` belongs to :func:`onnxport.capture.patches.patched_torch`, which capture, decomposition and
delegation share. The others take the model or the request, and are entered where ``entered_in`` says.
"""

from __future__ import annotations

import contextlib

from onnxport.capture.patches.adaptive_pools import pooled_to_any_size
from onnxport.capture.patches.any_size import operators_of_any_size
from onnxport.capture.patches.call_lines import lines_of_calls
from onnxport.capture.patches.counts import counts_left_open
from onnxport.capture.patches.detached_data import data_as_detached
from onnxport.capture.patches.empty_axes import strides_of_empty_examples
from onnxport.capture.patches.fourier import transforms_of_any_size
from onnxport.capture.patches.low_precision import low_precision_as_computed
from onnxport.capture.patches.packed import sequences_packed
from onnxport.capture.patches.patch import Patch
from onnxport.capture.patches.quick_shapes import shapes_told_at_once
from onnxport.capture.patches.recurrent import recurrences_of_any_length
from onnxport.capture.patches.remembered_shapes import shapes_remembered_at_once
from onnxport.capture.patches.result_types import types_as_computed
from onnxport.capture.patches.shifts import shifts_of_truth_values
from onnxport.capture.patches.sliding_pools import pooled_by_any_size
from onnxport.capture.patches.tensor_numbers import numbers_in_and_out_of_tensors
from onnxport.capture.patches.unread_facts import unread_facts_left_out
from onnxport.capture.patches.unsolved import divisions_left_unsolved
from onnxport.torch_internals.symbolic_sizes import config as symbolic_config


def _size_oblivious() -> contextlib.AbstractContextManager[None]:
    patch: contextlib.AbstractContextManager[None]
    patch = symbolic_config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]
    return patch


def _kernels(*operators: str) -> tuple[str, ...]:
    return tuple(f"torch.ops.aten.{operator}.py_kernels" for operator in operators)


PATCHES: tuple[Patch, ...] = (
    Patch(
        replaces=("torch.fx.experimental._config.backed_size_oblivious",),
        why="An axis whose example has size 1 (or 0) would be specialised to it.",
        known="torch 2.9 to 2.13: off by default",
        until="torch.export is size-oblivious for backed symbols by default",
        enter=_size_oblivious,
    ),
    Patch(
        replaces=(
            *_kernels(
                *(
                    f"{name}.{overload}"
                    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
                    for overload in ("input", "data")
                )
            ),
            "torch._decomp.decomposition_table",
        ),
        why="On fake tensors torch steps through the layer, which fixes the length of the sequence to the example's.",
        known="torch 2.13: torch/_decomp/decompositions.py",
        until="these operators have fake kernels of their own",
        enter=recurrences_of_any_length,
    ),
    Patch(
        replaces=_kernels(
            "cov.default",
            "corrcoef.default",
            "kron.default",
            "max_pool1d.default",
            "take_along_dim.default",
            "tensor_split.sections",
            "_dim_arange.default",
            "_shape_as_tensor.default",
            "_reshape_from_tensor.default",
            "gradient.scalarint",
            "gradient.scalararray",
            "gradient.array",
            "gradient.scalarrayint",
            "gradient.scalarrayarray",
            "pad_sequence.default",
            "fill_diagonal_.default",
            "repeat_interleave.self_Tensor",
            "adaptive_max_pool3d.default",
            "fractional_max_pool3d.default",
            "geqrf.default",
        ),
        why="Their kernels, or the rules for their shapes, are C++ for plain integers: symbolic sizes become guards.",
        known="torch 2.13",
        until="their C++ takes SymInt",
        enter=operators_of_any_size,
    ),
    Patch(
        replaces=("torch.fx.proxy.TracerBase.create_node",),
        why="torch notes lines of functions named forward alone, so that a helper's line is not known; and at each "
        "placeholder it formats the stack to find nothing: a tenth of a capture with many weights.",
        known="torch 2.13",
        until="make_fx records stacks at calls only, with the lines of functions that forward calls",
        enter=lines_of_calls,
    ),
    Patch(
        replaces=(
            "torch.fx._lazy_graph_module._use_lazy_graph_module_flag",
            "torch.fx.experimental.proxy_tensor._extract_tensor_metadata",
            "torch.fx.experimental.proxy_tensor.track_tensor",
        ),
        why="torch writes and compiles Python code of the graph after each of its passes, finds the memory format of "
        "every node, and asks for sizes as the model would: a fifth of the capture of a convolutional network.",
        known="torch 2.9 to 2.13",
        until="torch.export compiles graphs when they are run, and notes tensors without its function modes",
        enter=unread_facts_left_out,
    ),
    Patch(
        replaces=_kernels("__lshift__.Scalar", "__lshift__.Tensor", "__rshift__.Scalar", "__rshift__.Tensor"),
        why="The rule for their dtypes refuses truth values, which their kernels take as whole numbers.",
        known="torch 2.13",
        until="torch's meta kernels of both take truth values beside whole numbers",
        enter=shifts_of_truth_values,
    ),
    Patch(
        replaces=_kernels(
            "_grouped_mm.default",
            "fake_quantize_per_tensor_affine_cachemask.default",
            "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default",
            "fake_quantize_per_channel_affine_cachemask.default",
        ),
        why="The rule for grouped products takes bfloat16 only, as graphics cards do; fake quantization has no rule "
        "for sizes that vary.",
        known="torch 2.13",
        until="torch's meta kernels take what the kernels of CPUs take",
        enter=low_precision_as_computed,
    ),
    Patch(
        replaces=(
            "torch.istft",
            *_kernels(
                *(f"fft_{i}{kind}fft{n}.default" for i in ("", "i") for kind in ("", "r", "h") for n in ("", "2", "n"))
            ),
        ),
        why="A transform of a stated length asks which of length and size is larger, or takes it for a plain number.",
        known="torch 2.13: resize_fft_input in SpectralOps.cpp",
        until="the length is padded and cut without a guard",
        enter=transforms_of_any_size,
    ),
    Patch(
        replaces=(
            "torch.nn.functional.adaptive_avg_pool1d",
            "torch.adaptive_avg_pool1d",
            "torch.adaptive_max_pool1d",
            "torch._C._nn.adaptive_max_pool2d",
            "torch._C._nn.adaptive_max_pool3d",
        ),
        why="Their bindings read the output size as a plain integer before any operator is recorded.",
        known="torch 2.13",
        until="their schemas take SymInt",
        enter=pooled_to_any_size,
    ),
    Patch(
        replaces=(
            *(f"torch.max_pool{axes}d" for axes in (1, 2, 3)),
            *(f"torch.nn.functional.avg_pool{axes}d" for axes in (1, 2, 3)),
            *("torch.avg_pool1d", "torch._C._nn.avg_pool2d", "torch._C._nn.avg_pool3d"),
            "torch._meta_registrations.div_rtn",
        ),
        why="Their bindings read the size of windows as a plain integer: `avg_pool2d(x, x.shape[2:])` is fixed. Until "
        "torch 2.12 their shapes ask whether a division leaves a remainder, and do the same either way.",
        known="torch 2.13",
        until="their schemas take SymInt",
        enter=pooled_by_any_size,
    ),
    Patch(
        replaces=(
            "torch.arange",
            "torch.linspace",
            "torch.hann_window",
            "torch.hamming_window",
            "torch.blackman_window",
            "torch.bartlett_window",
            "torch.triu_indices",
            "torch.tril_indices",
            "torch.nn.functional.one_hot",
            "torch.backends.opt_einsum.get_opt_einsum",
        ),
        why="Their bindings (opt_einsum: the package) read a count as a plain integer; arange asks whether a tensor "
        "given as out has the size.",
        known="torch 2.13",
        until="their schemas take SymInt, and opt_einsum symbolic sizes",
        enter=counts_left_open,
    ),
    Patch(
        replaces=(
            "torch._VF._pack_padded_sequence",
            "torch._VF._pad_packed_sequence",
            "torch.nn.utils.rnn._packed_sequence_init_args",
            "torch.nn.utils.rnn.pad_packed_sequence.__code__",
            "torch.nn.RNNBase.get_expected_hidden_size",
            "torch.nn.LSTM.get_expected_cell_size",
            "torch._subclasses.fake_impls.op_implementations_dict",
        ),
        why="The sizes of a packed sequence depend on the lengths, and packing has no fake kernel.",
        known="torch 2.13",
        until="packing and padding have fake kernels that leave their sizes open",
        enter=sequences_packed,
    ),
    Patch(
        replaces=(
            "torch.zeros",
            "torch.ones",
            "torch.empty",
            "torch.full",
            "torch.tensor",
            "torch.as_tensor",
            "torch._subclasses.fake_tensor.FakeTensor.tolist",
            "torch._export.non_strict_utils._NonStrictTorchFunctionHandler._override",
        ),
        why="Their bindings read sizes and places that are tensors, and lists of sizes or tensors, as plain numbers, "
        "and a truth as an index as the example's; a list of a tensor's numbers has as many as the example.",
        known="torch 2.13",
        until="their bindings take SymInt and fake tensors, and tolist keeps its length open",
        enter=numbers_in_and_out_of_tensors,
    ),
    Patch(
        replaces=("torch._subclasses.fake_impls.op_implementations_dict",),
        why="The fake kernel of bincount gives the type of its input, where counts are int64 and sums of weights not.",
        known="torch 2.9 to 2.12",
        until="torch 2.13 is the oldest version that is declared",
        enter=types_as_computed,
    ),
    Patch(
        replaces=("torch._subclasses.fake_impls.get_fast_op_impls()",),
        why="The shapes of batch norm and activations come from reference implementations, anew for each shape: "
        "a fifth of the capture of a convolutional network. That of unbind keeps an axis that it can't simplify to 1, "
        "and that of unfold takes it for known that the example has a single window. Those of roll, cummax, cummin and "
        "logsumexp ask whether there is any element, which is not known of as many as data decide.",
        known="torch 2.13",
        until="torch tells these shapes as fast",
        enter=shapes_told_at_once,
    ),
    Patch(
        replaces=("torch._subclasses.fake_tensor.FakeTensorMode._get_output_info_for_cache_entry",),
        why="Every result is made a second time to see that it can be kept for calls on the same shapes, which takes a "
        "third of a capture with sizes that are computed.",
        known="torch 2.13: _make_cache_entry in fake_tensor.py",
        until="torch no longer makes a result again to keep it",
        enter=shapes_remembered_at_once,
    ),
    Patch(
        replaces=("torch._prims_common.compute_elementwise_output_logical_to_physical_perm",),
        why="It divides by sizes, of which one is 0 where the example has an empty axis that varies.",
        known="torch 2.13",
        until="torch._prims_common no longer divides by an example's size",
        enter=strides_of_empty_examples,
    ),
    Patch(
        replaces=("torch.fx.experimental.symbolic_shapes.DimConstraints._has_unsupported_sympy_function",),
        why="Guards with divisions are solved with the example's remainders: an axis would be forced to its size, or "
        "the solver fails on what it made of them.",
        known="torch 2.13: rewrite_with_congruences in symbolic_shapes.py",
        until="DimConstraints.solve leaves guards alone that it has no solution for",
        enter=divisions_left_unsolved,
    ),
    Patch(
        replaces=("torch.Tensor.data", "torch.Tensor.__deepcopy__"),
        why="No tracer sees the attribute being read, and makes a constant of what it gives for the example. A deep "
        "copy is one of the storage, which fake tensors have none of.",
        known="torch 2.13",
        until="`x.data` is captured as `x.detach()`, and a deep copy as a clone",
        enter=data_as_detached,
    ),
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
            *(f"torch.Tensor.__{name}__" for name in ("iter", "int", "float", "index")),
            *(f"torch.SymInt.__{name}__" for name in ("repr", "divmod", "hash", "truediv")),
            *(f"torch.SymFloat.{name}" for name in ("is_integer", "__ceil__", "__floor__", "__trunc__")),
            "torch.SymBool.__eq__",
            "torch.SymBool.__ne__",
        ),
        why="Python makes a plain number of a size, or text, or as many rows as the example has: the function that "
        "does is rewritten, so that it does not. Of math.ceil(n / 2) torch proves little: it is (n + 1) // 2.",
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
        why="Plain tensors stand in for weights, without what a class of parameters (bitsandbytes) keeps beside them.",
        known="torch 2.13",
        until="torch.export gives its stand-ins the attributes of parameters",
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
