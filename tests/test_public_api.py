"""The front door: what is public, and what opening it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import recollect


def test_every_public_name_is_there_and_documented() -> None:
    """``__all__`` is what the table of rooms exports, and each name says what it is."""
    assert {"__version__", *recollect._ROOM_OF} == set(recollect.__all__)
    undocumented = [
        name for name in recollect._ROOM_OF if not (getattr(recollect, name).__doc__ or "").strip()
    ]
    assert undocumented == []


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    """A misspelt name fails as in any module."""
    with pytest.raises(AttributeError, match="Stoer"):
        _ = recollect.Stoer


def modules_after(code: str) -> set[str]:
    """Names of the modules a fresh interpreter has loaded after running ``code``."""
    script = f"{code}\nimport sys; sys.stderr.write(' '.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    return set(ran.stderr.split())


def test_importing_the_package_loads_nothing_else() -> None:
    """Rooms are opened on first use: not one of them, nor msgspec, is loaded by the import itself."""
    loaded = modules_after("import recollect") - modules_after("")

    assert loaded <= {"recollect", "__future__"}


def test_help_and_version_load_almost_nothing() -> None:
    """``recollect --help`` loads the tables of commands and agents only: no storage, no model, no argparse."""
    start = "from recollect.cli.main import main\n"
    loaded = modules_after(start + "main(['--help'])") | modules_after(start + "main(['--version'])")
    tables = {"recollect.cli", "recollect.cli.main", "recollect.system", "recollect.system.paths"}
    allowed = {"recollect", "__future__", *tables}

    assert loaded - modules_after("") <= allowed


def test_the_overview_loads_no_heavy_module() -> None:
    """Not asyncio, not rich, not json: the first command a user types must feel instant."""
    loaded = modules_after("from recollect.cli.main import main\nmain(['--json'])")

    assert loaded & {"asyncio", "rich", "rich.console", "sqlite3", "http", "email", "logging"} == set()


def test_the_porch_modules_are_there_without_an_import_of_their_own() -> None:
    """``recollect.aio``, ``recollect.provider`` and ``recollect.sdk`` work as the README shows them."""
    code = "import recollect; print(recollect.aio.Store, recollect.provider.ChatMessage, recollect.sdk.SessionStore)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert 3 == ran.stdout.count("<class")
