"""A line of another client's file that is no record is damage on every surface, with an index and without one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from recollect import Home
from recollect.services.overview import look_for_damage
from recollect.storage.logs.log_counts import log_counts
from tests.storage.foreign import tiny_homes
from tests.surfaces.case import Case
from tests.web.pages import Browser, served

CODE = "unreadable-record"


@pytest.mark.parametrize(
    "make", [tiny_homes.codex, tiny_homes.codex_bare, tiny_homes.gemini_lines, tiny_homes.qwen]
)
def test_a_line_that_is_no_record_is_counted_alike(make: Callable[[Path], Path], tmp_path: Path) -> None:
    case = Case(tmp_path / "home", tmp_path)
    with make(case.home).open("ab") as file:
        file.write(b"<<< not a record >>>\n")

    assert case.document("check")["summary"]["by_code"][CODE] == 1
    logs = [session.file for session in Home(case.home, data=case.data, index=False).sessions()]
    assert {CODE: 1} == look_for_damage(logs, None).by_code
    assert 1 == sum(log_counts(log.path).damaged for log in logs)
    assert [(CODE, "1 line")] == [(one["code"], one["what"]) for one in case.document("overview")["findings"]]
    assert f"1 {CODE}" in case.said("overview")
    assert [1] == [row["damaged"] for row in case.document("list")["sessions"] if row["damaged"]]
    with Browser(served(case.home, case.data)) as browser:
        rows = browser.get("/api/sessions?damaged=true")["sessions"]
    assert [1] == [row["damaged"] for row in rows]
