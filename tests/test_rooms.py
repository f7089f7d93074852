"""A line knows its room: who may open files, print, start processes, ask the time."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "recollect"
DURABLE_CALLS = {
    "write",
    "rename",
    "replace",
    "fsync",
    "fdatasync",
    "unlink",
    "ftruncate",
    "truncate",
    "mkdir",
    "rmdir",
}


CLOCKS = {"now", "utcnow", "today", "monotonic", "uuid4", "random"}


@functools.cache
def texts() -> dict[str, str]:
    """Every module of the package, read once for all tests."""
    return {
        path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(SOURCE.rglob("*.py"))
    }


def calls(names: set[str]) -> list[tuple[str, str, str]]:
    """Every ``module.function(…)`` of the package with one of these names: (file, module, function).

    To parse all modules takes seconds; those that have no such name behind a dot cannot have the call.
    """
    named = re.compile(rf"\.\s*(?:{'|'.join(names)})\b")
    return [
        (file, node.func.value.id, node.func.attr)
        for file, text in texts().items()
        if named.search(text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.attr in names
    ]


def test_only_two_modules_change_files() -> None:
    """Calls of the operating system that write, rename, sync or remove stand in two modules of ``system``."""
    files = {file for file, owner, _ in calls(DURABLE_CALLS) if owner == "os"}

    # openat.py walks by descriptors, which is how a link swapped in under a write of a tool is refused (C07);
    # so does protected.py, which puts back what a confined program changed.
    allowed = {"system/fsops.py", "system/openat.py", "guard/sandbox/protected.py"}
    assert "system/fsops.py" in files
    assert files <= allowed


def test_the_model_does_not_ask_the_time() -> None:
    """No clock and no randomness: the same input always gives the same entry."""
    asked = calls(CLOCKS)

    assert asked  # elsewhere
    assert [] == [call for call in asked if call[0].startswith("model/")]


def test_the_core_is_synchronous() -> None:
    """In the core only the modules that hop into threads import asyncio (docs/adr/0002)."""
    core = ("model", "system", "store", "agents", "index", "ask", "change")
    found = {
        file
        for file, text in texts().items()
        if file.partition("/")[0] in core and "asyncio" in text
        for node in ast.walk(ast.parse(text))
        if (isinstance(node, ast.Import) and any(name.name == "asyncio" for name in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "asyncio")
    }

    assert found == {"system/thread_hop.py", "store/logs/aio_log.py"}


def test_every_module_says_what_it_is_for() -> None:
    """Each begins with a docstring."""
    assert [] == [file for file, text in texts().items() if not text.startswith('"""')]
