"""The folder that an export of a pretrained model leaves: models, configuration, tokenizer, and how to run it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from onnxport.pretrained.parts import Part
from onnxport.pretrained.tasks.task import Model, Task
from onnxport.provenance import ANEW_FROM

_COPIED = {".json", ".txt", ".model", ".jinja", ".tiktoken", ".bpe"}
"""How the files of tokenizers and processors end."""

_WEIGHTS = ".index.json"
_ANEW = """
Positions have other frequencies where a text has {} tokens or more. So in the step that reaches that many, the states
of earlier ones are computed anew: the file is given all tokens, and empty states. `onnxport.generation` does so;
another loop has to as well, or what it generates behind that step differs from what the model generates. The context
of `genai_config.json` ends before it.
"""


def write_configuration(model: Model, source: Path | None, out: Path) -> None:
    """Put the configuration and, from a checkpoint's directory, all small files that belong to it into the folder."""
    if source is not None and not out.samefile(source):
        for file in sorted(source.iterdir()):
            if file.is_file() and file.suffix in _COPIED and not file.name.endswith(_WEIGHTS):
                shutil.copyfile(file, out / file.name)
    if not (out / "config.json").is_file() or source is None:
        model.config.save_pretrained(out)
    settings = getattr(model, "generation_config", None)
    copied = source is not None and (out / "generation_config.json").is_file()
    if settings is not None and model.can_generate() and not copied:
        settings.save_pretrained(out)


def write_tables(tables: Mapping[str, Mapping[str, object]], out: Path) -> None:
    """Write tables as JSON, by file name."""
    for name, table in tables.items():
        (out / name).write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


def write_readme(task: Task, parts: Sequence[Part], model: Model, out: Path) -> None:
    """Say what the folder has and how it is run."""
    files = ", ".join(f"`{part.file}`" for part in parts)
    anew = next((part.metadata[ANEW_FROM] for part in parts if ANEW_FROM in part.metadata), None)
    said = "" if anew is None else _ANEW.format(anew)
    code = "\n".join([f'folder = "{out.name}"', *task.readme])
    title = f"# {type(model).__name__} for {task.name}\n\n"
    text = f"{title}{files}, exported with onnxport.\n\n```python\n{code}\n```\n{said}"
    (out / "README.md").write_text(text, encoding="utf-8")
