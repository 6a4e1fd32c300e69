"""The table of what is replaced in torch during an export: what, why, since which torch, and when it can go.

A row with ``enter`` belongs to :func:`onnxport.capture.patches.patched_torch`, which capture, decomposition and
delegation share. The others (:mod:`onnxport.capture.patches.entered_elsewhere`) take the model or the request.
"""

from __future__ import annotations

import contextlib

from onnxport.capture.patches.adaptive_pools import pooled_to_any_size
from onnxport.capture.patches.any_size import operators_of_any_size
from onnxport.capture.patches.branch_equalities import equalities_of_branches_forgotten
from onnxport.capture.patches.broadcast_ones import examples_ones_broadcast
from onnxport.capture.patches.call_lines import lines_of_calls
from onnxport.capture.patches.counts import counts_left_open
from onnxport.capture.patches.detached_data import data_as_detached
from onnxport.capture.patches.entered_elsewhere import ENTERED_ELSEWHERE
from onnxport.capture.patches.fourier import transforms_of_any_size
from onnxport.capture.patches.gradients import gradients_recorded
from onnxport.capture.patches.low_precision import low_precision_as_computed
from onnxport.capture.patches.module_conversions import modules_converted_in_graph
from onnxport.capture.patches.orders_in_memory import orders_told_for_all_sizes
from onnxport.capture.patches.packed import sequences_packed
from onnxport.capture.patches.patch import Patch
from onnxport.capture.patches.quick_shapes import shapes_told_at_once
from onnxport.capture.patches.rebuilt_sizes import extremes_of_two
from onnxport.capture.patches.recurrent import recurrences_of_any_length
from onnxport.capture.patches.remembered_shapes import shapes_remembered_at_once
from onnxport.capture.patches.result_types import types_as_computed
from onnxport.capture.patches.shifts import bytes_and_truth_values
from onnxport.capture.patches.sliding_pools import pooled_by_any_size
from onnxport.capture.patches.tensor_numbers import numbers_in_and_out_of_tensors
from onnxport.capture.patches.unread_facts import unread_facts_left_out
from onnxport.capture.patches.unsolved import divisions_left_unsolved
from onnxport.torch_internals.fake_tensors import REBUILDING_SIZES
from onnxport.torch_internals.operators import BEFORE_HIGHER_ORDER_CALLS, CHECKS_OF_OPERANDS
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
            "torch._higher_order_ops.cond.CondOp.__call__",
            *(f"{module.__name__}.{name}" for module, name in (*BEFORE_HIGHER_ORDER_CALLS, *CHECKS_OF_OPERANDS)),
        ),
        why="Two sizes that one way of a branch takes for equal would be one size in the whole model: "
        "ShapeEnv.evaluate_expr keeps no guard of them there. Numbers of data that are not whole are refused.",
        known="torch 2.13",
        until="torch.cond keeps what a branch finds of sizes to the branch",
        enter=equalities_of_branches_forgotten,
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
        replaces=(
            *_kernels("__lshift__.Scalar", "__lshift__.Tensor", "__rshift__.Scalar", "__rshift__.Tensor"),
            "torch._decomp.decomposition_table",
        ),
        why="The rule for the dtypes of shifts refuses truth values, which their kernels take as whole numbers; that "
        "of where refuses bytes, which its kernel takes as truth values.",
        known="torch 2.13",
        until="torch's meta kernels take what their kernels take",
        enter=bytes_and_truth_values,
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
            "torch.combinations",
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
        "given as out has the size; combinations selects by several masks within one operator, whose counts are lost.",
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
            "torch.from_numpy",
            "torch._subclasses.fake_tensor.FakeTensor.tolist",
            "torch._subclasses.fake_tensor.FakeTensor.numpy",
            "torch._export.non_strict_utils._NonStrictTorchFunctionHandler._override",
        ),
        why="Their bindings read sizes and places that are tensors, and lists of sizes or tensors, as plain numbers, "
        "and a truth as an index as the example's; a list of a tensor's numbers has as many as the example. _override "
        "is asked for each call of a function of torch: also by code that imported one by its name, and for those "
        "whose bindings want plain numbers (pad, nan_to_num, quantile, scaled_dot_product_attention, unfold).",
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
        replaces=tuple(f"{module.__name__}.{name}" for module, name in REBUILDING_SIZES),
        why="The largest of two sizes that a body has by its expression only is recorded as a function that torch's "
        "check of graphs refuses.",
        known="torch 2.13",
        until="the graph's check knows _nary_sym_max",
        enter=extremes_of_two,
    ),
    Patch(
        replaces=("torch._subclasses.fake_impls.infer_size", "torch._refs._broadcast_shapes"),
        why="A computed size that is 1 in the example meets one that is more: the fast rule refuses the example, and "
        "the slow one guards that it is 1, but has kept that this is open.",
        known="torch 2.13",
        until="the fast rule does what the slow one means to, and guards end what ShapeEnv keeps",
        enter=examples_ones_broadcast,
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
        replaces=(
            *(f"torch._C.{name}" for name in ("_select_conv_backend", "_conv_determine_backend_memory_format")),
            "torch._subclasses.fake_impls._compute_stride",
            "torch._prims_common.compute_elementwise_output_logical_to_physical_perm",
            "torch.Tensor.contiguous",
            *_kernels("contiguous.default"),
        ),
        why="Layouts of convolutions, copies and views ask for the example's sizes, a batch of 1 above all, and fix "
        "them; the order of axes divides by sizes, of which one is 0 where the example has an empty axis.",
        known="torch 2.13",
        until="torch's fake kernels tell strides without guards",
        enter=orders_told_for_all_sizes,
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
        replaces=("torch.nn.Module._apply",),
        why="A module that the model's code converts swaps its weights for others, which fake tensors refuse.",
        known="torch 2.13",
        until="torch.export captures `module.to(dtype)`",
        enter=modules_converted_in_graph,
    ),
    Patch(
        replaces=(
            "torch.autograd._engine_run_backward",
            "torch.fx.experimental.proxy_tensor.track_tensor",
            *(
                f"torch._functorch.eager_transforms.{name}"
                for name in (
                    *("_autograd_grad", "_jvp_with_argnums", "grad_increment_nesting", "_wrap_all_tensors"),
                    *("_create_differentiable", "_undo_create_differentiable"),
                )
            ),
        ),
        why="Gradients that forward computes run beneath what a capture records, and transforms of functions wrap "
        "tensors in what fake tensors do not know.",
        known="torch 2.13",
        until="torch.export captures torch.autograd.grad and torch.func.grad",
        enter=gradients_recorded,
    ),
    Patch(
        replaces=("torch.Tensor.data", "torch.Tensor.__deepcopy__"),
        why="No tracer sees the attribute being read, and makes a constant of what it gives for the example. A deep "
        "copy is one of the storage, which fake tensors have none of.",
        known="torch 2.13",
        until="`x.data` is captured as `x.detach()`, and a deep copy as a clone",
        enter=data_as_detached,
    ),
    *ENTERED_ELSEWHERE,
)
