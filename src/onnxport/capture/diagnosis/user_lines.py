"""Finding the user's line: in a live stack, in a traceback, or in the text of an error that quotes a stack."""

from __future__ import annotations

import contextlib
import dis
import functools
import linecache
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import FrameType, TracebackType
from typing import Literal, Protocol

import torch

from onnxport.errors import with_article
from onnxport.source_files import (
    NUMPY_FOLDER,
    PACKAGE_FOLDER,
    TORCH_FOLDER,
    is_librarys_file,
    is_users_file,
    unwrapped,
)
from onnxport.undoing import pushed

# The package's own places among them; whatever else of it asks does so for an operator.
_LISTENING = tuple(
    os.path.join(PACKAGE_FOLDER, "capture", *place)
    for place in (("forks", ""), ("diagnosis", ""), ("patches", "branch_equalities.py"))
)
# What rewritten code calls in the place of Python's own functions and lists, and what is run in the place of its loops.
_IN_PYTHONS_PLACE = os.path.join(PACKAGE_FOLDER, "capture", "rewriting", "")
STRATEGIES = os.path.join(PACKAGE_FOLDER, "capture", "strategies.py")
"""The file from which models are run: what is further out called the export."""
# The branches of a script that is replayed: what asks there is the script.
_REPLAYED = os.path.join(PACKAGE_FOLDER, "capture", "replay", "control") + os.sep
# What stands between the code that asks for the truth of a size and the environment that answers.
_ANSWERING = tuple(
    os.path.join(TORCH_FOLDER, place)
    for place in (
        *("__init__.py", "fx/experimental/", "utils/_stats.py", "_export/non_strict_utils.py"),
        # Lists of modules, which an index of the model's code chooses from.
        "nn/modules/container.py",
    )
)
_MODULES = os.path.join(TORCH_FOLDER, "nn", "")
_BYTECODE_TRACER = os.path.join(TORCH_FOLDER, "_dynamo", "")
# Where the bytecode tracer asks what the code that it traces asks.
_ASKED_IN_BYTECODE = os.path.join(_BYTECODE_TRACER, "variables", "tensor.py")
_QUOTED_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')

# Where torch finds the shape that shapes broadcast to, by file and function.
_BROADCASTING = tuple(
    (os.path.join(TORCH_FOLDER, *path.split("/")), function)
    for path, function in (
        ("_refs/__init__.py", "_broadcast_shapes"),
        ("_prims/__init__.py", "_broadcast_in_dim_meta"),
        ("_subclasses/fake_impls.py", "infer_size"),
    )
)
_FRAMES_TO_BROADCASTING = 10

Place = tuple[str, int, str]


def is_asked_by_broadcast() -> bool:
    """Whether what is asked of sizes is asked to find the shape that tensors broadcast to."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_FRAMES_TO_BROADCASTING):
        if frame is None:
            return False
        if (frame.f_code.co_filename, frame.f_code.co_name) in _BROADCASTING:
            return True
        frame = frame.f_back
    return False


def describe(place: Place) -> str:
    """Return ``file:line in function: code`` of a place."""
    filename, line, function = place
    code = linecache.getline(filename, line).strip()
    return f"{filename}:{line} in {function}" + (f": {code}" if code else "")


def _innermost(places: Iterable[Place]) -> str:
    found = None
    for place in places:
        if is_users_file(place[0]):
            found = place
    return describe(found) if found else ""


def _quoted(text: str) -> Iterator[Place]:
    for match in _QUOTED_FRAME.finditer(text):
        yield match[1], int(match[2]), match[3]


def line_of_error(error: BaseException) -> str:
    """Return ``file:line in function: code`` of the innermost user frame an error passed through, or ''."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        frames = (
            (f.f_code.co_filename, line, f.f_code.co_name)
            for f, line in traceback.walk_tb(current.__traceback__)
            if not _is_generated(f)
        )
        # The text comes second: a bytecode tracer never runs the user's frames, so only its message has them.
        texts = [str(current), *getattr(current, "__notes__", ())]
        place = next(filter(None, map(_innermost, map(_quoted, texts[1:]))), "") or _innermost(frames)
        place = place or _innermost(_quoted(texts[0]))
        if place:
            return place
        current = current.__cause__ or current.__context__
    return ""


def _is_generated(frame: FrameType) -> bool:
    """Whether torch made the code of a frame and ran it: it has no file, as code that is typed has none."""
    if not frame.f_code.co_filename.startswith("<") or "__name__" in frame.f_globals:
        return False
    return frame.f_back is not None and frame.f_back.f_code.co_filename.startswith(TORCH_FOLDER)


def _checks_guards(frame: FrameType) -> bool:
    """Whether a frame is torch's question whether what torch.compile made before serves again, compiled from text."""
    return frame.f_code.co_qualname == "___make_guard_fn.<locals>.guard"


def line_of_function(function: object) -> str:
    """Return ``file:line in function`` of where a function is defined, or ''."""
    code = getattr(unwrapped(function) if callable(function) else None, "__code__", None)
    if code is None:
        return ""
    line = code.co_firstlineno
    # A function begins with its decorators.
    while linecache.getline(code.co_filename, line).lstrip().startswith("@"):
        line += 1
    return describe((code.co_filename, line, code.co_name))


def module_of_error(error: BaseException, model: object) -> str:
    """Return the innermost module that an error passed through: ``the module '0.fc', a Linear(4, 2)``, or ''."""
    if not isinstance(model, torch.nn.Module):
        return ""
    callers = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
    paths = {id(module): path for path, module in model.named_modules()}
    inside = [module for module in callers if isinstance(module, torch.nn.Module) and id(module) in paths]
    if not inside:
        return ""
    module = inside[-1]
    path = paths[id(module)]
    subject = f"the module '{path}'" if path else "the model"
    return f"{subject}, {with_article(type(module).__name__)}({module.extra_repr()})"


