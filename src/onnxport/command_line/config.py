"""``--config FILE.toml``: what a command is asked for, from a file; what stands on the command line goes before it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, TypeAlias

import typer


def _read(context: typer.Context, path: Path | None) -> Path | None:
    """Take the values of the file as defaults of the command."""
    if path is None:
        return None
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise typer.BadParameter(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    known = {name: str(one.name) for one in context.command.params for name in _names(one.opts, str(one.name))}
    unknown = [name for name in values if name not in known or name == "config"]
    if unknown:
        there = ", ".join(sorted({name.replace("_", "-") for name in known} - {"config", "help"}))
        raise typer.BadParameter(f"{path} has {', '.join(unknown)}, which is no option; there are {there}.")
    context.default_map = {known[name]: value for name, value in values.items()}
    return path


def _names(options: list[str], own: str) -> list[str]:
    long = [option.removeprefix("--") for option in options if option.startswith("--")]
    return [*long, *(name.replace("-", "_") for name in long)] if long else [own]


Config: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config", is_eager=True, callback=_read, help="A TOML file of these options: opset = 17, input = ['x=2,3']."
    ),
]
