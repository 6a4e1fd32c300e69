"""The folder that an export of a pretrained model leaves: models, configuration, tokenizer, and how to run it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from onnxport.pretrained.parts import Part
from onnxport.pretrained.tasks.task import Model, Task

_COPIED = {".json", ".txt", ".model", ".jinja", ".tiktoken", ".bpe"}
"""How the files of tokenizers and processors end."""

_WEIGHTS = ".index.json"


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
    code = "\n".join([f'folder = "{out.name}"', *task.readme])
    (out / "README.md").write_text(
        f"# {type(model).__name__} for {task.name}\n\n{files}, exported with onnxport.\n\n```python\n{code}\n```\n",
        encoding="utf-8",
    )
