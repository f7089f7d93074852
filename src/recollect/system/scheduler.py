"""Jobs that the system's own scheduler runs: their command line, their text, and how they get in and out.

A scheduler starts a job with an empty environment in another directory, often as the first program of a session. So
a job names everything by absolute paths: the program, the homes, our own directory. A job is recognised by its
name, which is part of the entry; entries of others are never touched: a crontab is bytes, in any encoding.

systemd (a timer of the user) and cron are set up here. For launchd and the Windows Task Scheduler the text is made,
and the user loads it.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal
from unicodedata import category
from xml.sax.saxutils import escape

from msgspec import Struct

from recollect.errors import StorageError, UsageError
from recollect.system import fsops, paths

SchedulerName = Literal["systemd", "cron", "launchd", "windows"]
_SECONDS = 30.0
_MINUTE = 17
# Debian's cron reads no longer command; what is behind is lost without a word.
_LONGEST_CRON = 990
_NOTHING_THERE = b"no crontab"


class ScheduledJob(Struct, frozen=True):
    """A job that runs every hour. ``name`` is unique among ours: letters, digits, dashes."""

    name: str
    words: tuple[str, ...]
    about: str

    @property
    def line(self) -> str:
        """As a line for a POSIX shell."""
        return shlex.join(self.words)


class JobEntry(Struct, frozen=True):
    """How a job is entered: files and their text, or a line of a table; ``load`` is what a user types, if anything."""

    scheduler: SchedulerName
    texts: dict[str, str]
    load: str = ""


def program_words(executable: str = sys.executable) -> list[str]:
    """This program by an absolute path, as it can be started without any environment."""
    if f"{os.sep}archive-v0{os.sep}" in executable:
        raise UsageError(
            "this recollect was started by uvx, from a directory that may be removed",
            hint="install it first: `uv tool install recollect` or `pipx install recollect`",
        )
    beside = Path(executable).absolute().with_name("recollect.exe" if os.name == "nt" else "recollect")
    if os.access(beside, os.X_OK):
        return [str(beside)]
    return [str(Path(executable).absolute()), "-m", "recollect"]


def job_words(homes: Sequence[Path], data: Path, *command: str) -> tuple[str, ...]:
    """A command of ours with absolute paths of program, homes and data."""
    named = [part for home in homes for part in ("--home", str(home.absolute()))]
    words = (*program_words(), *named, "--data", str(data.absolute()), *command)
    for word in words:
        if any(category(one) in ("Cc", "Cs") for one in word):
            raise UsageError(
                f"path {word!a}: no scheduler can run it",
                hint="use a directory whose name is UTF-8 without control characters",
            )
    return words


def usual_scheduler() -> SchedulerName:
    """The scheduler of this system: a timer of systemd where a user has one, else cron."""
    if sys.platform == "darwin":
        return "launchd"
    if sys.platform == "win32":
        return "windows"
    return "systemd" if _has_systemd() else "cron"


def entry_of(job: ScheduledJob, scheduler: SchedulerName) -> JobEntry:
    """The text of a job, as ``install`` enters it."""
    if scheduler == "cron":
        return JobEntry("cron", {"crontab": cron_line(job)})
    if scheduler == "systemd":
        return JobEntry("systemd", {str(path): text for path, text in _units(job).items()})
    if scheduler == "launchd":
        agent = Path.home() / "Library/LaunchAgents" / f"{job.name}.plist"
        return JobEntry(
            "launchd", {str(agent): _launch_agent(job)}, f"launchctl load -w {shlex.quote(str(agent))}"
        )
    task = f"{job.name}.xml"
    return JobEntry("windows", {task: _task(job)}, f"schtasks /Create /TN {job.name} /XML {task}")


def install(job: ScheduledJob, scheduler: SchedulerName) -> bool:
    """Enter a job, in place of its former entry; False where the user has to do it."""
    if scheduler == "cron":
        lines = _other_lines(job.name)
        is_cut = bool(lines) and not lines[-1].endswith(b"\n")
        lines.insert(
            len(lines) - is_cut, f"{cron_line(job)}\n".encode()
        )  # a cut line stays the last, as it is
        _write_table(lines)
    elif scheduler == "systemd":
        for path, text in _units(job).items():
            fsops.make_directories(path.parent)
            fsops.replace_file(path, text.encode())
        _systemctl("daemon-reload")
        _systemctl("enable", "--now", f"{job.name}.timer")
    return scheduler in ("cron", "systemd")


def remove(name: str, scheduler: str) -> bool:
    """Take a job out; False where it was not there, or where the user has to do it."""
    if scheduler == "cron":
        there = is_installed(name, "cron")
        if there:
            _write_table(_other_lines(name))
        return there
    if scheduler != "systemd" or not is_installed(name, "systemd"):
        return False
    with contextlib.suppress(StorageError):  # not loaded: the files go all the same
        _systemctl("disable", "--now", f"{name}.timer")
    for path in _unit_files(name):
        path.unlink(missing_ok=True)
    with contextlib.suppress(StorageError):
        _systemctl("daemon-reload")
    return True


def is_installed(name: str, scheduler: str) -> bool:
    """Whether the scheduler has the job; for those that the user loads, unknown and so False."""
    if scheduler == "cron":
        return len(_other_lines(name)) < len(_table())
    return scheduler == "systemd" and all(path.is_file() for path in _unit_files(name))


# ---- cron ------------------------------------------------------------------------------------------------


def cron_line(job: ScheduledJob) -> str:
    """One line of a crontab. The mark behind # is a comment for the shell; a percent sign would end the command."""
    line = f"{job.line} # {job.name}".replace("%", r"\%")
    size = len(line.encode())
    if size > _LONGEST_CRON:
        raise UsageError(f"job {job.name}: too long for cron ({size} bytes)", hint="name fewer homes")
    return f"{_MINUTE} * * * * {line}"


