"""A line of another client's file that is no record is damage on every surface, with an index and without one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect import Home
from recollect.agents import lines as long_lines
from recollect.store.logs.summary import log_counts
from tests.agents import tiny_homes
from tests.surfaces.case import Case
from tests.web.pages import Browser, served

NO_RECORD, TOO_LONG = "unreadable-record", "oversize-record"


def assert_counted(case: Case, code: str, count: int) -> None:
    """On every surface; the index is asked where it is and where it is not."""
    lines = f"{count} line{'s' * (count > 1)}"
    by_code = case.document("doctor")["summary"]["by_code"]
    assert count == by_code.get(code, 0)
    logs = [session.file for session in Home(case.home, data=case.data, index=False).sessions()]
    assert count == sum(log_counts(log.path).damaged for log in logs)
    found = [(one["code"], one["what"]) for one in case.document()["damage"]["findings"]]
    assert ([(code, lines)] if count else []) == found
    assert (f"{lines} of 1 file cannot be read" in case.said()) == bool(count)
    assert [count] * bool(count) == [
        one["damaged"] for one in case.document("list")["sessions"] if one["damaged"]
    ]
    with Browser(served(case.home, case.data)) as browser:
        rows = browser.get("/api/sessions?damaged=true")["sessions"]
    assert [count] * bool(count) == [row["damaged"] for row in rows]


@pytest.mark.parametrize(
    "make", [tiny_homes.codex, tiny_homes.codex_bare, tiny_homes.gemini_lines, tiny_homes.qwen]
)
def test_a_line_that_is_no_record_is_counted_alike(make: Callable[[Path], Path], tmp_path: Path) -> None:
    case = Case(tmp_path / "home", tmp_path)
    with make(case.home).open("ab") as file:
        file.write(b"<<< not a record >>>\n")
    assert_counted(case, NO_RECORD, 1)


def test_a_record_that_is_too_long_to_be_shown_is_counted_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a code of its own: it is sound."""
    case = Case(tmp_path / "home", tmp_path)
    file = tiny_homes.qwen(case.home)
    file.write_text(file.read_text().replace(f"ask {tiny_homes.CHANGED}", "word " * 2000))
    monkeypatch.setattr(long_lines, "LONGEST", 8192)
    assert_counted(case, TOO_LONG, 1)


@pytest.mark.parametrize(
    ("make", "torn"),
    [
        *((tiny_homes.codex, 1), (tiny_homes.codex, 3), (tiny_homes.gemini_lines, 3)),
        *((tiny_homes.qwen, 1), (tiny_homes.qwen, 3)),
    ],
)
def test_a_torn_line_that_is_finished_late_is_no_damage_any_more(
    make: Callable[[Path], Path], torn: int, tmp_path: Path
) -> None:
    """It was taken as damaged, and its end came after that; the index has counted it before."""
    case = Case(tmp_path / "home", tmp_path)
    file = make(case.home)
    whole = b"".join(file.read_bytes().splitlines(keepends=True)[:torn])
    file.write_bytes(whole[:-9])
    os.utime(file, (1_700_000_000, 1_700_000_000))
    assert_counted(case, NO_RECORD, 1)
    file.write_bytes(whole)
    assert_counted(case, NO_RECORD, 0)
    out = case.place / "out"
    case.said("export", tiny_homes.CHANGED, "--format", "original", "--no-redact", "--output", str(out))
    assert (out / file.relative_to(case.home)).read_bytes() == whole
    shutil.rmtree(case.data)
    assert_counted(case, NO_RECORD, 0)


def test_damage_that_is_still_in_a_rewritten_file_counts_once(tmp_path: Path) -> None:
    """Its file is read again from its start, and the lines of before stay in the log."""
    case = Case(tmp_path / "home", tmp_path)
    file = tiny_homes.codex(case.home)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:2], b"<<< one\n", *lines[2:], b"<<< two\n"]))
    assert_counted(case, NO_RECORD, 2)
    file.write_bytes(b"".join([*lines[:2], b"<<< one\n", *lines[2:], lines[-1]]))
    assert_counted(case, NO_RECORD, 1)
    file.write_bytes(b"".join([*lines[:2], b"<<< one\n", *lines[2:], lines[-1], b"<<< three\n"]))
    assert_counted(case, NO_RECORD, 2)
