"""Findings of a page: the same whether found in the server or in a process beside it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from recollect.services.homes import Home
from recollect.services.page import findings
from recollect.services.session import Session
from tests.small_home import ONE, TALK, lines, prompt, put


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A session with a line that is no JSON, and one whose parent is not there."""
    put(tmp_path / "home", ONE, TALK)
    log = next((tmp_path / "home").rglob(f"{ONE}.jsonl"))
    log.write_bytes(lines(TALK[:2]) + b'{"type": "user", cut\n' + lines([*TALK[2:], prompt(9, 8, "Orphan")]))
    (one,) = Home(tmp_path / "home").sessions()
    return one


def test_a_process_finds_the_same(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged line and an orphan, with the plan of a repair."""
    home = Home(tmp_path / "home")
    here = findings.found(home, session, tmp_path / "data")
    monkeypatch.setattr(findings, "_WORTH_A_PROCESS", 0)
    monkeypatch.setattr(findings, "_document", lambda *_: pytest.fail("was made here"))
    assert findings.found(home, session, tmp_path / "data") == here
    assert here.total == len(here.findings) >= 2
    assert here.repair is not None
    assert here.repair.actions_total >= 1


@pytest.mark.parametrize("program", ["/nowhere/python", "/bin/false", "/bin/echo"])
def test_without_a_process_it_is_found_here(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    """No such program, one that fails, one that writes nonsense."""
    home = Home(tmp_path / "home")
    here = findings.found(home, session, tmp_path / "data")
    monkeypatch.setattr(findings, "_WORTH_A_PROCESS", 0)
    monkeypatch.setattr(sys, "executable", program)
    assert findings.found(home, session, tmp_path / "data") == here
