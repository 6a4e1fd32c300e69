"""``Session``: a folder with an exported language model, and the loop that generates with it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, overload

import torch

from onnxport.errors import InputError, with_plain_errors
from onnxport.generation.choice import Choice
from onnxport.generation.files import open_files
from onnxport.generation.rules import Rule, TokenRules
from onnxport.generation.starts import Start
from onnxport.program.runtime import Initializer, default_session

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class GeneratedStep:
    """One step: the token of each row, None where a row has ended, and the logits they were chosen from."""

    tokens: list[int | None]
    logits: torch.Tensor


class Session:
    """A folder that ``export_pretrained`` wrote, opened for generating.

    Args:
        folder: The folder, with the files of a decoder, of encoder and decoder, or of vision encoder, embedding and
            decoder, and what belongs to them.
        initializer: Opens onnxruntime's session from the path of the file. The default takes CUDA if there is one.

    >>> import onnxport.generation                                         # doctest: +SKIP
    >>> session = onnxport.generation.Session("./out")                     # doctest: +SKIP
    >>> session.generate(["Once upon a time"], max_new_tokens=40)          # doctest: +SKIP
    [' there was a king …']
    """

    @with_plain_errors
    def __init__(self, folder: str | os.PathLike[str], *, initializer: Initializer = default_session) -> None:
        self.folder = Path(folder)
        self.files = open_files(self.folder, initializer)
        self.model = self.files.decoder
        self._settings = _read_settings(self.folder)
        # As in transformers: where there are settings of generation, the configuration has no say in how it goes on.
        stated = self._settings[0].get
        self.eos_token_ids = _token_ids(stated("eos_token_id"))
        self.pad_token_id = next(iter(_token_ids(self._named("pad_token_id"))), 0)
        starts = [_token_ids(self._named(f"{kind}_token_id")) for kind in ("decoder_start", "bos")]
        first = next((token for found in starts for token in found), 0)
        self.begins = Start.from_settings(stated, first)
        self.rules = TokenRules.from_settings(stated)
        self._tokenizer: Tokenizer | None = None

    @overload
    def generate(
        self,
        prompts: Sequence[str],
        max_new_tokens: int = ...,
        *,
        choice: Choice = ...,
        eos_token_ids: Sequence[int] | None = ...,
        rules: TokenRules | None = ...,
        on_step: Callable[[list[int | None]], None] | None = ...,
        inputs: Mapping[str, torch.Tensor] | None = ...,
    ) -> list[str]: ...
    @overload
    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int = ...,
        *,
        choice: Choice = ...,
        eos_token_ids: Sequence[int] | None = ...,
        rules: TokenRules | None = ...,
        on_step: Callable[[list[int | None]], None] | None = ...,
        inputs: Mapping[str, torch.Tensor] | None = ...,
    ) -> list[list[int]]: ...
    def generate(
        self,
        prompts: Sequence[str] | Sequence[Sequence[int]],
        max_new_tokens: int = 128,
        *,
        choice: Choice = Choice(),  # noqa: B008 - frozen
        eos_token_ids: Sequence[int] | None = None,
        rules: TokenRules | None = None,
        on_step: Callable[[list[int | None]], None] | None = None,
        inputs: Mapping[str, torch.Tensor] | None = None,
    ) -> list[str] | list[list[int]]:
        """Go on from prompts, all of them at once.

        Args:
            prompts: Texts, for which the folder must have a ``tokenizer.json``, or lists of tokens. An encoder of texts
                reads them; where it reads something else, the decoder goes on from them; where there are none, from its
                start token and what ``generation_config.json`` says of language and task.
            max_new_tokens: The most tokens to generate for each.
            choice: How tokens are chosen: greedily, unless it says otherwise.
            eos_token_ids: Tokens that end a row; the default is what ``generation_config.json`` says, ``()`` is none.
            rules: Which tokens may come next; the default is what ``generation_config.json`` says (penalties, tokens
                that are forced or suppressed), ``TokenRules()`` is any.
            on_step: Called with the token of each row as soon as there is one.
            inputs: What the files take besides tokens, as the model's processor makes it: ``pixel_values``,
                ``input_features``; ``token_type_ids`` and ``position_ids`` of the prompts where they are special.

        Returns:
            What was generated, without the prompts: texts for texts, tokens for tokens.
        """
        rows = [self._encoded(prompt) if isinstance(prompt, str) else list(prompt) for prompt in prompts]
        generated: list[list[int]] = [[] for _ in rows]
        steps = self.stream(
            rows, max_new_tokens, choice=choice, eos_token_ids=eos_token_ids, rules=rules, inputs=inputs
        )
        for step in steps:
            generated += [[] for _ in step.tokens[len(generated) :]]
            for row, token in zip(generated, step.tokens, strict=True):
                row.extend([] if token is None else [token])
            if on_step is not None:
                on_step(step.tokens)
        if prompts and isinstance(prompts[0], str):
            return [self.tokenizer.decode(row) for row in generated]
        return generated

    def stream(
        self,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int,
        *,
        choice: Choice = Choice(),  # noqa: B008 - frozen
        eos_token_ids: Sequence[int] | None = None,
        rules: TokenRules | None = None,
        inputs: Mapping[str, torch.Tensor] | None = None,
    ) -> Iterator[GeneratedStep]:
        """Generate step by step: one token for each row of tokens."""
        begun = self.files.begin(prompts, {} if inputs is None else inputs, self.begins, self.pad_token_id)
        ends = self.eos_token_ids if eos_token_ids is None else frozenset(eos_token_ids)
        choose = choice.chooser()
        tokens, mask = begun.tokens, begun.mask
        going, seen, most = [True] * len(tokens), tokens, tokens.shape[1] + max_new_tokens
        followed = (self.rules if rules is None else rules).followed(tokens.shape[1], most, ends, begun.read)
        decoding = self.model.start(len(tokens), most, begun.given)
        for _ in range(max_new_tokens):
            try:
                logits = decoding.advance(tokens, mask)
            except Exception as error:
                _check_tokens(begun.tokens, self.model.vocabulary, error)
                raise
            chosen = choose(_ruled(logits, seen, followed))
            yield GeneratedStep(
                [int(token) if active else None for token, active in zip(chosen, going, strict=True)], logits
            )
            going = [active and int(token) not in ends for token, active in zip(chosen, going, strict=True)]
            if not any(going):
                return
            tokens = chosen.unsqueeze(1)
            if followed:
                seen = torch.cat([seen, tokens], dim=1)
            mask = torch.cat([mask, torch.ones_like(tokens)], dim=1)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the folder."""
        if self._tokenizer is None:
            path = self.folder / "tokenizer.json"
            if not path.is_file():
                raise InputError(f"{self.folder} has no tokenizer.json: pass lists of tokens in place of texts.")
            try:
                from tokenizers import Tokenizer
            except ImportError as error:
                raise InputError(
                    "Texts need the package tokenizers (pip install tokenizers); lists of tokens do without."
                ) from error
            try:
                self._tokenizer = Tokenizer.from_file(str(path))
            except Exception as error:
                raise InputError(f"{path} can't be read: {error}. Pass lists of tokens in place of texts.") from error
            # Some were saved as they made batches of one length; prompts are filled up here, and cut nowhere.
            self._tokenizer.no_padding()
            self._tokenizer.no_truncation()
        return self._tokenizer

    def _encoded(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text).ids)

    def _named(self, name: str) -> object:
        """What the folder's own files say under a name, the more specific one first."""
        return next((value for one in self._settings if (value := one.get(name)) is not None), None)


