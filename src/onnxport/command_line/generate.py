"""``onnxport generate``: text from a folder that was exported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxport.command_line.answers import Json, Quiet, answering

_PROMPTS = "What to go on from, all at once; with --tokens numbers of tokens, as in 5,6,7."


def generate_command(
    folder: Annotated[Path, typer.Argument(help="The folder.")],
    prompts: Annotated[list[str], typer.Argument(help=_PROMPTS)],
    max_new_tokens: Annotated[int, typer.Option(help="The most tokens to generate for each prompt.")] = 64,
    tokens: Annotated[bool, typer.Option("--tokens", help="Prompts and answers are tokens, not texts.")] = False,
    sample: Annotated[bool, typer.Option("--sample", help="Draw tokens in place of the likeliest.")] = False,
    temperature: Annotated[float, typer.Option(help="Below 1 the likely become likelier.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Draw from so many of the likeliest; 0 for all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Draw from the likeliest that have this probability.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="Draw the same tokens each time.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Generate text with an exported folder."""
    with answering(as_json=as_json, quiet=quiet) as answer:
        from onnxport.errors import InputError
        from onnxport.generation import Choice, Session

        if not tokens and folder.is_dir() and not (folder / "tokenizer.json").exists():
            raise InputError(f"{folder} has no tokenizer.json: pass --tokens, and numbers of tokens as in 5,6,7.")
        session, choice = Session(folder), Choice(sample, temperature, top_k, top_p, seed)
        found: list[str] | list[list[int]]
        if tokens:
            found = session.generate([_tokens(prompt) for prompt in prompts], max_new_tokens, choice=choice)
        else:
            found = session.generate(prompts, max_new_tokens, choice=choice)
        lines = [one if isinstance(one, str) else ",".join(map(str, one)) for one in found]
        answer.give({"generated": found}, lambda console: console.print("\n".join(lines)))


def _tokens(text: str) -> list[int]:
    from onnxport.command_line.usage import UsageError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"{text!r} is no list of tokens: write numbers with commas between them.") from error
