"""A log that did not change since it was checked, or searched for secrets, is not read again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.doctor import check as check_module
from recollect.ask.doctor import log_report
from recollect.ask.doctor.check import CheckReport, check
from recollect.ask.library import Home
from recollect.ask.secrets import scan as scan_module
from recollect.ask.secrets.scan import scan
from recollect.cli.main import main
from recollect.model.checks.rules import Severity
from recollect.system.pool import WorkerPool
from tests.model.secrets.samples import SAMPLES, Dice
from tests.small_home import ONE, TALK, TWO, lines, open_in_this_process, put

DAMAGED = lines(TALK) + b'{"type":"user","uuid":"half\n'


class ReadLogs:
    """Which files were read, by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        real = WorkerPool.answers

        def answers(pool: WorkerPool, tasks: list[Any], *sizes: list[int]) -> object:
            place = 1 if pool.job is log_report.report_job else 0
            named = [one[place] for bundle in tasks for one in bundle]
            self.names += [path.name[:8] for path in map(Path, named) if path.suffix == ".jsonl"]
            return real(pool, tasks, *sizes)

        monkeypatch.setattr(WorkerPool, "answers", answers)

    def taken(self) -> list[str]:
        names, self.names = sorted(self.names), []
        return names


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Two sessions, one of them damaged, and an index."""
    root = tmp_path / "claude"
    put(root, ONE, []).write_bytes(DAMAGED)
    put(root, TWO, TALK)
    made = Home(root, data=tmp_path / "data")
    made.costs()
    return made


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> ReadLogs:
    return ReadLogs(monkeypatch)


def checked(home: Home, *, is_kept: bool = True) -> CheckReport:
    return check(home, data=home.homes[0].root.parent / "data", with_secrets=False, is_kept=is_kept)


def log_of(home: Home, session: str) -> Path:
    return home.session(session).path


def test_the_second_check_reads_nothing_and_says_the_same(home: Home, read: ReadLogs) -> None:
    """Findings, counts, damaged lines: all from the index, and as without one."""
    first = checked(home)
    assert [ONE[:8], TWO[:8]] == read.taken()
    second = checked(home)

    assert [] == read.taken()
    assert first == second == checked(home, is_kept=False)
    assert first.summary.damaged == 1


def test_a_log_that_grew_is_read_again(home: Home, read: ReadLogs) -> None:
    """Only that one."""
    before = checked(home)
    read.taken()
    with log_of(home, TWO).open("ab") as log:
        log.write(b"nonsense\n")
    after = checked(home)

    assert [TWO[:8]] == read.taken()
    assert after.summary.damaged == before.summary.damaged + 1


def test_a_log_rewritten_at_its_old_length_is_read_again(home: Home, read: ReadLogs) -> None:
    """By its time, or by its inode where even that was restored."""
    log = log_of(home, ONE)
    checked(home)
    read.taken()
    status = log.stat()
    other = log.with_name("other")
    other.write_bytes(DAMAGED.replace(b"half", b"much"))
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(log)
    checked(home)

    assert [ONE[:8]] == read.taken()


def test_other_rules_read_everything_again(
    home: Home, read: ReadLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new version may know more codes."""
    checked(home)
    read.taken()
    monkeypatch.setattr(check_module, "rules_version", lambda: "newer")
    checked(home)
    assert [ONE[:8], TWO[:8]] == read.taken()
    checked(home)

    assert [] == read.taken()


def test_a_live_session_is_always_read(home: Home, read: ReadLogs) -> None:
    """What is said about its last line depends on the client that has it open."""
    checked(home)
    open_in_this_process(home.homes[0].root, TWO)
    read.taken()
    checked(home)

    assert [TWO[:8]] == read.taken()


def test_secrets_are_searched_for_once(home: Home, read: ReadLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The findings of the second search are those of the first; other patterns search again."""
    secret = SAMPLES["github-pat"].make(Dice("unchanged"))
    data = home.homes[0].root.parent / "data"
    with log_of(home, TWO).open("ab") as log:
        log.write(f'{{"type":"user","message":{{"content":"{secret}"}}}}\n'.encode())
    first = scan(home, data=data)
    assert TWO[:8] in read.taken()
    second = scan(home, data=data)

    assert [] == read.taken()
    assert first == second
    assert ["github-pat"] == [one.kind for one in second.findings]
    monkeypatch.setattr(scan_module, "digest", lambda: "other patterns")
    assert first == scan(home, data=data)
    assert TWO[:8] in read.taken()


def test_the_overview_counts_what_the_check_found(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Of logs that are still as they were; nothing before the first check."""
    data = home.homes[0].root.parent / "data"
    put(home.homes[0].root, ONE, []).write_bytes(b'{"type":"user","uuid":"half\n' + lines(TALK)[100:])

    def told() -> dict[str, object] | None:
        assert 0 == main(["--home", str(home.homes[0].root), "--data", str(data), "--json"])
        resume: dict[str, object] | None = json.loads(capsys.readouterr().out)["resume"]
        return resume

    assert told() is None
    report = checked(home)
    errors = {one.code for one in report.findings if one.severity is Severity.ERROR}
    assert errors
    assert told() == {"sessions": 1, "by_code": dict.fromkeys(errors, 1), "checked": 2}
    with log_of(home, ONE).open("ab") as log:
        log.write(b"\n")
    assert told() == {"sessions": 0, "by_code": {}, "checked": 1}


def test_a_session_that_was_looked_up_before_its_log_grew_is_read(home: Home, read: ReadLogs) -> None:
    """A program may hold it for hours: what it knew of the file then does not count."""
    held = home.session(TWO)
    data = home.homes[0].root.parent / "data"
    before = check(home, [held], data=data)
    with held.path.open("ab") as log:
        log.write(b"nonsense\n")
    read.taken()

    assert check(home, [held], data=data).summary.damaged == before.summary.damaged + 1
    assert [TWO[:8]] == read.taken()
