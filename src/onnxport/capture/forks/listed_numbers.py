"""Lists of the numbers of a tensor (``lengths.tolist()``), of which only run time knows how many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from onnxport.capture.diagnosis.user_lines import asker
from onnxport.capture.patches.tensor_numbers import ListedTensor
from onnxport.torch_internals.symbolic_sizes import get_proxy_mode


def lists_left_open(rewrite: Callable[..., None]) -> Iterator[tuple[object, str, object]]:
    """What looks at such a list, with what the model's code calls in its place: owner, name, function.

    ``rewrite`` has the function that is running rewritten.
    """

    def asking(original: Callable[..., object]) -> Callable[..., object]:
        def look(listed: ListedTensor) -> object:
            if get_proxy_mode() is not None and asker() != "torch":
                rewrite()
            return original(listed)

        return look

    for name in ("__iter__", "__len__"):
        yield ListedTensor, name, asking(getattr(ListedTensor, name))
