"""A marker counts only while the process that wrote it runs.

Shapes of ``procStart`` and ``pidDomain`` are those public reports show for clients 2.1.177 to 2.1.284:
clock ticks on Linux, a date in UTC on macOS.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import pytest

from recollect.model.lines.ids import SessionId
from recollect.store import live
from recollect.store.home import ClaudeHome
from recollect.store.live import LiveSession, live_sessions
from recollect.system import peek

SESSION = "0b5e9c3a-1f2d-4e5f-8a9b-0c1d2e3f4a5b"
PID = 4242
BOOT = 1_000_000_000  # 2001-09-09 01:46:40 UTC
START = BOOT + 100  # the process started 100 seconds later: 01:48:20
NOBODY = 2**22 + 1  # above the largest process id Linux gives out

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs the real /proc of Linux")


@pytest.fixture
def home(tmp_path: Path) -> ClaudeHome:
    """A home without markers."""
    (tmp_path / ".claude" / "sessions").mkdir(parents=True)
    return ClaudeHome(tmp_path / ".claude")


@pytest.fixture
def ticks() -> int:
    """100 seconds in this system's clock ticks."""
    return 100 * os.sysconf("SC_CLK_TCK")


@pytest.fixture
def proc(tmp_path: Path, ticks: int) -> Path:
    """A /proc in which process 4242 runs since 100 seconds after boot, under an awkward name."""
    root = tmp_path / "proc"
    (root / "self" / "ns").mkdir(parents=True)
    (root / "self" / "ns" / "pid").symlink_to("pid:[77]")
    (root / "self" / "stat").write_text("")
    (root / "stat").write_text(f"cpu 1 2 3\nintr 5\nbtime {BOOT}\nprocesses 9\n")
    process(root, ticks)
    return root


def process(root: Path, ticks: int, state: str = "S") -> None:
    (root / str(PID)).mkdir(exist_ok=True)
    nineteen = " ".join(str(n) for n in range(4, 22))
    (root / str(PID) / "stat").write_text(
        f"{PID} (cl) aude (x)) {state} {nineteen} {ticks} 5816676352 119626\n"
    )


def mark(home: ClaudeHome, pid: int = PID, **fields: object) -> Path:
    path = home.live_dir / f"{pid}.json"
    path.write_text(json.dumps({"pid": pid, "sessionId": SESSION, **fields}))
    return path


def certainties(home: ClaudeHome, proc: Path) -> list[bool]:
    return [session.certain for session in live_sessions(home, proc=proc)]


def test_a_marker_tells_all_it_knows(home: ClaudeHome, proc: Path, ticks: int) -> None:
    """Every field that has the type it should have."""
    mark(
        home,
        procStart=str(ticks),
        cwd="/srv",
        startedAt=START * 1000 + 1500,
        updatedAt=(START + 60) * 1000,
        status="busy",
        version="2.1.325",
        kind="interactive",
        entrypoint="cli",
        name="srv-47",
    )

    assert [
        LiveSession(
            pid=PID,
            session_id=SessionId(SESSION),
            certain=True,
            cwd="/srv",
            started_at=datetime(2001, 9, 9, 1, 48, 21, 500_000, UTC),
            updated_at=datetime(2001, 9, 9, 1, 49, 20, 0, UTC),
            status="busy",
            version="2.1.325",
            kind="interactive",
            entrypoint="cli",
            name="srv-47",
        )
    ] == live_sessions(home, proc=proc)


def test_clock_ticks_must_be_the_same(home: ClaudeHome, proc: Path, ticks: int) -> None:
    """Text or number; one tick more is another process with the same number."""
    found = []
    for start in (str(ticks), ticks, str(ticks + 1), ticks - 1):
        mark(home, procStart=start, startedAt=START * 1000)
        found.append(certainties(home, proc))

    assert [[True], [True], [], []] == found


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("Sun Sep  9 01:48:20 2001", [True]),
        ("Sun Sep  9 01:48:18 2001", [True]),
        ("2001-09-09T01:48:20Z", [True]),
        ("2001-09-09T01:48:20", [True]),
        ("2001-09-09T03:48:20+02:00", [True]),
        ("Sun Sep  9 02:48:20 2001", []),
        ("Sun Sep  9 01:48:20 2000", []),
    ],
)
def test_a_date_must_be_the_start_of_the_process(
    home: ClaudeHome, proc: Path, start: str, expected: list[bool]
) -> None:
    """In UTC, within the few seconds to which the boot time is known."""
    mark(home, procStart=start, startedAt=START * 1000)

    assert expected == certainties(home, proc)


