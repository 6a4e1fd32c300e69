"""The folder that an export of a pretrained model leaves: models, configuration, tokenizer, and how to run it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from onnxport.errors import warn
from onnxport.pretrained.library import transformers
from onnxport.pretrained.parts import Part
from onnxport.pretrained.tasks.task import Model, Task
from onnxport.provenance import ANEW_FROM

_COPIED = {".json", ".txt", ".model", ".jinja", ".tiktoken", ".bpe"}
"""How the files of tokenizers and processors end."""

_NOT_COPIED = (".index.json", "adapter_config.json")
"""Where weights are, and what makes an adapter of a folder."""
_TOKENIZER = "tokenizer.json"
_VOCABULARIES = ("vocab.json", "vocab.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "source.spm")
"""What runtimes read of a tokenizer, and the files that kinds of tokenizers have of their own."""
_MODULES, _TEMPLATES = "modules.json", "additional_chat_templates"
"""What sentence-transformers has behind the model, by folder, and a folder of the library's own."""
_ANEW = """
Positions have other frequencies where a text has {} tokens or more. So in the step that reaches that many, the states
of earlier ones are computed anew: the file is given all tokens, and empty states. `onnxport.generation` does so;
another loop has to as well, or what it generates behind that step differs from what the model generates. The context
of `genai_config.json` ends before it.
"""


def write_configuration(model: Model, sources: Sequence[Path], out: Path) -> None:
    """Put the configuration and all small files of a checkpoint's folders into the folder, the last folder's first."""
    there: set[str] = set()
    for source in sources:
        there |= {file.name for file in out.iterdir()} if out.samefile(source) else _copy_small(source, out)
    if _TOKENIZER not in there:
        _write_tokenizer(sources, out)
    if "config.json" not in there:
        model.config.save_pretrained(out)
    settings = getattr(model, "generation_config", None)
    if settings is not None and model.can_generate() and "generation_config.json" not in there:
        settings.save_pretrained(out)


def _copy_small(source: Path, out: Path) -> set[str]:
    """Copy the files of tokenizers and processors, and the folders of modules behind the model; say which."""
    found = [file for file in sorted(source.iterdir()) if file.is_file() and file.suffix in _COPIED]
    found = [file for file in found if not file.name.endswith(_NOT_COPIED)]
    for file in found:
        shutil.copyfile(file, out / file.name)
    behind = source / _MODULES
    rows = json.loads(behind.read_text(encoding="utf-8")) if behind.is_file() else []
    folders = [source / row["path"] for row in rows] + [source / _TEMPLATES]
    for folder in folders:
        # The model's own folder, where it has one, holds its configuration.
        if folder.is_dir() and folder.parent == source and "model_type" not in _settings(folder / "config.json"):
            shutil.copytree(folder, out / folder.name, dirs_exist_ok=True)
    return {file.name for file in found}


def _write_tokenizer(sources: Sequence[Path], out: Path) -> None:
    """Write a tokenizer that a checkpoint keeps in files of its own kind in the form that all runtimes read."""
    having = [source for source in sources if any((source / name).is_file() for name in _VOCABULARIES)]
    if not having:
        return
    source = having[-1]
    try:
        backend = transformers().AutoTokenizer.from_pretrained(str(source)).backend_tokenizer
    except Exception as error:  # noqa: BLE001 - each kind of tokenizer says in its own way what it lacks
        reason = str(error).partition("\n")[0]
        warn(f"{source} has no {_TOKENIZER}, and none could be made of its tokenizer: {reason}. Texts need one.")
        return
    backend.save(str(out / _TOKENIZER))


def _settings(file: Path) -> Mapping[str, object]:
    found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return found if isinstance(found, dict) else {}


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
