"""Which session wrote each line of a file, with the prompt that asked for it.

The answer comes from the changes that sessions report, replayed up to the file as it is now. A line that no session
is proved to have written is unknown: a person wrote it, or a shell command, or it cannot be told.
"""

from __future__ import annotations

import datetime as dt
import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path

from msgspec import Struct, structs

from recollect.ask.blame.sessions import FileNeedle, SessionTrail, sessions_naming
from recollect.ask.homes import Homes
from recollect.errors import NotFound, StorageError, UsageError
from recollect.model.blame import UNCERTAIN, is_trivial, line_owners, lines_of, plain
from recollect.model.files.history import FileStep, reported_text
from recollect.model.lines.damage import brief_repr
from recollect.store.git import former_names, repository_of
from recollect.system import fsops
from recollect.system.peek import open_regular


class PathMatch(Enum):
    """How a path of a log is related to the file."""

    SAME = "same"
    MOVED = "moved"  # something says that the file was there before
    PERHAPS = "perhaps"
    OTHER = "other"


class SameFile:
    """One file, compared with the paths that sessions name."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))  # noqa: PTH100 - links are not resolved: sessions name what was typed
        self._real = os.path.realpath(path)
        self._repository = repository_of(str(self.path.parent))
        self._known: dict[tuple[str, frozenset[str]], PathMatch] = {}

    def compared(self, logged: str, cwds: Collection[str]) -> PathMatch:
        """``cwds`` are the directories in which the session worked."""
        key = logged, frozenset(cwds)
        if key not in self._known:
            self._known[key] = self._compared(logged, key[1])
        return self._known[key]

    def _compared(self, logged: str, cwds: frozenset[str]) -> PathMatch:
        if logged == str(self.path) or "\0" in logged:
            return PathMatch.OTHER if "\0" in logged else PathMatch.SAME
        other = Path(logged)
        if other.name != self.path.name or not other.is_absolute():
            return PathMatch.OTHER
        if os.path.realpath(other) == self._real:
            return PathMatch.SAME
        return PathMatch.PERHAPS if self._may_have_moved(other, cwds) else PathMatch.OTHER

    def _may_have_moved(self, other: Path, cwds: frozenset[str]) -> bool:
        for old, new in zip(other.parents, self.path.parents, strict=False):
            is_of_session = str(old) in cwds or str(new) in cwds
            if is_of_session and old != new and (not old.is_dir() or self._is_worktree(old)):
                return True
            if old.name != new.name:
                return False  # the paths differ from here on
        return False

    def _is_worktree(self, directory: Path) -> bool:
        return self._repository is not None and repository_of(str(directory)) == self._repository


def said_lines(text: str) -> set[str]:
    """The lines of a text that say something."""
    return {line for line in map(str.strip, lines_of(text)) if not is_trivial(line)}


def is_alike(one: set[str], last: set[str], ever: set[str]) -> bool:
    """Whether a text may be that of a file: half of it, or of the file's last text, was ever in the file."""
    return bool(one and last) and 2 * len(one & ever) >= min(len(one), len(last))


def former_paths(file: SameFile, trails: Iterable[SessionTrail]) -> list[str]:
    """The paths that the file had before, as far as commands that name it, or commits, say."""
    found = dict.fromkeys(map(str, former_names(file.path)))
    for trail in trails:
        for command, cwd in trail.commands():
            for old, new in moves(command, cwd):
                if file.compared(new, trail.cwds) is not PathMatch.OTHER:
                    found[old] = None
    return list(found)


def moves(text: str, cwd: str) -> Iterator[tuple[str, str]]:
    """The renames of a shell text that ran in a directory: old and new path. A target may be a directory."""
    if "mv" not in text:
        return
    for words in _commands(text):
        if words[:1] == ["cd"] and len(words) == 2:
            cwd = _joined(cwd, words[1])
        yield from _moved(words, cwd)