def condition_of(where: str) -> str:
    """What a place asks for, in the words of its code.

    >>> condition_of("model.py:7 in forward: if y.sum() > 0:  # positive")
    'The condition `y.sum() > 0`'
    >>> condition_of("model.py:8 in forward: z = table[y.item()]")
    'A value'
    """
    code = where.partition(" in ")[2].partition(": ")[2]
    asked = re.match(r"(?:if|elif|while|assert)\b\s*(.+?)\s*(?::\s|:$|,|$)", code)
    return f"The condition `{asked[1]}`" if asked is not None else "A value"


def line_of_summary(frames: Iterable[traceback.FrameSummary]) -> str:
    """Return the innermost user line of a stack summary, or ''."""
    return _innermost((frame.filename, frame.lineno or 0, frame.name) for frame in frames)


def raised_by_model(error: BaseException) -> bool:
    """Whether an error was raised by a statement of the model's own code, and not within torch."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    # What stands for Python's own functions raises as they do.
    return bool(files) and (is_users_file(files[-1]) or files[-1].startswith(_IN_PYTHONS_PLACE))


def raised_on_purpose(error: BaseException) -> bool:
    """Whether a ``raise`` or ``assert`` of the model's own code made an error, and not an operation that failed."""
    steps = list(_steps(error.__traceback__))
    if not steps or not is_users_file(steps[-1].tb_frame.f_code.co_filename):
        return False
    return steps[-1].tb_frame.f_code.co_code[steps[-1].tb_lasti] == dis.opmap["RAISE_VARARGS"]


def _steps(step: TracebackType | None) -> Iterator[TracebackType]:
    while step is not None:
        yield step
        step = step.tb_next


class RunningReplay(Protocol):
    """What runs the user's code without its frames."""

    def line(self) -> str:
        """Return the frames that are running, quoted as in a traceback."""


_replays: list[RunningReplay] = []


@contextlib.contextmanager
def running(replay: RunningReplay) -> Iterator[None]:
    """While the block runs, a replay knows which line is running."""
    with pushed(_replays, replay):
        yield


def line_of_caller() -> str:
    """Return the innermost user line that is running now, above the one that asked for the capture, or ''."""
    if _replays:
        return _innermost(_quoted(_replays[-1].line()))
    frame = frame_of_caller()
    return "" if frame is None else describe((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))


def frame_of_caller() -> FrameType | None:
    """Return the innermost frame of the user's that is running now, above the one that asked for the capture."""
    return next(frames_of_callers(), None)


def frames_of_callers() -> Iterator[FrameType]:
    """The frames of the user's that are running now, from the innermost to the one below what asked for the capture."""
    frame: FrameType | None = sys._getframe(1)
    # The package's own kernels may be running for an operator of the user's; what began the capture ends the search.
    while frame is not None and frame.f_code.co_filename != STRATEGIES:
        if is_users_file(frame.f_code.co_filename) and not _checks_guards(frame) and not _is_generated(frame):
            yield frame
        frame = frame.f_back


@lru_cache(maxsize=1024)
def _passes_on(filename: str) -> bool:
    """Whether code of a file looks at values for the code that calls it."""
    return filename in ("<frozen abc>", functools.__file__) or NUMPY_FOLDER in filename


def runs_for_model(frame: FrameType | None) -> bool:
    """Whether the code of a frame is the user's or a library's, or was called by such code to look at a value."""
    while frame is not None and _passes_on(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and is_users_file(frame.f_code.co_filename)


def line_of_warning(filename: str, line: int) -> str:
    """Return the user's line that a warning is about while it is given, where it names one of torch's or of ours."""
    named = describe((filename, line, "forward"))
    return named if is_users_file(filename) else line_of_caller() or named


_kernels: list[str] = []


@contextlib.contextmanager
def asked_by(kernel: str) -> Iterator[None]:
    """While the block runs, what is asked is asked by a kernel in this file of torch's, which leaves no frame."""
    with pushed(_kernels, kernel):
        yield


Asker = Literal["user", "library", "torch"]


def asker(*, of_data: bool = False) -> Asker:
    """Whose Python code asks for the truth of a condition on sizes, or on data, right now.

    torch's operators ask as well, to check their arguments; where they do, eager would refuse other sizes itself or
    give the same. What asks outside of torch is a branch of the model. ``torch._check`` states a fact and is none.
    What torch's own modules ask of data is a branch too: no capture goes on without an answer.
    """
    if _kernels:
        return "torch"
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != STRATEGIES:
        filename = frame.f_code.co_filename
        if _checks_guards(frame):
            return "torch"
        states = filename == _ANSWERING[0] and "check" in frame.f_code.co_name
        if filename == _ASKED_IN_BYTECODE and frame.f_code.co_name == "evaluate_expr":
            return "user"
        if of_data and filename.startswith(_MODULES):
            return "library"
        if filename.startswith(_REPLAYED):
            return "user"
        if filename.startswith(PACKAGE_FOLDER) and not filename.startswith((*_LISTENING, _IN_PYTHONS_PLACE)):
            return "torch"
        if states or (filename.startswith(TORCH_FOLDER) and not filename.startswith((*_ANSWERING, _BYTECODE_TRACER))):
            return "torch"
        if is_users_file(filename):
            return asker_of(frame)
        frame = frame.f_back
    return "torch"


def asker_of(frame: FrameType) -> Asker:
    """Whose code outside of torch a frame runs."""
    return "library" if is_librarys_file(frame.f_code.co_filename) else "user"
