"""Numbers that are read from tensors, and tensors that are made of such numbers.

``torch.zeros(lengths[0], 4)`` and ``torch.as_tensor([x.size(0), y.size(0)])`` go through bindings that want plain
numbers, and so does ``x[index] = value`` for an index that is a number in a tensor. While capturing, sizes and indices
that are tensors are read as the numbers they hold, and numbers that vary are stacked. A list of a tensor's numbers is
made when it is first looked at: one that only becomes a tensor again is that tensor.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from onnxport.capture.patches.held_sizes import held_size, keeping, size_computed, with_held_sizes
from onnxport.capture.patches.replacing import attributes_replaced, in_place_of
from onnxport.capture.patches.varying_scalars import written_for_numbers_that_vary
from onnxport.torch_internals.arrays import Array
from onnxport.torch_internals.fake_tensors import FakeTensor, FunctionalTensor

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_TRACED = (FakeTensor, FunctionalTensor)
_MADE = ("zeros", "ones", "empty", "full")


def numbers_in_and_out_of_tensors() -> contextlib.AbstractContextManager[None]:
    """While this is open, these functions take and give numbers that vary."""
    # Loaded when it is used: it takes seconds.
    from onnxport.torch_internals.exporting import FunctionHandler

    return attributes_replaced(
        [
            *((torch, name, _of_any_size(getattr(torch, name))) for name in _MADE),
            *((torch, name, _of_any_numbers(getattr(torch, name))) for name in ("tensor", "as_tensor", "from_numpy")),
            (FakeTensor, "tolist", _listing(FakeTensor.tolist)),
            (FakeTensor, "numpy", lambda self, *, force=False: Array(self)),
            (FunctionHandler, "_override", _at_any_place(FunctionHandler._override)),
        ]
    )


class ListedTensor(Sequence[object]):
    """The numbers of a tensor of which there are as many as run time says; looking at all fixes how many."""

    def __init__(self, tensor: torch.Tensor, listed: Callable[..., list[Any]]) -> None:
        self.tensor = tensor
        self._listed = listed
        self._numbers: list[Any] | None = None

    @property
    def numbers(self) -> list[Any]:
        """The numbers themselves."""
        if self._numbers is None:
            self._numbers = self._listed(self.tensor)
        return self._numbers

    @property
    def contents(self) -> list[object]:
        """What changes when something is put into the list or taken out."""
        return [self.tensor, self._numbers is None, *(self._numbers or ())]

    def refill(self, contents: Sequence[Any]) -> None:
        """Put back what was in the list."""
        self.tensor, is_open, *numbers = contents
        self._numbers = None if is_open else numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int) and self._numbers is None:
            return numbers_of(self.tensor[index])
        if isinstance(index, slice) and self._numbers is None and (index.step is None or index.step > 0):
            return ListedTensor(self.tensor[index], self._listed)
        if index == slice(None, None, -1) and self._numbers is None:
            return ListedTensor(self.tensor.flip(0), self._listed)
        return self.numbers[index]

    def __setitem__(self, index: Any, number: Any) -> None:
        joined = self._with([number]) if isinstance(index, int) else None
        if joined is None:
            self.numbers[index] = number
        else:
            self.tensor = self.tensor.clone()
            self.tensor[index] = joined[1][0]

    def __delitem__(self, index: Any) -> None:
        if isinstance(index, int):
            self.pop(index)
        else:
            del self.numbers[index]

    def __iter__(self) -> Iterator[object]:
        return iter(self.numbers)

    def __copy__(self) -> ListedTensor:
        made = ListedTensor(self.tensor, self._listed)
        made._numbers = None if self._numbers is None else list(self._numbers)
        return made

    copy = __copy__

    def __add__(self, others: Any) -> ListedTensor:
        return self.__copy__().__iadd__(others)

    def __radd__(self, others: Any) -> Any:
        joined = self._with(others)
        return [*others, *self.numbers] if joined is None else ListedTensor(torch.cat(joined[::-1]), self._listed)

    def __iadd__(self, others: Any) -> ListedTensor:
        joined = self._with(others)
        if joined is None:
            self.numbers.extend(others)
        else:
            self.tensor = torch.cat(joined)
        return self

    def extend(self, others: Any) -> None:
        """Put numbers at the end."""
        self.__iadd__(others)

    def append(self, number: object) -> None:
        """Put a number at the end."""
        self.__iadd__([number])

    def insert(self, place: Any, number: object) -> None:
        """Put a number before another."""
        joined = self._with([number])
        if joined is None or not isinstance(place, int):
            self.numbers.insert(place, number)
        else:
            self.tensor = torch.cat([self.tensor[:place], joined[1], self.tensor[place:]])

    def pop(self, place: int = -1) -> Any:
        """Take a number out."""
        if self._numbers is not None:
            return self._numbers.pop(place)
        number = self[place]
        behind = self.tensor[place + 1 :] if place != -1 else self.tensor[:0]
        self.tensor = torch.cat([self.tensor[:place], behind])
        return number

    def reverse(self) -> None:
        """Let the numbers be in the opposite order."""
        if self._numbers is None:
            self.tensor = self.tensor.flip(0)
        else:
            self._numbers.reverse()

    def sort(self, *, key: Callable[[Any], Any] | None = None, reverse: bool = False) -> None:
        """Let the numbers be in order."""
        if self._numbers is None and key is None:
            self.tensor = self.tensor.sort(descending=reverse).values
        else:
            self.numbers.sort(key=key, reverse=reverse)

    def _with(self, others: Any) -> list[torch.Tensor] | None:
        """The numbers and others as tensors of one type; None where they are plain, or the others have another."""
        if isinstance(others, ListedTensor):
            given = others.tensor if others._numbers is None else None
        elif all(isinstance(one, int | float | torch.SymInt | torch.SymFloat) for one in others):
            given = _stacked(list(others), None, self.tensor.device) if len(others) else self.tensor[:0]
        else:
            given = None
        if given is not None and given.dim() != self.tensor.dim():
            given = None
        if self._numbers is not None or given is None or given.dtype != self.tensor.dtype:
            return None
        return [self.tensor, given]


def numbers_of(item: torch.Tensor) -> Any:
    """What a list of a tensor's numbers has in a place: a number, or the list of those of a row."""
    # A number is read from a tensor of its own: torch reads none from a view at a place that varies.
    if item.dim() == 0:
        return item.clone().item()
    return [item.select(0, place).clone().item() for place in range(item.shape[0])]


