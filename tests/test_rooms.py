"""A line knows its room: who may open files, print, start processes, ask the time."""

from __future__ import annotations

import ast
import functools
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


@functools.cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package, parsed once for all tests."""
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


@functools.cache
def calls() -> list[tuple[str, str, str]]:
    """Every ``module.function(…)`` of the package: (file, module, function)."""
    return [
        (file, node.func.value.id, node.func.attr)
        for file, module in modules().items()
        for node in ast.walk(module)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
    ]


def test_only_two_modules_change_files() -> None:
    """Calls of the operating system that write, rename, sync or remove stand in two modules of ``system``."""
    elsewhere = {(file, name) for file, owner, name in calls() if owner == "os" and name in DURABLE_CALLS}

    # openat.py walks by descriptors, which is how a link swapped in under a write of a tool is refused (C07);
    # so does protected.py, which puts back what a confined program changed.
    allowed = {"system/fsops.py", "system/openat.py", "execution/protected.py"}
    assert {file for file, _ in elsewhere} <= allowed


def test_the_model_does_not_ask_the_time() -> None:
    """No clock and no randomness: the same input always gives the same entry."""
    asked = [
        (file, owner, name)
        for file, owner, name in calls()
        if file.startswith("model/") and name in {"now", "utcnow", "today", "monotonic", "uuid4", "random"}
    ]

    assert asked == []


def test_the_core_is_synchronous() -> None:
    """In the core only the modules that hop into threads import asyncio (docs/adr/0002)."""
    core = ("model", "policy", "system", "storage", "index", "services", "execution", "sync")
    found = {
        file
        for file, module in modules().items()
        if file.partition("/")[0] in core
        for node in ast.walk(module)
        if (isinstance(node, ast.Import) and any(name.name == "asyncio" for name in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "asyncio")
    }

    assert found == {"system/thread_hop.py", "storage/logs/aio_log.py", "storage/logs/aio_reader.py"}


def test_no_module_is_a_drawer_for_everything() -> None:
    """Names such as these say nothing about what is inside."""
    vague = {"utils", "helpers", "common", "misc", "base", "manager"}

    assert [path.name for path in SOURCE.rglob("*.py") if path.stem in vague] == []


def test_every_module_says_what_it_is_for() -> None:
    """Each begins with a docstring."""
    assert [] == [file for file, module in modules().items() if ast.get_docstring(module) is None]