def _table() -> list[bytes]:
    """The lines of the user's crontab with their newlines, at which alone they end; none where there is no crontab."""
    done = _ran(["crontab", "-l"])
    if done.returncode and _NOTHING_THERE in done.stderr:
        return []
    _require(done, "read the crontab")
    return io.BytesIO(done.stdout).readlines()


def _other_lines(name: str) -> list[bytes]:
    return [line for line in _table() if not line.rstrip(b"\n").endswith(f"# {name}".encode())]


def _write_table(lines: Sequence[bytes]) -> None:
    if table := b"".join(lines):
        _require(_ran(["crontab", "-"], table), "write the crontab")
    else:
        _require(_ran(["crontab", "-r"]), "remove the crontab")


# ---- systemd ---------------------------------------------------------------------------------------------


def _has_systemd() -> bool:
    if shutil.which("systemctl") is None:
        return False
    try:
        return _ran(["systemctl", "--user", "show-environment"]).returncode == 0
    except StorageError:
        return False


def _units(job: ScheduledJob) -> dict[Path, str]:
    service, timer = _unit_files(job.name)
    command = " ".join(map(_systemd_word, job.words))
    return {
        service: f"[Unit]\nDescription={job.about}\n\n[Service]\nType=oneshot\nNice=10\nExecStart={command}\n",
        timer: (
            f"[Unit]\nDescription={job.about}, every hour\n\n[Timer]\nOnCalendar=hourly\nRandomizedDelaySec=300\n"
            "Persistent=true\n\n[Install]\nWantedBy=timers.target\n"
        ),
    }


def _unit_files(name: str) -> tuple[Path, Path]:
    config = os.environ.get("XDG_CONFIG_HOME") or f"{paths.user_home(os.environ)}/.config"
    root = Path(config) / "systemd" / "user"
    return root / f"{name}.service", root / f"{name}.timer"


def _systemd_word(word: str) -> str:
    """A word of ExecStart: quoted, with specifiers and variables spelled out."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{text}"'


def _systemctl(*words: str) -> None:
    _require(_ran(["systemctl", "--user", *words]), f"systemctl --user {words[0]}")


# ---- launchd and Windows ---------------------------------------------------------------------------------


def _launch_agent(job: ScheduledJob) -> str:
    words = "".join(f"    <string>{escape(word)}</string>\n" for word in job.words)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">\n'
        f'<plist version="1.0">\n<dict>\n  <key>Label</key><string>{job.name}</string>\n'
        f"  <key>ProgramArguments</key>\n  <array>\n{words}  </array>\n"
        "  <key>StartInterval</key><integer>3600</integer>\n  <key>RunAtLoad</key><true/>\n</dict>\n</plist>\n"
    )


def _task(job: ScheduledJob) -> str:
    program, *arguments = job.words
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">\n'
        f"  <RegistrationInfo><Description>{escape(job.about)}</Description></RegistrationInfo>\n"
        "  <Triggers><CalendarTrigger><StartBoundary>2026-01-01T00:17:00</StartBoundary>"
        "<Repetition><Interval>PT1H</Interval></Repetition>"
        "<ScheduleByDay><DaysInterval>1</DaysInterval></ScheduleByDay></CalendarTrigger></Triggers>\n"
        "  <Settings><StartWhenAvailable>true</StartWhenAvailable></Settings>\n"
        f"  <Actions><Exec><Command>{escape(program)}</Command>"
        f"<Arguments>{escape(subprocess.list2cmdline(arguments))}</Arguments></Exec></Actions>\n</Task>\n"
    )


# ---- programs --------------------------------------------------------------------------------------------


def _ran(words: list[str], given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        # Not through a pipe: if this process were killed before it has written, crontab would install an empty table.
        with tempfile.TemporaryFile() as file:
            file.write(given)
            file.seek(0)
            return subprocess.run(words, stdin=file, capture_output=True, timeout=_SECONDS, check=False)
    except FileNotFoundError as cause:
        hint = "install cron, or choose another scheduler with --scheduler"
        raise StorageError("start", Path(words[0]), cause, hint=hint) from cause
    except subprocess.TimeoutExpired:
        raise StorageError(
            "wait for",
            Path(words[0]),
            TimeoutError(errno.ETIMEDOUT, f"no answer in {_SECONDS:g} s"),
            hint="try again",
        ) from None


def _require(done: subprocess.CompletedProcess[bytes], operation: str) -> None:
    if done.returncode:
        reason = (done.stderr or done.stdout).decode(errors="replace").strip()[
            :300
        ] or f"exit status {done.returncode}"
        raise StorageError(
            operation, Path(done.args[0]), OSError(errno.EIO, reason), hint="the scheduler was not changed"
        )
