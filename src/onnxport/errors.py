"""Everything onnxport raises or warns with, in one family under ``OnnxExporterError``."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import ParamSpec, Self, TypeVar

_PACKAGE = os.path.dirname(__file__) + os.sep
_DEBUG = "ONNXPORT_DEBUG"
# What prints errors by asking Python for their chain; the interpreter's own printing (before 3.13) does not ask.
_PRINTERS = frozenset({"traceback", "exceptiongroup", "_pytest", "IPython", "rich"})
_TAKES_ANY_KEYWORD = 0x08  # inspect.CO_VARKEYWORDS; inspect itself takes its time to load

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Problem:
    """One thing that went wrong, where, what to do about it, and the operator it is about, if it is about one.

    >>> from onnxport.errors import Problem
    >>> print(Problem("aten.foo.default has no translation", "model.py:7", count=2, operator="aten::foo"))
    aten.foo.default has no translation (2 times)
        first at model.py:7
    """

    what: str
    where: str = ""
    remedy: str = ""
    count: int = 1
    operator: str = ""

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        lines = [f"{self.what}{times}"]
        if self.where:
            lines.append(f"    first at {self.where}" if self.count > 1 else f"    at {self.where}")
        if self.remedy:
            lines.append(f"    {self.remedy}")
        return "\n".join(lines)


_MOST_NAMES = 5
_FIRST_NAMES = 3
_SPOKEN_WITH_A_VOWEL = frozenset("AEFHILMNORSX")


def with_article(name: str) -> str:
    """A name of a class with "a" or "an" before it, as it is spoken; capitals in a row are spoken one by one.

    >>> from onnxport.errors import with_article
    >>> [with_article(name) for name in ("Linear", "Embedding", "LSTM", "UNet", "int")]
    ['a Linear', 'an Embedding', 'an LSTM', 'a UNet', 'an int']
    """
    spelt = name[:2].isupper() and len(name) > 1
    return f"{'an' if name[:1] in (_SPOKEN_WITH_A_VOWEL if spelt else 'AEIOUaeiou') else 'a'} {name}"


def listing(headline: str, problems: Sequence[Problem], advice: str = "") -> str:
    """Format a headline and all problems, one after another, and what to do about all of them.

    Of many that are a name each, without a place and a remedy, as the weights of a model are, the first are shown.

    >>> from onnxport.errors import Problem, listing
    >>> print(listing("Weights are missing:", [Problem(f"layers.{number}.weight") for number in range(7)]))
    Weights are missing:
      - layers.0.weight
      - layers.1.weight
      - layers.2.weight
      - and 4 more
    """
    lines = [f"  - {problem}" for problem in problems]
    if len(lines) > _MOST_NAMES and not any(problem.where or problem.remedy for problem in problems):
        lines[_FIRST_NAMES:] = [f"  - and {len(lines) - _FIRST_NAMES} more"]
    return "\n".join([headline, *lines, *([advice] if advice else [])])


def counted(problems: Sequence[Problem]) -> list[Problem]:
    """Each problem once, with how many times it occurs.

    >>> from onnxport.errors import Problem, counted
    >>> [problem.count for problem in counted([Problem("one"), Problem("two"), Problem("one")])]
    [2, 1]
    """
    found: dict[Problem, int] = {}
    for problem in problems:
        once = replace(problem, count=1)
        found[once] = found.get(once, 0) + problem.count
    return [replace(problem, count=count) for problem, count in found.items()]


class OnnxExporterError(RuntimeError):
    """Errors raised by the exporter. The base class of all exporter errors.

    An error about several things is made of a headline, the problems, and advice that goes for all of them. Its message
    lists them, and ``problems`` has them as data.

    >>> from onnxport.errors import CaptureError, OnnxExporterError, Problem
    >>> issubclass(CaptureError, OnnxExporterError)
    True
    >>> error = OnnxExporterError("Two operators are unknown:", [Problem("my::one"), Problem("my::two", "model.py:7")])
    >>> print(error)
    Two operators are unknown:
      - my::one
      - my::two
        at model.py:7
    >>> [problem.where for problem in error.problems]
    ['', 'model.py:7']
    """

    printed_alone = False  # whether what prints it leaves out the error that was the cause

    @property
    def __cause__(self) -> BaseException | None:
        """The error that was the cause; what prints an error that users see alone is told of none."""
        if not self.printed_alone:
            return super().__cause__
        package = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]
        return super().__cause__ if package in _PRINTERS else super().__cause__ or self.__context__

    @__cause__.setter
    def __cause__(self, cause: BaseException | None) -> None:
        BaseException.__cause__.__set__(self, cause)  # type: ignore[union-attr]

    def __init__(self, message: str = "", problems: Sequence[Problem] = (), advice: str = "") -> None:
        problems = counted(problems)
        super().__init__(listing(message, problems, advice) if problems else message)
        self.problems = tuple(problems)
        self.advice = advice

    @classmethod
    def about(cls, problem: Problem) -> Self:
        """Make the error of one problem, which needs no headline.

        >>> from onnxport.errors import Problem, TranslationError
        >>> print(TranslationError.about(Problem("my::one is unknown.", "model.py:7")))
        my::one is unknown.
            at model.py:7
        """
        error = cls(str(problem))
        error.problems = (problem,)
        return error


def with_plain_errors(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Make a function one that users call: its errors come to them as sentences, without the frames inside.

    What the exporter raises says what is wrong and on which line, so that frames of torch and of this package would
    only hide it. They are left out of the traceback, and the error that was the cause stays on ``__cause__`` without
    being printed; it is kept as ``__context__``, which pickle leaves out. With ``ONNXPORT_DEBUG=1`` in the environment
    everything is printed. Other errors pass as they are.
    An argument that the function has not is told with the one that may be meant.
    """
    code = function.__code__
    takes_any = bool(code.co_flags & _TAKES_ANY_KEYWORD)
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    @functools.wraps(function)
    def called_by_user(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        __tracebackhide__ = True  # pytest leaves out this frame, too
        try:
            if not takes_any and not kwargs.keys() <= set(known):
                raise _unknown_argument(function.__name__, kwargs, known)
            return function(*args, **kwargs)
        except OnnxExporterError as error:
            if os.environ.get(_DEBUG, "0") not in ("", "0"):
                raise
            cause = error.__cause__ if error.__cause__ is not None else error.__context__
            error.__cause__, error.__context__, error.__suppress_context__ = None, cause, True
            error.printed_alone = True
            raise error.with_traceback(None)  # noqa: B904

    return called_by_user


def _unknown_argument(function: str, given: Iterable[str], known: Sequence[str]) -> ArgumentTypeError:
    import difflib

    unknown = next(name for name in given if name not in known)
    close = [name for name in known if name.startswith(unknown)] or difflib.get_close_matches(unknown, known, 1)
    meant = f"; did you mean {close[0]}?" if close else f". It has {', '.join(known)}."
    return ArgumentTypeError(f"{function} has no argument {unknown!r}{meant}")


class OnnxExporterWarning(UserWarning):
    """Warnings the exporter gives: the export goes on, but the user should know."""


def in_one_line(message: str) -> str:
    """A message of several lines as one, as a warning is: points one after another, places in parentheses.

    >>> from onnxport.errors import Problem, in_one_line, listing
    >>> in_one_line(listing("Sizes are fixed:", [Problem("n is 2", "model.py:7"), Problem("m is 3", remedy="Pass m.")]))
    'Sizes are fixed: n is 2 (model.py:7); m is 3. Pass m.'
    """
    said = ""
    for line in filter(None, map(str.strip, message.splitlines())):
        place = next((line[len(word) :] for word in ("first at ", "at ") if line.startswith(word)), "")
        if place:
            said = f"{said.removesuffix('.')} ({place})"
        elif line.startswith("- "):
            said += f"{' ' if said.endswith(':') or not said else '; '}{line[2:]}"
        else:
            said += f"{'' if not said or said[-1] in '.:;,!?' else '.'} {line}"
    return said.strip()


def warn(message: str, category: type[Warning] = OnnxExporterWarning) -> None:
    """Warn in one line, at the line that called the package, however deep inside the cause was found."""
    level, depth = 2, 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        depth += 1
        if frame.f_code.co_filename.startswith(_PACKAGE):
            level = depth + 1
        frame = frame.f_back
    warnings.warn(in_one_line(message), category, stacklevel=level)


class CaptureError(OnnxExporterError):
    """No strategy could turn the model into a graph; ``failures`` has each one's name and error."""

    failures: Sequence[tuple[str, Exception]] = ()


_CAPTURE_ERRORS: dict[type[Exception], type[CaptureError]] = {}


def capture_error_like(kind: type[Exception]) -> type[CaptureError]:
    """The class of capture errors that are errors of another kind, too: what the model itself raises.

    Who catches the model's errors around an export catches them, as with the TorchScript exporter, which lets them
    through.

    >>> from onnxport.errors import CaptureError, capture_error_like
    >>> [base.__name__ for base in capture_error_like(KeyError).__bases__], str(capture_error_like(KeyError)("No key."))
    (['CaptureError', 'KeyError'], 'No key.')
    """
    if issubclass(CaptureError, kind):
        return CaptureError
    if kind not in _CAPTURE_ERRORS:
        own = {"__str__": Exception.__str__, "__reduce__": _reduced, "__module__": CaptureError.__module__}
        try:
            made = type("CaptureError", (CaptureError, kind), own)
            made("It can be made of a message.")
        except TypeError:
            # Its objects have a form of their own, as those of some errors written in C.
            made = CaptureError
        _CAPTURE_ERRORS[kind] = made
    return _CAPTURE_ERRORS[kind]


def _reduced(error: CaptureError) -> tuple[object, ...]:
    """How an error of a class that no module has by name is sent to another process."""
    return _capture_error, (type(error).__bases__[1], str(error)), error.__dict__


def _capture_error(kind: type[Exception], message: str) -> CaptureError:
    return capture_error_like(kind)(message)


class InputError(OnnxExporterError, ValueError):
    """What was passed to ``export`` does not fit the model."""


class ArgumentTypeError(OnnxExporterError, TypeError):
    """An argument is of a type that it can't be."""


class DynamicShapeError(InputError):
    """The declared dynamic shapes do not fit the inputs, or the model forces a size."""


class TranslationError(OnnxExporterError):
    """An operator, or a use of one, has no translation to ONNX."""


class UnsupportedOperatorError(TranslationError):
    """What code that adds operators raises when an opset does not have what one of them needs.

    >>> from onnxport.errors import UnsupportedOperatorError
    >>> str(UnsupportedOperatorError("aten::grid_sampler", 15, 16))
    'The operator aten::grid_sampler cannot be written in opset 15. It can from opset 16 on: pass opset_version=16.'
    """

    def __init__(self, name: str, version: int, supported_version: int | None = None) -> None:
        message = f"The operator {name} cannot be written in opset {version}."
        if supported_version is not None:
            message += f" It can from opset {supported_version} on: pass opset_version={supported_version}."
        elif "::" in name and name.partition("::")[0] not in ("aten", "prim", "quantized"):
            message += " Register a symbolic function for it, or pass a translation in `custom_translation_table`."
        super().__init__(message)
        self.problems = (Problem(message, operator=name),)


class SymbolicValueError(TranslationError):
    """What code that adds operators raises about a value of the graph that it cannot work with."""

    def __init__(self, msg: str, value: object) -> None:
        super().__init__(f"{msg}\n    because of the value {value}")


class DifferenceError(OnnxExporterError):
    """What was exported does not do what the model does."""


class OpsetError(OnnxExporterError, ValueError):
    """The requested opset cannot hold the model, or is not an opset."""


class TargetError(OnnxExporterError, ValueError):
    """The reader that the file is written for can't hold the model."""


class SaveError(OnnxExporterError, OSError):
    """The model could not be written; whatever stood at the destination is untouched."""
