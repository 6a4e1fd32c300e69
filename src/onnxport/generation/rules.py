"""Rules of which token may come next, by the names that ``generation_config.json`` has for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TypeAlias

import torch

from onnxport.errors import InputError

Rule: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Makes other scores of those of a step, from the tokens before it."""


@dataclass(frozen=True)
class TokenRules:
    """Which tokens may come next, and which become likelier; the default is no rule at all.

    What a rule says of the tokens before a step says it of the padding of shorter rows too, as in transformers.

    Attributes:
        sequence_bias: Pairs of tokens in a row and what is added to the score of the last one behind the others.
        encoder_repetition_penalty: Above 1, tokens that an encoder has read become likelier.
        repetition_penalty: Above 1, tokens that were there become less likely.
        no_repeat_ngram_size: So many tokens in a row come once at most; 0 for any.
        encoder_no_repeat_ngram_size: So many tokens in a row are none that an encoder has read; 0 for any.
        bad_words_ids: Tokens in a row that never come.
        min_length: Nothing ends before there are so many tokens, those of the prompt included.
        min_new_tokens: Nothing ends before so many tokens were generated.
        forced_bos_token_id: The token behind the one that a decoder starts with.
        forced_eos_token_id: The token in the last place, or several of which one comes there.
        remove_invalid_values: Scores that are no numbers are 0, and those without bounds the largest there are.
        exponential_decay_length_penalty: After so many new tokens the end becomes likelier, by a factor for each.
        suppress_tokens: Tokens that never come.
        begin_suppress_tokens: Tokens that don't come first.

    >>> import torch
    >>> from onnxport.generation import TokenRules
    >>> (rule,) = TokenRules(suppress_tokens=[1]).followed(1, 20, ())
    >>> rule(torch.tensor([[0.1, 0.7, 0.2]]), torch.tensor([[0]])).argmax(-1).tolist()
    [2]
    """

    sequence_bias: Sequence[tuple[Sequence[int], float]] = ()
    encoder_repetition_penalty: float = 1.0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    encoder_no_repeat_ngram_size: int = 0
    bad_words_ids: Sequence[Sequence[int]] = ()
    min_length: int = 0
    min_new_tokens: int = 0
    forced_bos_token_id: int | None = None
    forced_eos_token_id: int | Sequence[int] | None = None
    remove_invalid_values: bool = False
    exponential_decay_length_penalty: tuple[int, float] | None = None
    suppress_tokens: Sequence[int] = ()
    begin_suppress_tokens: Sequence[int] = ()

    @classmethod
    def from_settings(cls, setting: Callable[[str], object]) -> TokenRules:
        """The rules that settings have, each asked for by its name; None is what they don't say."""
        stated = {field.name: setting(field.name) for field in fields(cls)}
        return cls(**{name: value for name, value in stated.items() if value is not None})  # type: ignore[arg-type]

    def followed(
        self, start: int, most: int, ends: Collection[int], read: torch.Tensor | None = None
    ) -> Sequence[Rule]:
        """What is done with the scores of each step, in the order in which transformers does it.

        Args:
            start: How many tokens there are before the first that is generated.
            most: How many there will be at most, these included.
            ends: The tokens that end a row.
            read: The tokens that an encoder has read.
        """
        return [*self._of_repetition(ends, read), *self._of_places(start, most, sorted(ends))]

    def _of_repetition(self, ends: Collection[int], read: torch.Tensor | None) -> Iterator[Rule]:
        if self.sequence_bias:
            yield partial(_biased, dict(_pairs(self.sequence_bias)))
        if self.encoder_repetition_penalty != 1 and read is not None:
            yield partial(_penalized_of, 1 / self.encoder_repetition_penalty, read)
        if self.repetition_penalty != 1:
            yield partial(_penalized, self.repetition_penalty)
        if self.no_repeat_ngram_size > 0:
            yield partial(_without_repeated, self.no_repeat_ngram_size, None)
        if self.encoder_no_repeat_ngram_size > 0 and read is not None:
            yield partial(_without_repeated, self.encoder_no_repeat_ngram_size, read)
        bad = [tuple(word) for word in self.bad_words_ids if not (len(word) == 1 and word[0] in ends)]
        if bad:
            yield partial(_biased, dict.fromkeys(bad, -math.inf))

    def _of_places(self, start: int, most: int, ends: Sequence[int]) -> Iterator[Rule]:
        shortest = max(self.min_length, start + self.min_new_tokens if self.min_new_tokens else 0)
        if shortest and ends:
            yield partial(_without, ends, range(shortest))
        if self.forced_bos_token_id is not None:
            yield partial(_only, [self.forced_bos_token_id], range(1, 2))
        if self.forced_eos_token_id is not None:
            last = self.forced_eos_token_id
            yield partial(_only, [last] if isinstance(last, int) else last, range(most - 1, most))
        if self.remove_invalid_values:
            yield _valid
        if self.exponential_decay_length_penalty is not None and ends:
            begin, factor = self.exponential_decay_length_penalty
            yield partial(_nearer_the_end, ends, start + begin, factor)
        if self.suppress_tokens:
            yield partial(_without, self.suppress_tokens, range(most))
        if self.begin_suppress_tokens:
            # A token that is forced is none that is chosen.
            first = start if start > 1 or self.forced_bos_token_id is None else start + 1
            yield partial(_without, self.begin_suppress_tokens, range(first, first + 1))