def listed(tensor: torch.Tensor) -> ListedTensor:
    """The numbers of a tensor of one axis, as a list of as many as run time says."""
    return ListedTensor(tensor, torch.Tensor.tolist)


def _listing(original: Callable[[FakeTensor], object]) -> Callable[[FakeTensor], Any]:
    def tolist(self: FakeTensor) -> object:
        if (
            self.dim() in (1, 2)
            and isinstance(self.shape[0], torch.SymInt)
            and (self.dim() == 1 or type(self.shape[1]) is int)
        ):
            return ListedTensor(self, original)
        return original(self)

    return tolist


def _of_any_size(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    full = torch.full

    def made(*args: object, **kwargs: object) -> torch.Tensor:
        sizes = args[:1] if original is full else args
        return original(*(_read(size) for size in sizes), *args[len(sizes) :], **kwargs)

    return made


def _read(size: Any) -> object:
    """Sizes with numbers in the place of tensors."""
    if isinstance(size, Array) and size.ndim == 0:
        return _number_in(size)
    if isinstance(size, _TRACED):
        held = held_size(size)
        if held is not None:
            return held
        return size.item() if size.dim() == 0 and not size.dtype.is_floating_point else size
    if type(size) in (list, tuple) and any(isinstance(one, (*_TRACED, Array)) for one in size):
        return [_read(one) for one in size]
    return size


_Override = Callable[[Any, Callable[..., object], tuple[object, ...], Mapping[str, object]], Any]


def _at_any_place(original: _Override) -> _Override:
    """What torch.export calls for an operation of the model's code, with ours for indices that it reads as plain.

    Not by replacing the methods of ``torch.Tensor``: a class that once had another ``__getitem__`` is a sequence to
    Python's C interface ever after, and ``torch.as_tensor((x[0], x[1]))`` then asks for the length of a number.
    """

    def _override(
        self: object, func: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        name = getattr(func, "__name__", "")
        if any(map(_holds_array, args)):
            args = tuple(map(_without_arrays, args))
        if name == "__setitem__" and isinstance(args[0], _TRACED):
            return _set_item, args, kwargs
        if name == "__getitem__" and isinstance(args[0], _TRACED) and _is_truth(args[1]):
            return _rows_if, args, kwargs
        if name == "__getitem__" and isinstance(args[0], _TRACED) and takes_two_steps(args[1]):
            return item_in_two_steps, args, kwargs
        if name == "new_tensor" and _varies(args[1]):
            return _new_tensor, args, kwargs
        # Code that did `from torch import tensor` calls torch's own.
        func = in_place_of(func)
        func = written_for_numbers_that_vary(func, args, kwargs) or func
        size = size_computed(func, args, kwargs)
        if size is None:
            return original(self, func, with_held_sizes(func, args), kwargs)
        made, *arguments = original(self, func, args, kwargs)
        return keeping(size, made), *arguments

    return _override


def takes_two_steps(index: object) -> bool:
    """Whether an index has numbers that only run time knows beside tensors or lists: ``x[t, rows]``."""
    parts = index if type(index) is tuple else (index,)
    numbers = [isinstance(part, torch.SymInt) or _is_number(part) for part in parts]
    others = (
        isinstance(part, torch.Tensor | list) for part, is_number in zip(parts, numbers, strict=True) if not is_number
    )
    return any(numbers) and any(others)


def item_in_two_steps(tensor: torch.Tensor, index: Any) -> torch.Tensor:
    """``tensor[index]``, by the numbers and slices first."""
    within, rest = _split(index)
    return _within(tensor, within)[rest]


def write_in_two_steps(tensor: torch.Tensor, index: Any, value: Any) -> None:
    """``tensor[index] = value``, by the numbers and slices first."""
    within, rest = _split(index)
    _within(tensor, within)[rest] = value


def _within(tensor: torch.Tensor, index: tuple[Any, ...]) -> torch.Tensor:
    from onnxport.torch_internals.exporting import with_open_indices

    getitem, args, kwargs = with_open_indices(torch.Tensor.__getitem__, (tensor, index), {})  # type: ignore[no-untyped-call]
    view: torch.Tensor = getitem(*args, **kwargs)
    return view


def _holds_array(given: object) -> bool:
    return isinstance(given, Array) or (type(given) in (tuple, list) and any(map(_holds_array, given)))  # type: ignore[call-overload]


def _without_arrays(given: Any) -> Any:
    """What code gives to torch, with tensors for arrays of torch's numpy, and numbers for their elements."""
    if isinstance(given, Array):
        return _number_in(given) if given.ndim == 0 else given.tensor
    return type(given)(map(_without_arrays, given)) if type(given) in (tuple, list) else given


def _number_in(element: Array) -> Any:
    return element.tensor.clone().item()


def _set_item(tensor: torch.Tensor, index: Any, value: Any) -> None:
    parts = index if type(index) is tuple else (index,)
    if _is_truth(index):
        _write_if(tensor, index, value)
    elif any(isinstance(part, torch.SymInt) or _is_number(part) for part in parts):
        write_in_two_steps(tensor, parts, value)
    else:
        tensor[index] = value


def _new_tensor(
    like: torch.Tensor, data: Any, *, dtype: torch.dtype | None = None, device: torch.device | None = None, **_: object
) -> torch.Tensor:
    return _stacked(data, like.dtype if dtype is None else dtype, like.device if device is None else device)


def _rows_if(tensor: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
    return tensor.unsqueeze(0)[condition.reshape(1)]


def _is_truth(index: object) -> bool:
    return isinstance(index, _TRACED) and index.dim() == 0 and index.dtype == torch.bool


def _is_number(index: object) -> bool:
    return isinstance(index, _TRACED) and index.dim() == 0 and index.dtype != torch.bool


def _split(parts: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """An index in two steps: what leads to a view, numbers and slices; and what is left to do in that view."""
    within: list[Any] = []
    rest: list[Any] = []
    for part in parts:
        if isinstance(part, bool):
            rest.append(part)
        elif isinstance(part, int | torch.SymInt) or _is_number(part):
            within.append(_read(part))
        elif part is None or part is Ellipsis or isinstance(part, slice):
            within.append(part)
            rest.append(Ellipsis if part is Ellipsis else slice(None))
        else:
            is_mask = isinstance(part, torch.Tensor) and part.dtype in (torch.bool, torch.uint8)
            within += [slice(None)] * (part.dim() if is_mask else 1)
            rest.append(part)
    return tuple(within), tuple(rest)


def _write_if(tensor: torch.Tensor, condition: torch.Tensor, value: Any) -> None:
    """All of a tensor or nothing: a mask of one truth has as many rows as it is true."""
    if isinstance(value, torch.Tensor):
        value = value.to(tensor.dtype)
        if value.dim() > tensor.dim():
            # Where there is no row, that of the tensor itself is the first.
            value = torch.cat([value.expand(-1, *tensor.shape), tensor.unsqueeze(0)])[0]
        tensor.copy_(torch.where(condition, value, tensor))
    else:
        tensor.copy_(tensor.masked_fill(condition, value))


def _of_any_numbers(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    plain_tensor = torch.tensor

    def tensor(data: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        if isinstance(data, ListedTensor):
            return _converted(data.tensor, *args, **kwargs)
        if isinstance(data, Array):
            return _held(data.tensor, *args, copies=original is plain_tensor, **kwargs)
        if not _varies(data):
            return original(data, *args, **kwargs)
        return _stacked(data, kwargs.get("dtype", args[0] if args else None), kwargs.get("device"))

    return tensor


def _held(
    tensor: torch.Tensor,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    *,
    copies: bool,
    **_: object,
) -> torch.Tensor:
    """The tensor that an array of torch's numpy holds; of ``torch.tensor`` a copy."""
    return tensor.to(device=device, dtype=tensor.dtype if dtype is None else dtype, copy=copies)


def _converted(
    tensor: torch.Tensor, dtype: torch.dtype | None = None, device: torch.device | str | None = None, **_: object
) -> torch.Tensor:
    if dtype is None:
        # A list of numbers that are not whole says nothing of their precision.
        dtype = torch.get_default_dtype() if tensor.dtype.is_floating_point else _dtype_of_numbers(tensor.dtype)
    return tensor.to(device=device, dtype=dtype)


def _dtype_of_numbers(dtype: torch.dtype) -> torch.dtype:
    return torch.bool if dtype == torch.bool else torch.int64


def _varies(data: object) -> bool:
    if isinstance(data, list | tuple):
        return any(isinstance(one, _TRACED) or _varies(one) for one in data)
    return isinstance(data, _SYMBOLIC)


def _stacked(data: Any, dtype: torch.dtype | None, device: torch.device | None) -> torch.Tensor:
    if isinstance(data, list | tuple):
        parts = [_stacked(one, dtype, device) for one in data]
        common = parts[0].dtype
        for part in parts[1:]:
            common = torch.promote_types(common, part.dtype)
        return torch.stack([part.to(common) for part in parts])
    if isinstance(data, torch.Tensor):
        return data if dtype is None else data.to(dtype)
    if dtype is None:
        dtype = _dtype_of(data)
    return torch.full((), data, dtype=dtype, device=device)


def _dtype_of(number: object) -> torch.dtype:
    if isinstance(number, bool | torch.SymBool):
        return torch.bool
    return torch.int64 if isinstance(number, int | torch.SymInt) else torch.get_default_dtype()
