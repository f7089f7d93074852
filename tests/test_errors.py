"""Every failure names an object, a cause and a next step, and knows its exit code."""

from __future__ import annotations

import errno
import os
import re
import tomllib
from pathlib import Path

import pytest

from recollect import errors
from recollect.errors import Outcome, RecollectError

ROOT = Path(__file__).resolve().parents[1]
LOG = Path("/srv/logs/s.jsonl")
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
EXAMPLES: list[tuple[RecollectError, int, str]] = [
    (errors.UsageError("append: empty line", hint="give it content"), 2, "append"),
    (errors.InvalidId("session id", "../x", "has a character that is not safe in a file name"), 2, "'../x'"),
    (errors.MissingExtra("sql", "duckdb", "data"), 2, "duckdb"),
    (errors.NoSandbox("bwrap is not installed"), 2, "bwrap"),
    (errors.NotPermitted("Bash(rm x)", "denied by rm *", hint="see why"), 2, "denied by rm *"),
    (errors.IllegalTransition("session s", "created", "expired", ("active",)), 2, "session s"),
    (errors.NotFound("session '3f'", hint="list them"), 3, "'3f'"),
    (errors.Ambiguous("session", "3f", ("3fa", "3fb")), 3, "3fa, 3fb"),
    (errors.Ambiguous("session", "3f", ("3f  /a", "3f  /b"), is_whole=True), 3, "3f  /a, 3f  /b"),
    (errors.DamagedData("log s: line 4", hint="run check"), 4, "line 4"),
    (errors.ServerFailed("github", "it ended"), 74, "github: it ended"),
    (errors.Busy("session s: a client has it open", hint="leave it there first"), 5, "client"),
    (errors.LogLocked(LOG, 10, "pid 7"), 5, "pid 7"),
    (errors.NoAnswer("the database is not available", hint="try again in a moment"), 5, "database"),
    (errors.StorageError("open", LOG, FULL, hint="free space"), 74, "No space left"),
    (errors.AppendFailed("append to", LOG, FULL, Outcome.NOT_STORED, hint="free space"), 74, "not stored"),
    (errors.SyncFailed(LOG, FULL), 74, "unknown, safe to repeat"),
    (errors.IdConflict(LOG, "u-1"), 74, "u-1"),
    (errors.LogUnusable(LOG, "it was closed"), 74, "it was closed"),
]


def every_error() -> set[type[RecollectError]]:
    """The whole tree below the root."""
    found: set[type[RecollectError]] = set()
    waiting = [RecollectError]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            if kind.__module__.startswith("recollect"):
                found.add(kind)
                waiting.append(kind)
    return found


@pytest.mark.parametrize(("error", "code", "words"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_an_error_says_what_why_and_what_next(error: RecollectError, code: int, words: str) -> None:
    """The message names the object and the cause, the hint the next step."""
    assert code == error.exit_code
    assert words in str(error)
    assert error.hint
    assert str(error).endswith(f"({error.hint})")


def test_every_error_class_is_in_the_table_and_in_the_drawing() -> None:
    """No failure is added without an example here and a place in the tree of the module's docstring."""
    assert every_error() == {type(error) for error, _, _ in EXAMPLES}
    drawing = errors.__doc__ or ""
    assert [kind.__name__ for kind in every_error() if kind.__name__ not in drawing] == []


@pytest.mark.parametrize(("error", "code", "words"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_an_error_survives_the_way_to_another_process(error: RecollectError, code: int, words: str) -> None:
    """Worker pools pickle what is raised; ours comes out as it went in."""
    import pickle

    again = pickle.loads(pickle.dumps(error))

    assert (type(error), str(error), error.hint) == (type(again), str(again), again.hint)
    assert code == again.exit_code
    assert words in str(again)


def environment(tmp_path: Path, *markers: str, package: str) -> tuple[str, str]:
    """An empty Python environment with marker files, and where recollect lies; both as ``install_hint`` takes them."""
    for name in (*markers, package):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return str(tmp_path / "env"), str(tmp_path / package)


INSTALLED = "env/lib/python3.12/site-packages/recollect/errors.py"


@pytest.mark.parametrize(
    ("markers", "package", "hint"),
    [
        ((), INSTALLED, "pip install 'recollect[data]'"),
        (("env/pipx_metadata.json",), INSTALLED, "pipx install --force 'recollect[data]'"),
        (("env/uv-receipt.toml",), INSTALLED, "uv tool install 'recollect[data]'"),
        (
            ("clone/pyproject.toml",),
            "clone/src/recollect/errors.py",
            "pip install --editable '{}/clone[data]'",
        ),
        (("pyproject.toml",), "src/recollect/errors.py", "make -C '{}' setup"),
    ],
    ids=["wheel", "pipx", "uv-tool", "editable", "clone"],
)
def test_the_hint_about_an_extra_fits_the_installation(
    tmp_path: Path, markers: tuple[str, ...], package: str, hint: str
) -> None:
    """What it says to type works where recollect was installed in that way."""
    prefix, file = environment(tmp_path, *markers, package=package)

    assert errors.install_hint("data", prefix=prefix, package=file) == hint.format(tmp_path)


def test_extras_in_hints_exist() -> None:
    """Every extra that the source names in a hint is one of the package's."""
    extras = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    )
    named = set()
    for path in (ROOT / "src").rglob("*.py"):
        for call in re.findall(r"(?:MissingExtra\(|install_hint\()([^)]*)\)", path.read_text("utf-8")):
            if "*" not in call and path.name != "errors.py":
                named |= set(re.findall(r"[\"'](\w+)[\"']", call.split(",", 2)[-1]))

    assert named
    assert named <= extras
