"""Any module can be the first one a program imports: no circle of imports meets a name that is not there yet."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parent.parent / "src"


class Step(NamedTuple):
    """Names a statement makes, after it has taken them from a module; or a module that it loads."""

    names: frozenset[str]
    base: str = ""
    taken: tuple[str, ...] = ()
    line: int = 0


def _stored_in(statement: ast.stmt) -> frozenset[str]:
    """The names a statement gives a value to."""
    names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return frozenset(node.id for node in names if isinstance(node.ctx, ast.Store))


def steps_of(statements: list[ast.stmt]) -> Iterator[Step]:
    """What the import of a module does, in order; read once, because every module that needs it repeats it."""
    for one in statements:
        match one:
            case ast.Import():
                for alias in one.names:
                    yield Step(frozenset([alias.asname or alias.name.split(".")[0]]), alias.name)
            case ast.ImportFrom():
                names = frozenset(alias.asname or alias.name for alias in one.names)
                yield Step(names, one.module or "", tuple(alias.name for alias in one.names), one.lineno)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from steps_of(one.orelse)
            case ast.If() | ast.Try() | ast.With():
                yield from steps_of([*one.body, *getattr(one, "orelse", []), *getattr(one, "finalbody", [])])
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield Step(frozenset([one.name]))
            case _:
                if stored := _stored_in(one):
                    yield Step(stored)


class Imports:
    """Runs the import statements of a tree as Python would, without running anything else."""

    def __init__(self, source: Path) -> None:
        self.modules: dict[str, list[Step]] = {}
        for path in sorted(source.rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self.modules[name] = list(steps_of(ast.parse(path.read_bytes()).body))

    def problems(self, first: str) -> list[str]:
        """What fails when this module is imported by a program that has imported none of them."""
        self.names: dict[str, set[str]] = {}
        self.done: set[str] = set()
        self.found: list[str] = []
        self._load(first)
        return self.found

    def _load(self, name: str) -> None:
        if name in self.names:
            return
        parent = name.rpartition(".")[0]
        if parent:
            self._load(parent)
        if name in self.modules and name not in self.names:
            names = self.names[name] = set()
            for step in self.modules[name]:
                if step.base:
                    self._load(step.base)
                    self._take(name, step)
                names |= step.names
            self.done.add(name)

    def _take(self, module: str, step: Step) -> None:
        base = step.base
        for name in step.taken:
            inner = f"{base}.{name}"
            is_there = base not in self.modules or base in self.done or name in self.names[base]
            if not is_there and inner not in self.modules:
                self.found.append(f"{module}, line {step.line}: {base} has no {name} yet")
            if inner in self.modules:
                self._load(inner)


def test_any_module_can_be_imported_first() -> None:
    """A command starts with its own module: what works in a test that imported more may fail there."""
    imports = Imports(SOURCE)

    assert "recollect.cli.main" in imports.modules
    assert {} == {name: found for name in imports.modules if (found := imports.problems(name))}
