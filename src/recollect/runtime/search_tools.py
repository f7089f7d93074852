"""Glob: file names, in the client's format and order (its answers are in the tests).

Directories are walked by descriptor without following links, so nothing outside the decided directory
is listed. Files that a rule denies are left out. Hidden and ignored files are listed, as in the client.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from recollect.policy.decision import Verdict
from recollect.runtime import globs, words
from recollect.runtime.gate import PermissionGate
from recollect.runtime.mcp_tools import Stopped
from recollect.runtime.outcome import ApprovedCall, ToolFailed, ToolOutcome

_SHOWN = 100
_MOST_MATCHES, _MOST_ENTRIES, _MOST_SECONDS = 10_000, 500_000, 20.0


@dataclass(frozen=True, slots=True)
class FileEntry:
    """Modification time, and path below the searched directory."""

    modified: int
    path: str


class SearchTools:
    """Finds files in the directories of one session."""

    def __init__(self, gate: PermissionGate, cancelled: threading.Event) -> None:
        self._gate, self._cancelled = gate, cancelled

    def glob(self, call: ApprovedCall) -> ToolOutcome:
        """The files that a pattern matches, the most recently changed last."""
        began = time.monotonic()
        base, pattern = self._where(call)
        try:
            meant = globs.matcher(pattern)
        except ValueError as problem:
            raise ToolFailed(
                words.invalid("Glob", f"The parameter `pattern`: {problem}"), refused=True
            ) from None
        call.require_still_allowed()
        walk = FileWalk(base, self._cancelled)
        met = list(islice((one for one in walk.files() if meant(one.path)), _MOST_MATCHES))
        if self._cancelled.is_set():
            raise Stopped
        found = [one for one in met if may_be_named(self._gate, f"{base.rstrip('/')}/{one.path}")]
        found.sort(key=lambda one: (one.modified, one.path))
        names = [shown(f"{base.rstrip('/')}/{one.path}", call.cwd) for one in found[:_SHOWN]]
        rich = {
            "filenames": names,
            "durationMs": round((time.monotonic() - began) * 1000),
            "numFiles": len(names),
            "truncated": len(found) > _SHOWN,
            "totalMatches": len(found),
            "countIsComplete": walk.complete and len(met) < _MOST_MATCHES,
        }
        return ToolOutcome(_listed(names, len(found)), rich)

    def _where(self, call: ApprovedCall) -> tuple[str, str]:
        """The directory, links followed, and the pattern below it."""
        pattern, path = call.arguments.get("pattern"), str(call.arguments["path"])
        if not isinstance(pattern, str) or not pattern:
            raise ToolFailed(
                words.invalid("Glob", "The required parameter `pattern` is missing"), refused=True
            )
        if pattern.startswith("/"):
            path, pattern = globs.split(pattern)
        real = self._gate.world.resolved(path)
        if not Path(real).exists():
            raise ToolFailed(
                f"Directory does not exist: {path}. Note: your current working directory is {call.cwd}."
            )
        if not Path(real).is_dir():
            raise ToolFailed(f"Path is not a directory: {path}")
        return real, pattern


def may_be_named(gate: PermissionGate, path: str) -> bool:
    """Whether no rule denies reading the file."""
    return gate.decide("Read", {"file_path": path}, gate.root).verdict is not Verdict.DENY


class FileWalk:
    """All files below a directory, until cancelled or out of time."""

    def __init__(self, base: str, cancelled: threading.Event) -> None:
        self._base, self._cancelled, self._until = base, cancelled, time.monotonic() + _MOST_SECONDS
        self.complete = True

    def files(self, left_out: Collection[str] = ()) -> Iterator[FileEntry]:
        """Files with modification time and relative path; ``left_out`` directories are skipped."""
        try:
            yield from self._files(left_out)
        except RecursionError:  # a tree deeper than Python can walk
            self.complete = False

    def _files(self, left_out: Collection[str]) -> Iterator[FileEntry]:
        entries = 0
        for directory, below, names, descriptor in os.fwalk(self._base, follow_symlinks=False):
            below[:] = [name for name in below if name not in left_out]
            entries += len(names) + 1
            if self._cancelled.is_set() or entries > _MOST_ENTRIES or time.monotonic() > self._until:
                self.complete = False
                return
            start = directory[len(self._base.rstrip("/")) + 1 :]
            for name in names:
                try:
                    status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                except OSError:
                    continue
                if (status.st_mode & 0o170000) == 0o100000:
                    yield FileEntry(status.st_mtime_ns, f"{start}/{name}" if start else name)


def shown(path: str, cwd: str) -> str:
    """As the client shows it: relative to the working directory where it is below that."""
    start = cwd.rstrip("/") + "/"
    return path[len(start) :] if path.startswith(start) else path


def _listed(names: list[str], total: int) -> str:
    if not names:
        return "No files found"
    more = total - len(names)
    note = (
        f"(Showing {len(names)} of {total} matching files; {more} more are not listed. "
        "Narrow the pattern or path to see the rest.)"
    )
    return "\n".join([*names, note] if more else names)
