"""Which sessions are open right now, according to the running clients.

A client (2.1.197 and later) keeps ``sessions/<pid>.json`` while it runs and removes it at exit. A crash
leaves it behind, and the system reuses the process number, so a marker counts only if its process is still
the one that wrote it (S14): the start time of the process must be the ``procStart`` of the marker, or at
least not later than ``startedAt``.

``procStart`` is the start time in the format of the client's system: clock ticks since boot on Linux (field
22 of ``/proc/<pid>/stat``), a date in UTC elsewhere. Both forms are understood; any other is ignored.

A session listed here may be open; ``certain`` says whether that was proved. A session not listed may still be
open: older clients and print mode leave no marker. It is a hint, never a lock. The ``.key`` files beside the
markers are secrets and are not opened.
"""

from __future__ import annotations

import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from recollect.errors import InvalidId
from recollect.model.lines.ids import EPOCH, SessionId, moment_of
from recollect.store.home import ClaudeHome
from recollect.system.peek import open_regular

_MARKER = re.compile(r"([1-9][0-9]{0,9})\.json", re.ASCII)
_LARGEST_MARKER = 1 << 20
_TOLERANCE = timedelta(seconds=5)
"""Boot time is known to the second only, and the clock may have been set since."""

_TEXTS = ("cwd", "status", "version", "kind", "entrypoint", "name")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_PS_DATE = re.compile(r"\w{3} (\w{3}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})", re.ASCII)


class LiveSession(msgspec.Struct, frozen=True):
    """A session that a process has marked as open. ``certain`` is false where that could not be proved."""

    pid: int
    session_id: SessionId
    certain: bool
    cwd: str | None = None
    started_at: datetime | None = None
    updated_at: datetime | None = None
    status: str | None = None
    version: str | None = None
    kind: str | None = None
    entrypoint: str | None = None
    name: str | None = None


def live_sessions(home: ClaudeHome, *, proc: Path = Path("/proc")) -> list[LiveSession]:
    """The sessions whose marker belongs to a running process, by process id.

    A marker that cannot be read is left out and noted in ``home.problems``.
    """
    found = []
    for path in home.live_markers():
        named = _MARKER.fullmatch(path.name)
        marker = _read(home, path, int(named[1])) if named else None
        if marker is not None:
            certain = _proof(marker, proc)
            if certain is not None:
                found.append(_live(marker, certain))
    return sorted(found, key=lambda session: session.pid)


def _read(home: ClaudeHome, path: Path, pid: int) -> dict[str, Any] | None:
    try:
        with open_regular(path) as file:
            marker = msgspec.json.decode(file.read(_LARGEST_MARKER), type=dict[str, Any])
        msgspec.convert(marker.get("pid"), int)
        marker["sessionId"] = SessionId(msgspec.convert(marker.get("sessionId"), str))
    except FileNotFoundError:  # its client has just exited
        return None
    except OSError as cause:
        home.note_problem(path, cause)
    except (ValueError, RecursionError, InvalidId):
        home.note_problem(path, "not the marker of a running session")
    else:
        if marker["pid"] == pid:
            return marker
        home.note_problem(path, f"names process {marker['pid']}, not its own")
    return None


def _live(marker: dict[str, Any], certain: bool) -> LiveSession:
    texts = {name: _text(marker.get(name)) for name in _TEXTS}
    started, updated = (_from_milliseconds(marker.get(name)) for name in ("startedAt", "updatedAt"))
    return LiveSession(
        marker["pid"], marker["sessionId"], certain, started_at=started, updated_at=updated, **texts
    )


def _proof(marker: dict[str, Any], proc: Path) -> bool | None:
    """True: the writer is running. False: it may be. None: it is not."""
    if _is_foreign(marker.get("pidDomain"), proc):
        return False  # another machine or container has its own process numbers; ours say nothing about it
    process = _running(marker["pid"], proc)
    if process is None:
        return None
    ticks, began = process
    if ticks is None or began is None:
        return False
    start = marker.get("procStart")
    if isinstance(start, str | int) and re.fullmatch(r"[0-9]{1,18}", str(start)):
        return True if int(start) == ticks else None
    written = _date(start)
    if written is not None:
        return True if abs(written - began) <= _TOLERANCE else None
    return _proof_by_start(_from_milliseconds(marker.get("startedAt")), began)


def _proof_by_start(marked: datetime | None, started: datetime) -> bool | None:
    """A process that started before the marker was made is the one that made it."""
    if marked is None:
        return False
    if started <= marked:
        return True
    return False if started <= marked + _TOLERANCE else None


def _running(pid: int, proc: Path) -> tuple[int | None, datetime | None] | None:
    """When the process with this number started, in ticks and as a time; None if there is none, or only a zombie.

    Both are None where the system does not report them.
    """
    if not (proc / "self" / "stat").exists():
        return (None, None) if _answers(pid) else None
    try:
        # The name in parentheses may hold anything, parentheses and spaces too: split after the last one.
        fields = (proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except FileNotFoundError:
        return None
    except OSError:
        return None, None
    if fields[:1] in ([b"Z"], [b"X"]):
        return None
    try:
        ticks = int(fields[19])  # field 22 of the line; field 3, the state, is the first here
        return ticks, _boot_time(proc) + timedelta(seconds=ticks / os.sysconf("SC_CLK_TCK"))
    except (IndexError, ValueError, OSError, OverflowError):
        return None, None


def _boot_time(proc: Path) -> datetime:
    found = re.search(rb"^btime ([0-9]+)$", (proc / "stat").read_bytes(), re.MULTILINE)
    if found is None:
        raise ValueError("no boot time")
    return EPOCH + timedelta(seconds=int(found[1]))


def _answers(pid: int) -> bool:
    """Whether a process has this number, on systems without /proc."""
    if os.name == "nt":
        return True  # os.kill(pid, 0) would send a Ctrl-C there
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _is_foreign(domain: object, proc: Path) -> bool:
    """Whether the marker's process number belongs to another system than ours.

    Seen: ``darwin``, ``win32:<host>``, ``linux:<machine id>:pid:[<namespace>]``, the machine id empty in
    containers. No domain (older clients) means ours.
    """
    if not isinstance(domain, str) or not domain:
        return False
    system, _, rest = domain.partition(":")
    if system != sys.platform:
        return True
    if system != "linux":
        return False
    machine, _, namespace = rest.partition(":")
    return _differ(machine, _machine_id()) or _differ(namespace, _pid_namespace(proc))


def _differ(theirs: str, ours: str) -> bool:
    return bool(theirs and ours and theirs != ours)


def _machine_id() -> str:
    try:
        return Path("/etc/machine-id").read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def _pid_namespace(proc: Path) -> str:
    try:
        return str((proc / "self" / "ns" / "pid").readlink())
    except OSError:
        return ""


def _date(value: object) -> datetime | None:
    """``Thu Jul  9 04:18:26 2026`` or ISO 8601; UTC unless it says otherwise."""
    if not isinstance(value, str):
        return None
    found = _PS_DATE.fullmatch(value.strip())
    try:
        if found is None:
            date = datetime.fromisoformat(value)
            return date if date.tzinfo else date.replace(tzinfo=UTC)
        month = _MONTHS.index(found[1]) + 1
        day, hour, minute, second, year = map(int, found.groups()[1:])
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None


def _from_milliseconds(value: object) -> datetime | None:
    return None if isinstance(value, bool) or not isinstance(value, int | float) else moment_of(value)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
