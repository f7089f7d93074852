"""Findings are told session by session while the check runs, in an order that does not depend on the processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from recollect.ask.doctor.check import CheckReport, check
from recollect.ask.library import Home
from recollect.ask.sessions.session import Session
from recollect.model.checks.rules import Finding
from tests.small_home import TALK, lines, put

NAMES = [f"3f2a9c1e-0000-4000-8000-00000000000{number}" for number in range(6)]
SOUND = NAMES[3]
AGENT = "a1b2c3d"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Six sessions, the first the newest and the shortest; all but one end in half a line, one has an agent that does."""
    root = tmp_path / "claude"
    for number, name in enumerate(NAMES):
        talk = lines(TALK).replace(b"3f2a9c1e-0000-4000-8000-000000000001", name.encode())
        log = put(root, name, [])
        log.write_bytes(talk + (b"" if name == SOUND else b'{"type":"user","uuid":"ha' + b"l" * 10 * number))
        os.utime(log, (2_000_000_000 - number,) * 2)
    agent = root / "projects" / log.parent.name / NAMES[2] / "subagents" / f"agent-{AGENT}.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(lines(TALK) + b'{"type":"user","uuid":"ha')
    return Home(root, data=tmp_path / "data")


def told(home: Home) -> tuple[list[tuple[str, list[Finding]]], CheckReport]:
    found: list[tuple[str, list[Finding]]] = []

    def as_found(session: Session | None, findings: Sequence[Finding]) -> None:
        found.append(("" if session is None else str(session.id), list(findings)))

    data = home.homes[0].root.parent / "data"
    return found, check(home, data=data, with_secrets=False, as_found=as_found)


def test_the_newest_session_comes_first_and_sound_ones_do_not_come(home: Home) -> None:
    """Each with the findings of its own log and of its agents, which are those of the report."""
    found, report = told(home)

    assert ["", *(name for name in NAMES if name != SOUND)] == [name for name, _ in found]
    assert {None, AGENT} == {one.agent for name, findings in found for one in findings if name == NAMES[2]}
    assert sorted(map(repr, report.findings)) == sorted(
        repr(one) for _, findings in found for one in findings
    )
    assert report == check(home, data=home.homes[0].root.parent / "data", with_secrets=False)
