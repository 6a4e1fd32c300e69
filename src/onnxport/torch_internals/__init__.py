"""Every private name of torch that the package uses, and what differs between versions of torch.

torch keeps the names without an underscore and moves the others as it likes. Nothing else in the package imports or
spells a private name of torch, so that a new version is read against these files:

====================  =============================================================================================
``operators``         overloads, schemas, kernels, registrations, decompositions, higher-order operators
``fake_tensors``      tensors without values, and the modes that see every call
``subclasses``        tensors that wrap other tensors
``pytree``            nested containers
``symbolic_sizes``    symbolic dimensions, guards, and how they are configured
``sympy_functions``   the functions in their expressions
``torchscript``       graphs, types and functions of TorchScript, and the tracer
``gradients``         gradients that a model computes, and transforms of functions
``layers``            base classes of layers, autograd functions, and what FX keeps about a tensor
``arrays``            torch's numpy, whose arrays hold tensors
``exporting``         torch.export and bytecode tracing; imported when a model is captured, since it takes seconds
====================  =============================================================================================

Private *operators* (``torch.ops.aten._to_copy``) are no concern of this package: they are in the graphs that torch
writes, and a translation of one that is absent is left out. ``torch._check`` counts as public: torch's own
documentation tells users to call it.

:data:`ATTRIBUTES` lists the private attributes that are read on torch's objects, with the class of each.
"""

from __future__ import annotations

__all__ = ["ATTRIBUTES"]

#: Private attributes of torch's objects that the package reads or replaces, by the class they belong to.
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "OpOverload": ("_can_decompose", "_dispatch_cache", "_op_dk", "_opname", "_overloadname", "_schema"),
    "CustomOpDef": ("_abstract_fn", "_opoverload"),
    "Library": ("_destroy",),
    "DimConstraints": ("_has_unsupported_sympy_function",),
    "ShapeEnv": ("_log_guard", "_maybe_guard_rel", "_set_replacement"),
    "Module": ("_buffers", "_modules", "_parameters", "_state_dict_hooks"),
    "Tensor": ("_has_symbolic_sizes_strides", "_is_view", "_version"),
    "UntypedStorage": ("_cdata",),
    "Node": ("_rename",),
    "RecursiveScriptModule": ("_c",),
    "ScriptModule": ("_get_forward_hooks", "_get_forward_pre_hooks", "_get_method", "_method_names", "_type"),
    "ExportedProgram": ("_report",),
    "fake_impls": ("_compute_stride",),
    "FUNCTION_TRANSFORMS": ("_autograd_grad", "_jvp_with_argnums", "_vjp_with_argnums"),
    "jit_state": ("_python_cu",),
    "jit_trace": ("_trace_module_map",),
    "onnx_flags": ("_is_onnx_exporting",),
    "stateless": ("_reparametrize_module",),
    "packing": ("_packed_sequence_init_args",),
    "variable_functions": ("_pack_padded_sequence", "_pad_packed_sequence"),
}