def _commands(text: str) -> Iterator[list[str]]:
    """The words of each command; none where quotes do not close or the shell would fill something in."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    words: list[str] = []
    try:
        for word in (*lexer, ";"):
            if word[0] not in "();<>|&\n":
                words.append(word)
                continue
            if not any(character in "$`*?[{~" for part in words for character in part):
                yield words
            words = []
    except ValueError:
        return


def _moved(words: Sequence[str], cwd: str) -> Iterator[tuple[str, str]]:
    name, *rest = words or ("",)
    if name == "git" and rest[:1] == ["-C"]:
        cwd, rest = _joined(cwd, "".join(rest[1:2])), rest[2:]
    if name == "git":
        name, *rest = rest or [""]
    if name != "mv":
        return
    named = [word for word in rest if not word.startswith("-")]
    *sources, target = named or [""]
    for source in sources:
        old, new = _joined(cwd, source), _joined(cwd, target)
        if len(sources) == 1 and not target.endswith("/"):
            yield old, new
        yield old, _joined(new, Path(source).name)


def _joined(directory: str, name: str) -> str:
    return os.path.normpath(os.path.join(directory, name))  # noqa: PTH118 - of a log, and perhaps long gone


# Names that one file may have had.
_MOST_NAMES = 20
_EARLIEST = dt.datetime.min.replace(tzinfo=dt.UTC)


class FileWriting(Struct, frozen=True, kw_only=True):
    """One change that a session made to the file: the agent that it sent, the prompt that asked for it."""

    session: str
    title: str
    cwd: str
    archived: bool
    agent: str | None
    tool: str
    at: dt.datetime | None
    entry_uuid: str | None
    prompt_uuid: str | None
    prompt: str | None
    path: str

    __repr__ = brief_repr


class FileTrails(Struct, frozen=True):
    """All that sessions report about one file, in the order of time."""

    file: SameFile
    writings: list[FileWriting]
    steps: list[tuple[dt.datetime, FileStep]]


class BlamedLine(Struct, frozen=True):
    """A line of the file. ``writing`` is a place in ``writings``, null where it is unknown; ``uncertain``: one of several."""

    line: int
    text: str
    writing: int | None
    uncertain: bool

    __repr__ = brief_repr


class Blame(Struct, frozen=True, kw_only=True):
    """The lines of a file and the changes that wrote them; ``known`` of ``total`` lines have a session."""

    path: str
    lines: list[BlamedLine]
    writings: list[FileWriting]
    total: int
    known: int

    __repr__ = brief_repr


def blame(home: Homes, path: Path, first: int = 1, last: int | None = None) -> Blame:
    """Every line of a file, or of a part of it, with the change that wrote it."""
    text = present_text(path)
    found = trails(home, path, text)
    owners = line_owners([step for _, step in found.steps], str(found.file.path), text)
    numbered = list(enumerate(zip(lines_of(plain(text)), owners, strict=True), 1))
    if not 1 <= first <= (last or len(numbered)) <= len(numbered) and last is not None:
        raise UsageError(
            f"{path}: no line {first if first == last else f'{first}-{last}'}",
            hint=f"it has {len(numbered):,} line{'s' * (len(numbered) != 1)}",
        )
    numbers: dict[int, int] = {}
    lines = []
    for number, (line, owner) in numbered[first - 1 : last]:
        writing = numbers.setdefault(owner, len(numbers)) if owner >= 0 else None
        lines.append(BlamedLine(number, line, writing, owner == UNCERTAIN))
    return Blame(
        path=str(path),
        lines=lines,
        writings=[found.writings[owner] for owner in numbers],
        total=len(lines),
        known=sum(line.writing is not None for line in lines),
    )


def present_text(path: Path) -> str:
    """The text of a file as it is now."""
    try:
        with open_regular(path) as file:
            data = file.read()
    except FileNotFoundError:
        raise NotFound(
            f"{path}: no such file",
            hint="give the path of a file that exists; `recollect files PATH` also works for deleted files",
        ) from None
    except OSError as cause:
        raise StorageError("read", path, cause, hint=fsops.next_step(cause)) from cause
    text = reported_text(data)
    if text is None or "\0" in text:
        raise UsageError(
            f"{path}: not a text file", hint="`recollect files PATH` lists the sessions of any file"
        )
    return text


class _ReportedPath(Struct, frozen=True):
    """What one session says of one path."""

    trail: SessionTrail
    path: str
    match: PathMatch
    steps: list[FileStep]


def trails(home: Homes, path: Path, present: str | None) -> FileTrails:
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


def _with_former(home: Homes, file: SameFile) -> list[_ReportedPath]:
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


def _reported(home: Homes, file: SameFile) -> tuple[list[_ReportedPath], list[SessionTrail]]:
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
            if uuid is not None and (
                uuid not in owner or (owner[uuid].origin(uuid).is_copy and (not trail.origin(uuid).is_copy))
            ):
                owner[uuid] = trail
    writings: list[FileWriting] = []
    dated: list[tuple[dt.datetime, FileStep]] = []
    for trail, path, steps in found:
        latest = _EARLIEST
        for step in steps:
            latest = max(latest, step.version.at or latest)
            uuid = step.version.entry_uuid
            if step.change is None:
                dated.append((latest, structs.replace(step, path=path)))
            elif owner.get(uuid or "", trail) is trail:
                dated.append((latest, structs.replace(step, path=path, author=len(writings))))
                writings.append(_writing(trail, step))
    dated.sort(key=lambda one: one[0])
    return FileTrails(file, writings, dated)


def _writing(trail: SessionTrail, step: FileStep) -> FileWriting:
    session, uuid = trail.session, step.version.entry_uuid
    prompt_uuid, prompt = trail.prompt_of(uuid) or (None, None)
    return FileWriting(
        session=session.id,
        title=session.title,
        cwd=session.cwd,
        archived=session.is_archived,
        agent=trail.origin(uuid).agent,
        tool=str(step.version.source),
        at=step.version.at,
        entry_uuid=uuid,
        prompt_uuid=prompt_uuid,
        prompt=prompt,
        path=step.version.path,
    )
