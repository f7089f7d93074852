"""Glob and Grep, in the client's format and order (its answers are in the tests).

Directories are walked by descriptor without following links, so nothing outside the decided directory is listed.
Files that a rule denies are left out. A pattern of Glob has ripgrep's meaning, and a test takes time in proportion
to the path, for any pattern. Grep is the system's ``grep -P`` in the sandbox, with a time limit: patterns are
Perl's, and ``multiline`` is not available.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from recollect.errors import RecollectError
from recollect.guard import sandbox as execution
from recollect.guard.agent.calls import ApprovedCall, PermissionGate, ToolFailed, ToolOutcome, invalid
from recollect.guard.agent.model import Stopped
from recollect.guard.policy.paths import component_expression
from recollect.guard.sandbox import Confinement, RunLimits, RunResult
from recollect.model.settings.decision import Verdict

_MOST_CHARACTERS, _MOST_READINGS, _MOST_DEEP = 1_000, 64, 8
_SPECIAL = re.compile(r"[*?\[{\\!]")


def split(pattern: str) -> tuple[str, str]:
    """For an absolute pattern: the directory before its first wildcard, and the rest."""
    found = _SPECIAL.search(pattern)
    end = pattern.rfind("/", 0, found.start() if found else len(pattern))
    return pattern[:end] or "/", pattern[end + 1 :]


def matcher(pattern: str) -> Callable[[str], bool]:
    """A test for paths relative to the directory."""
    negated = pattern.startswith("!")
    body = pattern[1:] if negated else pattern
    if len(body) > _MOST_CHARACTERS:
        raise ValueError(f"the pattern has more than {_MOST_CHARACTERS} characters")
    readings = list(_readings(body))
    test = re.compile("|".join(f"(?:{_expression(reading)})" for reading in readings), re.DOTALL)
    return lambda path: (test.fullmatch(path) is None) is negated


def _readings(pattern: str) -> Iterator[str]:
    """The pattern with every choice of ``{a,b}``."""
    waiting, count = [pattern], 0
    while waiting:
        text = waiting.pop()
        braces = _braces(text)
        if braces is None:
            count += 1
            yield text
        else:
            start, end, choices = braces
            waiting += [text[:start] + choice + text[end:] for choice in reversed(choices)]
        if count + len(waiting) > _MOST_READINGS:
            raise ValueError(f"the pattern has more than {_MOST_READINGS} alternatives")


def _braces(text: str) -> tuple[int, int, list[str]] | None:
    """The first ``{…}``: where it starts and ends, and its choices."""
    depth, start, cuts, position = 0, -1, [], 0
    while position < len(text):
        char = text[position]
        if char == "\\":
            position += 1
        elif char == "{":
            depth += 1
            if depth == 1:
                start, cuts = position, [position]
        elif char == "," and depth == 1:
            cuts.append(position)
        elif char == "}" and depth:
            depth -= 1
            if depth == 0:
                cuts.append(position)
                choices = [text[a + 1 : b] for a, b in pairwise(cuts)]
                return start, position + 1, choices
        position += 1
    if depth:
        raise ValueError("a { is never closed")
    return None


def _expression(pattern: str) -> str:
    anchored = "/" in pattern.rstrip("/")
    parts = pattern.lstrip("/").split("/")
    if parts.count("**") > _MOST_DEEP:
        raise ValueError(f"the pattern has ** more than {_MOST_DEEP} times")
    out = "" if anchored else "(?:[^/]+/)*"
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            out += ".+" if last else "(?:[^/]+/)*"
        else:
            out += component_expression(part, strict=True) + ("" if last else "/")
    return out


GREP = all(shutil.which(name) for name in ("grep", "xargs"))
"""Whether the two programs that Grep needs are installed."""
_SHOWN = 100
_MOST_MATCHES, _MOST_ENTRIES, _MOST_SECONDS = 10_000, 500_000, 20.0


FileEntry = tuple[int, str]
"""Modification time, and path below the searched directory."""


class SearchTools:
    """Finds files, and lines in them, in the directories of one session."""

    def __init__(self, gate: PermissionGate, confinement: Confinement, cancelled: threading.Event) -> None:
        self._gate, self._cancelled = gate, cancelled
        self._confinement = replace(confinement, write=(), allow_hosts=())

    def glob(self, call: ApprovedCall) -> ToolOutcome:
        """The files that a pattern matches, the most recently changed last."""
        began = time.monotonic()
        base, pattern = self._where(call)
        try:
            meant = matcher(pattern)
        except ValueError as problem:
            raise invalid("Glob", f"The parameter `pattern`: {problem}") from None
        call.require_still_allowed()
        walk = FileWalk(base, self._cancelled)
        met = list(islice((entry for entry in walk.files() if meant(entry[1])), _MOST_MATCHES))
        if self._cancelled.is_set():
            raise Stopped
        start = base.rstrip("/")
        found = sorted(entry for entry in met if self._may_be_named(f"{start}/{entry[1]}"))
        names = [shown(f"{start}/{path}", call.cwd) for _, path in found[:_SHOWN]]
        rich = {
            "filenames": list(names),
            "durationMs": round((time.monotonic() - began) * 1000),
            "numFiles": len(names),
            "truncated": len(found) > _SHOWN,
            "totalMatches": len(found),
            "countIsComplete": walk.complete and len(met) < _MOST_MATCHES,
        }
        more = len(found) - len(names)
        if more:
            known = f"Showing {len(names)} of {len(found)} matching files; {more} more are not listed."
            names.append(f"({known} Narrow the pattern or path to see the rest.)")
        return ToolOutcome("\n".join(names) or "No files found", rich)

    def _where(self, call: ApprovedCall) -> tuple[str, str]:
        """The directory, links followed, and the pattern below it."""
        pattern, path = call.arguments.get("pattern"), str(call.arguments["path"])
        if not isinstance(pattern, str) or not pattern:
            raise invalid("Glob", "The required parameter `pattern` is missing")
        if pattern.startswith("/"):
            path, pattern = split(pattern)
        real = self._gate.world.resolved(path)
        if not Path(real).exists():
            raise ToolFailed(
                f"Directory does not exist: {path}. Note: your current working directory is {call.cwd}."
            )
        if not Path(real).is_dir():
            raise ToolFailed(f"Path is not a directory: {path}")
        return real, pattern

    def _may_be_named(self, path: str) -> bool:
        return self._gate.decide("Read", {"file_path": path}, self._gate.root).verdict is not Verdict.DENY

    # ---- Grep --------------------------------------------------------------------------------------------

    def grep(self, call: ApprovedCall) -> ToolOutcome:
        mode = call.arguments.get("output_mode") or "files_with_matches"
        if not isinstance(call.arguments.get("pattern"), str) or mode not in _MODES:
            raise _invalid("The required parameter `pattern` is missing, or `output_mode` is not valid")
        if call.arguments.get("multiline") is True:
            raise _invalid("`multiline` is not available here")
        files = self._searched(call)
        call.require_still_allowed()
        said = self._said(call, mode, files) if files else b""
        if mode == "content":
            return self._content(call, said)
        found = [(name, count) for name, count in _counted(said) if count and self._may_be_named(name)]
        if mode == "count":
            return _count(call, found)
        return _names(call, [name for name, _ in found], {path: modified for modified, path in files})

    def _searched(self, call: ApprovedCall) -> list[FileEntry]:
        path = str(call.arguments["path"])
        real = self._gate.world.resolved(path)
        if not Path(real).exists():
            here = f"Note: your current working directory is {call.cwd}."
            raise ToolFailed(f"Path does not exist: {path}. {here}")
        if not Path(real).is_dir():
            return [(0, real)]
        matches = _file_filter(call)
        walk = FileWalk(real, self._cancelled)
        files = [
            (modified, f"{real.rstrip('/')}/{name}")
            for modified, name in walk.files(_KEPT_BY_PROGRAMS)
            if "\n" not in name and matches(name)
        ]
        if self._cancelled.is_set():
            raise Stopped
        if not walk.complete:
            raise ToolFailed("There are too many files. Narrow the path and search again.")
        return files

    def _said(self, call: ApprovedCall, mode: str, files: Iterable[FileEntry]) -> bytes:
        names = b"\0".join(path.encode("utf-8", "surrogateescape") for _, path in files)
        try:
            result = execution.run(
                ["xargs", "-0", "grep", *_options(call, mode), "-e", call.arguments["pattern"], "--"],
                cwd=Path(call.cwd),
                confinement=self._confinement,
                limits=RunLimits(seconds=_SECONDS, output_bytes=_OUTPUT_BYTES),
                environment={"LC_ALL": "C.UTF-8"},
                stdin=names,
                cancelled=self._cancelled,
            )
        except RecollectError as problem:
            raise ToolFailed(f"{problem.message}. {problem.hint}") from problem
        return _checked(result)

    def _content(self, call: ApprovedCall, said: bytes) -> ToolOutcome:
        single = Path(str(call.arguments["path"])).is_file()
        visible = [line for line in _lines(said) if line[0] is None or self._may_be_named(line[0])]
        texts = [_text(line, call, single=single) for line in _without_stray_separators(visible)]
        page, applied = _page(call, texts)
        content = "\n".join(page)
        rich = {"mode": "content", "numFiles": 0, "filenames": [], "content": content}
        rich |= {"numLines": len(page), "totalLines": len(texts), **applied}
        note = f"\n\n[Showing results with pagination = {_limits_text(applied)}]" if applied else ""
        return ToolOutcome((content or "No matches found") + note, rich)


class FileWalk:
    """All files below a directory, until cancelled or out of time."""

    def __init__(self, base: str, cancelled: threading.Event) -> None:
        self._base, self._cancelled, self._until = base, cancelled, time.monotonic() + _MOST_SECONDS
        self.complete = True

    def files(self, left_out: Collection[str] = ()) -> Iterator[FileEntry]:
        """Files with modification time and relative path; ``left_out`` directories are skipped."""
        entries = 0
        try:
            for directory, below, names, descriptor in os.fwalk(self._base, follow_symlinks=False):
                below[:] = [name for name in below if name not in left_out]
                entries += len(names) + 1
                if self._cancelled.is_set() or entries > _MOST_ENTRIES or time.monotonic() > self._until:
                    self.complete = False
                    return
                start = directory[len(self._base.rstrip("/")) + 1 :]
                for name in names:
                    with contextlib.suppress(OSError):
                        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                        if stat.S_ISREG(status.st_mode):
                            yield status.st_mtime_ns, f"{start}/{name}" if start else name
        except RecursionError:  # a tree deeper than Python can walk
            self.complete = False


def shown(path: str, cwd: str) -> str:
    """As the client shows it: relative to the working directory where it is below that."""
    start = cwd.rstrip("/") + "/"
    return path[len(start) :] if path.startswith(start) else path


_MODES = ("files_with_matches", "content", "count")
_LIMIT, _LONG_LINE = 250, 500
_SECONDS, _OUTPUT_BYTES = 30.0, 8 * 1024 * 1024
_KEPT_BY_PROGRAMS = frozenset([".git", ".svn", ".hg", ".bzr", ".jj", ".sl"])
_TYPES: dict[str, str] = json.loads(Path(__file__).with_name("file_types.json").read_text("utf-8"))


_GrepLine = tuple[str | None, str, str, str]
"""One line of output, a match or its context: file, number, mark and text; no file between groups."""
_BETWEEN: _GrepLine = (None, "", "", "")


def _file_filter(call: ApprovedCall) -> Callable[[str], bool]:
    """A test for files that one of the globs matches, if there are any, and no glob with a ``!``."""
    patterns, kind = call.arguments.get("glob"), call.arguments.get("type")
    # Blanks and commas separate patterns, commas in braces do not.
    text = patterns if isinstance(patterns, str) else ""
    patterns = text.split() if "{" in text else text.replace(",", " ").split()
    if isinstance(kind, str) and kind:
        if kind not in _TYPES:
            raise ToolFailed(f"Search failed \u2014 unrecognized file type: {kind}. Use `glob` instead.")
        patterns.append(_TYPES[kind])
    try:
        some = [matcher(glob) for glob in patterns if not glob.startswith("!")]
        all_of = [matcher(glob) for glob in patterns if glob.startswith("!")]
    except ValueError as problem:
        raise _invalid(f"The parameter `glob`: {problem}") from None
    return lambda path: (not some or any(test(path) for test in some)) and all(test(path) for test in all_of)


def _options(call: ApprovedCall, mode: str) -> list[str]:
    options = ["-P", "-I", "-s", "-H", "-Z", "--color=never"]
    if call.arguments.get("-i") is True:
        options.append("-i")
    if mode != "content":
        return [*options, "-c"]
    options.append("-n")
    if call.arguments.get("-o") is True:
        return [*options, "-o"]
    around = _number(call, "context", _number(call, "-C", 0))
    for name in ("-A", "-B"):
        lines = _number(call, name, around)
        options += [f"{name}{lines}"] if lines else []
    return options


def _number(call: ApprovedCall, name: str, default: int) -> int:
    value = call.number(name)
    return int(value) if value is not None and 0 <= value < 1_000_000 else default


def _checked(result: RunResult) -> bytes:
    if result.ended_by == "cancelled":
        raise Stopped
    if result.timed_out or result.truncated or result.ended_by is not None:
        raise ToolFailed("The search took too long or found too much. Narrow the pattern, path or glob.")
    said = result.stderr.decode("utf-8", "replace").strip()
    if said:
        raise ToolFailed(f"Search failed \u2014 the pattern was rejected:\n{said[:2_000]}")
    return result.stdout


def _lines(said: bytes) -> Iterator[_GrepLine]:
    for line in said.decode("utf-8", "surrogateescape").split("\n")[:-1]:
        name, nul, rest = line.partition("\0")
        digits = len(rest) - len(rest.lstrip("0123456789"))
        yield (name, rest[:digits], rest[digits : digits + 1], rest[digits + 1 :]) if nul else _BETWEEN


def _without_stray_separators(lines: list[_GrepLine]) -> Iterator[_GrepLine]:
    """Groups that were left out leave their separators behind."""
    waiting = begun = False
    for line in lines:
        if line[0] is None:
            waiting = begun
            continue
        if waiting:
            yield _BETWEEN
        waiting, begun = False, True
        yield line


def _text(line: _GrepLine, call: ApprovedCall, *, single: bool) -> str:
    file, number, mark, text = line
    if file is None:
        return "--"
    kind = "matching" if mark == ":" else "context"
    text = text if len(text) <= _LONG_LINE else f"[Omitted long {kind} line]"
    parts = [] if single else [shown(file, call.cwd)]
    parts += [] if call.arguments.get("-n") is False else [number]
    return _printable(mark.join([*parts, text]))


def _printable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _counted(said: bytes) -> Iterator[tuple[str, int]]:
    for line in said.decode("utf-8", "surrogateescape").split("\n")[:-1]:
        name, _, count = line.partition("\0")
        yield name, int(count) if count.isdigit() else 0


def _names(call: ApprovedCall, found: list[str], modified: dict[str, int]) -> ToolOutcome:
    found.sort(key=lambda name: (-modified.get(name, 0), name))
    page, applied = _page(call, [_printable(shown(name, call.cwd)) for name in found])
    rich = {"mode": "files_with_matches", "filenames": page, "numFiles": len(page)}
    rich |= {"totalFiles": len(found), **applied}
    if not page:
        return ToolOutcome("No files found", rich)
    head = f"Found {len(page)} file{'s' if len(page) != 1 else ''}"
    return ToolOutcome("\n".join([f"{head} {_limits_text(applied)}" if applied else head, *page]), rich)


def _count(call: ApprovedCall, found: list[tuple[str, int]]) -> ToolOutcome:
    page, applied = _page(call, [_printable(f"{shown(name, call.cwd)}:{count}") for name, count in found])
    total, content = sum(count for _, count in found), "\n".join(page)
    rich = {"mode": "count", "numFiles": len(found), "filenames": [], "content": content}
    rich |= {"numMatches": total, **applied}
    files = f"{len(found)} file{'s' if len(found) != 1 else ''}"
    sum_up = f"Found {total} total occurrence{'s' if total != 1 else ''} across {files}."
    paged = f" with pagination = {_limits_text(applied)}" if applied else ""
    return ToolOutcome(f"{content or 'No matches found'}\n\n{sum_up}{paged}", rich)


def _page(call: ApprovedCall, entries: list[str]) -> tuple[list[str], dict[str, Any]]:
    """The shown part of the entries, and the limits that applied."""
    limit, offset = _number(call, "head_limit", _LIMIT), _number(call, "offset", 0)
    rest = entries[offset:]
    applied = {"appliedLimit": limit} if limit and len(rest) > limit else {}
    return rest[:limit] if limit else rest, applied | ({"appliedOffset": offset} if offset else {})


def _limits_text(applied: dict[str, Any]) -> str:
    named = {"appliedLimit": "limit", "appliedOffset": "offset"}
    return ", ".join(f"{named[name]}: {value}" for name, value in applied.items())


def _invalid(problem: str) -> ToolFailed:
    return invalid("Grep", problem)
