"""Random programs: statements in Python over tensors of many kinds, kept only if eager runs them at every size."""

from __future__ import annotations

import copy
import functools
import hashlib
import random
import re
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F

from fuzz.statements import CHOICES

WIDTH = 6
SIZES: tuple[tuple[int, int], ...] = ((5, 4), (3, 1), (0, 7))
"""What the axes ``n`` and ``m`` are in the example, and in the runs after it."""
INPUTS = ("x", "y", "k", "u", "p")
REFUSALS = (RuntimeError, IndexError, ValueError, TypeError, NameError, OverflowError)
"""What eager raises for a statement that it does not run."""

Environment = dict[str, object]


class Fuzzed(torch.nn.Module):
    """A module with parts that statements use; its forward is a program's text."""

    def __init__(self, forward: Callable[..., object]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(WIDTH, WIDTH)
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.block = torch.nn.Sequential(torch.nn.Linear(WIDTH, 3), torch.nn.GELU(), torch.nn.Linear(3, WIDTH))
        self.conv = torch.nn.Conv1d(1, 2, 3, padding=1)
        self.image = torch.nn.Conv2d(2, 2, 3, padding=1)
        self.batch = torch.nn.BatchNorm1d(WIDTH)
        self.group = torch.nn.GroupNorm(2, WIDTH)
        self.embedding = torch.nn.Embedding(5, 3)
        self.register_buffer("scale", torch.linspace(0.5, 2, WIDTH))
        self.register_buffer("counts", torch.arange(WIDTH))
        self.function = forward

    def forward(self, x: torch.Tensor, y: torch.Tensor, k: torch.Tensor, u: torch.Tensor, p: torch.Tensor) -> object:
        return self.function(self, x, y, k, u, p)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fuzz")


@dataclass(frozen=True)
class Program:
    """Statements, each with the name it defines, and the names that are returned."""

    statements: tuple[tuple[str, str], ...]
    returned: tuple[str, ...]

    def text(self) -> str:
        """The program as the Python function that it is: statement ``i`` is line ``i + 2``."""
        lines = [f"    {statement}" for _, statement in self.statements]
        head = f"def forward(self, {', '.join(INPUTS)}):"
        return "\n".join([head, *lines, f"    return ({', '.join(self.returned)},)", ""])

    @property
    def path(self) -> Path:
        """Where the text is written for the module to be made of, so that its lines are lines of a file."""
        return Path(_folder().name) / f"{hashlib.sha256(self.text().encode()).hexdigest()[:16]}.py"

    def module(self) -> Fuzzed:
        """The module whose forward it is."""
        self.path.write_text(self.text())
        scope: dict[str, object] = {"torch": torch, "F": F}
        exec(compile(self.text(), str(self.path), "exec"), scope)
        return Fuzzed(scope["forward"]).eval()  # type: ignore[arg-type]

    def without(self, indices: Collection[int]) -> Program:
        """The program without some statements, and without what is computed from their results."""
        gone: set[str] = set()
        kept = []
        for index, (name, statement) in enumerate(self.statements):
            if index in indices or gone.intersection(re.findall(r"\bv\d+\b", statement)):
                gone.add(name)
            else:
                kept.append((name, statement))
        return Program(tuple(kept), tuple(name for name in self.returned if name not in gone))

    def first(self, count: int) -> Program:
        """The program of the first statements, which returns all of their results."""
        kept = self.statements[:count]
        return Program(kept, tuple(name for name, _ in kept))

    def returning(self, names: Sequence[str]) -> Program:
        """The program with other results."""
        return replace(self, returned=tuple(names))

    def runs(self) -> bool:
        """Whether eager runs it at every size."""
        try:
            with torch.no_grad():
                for size in SIZES:
                    self.module()(*inputs(size))
        except REFUSALS:
            return False
        return True


def inputs(sizes: tuple[int, int], seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Inputs of all kinds: floats, floats of two dynamic axes, int64, uint8 and truth values."""
    n, m = sizes
    made = torch.Generator().manual_seed(seed)
    return (
        torch.randn(n, WIDTH, generator=made),
        torch.randn(n, m, generator=made),
        torch.randint(-4, 5, (n, WIDTH), generator=made),
        torch.randint(0, 256, (n, WIDTH), generator=made, dtype=torch.uint8),
        torch.rand(n, m, generator=made) > 0.5,
    )


def scope_of(size: tuple[int, int]) -> Environment:
    """What statements see before the first of them, at one of the sizes."""
    return {
        "torch": torch,
        "F": F,
        "self": Fuzzed(lambda *_: None).eval(),
        **dict(zip(INPUTS, inputs(size), strict=True)),
    }


def generate(seed: int, fewest: int = 20, most: int = 60) -> Program:
    """A program of some number of statements; those that eager refuses at one of the sizes are left out."""
    draw = random.Random(seed)
    names = list(INPUTS)
    scopes = [scope_of(size) for size in SIZES]
    statements: list[tuple[str, str]] = []
    wanted, attempts = draw.randint(fewest, most), 0
    while len(statements) < wanted and attempts < 40 * wanted:
        attempts += 1
        name = f"v{len(statements)}"
        statement = draw.choice(CHOICES)(draw, name, [*names, *names[-6:]], scopes[0])
        if _runs(statement, name, scopes):
            statements.append((name, statement))
            names.append(name)
    return Program(tuple(statements), tuple(name for name, _ in statements))


def _runs(statement: str, name: str, scopes: Sequence[Environment]) -> bool:
    """Run a statement at every size on copies first, so that one that fails leaves nothing half written."""
    for trial in (True, False):
        kinds = set()
        for scope in scopes:
            target = _copied(scope, statement) if trial else scope
            try:
                with torch.no_grad():
                    exec(statement, target)
            except REFUSALS:
                return False
            result = target[name]
            if not isinstance(result, torch.Tensor) or result.numel() > 4000:
                return False
            kinds.add((result.dtype, result.dim()))
        if len(kinds) != 1:
            return False
    return True


def _copied(scope: Environment, statement: str) -> Environment:
    """Other tensors for those that a statement names, with the same memory among each other; a module of its own."""
    named = set(re.findall(r"\b[a-z]\d*\b", statement))
    originals = {name: value for name, value in scope.items() if name in named and isinstance(value, torch.Tensor)}
    copied: Environment = {}
    if "self." in statement:
        module = scope["self"]
        assert isinstance(module, Fuzzed)
        copied["self"] = copy.copy(module)
        originals.update(module.named_buffers(recurse=False))
    storages: dict[int, torch.UntypedStorage] = {}
    for name, value in originals.items():
        storage = value.untyped_storage()
        # Those without bytes share the address 0, and nothing else.
        memory = storages.setdefault(storage.data_ptr(), storage.clone()) if storage.nbytes() else storage.clone()
        fresh = torch.empty(0, dtype=value.dtype)
        copied[name] = fresh.set_(memory, value.storage_offset(), value.shape, value.stride())
    if isinstance(of_its_own := copied.get("self"), Fuzzed):
        # Not a deep copy: its parts are only read.
        buffers = {name: copied.pop(name) for name, _ in of_its_own.named_buffers(recurse=False)}
        of_its_own.__dict__["_buffers"] = buffers
    return {**scope, **copied}