@pytest.mark.parametrize("start", [None, "soon", ["x"], "", "Sun Foo 99 01:48:20 2001"])
@pytest.mark.parametrize(
    ("started_at", "expected"),
    [(START + 2, [True]), (START + 181, [True]), (START - 3, [False]), (START - 60, [])],
)
def test_otherwise_the_process_must_be_older_than_the_marker(
    home: ClaudeHome, proc: Path, start: object, started_at: int, expected: list[bool]
) -> None:
    """Who had the number before the marker was made is who made it; a few seconds late is only a maybe."""
    mark(home, procStart=start, startedAt=started_at * 1000)

    assert expected == certainties(home, proc)


@pytest.mark.parametrize("started_at", [None, "x", True, 1e300, [1]])
def test_a_marker_without_any_time_is_a_maybe(home: ClaudeHome, proc: Path, started_at: object) -> None:
    """The process runs, but nothing says that it is the same."""
    mark(home, startedAt=started_at)

    assert [False] == certainties(home, proc)


@pytest.mark.parametrize("state", ["Z", "X"])
def test_the_remains_of_a_process_are_not_one(home: ClaudeHome, proc: Path, ticks: int, state: str) -> None:
    """A zombie has its number and its start, and writes nothing any more."""
    process(proc, ticks, state)
    mark(home, procStart=str(ticks))

    assert [] == certainties(home, proc)


def test_a_process_we_cannot_look_into_is_a_maybe(home: ClaudeHome, proc: Path, ticks: int) -> None:
    """It is there; better to leave its session alone."""
    (proc / str(PID) / "stat").write_text("garbage")
    mark(home, procStart=str(ticks))

    assert [False] == certainties(home, proc)


@pytest.mark.parametrize(
    "domain", ["linux::pid:[78]", "linux:no-such-machine:pid:[77]", "darwin", "win32:host"]
)
@linux
def test_a_process_of_another_system_is_a_maybe(home: ClaudeHome, proc: Path, domain: str) -> None:
    """Containers and other machines count their own processes: ours neither prove nor disprove theirs."""
    mark(home, pid=NOBODY, procStart="1", pidDomain=domain)
    expected = [] if domain.startswith("linux:no") and not live._machine_id() else [False]

    assert expected == certainties(home, proc)


def test_without_proc_a_running_process_is_a_maybe(home: ClaudeHome, tmp_path: Path) -> None:
    """Other systems tell us whether the number is taken, not by whom."""
    mark(home, pid=os.getpid(), procStart="Sun Sep  9 01:48:20 2001")
    mark(home, pid=NOBODY)

    found = live_sessions(home, proc=tmp_path / "none")

    assert [(os.getpid(), False)] == [(session.pid, session.certain) for session in found]


@linux
def test_this_very_process_is_recognised(home: ClaudeHome) -> None:
    """With the start time that the real /proc gives, and with none but the time it wrote its marker."""
    own = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    found = []
    for fields in ({"procStart": own}, {"startedAt": datetime.now(UTC).timestamp() * 1000}):
        mark(home, pid=os.getpid(), **fields)
        found += [session.certain for session in live_sessions(home)]

    assert [True, True] == found


@linux
def test_a_process_that_has_ended_is_not_live(home: ClaudeHome) -> None:
    """While it runs it counts; once it is gone its marker does not."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mark(home, pid=child.pid, startedAt=datetime.now(UTC).timestamp() * 1000 + 1000)
    before = [session.certain for session in live_sessions(home)]
    child.communicate(b"\n")

    assert ([True], []) == (before, live_sessions(home))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "{}",
        '{"pid":4242}',
        '{"pid":"4242","sessionId":"x"}',
        '{"pid":7,"sessionId":"x"}',
        '{"pid":4242,"sessionId":"../x"}',
        '{"pid":4242,"sessionId":""}',
        '{"pid":4242,"sessionId":"x","cwd":' + "[" * 99999,
    ],
)
def test_a_marker_that_makes_no_sense_is_named_and_left_out(home: ClaudeHome, proc: Path, text: str) -> None:
    """Torn, of another shape, of another process, or hostile."""
    path = home.live_dir / f"{PID}.json"
    path.write_text(text)

    assert [] == live_sessions(home, proc=proc)
    assert [path] == [problem.path for problem in home.problems]


def test_other_files_are_not_opened_least_of_all_keys(
    home: ClaudeHome, proc: Path, ticks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The .key file beside a marker is a secret."""
    path = mark(home, procStart=ticks)
    for name in (f"{PID}.{'f' * 64}.key", "0.json", "-1.json", "x.json", "1.json.tmp", ".json", "01.json"):
        (home.live_dir / name).write_text(path.read_text())
    opened: list[Path] = []

    def recorded(path: Path) -> BinaryIO:
        opened.append(path)
        return peek.open_regular(path)

    monkeypatch.setattr(live, "open_regular", recorded)

    assert [True] == certainties(home, proc)
    assert [path] == opened
