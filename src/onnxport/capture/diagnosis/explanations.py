"""What the commonest failures of a capture mean, and what to write instead.

torch says what it could not do; a user wants to know what of the model's code asks for it. Each row recognises one
failure by torch's words and, where those serve several, by the user's line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

NOT_RUNNING = "Check that the model runs with these inputs in eager mode, as model(*args)."
UNEXPLAINED = (
    "Check that the model runs with these inputs in eager mode; if it does, rewrite that line "
    "so that torch.export can trace it."
)
RAISED = "The model's own code raises this: check that it runs with these inputs in eager mode."
_DATA_DEPENDENT = r"[Dd]ata[- ]dependent"


@dataclass(frozen=True)
class Explanation:
    """What happened, and what to do about it.

    ``{0}`` stands for what the pattern found, ``{message}`` for the first line of torch's message.
    """

    pattern: str
    what: str
    remedy: str
    code: str = ""


EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        r"unhashable type: \S+ SymInt|Could not extract specialized integer",
        "A number read from a tensor chooses among Python objects (an entry of a list or dict, a repetition).",
        "Keep the choice in tensors: stack the candidates and index them with the tensor, or use torch.cond.",
    ),
    Explanation(
        _DATA_DEPENDENT,
        "A loop goes on as long as the values of a tensor say so; a graph has no such loop.",
        "Use torch.while_loop, or a fixed number of steps in which torch.where decides what still changes.",
        code=r"^while\b",
    ),
    Explanation(
        _DATA_DEPENDENT,
        "An assertion reads the values of a tensor, which are not known while the model is captured.",
        "Remove it from forward, or state it as torch._check(condition) on sizes and numbers.",
        code=r"^assert\b",
    ),
    Explanation(
        _DATA_DEPENDENT,
        "A value known only at run time decides which Python code runs; a graph has to hold both ways.",
        "Use torch.where(condition, a, b) or torch.cond(condition, f, g, operands) instead of the Python branch.",
        code=r"\b(if|elif|bool|any|all|and|or|not)\b",
    ),
    Explanation(
        _DATA_DEPENDENT,
        "A size or an index is a value known only at run time, and what follows needs to know more about it.",
        "State what is always true of it before that line, such as torch._check(n >= 1) and torch._check(n <= limit).",
    ),
    Explanation(
        r"Object of type (Sym\w+) is not JSON|tolist\(\) with non-integer tensor|must be real number, not Sym\w+",
        "Python code outside torch is given numbers read from a tensor (.item(), .tolist()).",
        "Compute with tensors up to the result, or do that part before or after the exported model.",
    ),
    Explanation(
        r"\.numpy\(\) is not supported|numpy function unsupported|Can't call numpy\(\)"
        r"|no implementation found for 'numpy\.",
        "The model calls NumPy, or a library that needs arrays; only torch operators become part of a graph.",
        "Write it with torch operators, or wrap it with torch.library.custom_op and give it a translation.",
    ),
    Explanation(
        r"Unsupported input type <class 'numpy.ndarray'>",
        "An example input is a NumPy array; torch.export takes tensors.",
        "Pass torch.as_tensor(array).",
    ),
    Explanation(
        r"Unsupported input type <class '([^']+)'>|inputs with type `<class '([^']+)'>` is not supported",
        "An example input is of type {0}, in which torch.export sees no tensors.",
        "Pass tensors, numbers, strings, or tuples, lists, dicts and dataclasses of them; "
        "for a class of your own call torch.utils._pytree.register_pytree_node.",
    ),
    Explanation(
        r"NestedTensorImpl",
        "An example input, or what the model makes of it, is a nested tensor, which ONNX has not.",
        "Pass a padded tensor and the lengths, or a mask, and compute with those.",
    ),
    Explanation(
        r'is missing the required "forward" function',
        "The model has no forward.",
        "Define forward(self, ...) in its class; a method of another name is passed as model.method.",
    ),
    Explanation(
        r"must be Tensor, not ([\w.]+)|expected Tensor .* but (?:got|found) type (\w+)",
        "An operator needs a tensor, and what it is given is of type {0}.",
        "Pass a tensor: torch.as_tensor(value) makes one of numbers and arrays.",
    ),
    Explanation(
        r"leaf Variable that requires grad is being used in an in-place operation",
        "The model writes in place to a parameter that requires grad, which torch does not allow outside no_grad.",
        "Compute a new tensor (weight = weight + 1), make it a buffer, or do it once before exporting.",
    ),
    Explanation(
        r"same device|not on the expected device|DeviceMismatch|device mismatch",
        "Tensors on different devices meet in one operator.",
        "Move model and inputs to one device (model.to(device), x.to(device)); "
        "create tensors in forward with device=x.device.",
    ),
    Explanation(
        r"not linked with support for (\w+) devices|not compiled with (\w+) enabled|No (CUDA) GPUs|no NVIDIA driver"
        r"|device type at start of device string",
        "The model asks for a device that this machine or this build of torch does not have.",
        "Create tensors on the device of the inputs (device=x.device) instead of naming one, as .cuda() does.",
    ),
    Explanation(
        r"'indices' to have one of the following scalar types",
        "An embedding is indexed with numbers that are not integers.",
        "Pass integer indices as the example input: torch.randint(...) or x.long().",
    ),
    Explanation(
        r"type \(\S+\) and \w+ type \(\S+\) should be the same|same dtype|expected scalar type|must have the same type"
        r"|does not match weight dtype|Type promoting not supported",
        "Tensors of different element types meet in an operator that takes one type.",
        "Give the example input the type of the weights, x.to(weight.dtype), or convert the model, model.to(dtype).",
    ),
    Explanation(
        r"RecursionError",
        "The model calls itself without end, or deeper than Python allows.",
        "Write the recursion as a loop of fixed length, or raise sys.setrecursionlimit if it does end.",
    ),
    Explanation(
        r"'FakeTensor' object has no attribute '(\w+)'|'Tensor' object has no attribute '(\w+)'",
        "Tensors have no attribute '{0}'.",
        "Check the name; an attribute that your code puts on tensors is not there while the model is captured.",
    ),
    Explanation(
        r"DTensorSpec|mixed torch\.Tensor and DTensor",
        "The model's weights are distributed over processes (torch.distributed.tensor.DTensor).",
        "Export the module without distribute_module or parallelize_module, with the weights that get_model_state_dict "
        "of torch.distributed.checkpoint.state_dict gives with StateDictOptions(full_state_dict=True).",
    ),
    Explanation(
        r"Cannot access data pointer|data pointer of Tensor",
        "Code outside torch's operators reads the memory of a tensor; while the model is captured there is none.",
        "Wrap that code with torch.library.custom_op and torch.library.register_fake, and give it a translation.",
    ),
    Explanation(
        r"(?:UnsupportedOperator|DynamicOutputShape)Exception: (\w+\.\w+\.\w+)"
        r"|does not support running with fake tensors|no fake impl",
        "The operator {0} cannot be run without values, so its result's shape is not known.",
        "Register how it computes shapes with torch.library.register_fake, or use another operator.",
    ),
    Explanation(
        r"fake tensor in the exported program constant|in_kernel_invocation must be False",
        "Tensors are computed where the capture does not see it, such as in another thread.",
        "Do the computation in the thread that calls forward; onnxruntime runs operators in parallel by itself.",
    ),
    Explanation(
        r"(FileNotFoundError|PermissionError|IsADirectoryError)",
        "The model reads a file while it runs, and the file cannot be read.",
        "Load it in __init__, with the right path, and keep the content as a buffer.",
    ),
    Explanation(
        r"No module named '([^']+)'",
        "The model imports {0}, which is not installed.",
        "Install it, or import it only where it is needed.",
    ),
    Explanation(
        r"(index -?\d+ is out of bounds for dimension \d+ with size \d+|Dimension out of range \([^()]*\d\))",
        "An index lies outside the tensor it is for: {0}.",
        "Check it against the shape of the example input.",
    ),
    Explanation(
        r"index \S+ is out of (?:bounds|range)|list index out of range|Dimension out of range",
        "An index lies outside the tensor or list it is for.",
        "Check it against the shape of the example input.",
    ),
    Explanation(
        r"Cannot view a tensor with shape|view size is not compatible",
        "A view of a tensor needs its elements in memory in that order, and a transposed one has them in another.",
        "Write reshape(...) instead of view(...), or contiguous() before it.",
    ),
    Explanation(
        r"Expected more than 1 (?:value per channel|spatial element) when training",
        "A normalization in training mode needs more than one value to take the mean of.",
        "Call model.eval() before exporting, or pass an example of a larger batch to export it in training mode.",
    ),
    Explanation(
        r"NameError: name '(\w+)' is not defined",
        "The name {0} is not defined where the model uses it.",
        "Define or import it in the file of that line.",
    ),
    Explanation(
        r"does not require grad and does not have a grad_fn",
        "The model computes gradients of something that does not depend on a tensor with requires_grad.",
        "Call requires_grad_() on the input of that part, or leave gradients out of the exported model.",
    ),
    Explanation(
        r"must match|same reduction dim|cannot be multiplied|broadcast a dimension|is invalid for input of size"
        r"|not broadcastable|does not broadcast with|each tensor to be equal size|must be equal to input_size"
        r"|expected input.* to have \d+ channels|Expected \d+D|Given groups|Expected hidden",
        "Shapes do not fit together: {message}",
        "Check that the model runs with these inputs in eager mode: the example may have another shape than it takes.",
    ),
)


def explain(error: BaseException, where: str) -> tuple[str, str] | None:
    """Return what an error means and what to do, or None for one that is not in the table.

    Args:
        error: What torch raised.
        where: The user's line as ``file:line in function: code``.

    >>> explain(RecursionError("maximum recursion depth exceeded"), "")[0]
    'The model calls itself without end, or deeper than Python allows.'
    >>> explain(ValueError("my own"), "") is None
    True
    """
    # The code stands behind the last part of the place; a lambda's or a nested call's line may hold more colons.
    code = where.partition(" in ")[2].partition(": ")[2].strip()
    text = "\n".join(_texts(error))
    for row in EXPLANATIONS:
        match = re.search(row.pattern, text)
        if match is not None and re.search(row.code, code):
            found = next((group for group in match.groups() if group), "named in the message")
            return row.what.format(found, message=_first_line(error)), row.remedy
    return None


_MISFIT = re.compile(
    r"Attempting to broadcast a dimension .* had (\[.*?\]); but expected shape should be broadcastable to (.*)"
)
_LONGEST = 160


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    if not lines:
        return type(error).__name__
    line = re.sub(r"torch\.Size\((\[.*?\])\)", r"\1", lines[0])
    line = _MISFIT.sub(r"\1 does not broadcast to \2.", line)
    # A size that varies has a symbol of torch's here, which is no word of the user's.
    line = re.sub(r"\b[su]\d+\b", "?", re.sub(r" \([su]\d+\)", "", line))
    return line if len(line) <= _LONGEST else line[:_LONGEST].rpartition(" ")[0] + " …"


def _texts(error: BaseException) -> Iterator[str]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield f"{type(current).__name__}: {current}"
        current = current.__cause__