def _read_settings(folder: Path) -> list[dict[str, object]]:
    """The settings of generation, where a folder has them, and the configuration."""
    paths = [folder / name for name in ("generation_config.json", "config.json")]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()] or [{}]


def _check_tokens(tokens: torch.Tensor, vocabulary: int | None, cause: Exception) -> None:
    """Say of prompts with tokens that a model doesn't have that it is they why it fails."""
    least, most = int(tokens.min()), int(tokens.max())
    if vocabulary is not None and (least < 0 or most >= vocabulary):
        raise InputError(
            f"The model fails on token {least if least < 0 else most}: it has {vocabulary}, from 0 on. Was the prompt "
            "made by another model's tokenizer?"
        ) from cause


def _ruled(logits: torch.Tensor, seen: torch.Tensor, rules: Sequence[Rule]) -> torch.Tensor:
    """Scores to choose by: the logits, or what rules make of them, in 32 bits as in transformers."""
    if not rules:
        return logits
    scores = logits.float()
    for rule in rules:
        scores = rule(scores, seen)
    return scores


def _token_ids(value: object) -> frozenset[int]:
    """One token, several, or none, as configurations have them."""
    if isinstance(value, int):
        return frozenset([value])
    return frozenset(value) if isinstance(value, list) else frozenset()
