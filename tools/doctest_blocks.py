"""Shows the examples in docstrings as code on the site: to Markdown, three angles are a quotation in a quotation."""

from __future__ import annotations

import griffe

_PROMPT = ">>> "


class DoctestBlocks(griffe.Extension):
    """Puts a fence around each example."""

    def on_object(self, *, obj: griffe.Object, **kwargs: object) -> None:
        """Change the docstring of what was read, before it is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """A docstring with a fence around each example, which ends at a line without anything.

    >>> print(fenced("Says it.\\n\\n>>> 1 + 1\\n2"))
    Says it.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    lines: list[str] = []
    inside = ""
    for line in [*text.splitlines(), ""]:
        indent = line[: len(line) - len(line.lstrip())]
        if not inside and line.lstrip().startswith(_PROMPT):
            inside = f"{indent}```"
            lines.append(f"{inside}pycon")
        elif inside and not line.strip():
            lines.append(inside)
            inside = ""
        lines.append(line)
    return "\n".join(lines[:-1])
