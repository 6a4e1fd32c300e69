"""Undoing what an export changes in the process, whatever ends the export and whenever.

An interrupt may come while a context manager is entered or left, where no ``finally`` sees it: after ``__enter__`` has
done its work and before it returns, or in the middle of the ``finally`` itself. So what is to be undone is noted before
anything is done, and the one who began the export undoes what is still noted at its end.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from types import FrameType, GeneratorType
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
Undo = Callable[[], object]


class _Noted(threading.local):
    """What is still to be undone in a thread, the last first."""

    def __init__(self) -> None:
        self.undos: list[Undo] = []


_noted = _Noted()


@contextlib.contextmanager
def undone_after(undo: Undo) -> Iterator[None]:
    """Undo something when the block ends, at the latest when the export does. It may be undone twice.

    A block that Python closes later than that, with the traceback that held it, finds it undone and does nothing.
    """
    undos = _noted.undos
    undos.append(undo)
    try:
        yield
    finally:
        if undo in undos:
            undo()
            undos.remove(undo)


@contextlib.contextmanager
def pushed(stack: list[_Item], item: _Item) -> Iterator[_Item]:
    """While the block runs, a list has one more item at its end."""
    length = len(stack)

    def undo() -> None:
        del stack[length:]

    with undone_after(undo):
        stack.append(item)
        yield item


def noted_so_far() -> int:
    """How much of this thread is to be undone by those who began before."""
    return len(_noted.undos)


def undo_down_to(count: int) -> None:
    """Undo what was noted since there was so much, the last first."""
    undos = _noted.undos
    while len(undos) > count:
        undos[-1]()
        undos.pop()


def close_entered(error: BaseException) -> None:
    """Close what an exception left half entered or half left: Python would do it when the traceback is forgotten.

    By then another export may run, and torch's context managers would put things back in the midst of it.
    """
    for one in _with_those_behind(error):
        frames = []
        trace = one.__traceback__
        while trace is not None:
            frames.append(trace.tb_frame)
            trace = trace.tb_next
        for close in map(_closing, reversed(frames)):
            try:
                close()
            except Exception as failure:  # noqa: BLE001 - a generator of torch or of a model; the note tells it
                error.add_note(f"What it interrupted could not be closed: {type(failure).__name__}: {failure}")


def with_interrupts(function: Callable[[_Item], _Result], argument: _Item) -> _Result:
    """Call a function and let interrupts through: what one makes torch leave out of order raises another error."""
    try:
        return function(argument)
    except Exception as error:
        interrupt = next((one for one in _with_those_behind(error) if not isinstance(one, Exception)), None)
        if interrupt is None:
            raise
        raise interrupt from None


def _with_those_behind(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    errors = [error]
    while errors:
        one = errors.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            errors += [other for other in (one.__cause__, one.__context__) if other is not None]


def _closing(frame: FrameType) -> Undo:
    """What closes the context manager that a function of contextlib was about to enter or to leave."""
    name = frame.f_code.co_name
    if frame.f_code.co_filename == contextlib.__file__ and name in ("__enter__", "__exit__", "enter_context"):
        held = frame.f_locals.get("cm" if name == "enter_context" else "self")
        generator = getattr(held, "gen", None)
        if isinstance(generator, GeneratorType):
            return generator.close
        if isinstance(held, contextlib.ExitStack):
            return held.close
    return lambda: None
