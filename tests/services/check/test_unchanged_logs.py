"""A log that did not change since it was checked, or searched for secrets, is not read again."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from recollect.model.findings import Severity
from recollect.model.secrets import needles
from recollect.model.secrets.patterns import SHAPES
from recollect.services.check import check as check_module
from recollect.services.check import log_report
from recollect.services.check.check import CheckReport, check
from recollect.services.check.kept_report import rules_version
from recollect.services.homes import Home
from recollect.services.indexing.file_results import file_results
from recollect.services.secrets import engine
from recollect.services.secrets import scan as scan_module
from recollect.services.secrets.scan import scan
from recollect.storage.home import AgentFile, ClaudeHome, ProjectDir, SessionFile
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


def test_without_an_index_nothing_is_kept(tmp_path: Path, read: ReadLogs) -> None:
    """A check builds none, and writes nothing."""
    put(tmp_path / "claude", ONE, TALK)
    for _ in range(2):
        checked(Home(tmp_path / "claude", data=tmp_path / "data"))

    assert [ONE[:8], ONE[:8]] == read.taken()
    assert not (tmp_path / "data" / "cache").exists()


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


def test_the_digest_of_patterns_changes_with_a_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the engine looks for the same."""
    before = needles.digest()
    monkeypatch.setattr(needles, "SHAPES", SHAPES[1:])

    assert before != needles.digest()


def test_the_overview_counts_what_the_check_found(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Of logs that are still as they were; nothing before the first check."""
    data = home.homes[0].root.parent / "data"
    put(home.homes[0].root, ONE, []).write_bytes(b'{"type":"user","uuid":"half\n' + lines(TALK)[100:])

    def told() -> dict[str, object] | None:
        assert 0 == main(["--home", str(home.homes[0].root), "--data", str(data), "overview", "--json"])
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


def test_sub_agents_are_looked_for_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs to check and the search for orphans come from the same walk, and both see the orphan."""
    project = log_of(home, ONE).parent
    (project / "agent-0a0a0a0a.jsonl").write_bytes(b'{"type":"user","uuid":"x","sessionId":"gone"}\n')
    walked: list[Path] = []
    real = ClaudeHome.project_agents

    def counted(one: ClaudeHome, place: ProjectDir) -> Iterator[AgentFile]:
        walked.append(place.path)
        return real(one, place)

    monkeypatch.setattr(ClaudeHome, "project_agents", counted)
    report = checked(home)

    assert ([project], 3, 1) == (walked, report.summary.logs, report.summary.by_code["orphan-agent"])


def test_sessions_are_listed_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to be checked, what is newest and what expires come from the same listing."""
    listed: list[ProjectDir | None] = []
    real = ClaudeHome.sessions

    def counted(one: ClaudeHome, project: ProjectDir | None = None) -> Iterator[SessionFile]:
        listed.append(project)
        return real(one, project)

    monkeypatch.setattr(ClaudeHome, "sessions", counted)
    data = home.homes[0].root.parent / "data"
    report = check(home, data=data, now=dt.datetime.now(dt.UTC) + dt.timedelta(days=25), with_secrets=False)

    assert [None] == listed
    assert "expiring" in report.summary.by_code


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


def test_where_a_listing_has_no_inodes_the_file_is_asked(home: Home, read: ReadLogs) -> None:
    """As on Windows."""
    checked(home)
    read.taken()
    roots = [one.root for one in home.homes]
    log = log_of(home, TWO)
    with file_results("check", rules_version(), roots, home.index_cache) as kept:
        assert kept.get(str(log), (0, 0, log.stat().st_size, 0)) is not None
        assert kept.get(str(log), (1, 1, 1, 1)) is None


def test_where_nothing_changed_a_check_loads_nothing_that_reads_logs(home: Home, tmp_path: Path) -> None:
    """A fresh process that only reads what is kept does without the rules and the repairs."""
    program = (
        "import sys\nfrom recollect.cli.main import main\n"
        "main(['--home', sys.argv[1], '--data', sys.argv[2], 'check', '--json', '--no-secrets'])\n"
        "print([name for name in ('model.diagnosis', 'services.repair.repair') if f'recollect.{name}' in sys.modules],"
        " file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, str(home.homes[0].root), str(tmp_path / "data")]
    first, again = (
        subprocess.run(command, check=True, capture_output=True, text=True).stderr for _ in range(2)
    )
    assert "model.diagnosis" in first
    assert again == "[]\n"


@pytest.mark.parametrize("is_searched", [True, False])
def test_the_scan_engine_is_made_ready_while_logs_are_read(
    home: Home, monkeypatch: pytest.MonkeyPatch, is_searched: bool
) -> None:
    """By one of the processes, where credentials are searched for afterwards; the report is the same."""
    data = home.homes[0].root.parent / "data"
    alone = check(home, data=data, with_secrets=is_searched, is_kept=False)
    shares: list[list[Any]] = []
    real = WorkerPool.answers

    def answers(pool: WorkerPool, tasks: list[Any]) -> object:
        if pool.job is log_report.report_job:
            assert pool.setup == str(home.index_cache)
            shares.append(tasks)
        return real(pool, tasks)

    monkeypatch.setattr(WorkerPool, "answers", answers)
    monkeypatch.setattr(check_module, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(check_module, "_WORTH_AN_ENGINE", 1)

    assert alone == check(home, data=data, with_secrets=is_searched, is_kept=False)
    assert [is_searched] == [[] in tasks for tasks in shares]


def test_a_share_without_logs_makes_the_engine_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path | None] = []
    monkeypatch.setattr(engine, "engine_ready", lambda _, cache: made.append(cache))

    assert [[]] == list(log_report.report_job(str(tmp_path))([]))
    assert [[]] == list(log_report.report_job(None)([]))
    assert [tmp_path, None] == made


def test_where_nothing_changed_a_scan_loads_nothing_that_searches(home: Home, tmp_path: Path) -> None:
    """A fresh process that only reads what is kept does without the patterns' expressions, the finder and the archive."""
    program = (
        "import sys\nfrom pathlib import Path\nfrom recollect.services.homes import Home\n"
        "from recollect.services.secrets.scan import scan\n"
        "data = Path(sys.argv[2])\nfound = scan(Home(sys.argv[1], data=data), data=data)\n"
        "print(found.files, [name for name in ('services.secrets.file_scan', 'model.secrets.finder',"
        " 'services.archive.archive') if f'recollect.{name}' in sys.modules])"
    )
    command = [sys.executable, "-c", program, str(home.homes[0].root), str(tmp_path / "data")]
    first, again = (
        subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(2)
    )
    assert "'services.secrets.file_scan', 'model.secrets.finder'" in first
    assert again == f"{first.split()[0]} []\n"