def _pairs(bias: object) -> Iterator[tuple[tuple[int, ...], float]]:
    """Tokens in a row and what is added, as JSON has them."""
    if isinstance(bias, Mapping) or not isinstance(bias, Sequence):
        raise InputError(f"sequence_bias is {bias!r}; it is a list of pairs, of a list of tokens and a number.")
    for tokens, value in bias:
        yield tuple(tokens), float(value)


def _known(tokens: Collection[int], scores: torch.Tensor) -> list[int]:
    """Tokens that have a score; a model may have fewer than its tokenizer."""
    return [token for token in tokens if 0 <= token < scores.shape[-1]]


def _without(tokens: Collection[int], lengths: range, scores: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    if seen.shape[1] not in lengths:
        return scores
    return scores.index_fill(-1, torch.tensor(_known(tokens, scores), dtype=torch.int64), -math.inf)


def _only(tokens: Collection[int], lengths: range, scores: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    if seen.shape[1] not in lengths:
        return scores
    chosen = torch.tensor(_known(tokens, scores), dtype=torch.int64)
    return torch.full_like(scores, -math.inf).index_fill(-1, chosen, 0.0)


def _valid(scores: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    return scores.nan_to_num()


def _nearer_the_end(
    ends: Sequence[int], begin: int, factor: float, scores: torch.Tensor, seen: torch.Tensor
) -> torch.Tensor:
    beyond = seen.shape[1] - begin
    if beyond <= 0:
        return scores
    ending = torch.tensor(_known(ends, scores), dtype=torch.int64)
    before = scores[:, ending]
    more = (before.abs() * (factor**beyond - 1)).where(before.isfinite(), 0.0)
    return scores.index_add(-1, ending, more)


def _penalized(penalty: float, scores: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    return _penalized_of(penalty, seen, scores, seen)


def _penalized_of(penalty: float, there: torch.Tensor, scores: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Scores of tokens that are there, divided by the penalty where they are positive, and else multiplied."""
    is_there = torch.zeros(len(scores), scores.shape[-1] + 1, dtype=torch.bool)
    # Tokens that have no score share a place that is left out.
    is_there.scatter_(1, there.clamp(max=scores.shape[-1]), value=True)
    return torch.where(is_there[:, :-1], torch.where(scores < 0, scores * penalty, scores / penalty), scores)


def _without_repeated(size: int, read: torch.Tensor | None, scores: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Without tokens that would make so many in a row that were there: before, or in what an encoder has read."""
    found = scores.clone()
    for row, tokens in enumerate(seen.tolist()):
        there = tokens if read is None else read[row].tolist()
        last = tokens[len(tokens) - size + 1 :]
        if len(last) == size - 1:
            repeated = [there[i + size - 1] for i in range(len(there) - size + 1) if there[i : i + size - 1] == last]
            found[row, _known(repeated, scores)] = -math.inf
    return found


def _biased(bias: Mapping[tuple[int, ...], float], scores: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """With something added to the scores of tokens behind others."""
    more = torch.zeros_like(scores)
    for tokens, value in bias.items():
        *before, last = tokens
        if _known([last], scores) and len(before) <= seen.shape[1]:
            fits = (seen[:, seen.shape[1] - len(before) :] == torch.tensor(before, dtype=torch.int64)).all(1)
            more[:, last] += torch.where(fits, value, 0.0)
    return scores + more
