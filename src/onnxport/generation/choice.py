"""Choosing the next token from its logits."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from onnxport.errors import InputError


@dataclass(frozen=True)
class Choice:
    """How the next token is chosen: the likeliest, or drawn from the likely ones.

    Attributes:
        do_sample: Draw. Without it the likeliest token is taken and the rest says nothing.
        temperature: Divides the logits: below 1 the likely become likelier.
        top_k: Only so many of the likeliest; 0 for all.
        top_p: Only as many of the likeliest as have this probability together.
        seed: The same seed draws the same tokens; None for others each time.

    >>> import torch
    >>> from onnxport.generation import Choice
    >>> Choice().chooser()(torch.tensor([[0.1, 0.7, 0.2]])).tolist()
    [1]
    >>> Choice(do_sample=True, top_k=1, seed=0).chooser()(torch.tensor([[0.1, 0.7, 0.2]])).tolist()
    [1]
    """

    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise InputError(f"temperature is {self.temperature}; it divides logits, so it must be above 0.")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top_p is {self.top_p}; it is a probability, above 0 and at most 1.")
        if self.top_k < 0:
            raise InputError(f"top_k is {self.top_k}; it counts tokens, 0 for all of them.")

    def chooser(self) -> Chooser:
        """Something to choose with, for one generation: it has its own random numbers."""
        return Chooser(self)


class Chooser:
    """Chooses tokens one after another."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._generator = torch.Generator()
        if choice.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(choice.seed)

    def __call__(self, logits: torch.Tensor) -> torch.Tensor:
        """One token for each row of logits."""
        choice = self._choice
        if not choice.do_sample:
            return logits.argmax(-1)
        scores, tokens = (logits.float() / choice.temperature).sort(-1, descending=True)
        if choice.top_k:
            scores, tokens = scores[:, : choice.top_k], tokens[:, : choice.top_k]
        probabilities = scores.softmax(-1)
        # A token stays if those before it have not reached the probability yet; the likeliest always does.
        before = probabilities.cumsum(-1) - probabilities
        kept = probabilities.where(before < choice.top_p, 0.0)
        drawn = torch.multinomial(kept, 1, generator=self._generator)
        return tokens.gather(-1, drawn).squeeze(-1)
