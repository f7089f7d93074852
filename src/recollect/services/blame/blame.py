"""Which session wrote each line of a file, with the prompt that asked for it.

The answer comes from the changes that sessions report, replayed up to the file as it is now. A line that no session
is proved to have written is unknown: a person wrote it, or a shell command, or it cannot be told.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct, structs

from recollect.errors import NotFound, StorageError, UsageError
from recollect.model.blame.line_owners import UNCERTAIN, lines_of
from recollect.model.blame.replay import DatedStep, line_owners, plain
from recollect.model.files.history import FileStep, reported_text
from recollect.services.blame.candidates import FileNeedle, sessions_naming
from recollect.services.blame.renames import former_paths
from recollect.services.blame.same_file import PathMatch, SameFile, is_alike, said_lines
from recollect.services.blame.sessions import AskedPrompt, SessionTrail
from recollect.services.homes import Home
from recollect.services.session import Session
from recollect.system import fsops
from recollect.system.peek import open_regular

# Names that one file may have had.
_MOST_NAMES = 20
_EARLIEST = dt.datetime.min.replace(tzinfo=dt.UTC)


class FileWriting(Struct, frozen=True):
    """One change that a session made to the file."""

    trail: SessionTrail
    entry: str | None
    agent: str | None
    at: dt.datetime | None
    tool: str
    path: str

    @property
    def session(self) -> Session:
        return self.trail.session

    @property
    def prompt(self) -> AskedPrompt | None:
        return self.trail.prompt_of(self.entry)


class FileTrails(Struct, frozen=True):
    """All that sessions report about one file, in the order of time."""

    file: SameFile
    writings: list[FileWriting]
    steps: list[tuple[dt.datetime, DatedStep]]


class BlamedLine(Struct, frozen=True):
    """A line of the file. ``writing`` is None where it is unknown who wrote it; ``is_uncertain``: one of several."""

    number: int
    text: str
    writing: FileWriting | None
    is_uncertain: bool


def blamed(home: Home, path: Path) -> list[BlamedLine]:
    """Every line of a file with the change that wrote it."""
    text = present_text(path)
    found = trails(home, path, text)
    steps = [step for _, step in found.steps]
    owners = line_owners(steps, str(found.file.path), text)
    return [
        BlamedLine(number, line, found.writings[owner] if owner >= 0 else None, owner == UNCERTAIN)
        for number, (line, owner) in enumerate(zip(lines_of(plain(text)), owners, strict=True), 1)
    ]


def present_text(path: Path) -> str:
    """The text of a file as it is now."""
    try:
        with open_regular(path) as file:
            data = file.read()
    except FileNotFoundError:
        raise NotFound(
            f"{path}: no such file",
            hint="give the path of a file that exists; `recollect log PATH` also works for deleted files",
        ) from None
    except OSError as cause:
        raise StorageError("read", path, cause, hint=fsops.next_step(cause)) from cause
    text = reported_text(data)
    if text is None or "\0" in text:
        raise UsageError(
            f"{path}: not a text file", hint="`recollect log PATH` lists the sessions of any file"
        )
    return text


class _ReportedPath(Struct, frozen=True):
    """What one session says of one path."""

    trail: SessionTrail
    path: str
    match: PathMatch
    steps: list[FileStep]


def trails(home: Home, path: Path, present: str | None) -> FileTrails:
    """What all sessions report about a file; ``present`` is its text, None where it is gone."""
    file = SameFile(path)
    found = _with_former(home, file)
    alike = _alike(found, present)
    return _in_time(
        file,
        [
            (one.trail, str(file.path) if one.match is PathMatch.SAME else one.path, one.steps)
            for one in found
            if one.match is not PathMatch.PERHAPS or one.path in alike
        ],
    )


def _with_former(home: Home, file: SameFile) -> list[_ReportedPath]:
    """The reports about the file, and about the paths it had before it was renamed."""
    found, seen = list[_ReportedPath](), set[tuple[str, str]]()
    names, number = [str(file.path)], 0
    while number < min(len(names), _MOST_NAMES):
        place = file if number == 0 else SameFile(Path(names[number]))
        reports, read = _reported(home, place)
        for one in reports:
            key = one.trail.session.id, one.path
            if key not in seen:
                seen.add(key)
                is_former = number > 0 and one.match is PathMatch.SAME
                found.append(structs.replace(one, match=PathMatch.MOVED) if is_former else one)
        names += [name for name in former_paths(place, read) if name not in names]
        number += 1
    return found


def _reported(home: Home, file: SameFile) -> tuple[list[_ReportedPath], list[SessionTrail]]:
    """The reports about one path, and all that was read for them."""
    needle = FileNeedle(file.path.name)
    found, read = list[_ReportedPath](), list[SessionTrail]()
    for session in sessions_naming(home, file.path.name):
        trail = SessionTrail(session, needle)
        read.append(trail)
        known: dict[str, PathMatch] = {}

        def wanted(logged: str, trail: SessionTrail = trail, known: dict[str, PathMatch] = known) -> bool:
            known[logged] = file.compared(logged, trail.cwds)
            return known[logged] is not PathMatch.OTHER

        found += [
            _ReportedPath(trail, logged, known[logged], steps)
            for logged, steps in trail.steps(wanted).items()
        ]
    return found, read


def _alike(found: Sequence[_ReportedPath], present: str | None) -> set[str]:
    """The other paths whose content shows that they are the same file, one renamed after the other."""
    own = [] if present is None else [said_lines(plain(present))]
    own += [lines for one in found if one.match is not PathMatch.PERHAPS for lines in _states(one.steps)]
    waiting: dict[str, list[FileStep]] = {}
    for one in found:
        if one.match is PathMatch.PERHAPS:
            waiting.setdefault(one.path, []).extend(one.steps)
    alike: set[str] = set()
    while own:
        states = {logged: _states(steps) for logged, steps in waiting.items() if logged not in alike}
        last = {logged: said_lines(_latest(waiting[logged])) for logged in states}
        ever = {logged: set[str]().union(last[logged], *states[logged]) for logged in states}
        new = [logged for logged in states if any(is_alike(text, last[logged], ever[logged]) for text in own)]
        alike.update(new)
        own = [lines for logged in new for lines in states[logged]]
    return alike


def _states(steps: Iterable[FileStep]) -> list[set[str]]:
    """The lines of every text that is known, or at least of the part that a change names."""
    found = (reported_text(step.version.content) or _named(step) for step in steps if step.version.existed)
    return [said_lines(plain(text)) for text in found if text]


def _named(step: FileStep) -> str:
    """What a change says of the text before it, where that is not known."""
    change = step.change
    if change is None:
        return ""
    old = [part.old for part in change.replacements]
    return "\n".join([*old, *(line for hunk in change.hunks for line in hunk.before())])


def _latest(steps: Sequence[FileStep]) -> str:
    """The last text that is known, and what later edits put in."""
    text = ""
    for step in sorted(steps, key=lambda one: one.version.at or _EARLIEST):
        known = reported_text(step.version.content)
        if known is not None:
            text = known
        elif step.change is not None:
            text += "".join(f"\n{part.new}" for part in step.change.replacements)
    return plain(text)


def _in_time(file: SameFile, found: Sequence[tuple[SessionTrail, str, list[FileStep]]]) -> FileTrails:
    """Number the changes, each once: a fork repeats those of its origin."""
    owner: dict[str, SessionTrail] = {}
    for trail, _, steps in sorted(found, key=lambda one: (one[0].session.file.mtime_ns, one[0].session.id)):
        for uuid in (step.version.entry_uuid for step in steps if step.change is not None):
            if uuid is not None and (uuid not in owner or _is_better(trail, owner[uuid], uuid)):
                owner[uuid] = trail
    writings: list[FileWriting] = []
    dated: list[tuple[dt.datetime, DatedStep]] = []
    for trail, path, steps in found:
        latest = _EARLIEST
        for step in steps:
            latest = max(latest, step.version.at or latest)
            uuid = step.version.entry_uuid
            if step.change is None:
                dated.append((latest, DatedStep(path, step, -1)))
            elif owner.get(uuid or "", trail) is trail:
                dated.append((latest, DatedStep(path, step, len(writings))))
                agent = trail.origin(uuid).agent
                source = str(step.version.source)
                writings.append(FileWriting(trail, uuid, agent, step.version.at, source, step.version.path))
    dated.sort(key=lambda one: one[0])
    return FileTrails(file, writings, dated)


def _is_better(one: SessionTrail, other: SessionTrail, uuid: str) -> bool:
    return other.origin(uuid).is_copy and not one.origin(uuid).is_copy
