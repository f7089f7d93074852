"""Every failure recollect reports, and what the caller can do next.

    RecollectError                    exit 1    root: catch this to catch all of ours
    ├─ UsageError                     exit 2    the request itself is wrong
    │  ├─ InvalidId                             a name that is not safe in a path
    │  ├─ MissingExtra                          an optional package is not installed
    │  ├─ NoSandbox                             no sandbox is available; nothing was started
    │  ├─ NotPermitted                          the permission rules deny, or would ask
    │  └─ IllegalTransition                     a session or todo cannot go to that state
    ├─ NotFound                       exit 3    no such session, project, home
    │  └─ Ambiguous                             more than one matches
    ├─ DamagedData                    exit 4    bytes that cannot be read as expected
    ├─ ServerFailed                   exit 74   an MCP server failed
    ├─ Busy                           exit 5    in use by another process
    │  ├─ LogLocked                             another process holds the log
    │  └─ NoAnswer                              the team's database does not answer now
    └─ StorageError                   exit 74   the file system refused
       ├─ AppendFailed                          carries an Outcome: stored, not stored, unknown
       │  ├─ SyncFailed                         a sync failed; final for this log object
       │  └─ IdConflict                         the id is stored already, with other bytes
       └─ LogUnusable                           the log was closed, or failed before

A message names the object and the cause; ``hint`` names the next step. Every error has both, and a
test checks that for the whole tree.
"""

from __future__ import annotations

import enum
import os
import sys

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from pathlib import Path


class Outcome(enum.Enum):
    """The three possible answers to "is my entry on disk?" (P8). An append that returns means stored."""

    STORED = "stored"
    NOT_STORED = "not stored"
    UNKNOWN = "unknown, safe to repeat"


class RecollectError(Exception):
    """Root of the tree. ``exit_code`` is the exit status of a command that fails with it."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})"

    def __reduce__(self) -> tuple[object, ...]:
        """Makes every error picklable, whatever its constructor takes."""
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(
    kind: type[RecollectError], arguments: tuple[object, ...], state: dict[str, object]
) -> RecollectError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(state)
    return error


class UsageError(RecollectError):
    """The request is wrong and cannot be carried out."""

    exit_code = 2


class InvalidId(UsageError):
    """A name that is not safe as a file name, refused before any path is built."""

    def __init__(self, what: str, value: str, reason: str) -> None:
        shown = ascii(value if len(value) <= 60 else value[:57] + "...")
        super().__init__(
            f"{what} {shown}: {reason}",
            hint="use letters, digits, '-', '_' and '.' as in 6ada00ba-…",
        )
        self.value, self.reason = value, reason


class MissingExtra(UsageError):
    """A part of recollect needs a package of an extra. The hint says how to install it here."""

    def __init__(self, what: str, package: str, *extras: str) -> None:
        super().__init__(f"{what} needs {package}, which is not installed", hint=install_hint(*extras))
        self.package, self.extras = package, extras


def install_hint(*extras: str, prefix: str = sys.prefix, package: str = __file__) -> str:
    """The command that adds extras to this installation: a clone, pipx, ``uv tool``, ``uvx`` or pip.

    ``prefix`` is the root of the Python environment, ``package`` a file of the recollect package in it.
    """
    from pathlib import Path

    names = f"[{','.join(extras)}]"
    source, environment = Path(package).absolute().parents[1], Path(prefix).absolute()
    clone = source.parent
    if source.name == "src" and (clone / "pyproject.toml").is_file():
        if environment.parent == clone:
            return f"make -C '{clone}' setup"
        return f"pip install --editable '{clone}{names}'"
    if (environment / "pipx_metadata.json").is_file():
        return f"pipx install --force 'recollect{names}'"
    if (environment / "uv-receipt.toml").is_file():
        return f"uv tool install 'recollect{names}'"
    if environment.parent.name.startswith("archive-v"):  # uvx runs from uv's cache
        return f"uvx --from 'recollect{names}' recollect"
    return f"pip install 'recollect{names}'"


class NoSandbox(UsageError):
    """A sandbox is required and not available (E06); nothing was started."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"no sandbox: {reason}; nothing was started",
            hint="install bubblewrap, or use --unconfined to run without a sandbox",
        )


