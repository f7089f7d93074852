"""Any module can be the first one a program imports: no circle of imports meets a name that is not there yet."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"


@functools.cache
def stored_in(statement: ast.stmt) -> frozenset[str]:
    """The names a statement gives a value to; each is asked for by every module that imports it in the end."""
    names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return frozenset(node.id for node in names if isinstance(node.ctx, ast.Store))


class Imports:
    """Runs the import statements of a tree as Python would, without running anything else."""

    def __init__(self, source: Path) -> None:
        self.trees: dict[str, ast.Module] = {}
        for path in sorted(source.rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self.trees[name] = ast.parse(path.read_bytes())

    def problems(self, first: str) -> list[str]:
        """What fails when this module is imported by a program that has imported none of them."""
        self.names: dict[str, set[str]] = {}
        self.done: set[str] = set()
        self.found: list[str] = []
        self._load(first)
        return self.found

    def _load(self, name: str) -> None:
        parent = name.rpartition(".")[0]
        if parent:
            self._load(parent)
        if name in self.trees and name not in self.names:
            self.names[name] = set()
            self._run(name, self.trees[name].body)
            self.done.add(name)

    def _run(self, module: str, statements: list[ast.stmt]) -> None:
        for one in statements:
            match one:
                case ast.Import():
                    for alias in one.names:
                        self._load(alias.name)
                        self.names[module].add(alias.asname or alias.name.split(".")[0])
                case ast.ImportFrom():
                    self._take(module, one)
                case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                    self._run(module, one.orelse)
                case ast.If() | ast.Try() | ast.With():
                    self._run(
                        module, [*one.body, *getattr(one, "orelse", []), *getattr(one, "finalbody", [])]
                    )
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    self.names[module].add(one.name)
                case _:
                    self.names[module] |= stored_in(one)

    def _take(self, module: str, one: ast.ImportFrom) -> None:
        base = one.module or ""
        self._load(base)
        for alias in one.names:
            inner = f"{base}.{alias.name}"
            is_there = base not in self.trees or base in self.done or alias.name in self.names[base]
            if not is_there and inner not in self.trees:
                self.found.append(f"{module}, line {one.lineno}: {base} has no {alias.name} yet")
            self._load(inner)
            self.names[module].add(alias.asname or alias.name)


def test_any_module_can_be_imported_first() -> None:
    """A command starts with its own module: what works in a test that imported more may fail there."""
    imports = Imports(SOURCE)

    assert "recollect.cli.main" in imports.trees
    assert {} == {name: found for name in imports.trees if (found := imports.problems(name))}


def test_a_circle_through_a_package_is_found(tmp_path: Path) -> None:
    """From one side it works, because the package is whole by then; from the other it does not."""
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "__init__.py").write_text("from kit.writer import write\n")
    (tmp_path / "kit" / "writer.py").write_text("from turns import Turn\n\n\ndef write(): ...\n")
    (tmp_path / "kit" / "loss.py").write_text("class Loss: ...\n")
    (tmp_path / "turns.py").write_text("from kit.loss import Loss\n\n\nclass Turn: ...\n")
    imports = Imports(tmp_path)

    assert ["kit.writer, line 1: turns has no Turn yet"] == imports.problems("turns")
    assert [] == imports.problems("kit.writer")
