"""What a decoder behind an encoder begins with, where it is given no prompt, by the settings of generation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from onnxport.errors import InputError

Setting = Callable[[str], object]
"""What the settings say under a name; None for nothing."""


@dataclass(frozen=True)
class Start:
    """The first tokens of a decoder.

    Attributes:
        tokens: What it begins with.
        choices: Tokens of which the likeliest comes next, for each row: the languages that the decoder tells apart.
        behind: What comes after that.
    """

    tokens: Sequence[int]
    choices: Sequence[int] = ()
    behind: Sequence[int] = ()

    @classmethod
    def from_settings(cls, setting: Setting, first: int) -> Start:
        """The start token, and what settings say of language and task, or force behind it.

        >>> from onnxport.generation.starts import Start
        >>> Start.from_settings({"forced_decoder_ids": [[1, 7], [2, 9]]}.get, 5).tokens
        [5, 7, 9]
        """
        languages, language, task = _numbers(setting("lang_to_id")), setting("language"), setting("task")
        forced = [] if language is not None or task is not None else list(_forced(setting("forced_decoder_ids")))
        tokens = [first, *(token for token in forced if token is not None)]
        choices = () if language is not None or any(forced[:1]) else tuple(languages.values())
        behind = list(_stated(setting, language, task))
        quiet = setting("no_timestamps_token_id")
        if isinstance(quiet, int) and not setting("return_timestamps") and [*tokens, *behind][-1] != quiet:
            behind.append(quiet)
        if choices:
            # What is forced behind a language that is left open.
            return cls(tokens[:1], choices, [*tokens[1:], *behind])
        return cls([*tokens, *behind])


def _forced(stated: object) -> Iterator[int | None]:
    """Tokens of the places from the first on, None where one is left open."""
    rows = dict(stated) if isinstance(stated, list) else {}
    for place in range(1, len(rows) + 1):
        if place not in rows:
            return
        yield rows[place]


def _stated(setting: Setting, language: object, task: object) -> Iterator[int]:
    """The tokens of a language and of a task; a language alone is written down."""
    if language is not None:
        names = _numbers(setting("lang_to_id"))
        token = names.get(str(language), names.get(f"<|{language}|>"))
        if token is None:
            raise InputError(
                f"generation_config.json says that the language is {language}, and not which token that is (lang_to_id "
                f"has {', '.join(names)}). Pass the tokens to begin with as prompts."
            )
        yield token
    tasks = _numbers(setting("task_to_id"))
    wanted = "transcribe" if task is None and language is not None else task
    if str(wanted) in tasks:
        yield tasks[str(wanted)]


def _numbers(stated: object) -> dict[str, int]:
    return dict(stated) if isinstance(stated, Mapping) else {}