class NotPermitted(UsageError):
    """The permission rules deny a call, or require a confirmation that cannot be given."""

    def __init__(self, call: str, why: str, *, hint: str) -> None:
        shown = ascii(call if len(call) <= 200 else call[:197] + "...")
        super().__init__(f"{shown}: not permitted: {why}", hint=hint)
        self.call, self.why = call, why


class IllegalTransition(UsageError):
    """A state machine has no such transition."""

    def __init__(self, what: str, current: str, wanted: str, allowed: tuple[str, ...]) -> None:
        steps = ", ".join(allowed) if allowed else "no other state: it is final"
        super().__init__(
            f"{what}: cannot go from {current} to {wanted}",
            hint=f"from {current} it can go to {steps}",
        )
        self.current, self.wanted, self.allowed = current, wanted, allowed


class NotFound(RecollectError):
    """Nothing has that name."""

    exit_code = 3


class Ambiguous(NotFound):
    """More than one object has that name."""

    def __init__(self, what: str, value: str, matches: tuple[str, ...], *, is_whole: bool = False) -> None:
        """``is_whole``: all of them have this very name, so that more characters would not help."""
        self.summary = f"{what} {value!r} fits {len(matches)}"
        more = "give more characters of the one you mean"
        hint = "name the one you mean by its path, or its home with one --home" if is_whole else more
        super().__init__(f"{self.summary}: {', '.join(matches[:5])}", hint=hint)
        self.matches = matches


class DamagedData(RecollectError):
    """Bytes that could not be read as expected."""

    exit_code = 4


class ServerFailed(RecollectError):
    """An MCP server did not start, did not answer, or broke a limit. Other servers are not affected."""

    exit_code = 74  # EX_IOERR

    def __init__(self, server: str, why: str) -> None:
        super().__init__(
            f"MCP server {server}: {why}",
            hint="other calls and servers are not affected; `recollect mcp tools` tries it again",
        )
        self.server, self.why = server, why


class Busy(RecollectError):
    """Another process is using it."""

    exit_code = 5


class NoAnswer(Busy):
    """What keeps the data does not answer now; copies that were read before are as they were."""


class LogLocked(Busy):
    """Another process held the lock for longer than the timeout."""

    outcome = Outcome.NOT_STORED

    def __init__(self, log: Path, waited: float, holder: str) -> None:
        super().__init__(
            f"{log.name}: locked by {holder} for more than {waited:g} s; nothing was stored",
            hint="wait for that process to finish, or give a longer timeout",
        )
        self.log, self.waited, self.holder = log, waited, holder


class StorageError(RecollectError):
    """The file system refused; the cause is in ``cause`` and ``__cause__``."""

    exit_code = 74  # EX_IOERR

    def __init__(self, operation: str, path: Path, cause: OSError | None, *, hint: str) -> None:
        reason = cause.strerror or os.strerror(cause.errno or 0) if cause else "refused"
        super().__init__(f"{operation} {path}: {reason}", hint=hint)
        self.operation, self.path, self.cause = operation, path, cause


class AppendFailed(StorageError):
    """An append failed; ``outcome`` says whether the entry may be stored."""

    def __init__(
        self, operation: str, path: Path, cause: OSError | None, outcome: Outcome, *, hint: str
    ) -> None:
        super().__init__(operation, path, cause, hint=f"{outcome.value}; {hint}")
        self.outcome = outcome


class SyncFailed(AppendFailed):
    """A sync failed. The kernel may have dropped the bytes and report success next time (S4)."""

    def __init__(self, path: Path, cause: OSError) -> None:
        super().__init__(
            "sync",
            path,
            cause,
            Outcome.UNKNOWN,
            hint="this log object takes no more entries; check the disk, open the log again and append again",
        )


class IdConflict(AppendFailed):
    """An entry with this id is already in the log, with other content."""

    def __init__(self, path: Path, entry_id: str) -> None:
        super().__init__(
            f"append of id {entry_id} to",
            path,
            None,
            Outcome.NOT_STORED,
            hint="an entry with that id but other bytes is stored; give the new entry another id",
        )
        self.entry_id = entry_id


class LogUnusable(StorageError):
    """The log object was closed, or failed earlier."""

    outcome = Outcome.NOT_STORED

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__("append to", path, None, hint="open the log again")
        self.message = f"append to {path}: {reason}; nothing was stored"
