"""Writing a model to its destination: whole or not at all, the weights straight from torch's memory."""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from onnxport.errors import ArgumentTypeError, OnnxExporterError, SaveError
from onnxport.weights.disk import Disk
from onnxport.weights.replacement import FileContents, data_name, replace_files
from onnxport.weights.slabs import InSlabs
from onnxport.weights.wire import Layout, Piece, Selection, relocated, require_content, single_file, with_data_file

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

# Protobuf counts the bytes of a message in a signed 32-bit integer.
MAX_PROTOBUF_BYTES = 2**31 - 1

_EVERYTHING = Selection()


def save_model(
    model: ir.Model,
    destination: str | os.PathLike[str] | SupportsWrite[Any],
    *,
    selection: Selection = _EVERYTHING,
    external_data: bool | None = None,
    disk: Disk | None = None,
) -> None:
    """Write a model to a path, or to an open binary file.

    The model is one file, unless ``external_data`` is true or it would pass protobuf's 2 GB; then the weights are
    in ``<name>.data`` next to it. Files are complete under a temporary name, and on the device, before they take the
    place of old ones, and a process that is killed leaves either the old model or the new one, with its own data.

    >>> import io, onnx_ir as ir
    >>> from onnxport.weights.saving import save_model
    >>> model = ir.Model(ir.Graph([], [], nodes=[], opset_imports={"": 20}, name="empty"), ir_version=10)
    >>> file = io.BytesIO()
    >>> save_model(model, file)
    >>> len(file.getvalue())
    17
    """
    check_destination(destination)
    path = _as_path(destination)
    if path is not None:
        path = _followed(path)
    elif external_data:
        raise ArgumentTypeError(
            f"external_data=True needs a path, to put the data file next to it; got {type(destination).__name__}."
        )
    if selection.weights:
        require_content(model)
    if path is not None and (path.is_file() or not path.exists()):
        layout = _layout(model, selection, data_name(path), external_data=bool(external_data))
        with _sentences(path):
            replace_files(path, _contents(layout, data_name(path)), Disk() if disk is None else disk)
        return

    layout = single_file(model, selection)
    if external_data or layout.size > MAX_PROTOBUF_BYTES:
        raise SaveError(
            f"The model ({layout.size:,} bytes) needs a data file, which cannot stand next to {destination!s}; "
            "save it to the path of an ordinary file."
        )
    if path is None:
        _write(destination, layout.model)  # type: ignore[arg-type]
    else:
        with _sentences(path), path.open("wb") as device:
            _write(device, layout.model)


def to_bytes(model: ir.Model, selection: Selection = _EVERYTHING) -> bytes | None:
    """Return the model as the bytes of one file, or None if it is too large for that."""
    require_content(model)
    layout = single_file(model, selection)
    if layout.size > MAX_PROTOBUF_BYTES:
        return None
    return b"".join(_pieces(layout.model))


def check_destination(destination: str | os.PathLike[str] | SupportsWrite[Any]) -> None:
    """Raise if nothing can be written there, before any work is done for it.

    >>> from onnxport.weights.saving import check_destination
    >>> check_destination("/no/such/folder/model.onnx")
    Traceback (most recent call last):
        ...
    onnxport.errors.SaveError: Cannot save to /no/such/folder/model.onnx: the folder /no/such/folder does not exist...
    """
    path = _as_path(destination)
    if path is None:
        reason, shown = _obstacle_to_writing(destination), "the file that was given"
    elif "\0" in str(path):
        reason, shown = "a name can't contain the character NUL.", repr(str(path))
    else:
        with _sentences(path):
            path = _followed(path)
            reason, shown = _obstacle(path), str(path)
    if reason:
        raise SaveError(f"Cannot save to {shown}: {reason}")


def _obstacle_to_writing(file: object) -> str:
    if getattr(file, "closed", False):
        return "it is closed."
    if isinstance(file, io.TextIOBase):
        return 'it is open for text. Open it with the mode "wb".'
    if isinstance(file, io.IOBase) and not file.writable():
        return 'it is open for reading only. Open it with the mode "wb".'
    return ""


def _followed(path: Path) -> Path:
    """The file that a symbolic link leads to, which need not be there; the path itself if it is none."""
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise SaveError(f"Cannot save to {path}: the symbolic link there leads to itself.")
    return target


def _obstacle(path: Path) -> str:
    folder = path.parent
    reason = ""
    if not folder.exists():
        reason = f"the folder {folder} does not exist. Create it first."
    elif not folder.is_dir():
        reason = f"{folder} is not a folder."
    elif path.is_dir():
        reason = "it is a folder. Name a file in it."
    elif path.exists() and not os.access(path, os.W_OK):
        reason = "the file there is read-only."
    elif not os.access(folder, os.W_OK | os.X_OK) and not _is_special(path):
        reason = f"the folder {folder} is not writable."
    return reason


def _contents(layout: Layout, usual: str) -> FileContents:
    def model(location: str) -> Iterator[bytes | memoryview]:
        if location == usual:
            return _pieces(layout.model)
        return iter([relocated(b"".join(_pieces(layout.model)), usual, location)])

    return FileContents(model, _pieces(layout.data) if layout.data else None)


def _as_path(destination: str | os.PathLike[str] | SupportsWrite[object]) -> Path | None:
    if isinstance(destination, (str, os.PathLike)):
        return Path(os.fsdecode(destination))
    if callable(getattr(destination, "write", None)):
        return None
    raise ArgumentTypeError(
        f"The destination must be a path or an open binary file, not an object of type {type(destination).__name__}."
    )


def _is_special(path: Path) -> bool:
    return path.exists() and not stat.S_ISREG(path.stat().st_mode)


def _layout(model: ir.Model, selection: Selection, location: str, *, external_data: bool) -> Layout:
    if not external_data:
        layout = single_file(model, selection)
        if layout.size <= MAX_PROTOBUF_BYTES:
            return layout
    return with_data_file(model, selection, location)


@contextlib.contextmanager
def _sentences(path: Path) -> Iterator[None]:
    try:
        yield
    except OnnxExporterError:
        raise
    except OSError as error:
        # The name in the error is that of a temporary file.
        reason = error.strerror if error.strerror is not None else str(error)
        raise SaveError(f"Writing {path} failed: {reason}. What stood there before is untouched.") from error


def _write(file: SupportsWrite[Any], pieces: Iterable[Piece]) -> None:
    for chunk in _pieces(pieces):
        file.write(chunk)


def _pieces(pieces: Iterable[Piece]) -> Iterator[bytes | memoryview]:
    for piece in pieces:
        if isinstance(piece, InSlabs):
            yield from piece.slabs()
        else:
            yield piece if isinstance(piece, bytes) else piece.tobytes()
