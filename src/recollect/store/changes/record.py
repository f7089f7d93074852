"""The journal's record of one change: enough to revert it at any time, by any process.

A change is a directory: ``change.json`` is the record, ``kept/`` holds the originals by step number,
``aside/`` what other programs had added to our files before a rollback.

The record has three states. *preparing*: nothing in the home has changed except for new hidden files.
*ready*: every original is kept, every new file is staged, and the steps begin. *done* or *rolled-back*: the
end. Each state atomically replaces the one before.

Paths refer to the tree after the preceding steps.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, Self

import msgspec
from msgspec import Struct, structs

from recollect.errors import NotFound, UsageError
from recollect.store.changes.plan import FileState, StepKind, is_there, rebased, seen_or_none
from recollect.system import fsops, openat

State = Literal["preparing", "ready", "done", "rolled-back"]
UNFINISHED = frozenset({"preparing", "ready"})
_RECORD = "change.json"
_ID = re.compile(r"[0-9]{8}T[0-9]{6}-([1-9][0-9]{0,11})-[0-9a-f]{6}", re.ASCII)
_LEFT_OVER = re.compile(r"\.change\.json\.[0-9a-f]{12}\.tmp")


def new_id(number: int, now: dt.datetime) -> str:
    """The id of a change. The time is for people; the number gives the order, because clocks jump (P10)."""
    return f"{now.strftime('%Y%m%dT%H%M%S')}-{number}-{os.urandom(3).hex()}"


def number_of(name: str) -> int:
    """The number of a change in its journal, from 1; 0 for a foreign name."""
    found = _ID.fullmatch(name)
    return int(found[1]) if found else 0


class RecordedStep(Struct, frozen=True):
    """One step: the state before and after (for a directory, a hash of names, sizes and times).

    ``is_copied``: a move to another file system. ``seal`` is what its source was like when it was copied.
    """

    kind: StepKind
    path: str
    target: str | None = None
    before: FileState | None = None
    after: FileState | None = None
    is_copied: bool = False
    seal: str = ""


class ChangeRecord(Struct, frozen=True):
    """One change. ``directories`` did not exist before it; ``prunes`` are removed if empty after it.

    Paths are relative to ``base``: the home, unless files outside it take part. A change that ``is_transient`` leaves no
    record once it is done: what it moved is listed elsewhere, in the trash. ``batch`` names what belongs together.
    """

    id: str
    what: str
    subject: str
    home: str
    at: dt.datetime
    state: State
    steps: tuple[RecordedStep, ...]
    directories: tuple[str, ...] = ()
    prunes: tuple[str, ...] = ()
    undoes: str | None = None
    is_forgotten: bool = False
    base: str = ""
    is_transient: bool = False
    batch: str = ""


class ChangeFiles:
    """The directory of one change, its record, and where in the home its files are."""

    def __init__(self, directory: Path, record: ChangeRecord) -> None:
        self.directory = directory
        self.record = record
        self.home = Path(record.home)
        self.base = Path(record.base or record.home)
        self._directory_moves = [
            (index, self.inside(step.path), self.inside(step.target))
            for index, step in enumerate(record.steps)
            if step.target is not None and step.before is not None and step.before.is_directory
        ]

    @classmethod
    def read(cls, directory: Path) -> Self | None:
        """Read a directory of the journal; None where its record is invalid."""
        try:
            data = openat.read_file(directory, (_RECORD,))
            record = msgspec.json.decode(data, type=ChangeRecord)
            files = cls(directory, record)
            names = [name for step in record.steps for name in (step.path, step.target) if name is not None]
            for name in [*names, *record.directories, *record.prunes]:
                files.inside(name)
        except (NotFound, UsageError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return files if record.id == directory.name else None

    def write(self, **changed: object) -> None:
        """Update the record on disk atomically."""
        record = structs.replace(self.record, **changed)
        text = msgspec.json.format(msgspec.json.encode(record), indent=1)
        fsops.replace_file(self.directory / _RECORD, text + b"\n")
        self.record = record

    def note(self, number: int, **changed: object) -> None:
        """Add information about a step; ``write`` makes it durable."""
        steps = list(self.record.steps)
        steps[number] = structs.replace(steps[number], **changed)
        self.record = structs.replace(self.record, steps=tuple(steps))

    def inside(self, name: str) -> Path:
        """A path of the record."""
        return Path(self.base, *openat.components(name))

    @property
    def kept_directory(self) -> Path:
        return self.directory / "kept"

    @property
    def aside_directory(self) -> Path:
        """Files removed from the home by a rollback, and files that were in the way."""
        return self.directory / "aside"

    def kept(self, number: int) -> Path:
        """The original of a step."""
        return self.kept_directory / str(number)

    def holdings(self) -> list[Path]:
        return fsops.entries(self.kept_directory) + self.asides()

    def asides(self) -> list[Path]:
        return fsops.entries(self.aside_directory)

    def unreturned(self) -> list[Path]:
        """Files of a rolled-back change: originals that could not return, and other programs' bytes in our
        files.
        """
        return fsops.entries(self.kept_directory) + [
            path for path in self.asides() if not self._is_just_ours(path)
        ]

    def _is_just_ours(self, aside: Path) -> bool:
        number = aside.name.partition("-")[0]
        after = self.record.steps[int(number)].after if number.isdecimal() else None
        return after is not None and after.difference(FileState.at(aside)) is None

    def late_bytes(self) -> int:
        """How much other programs wrote to originals after they were replaced."""
        found = ((step.before, seen_or_none(self.kept(n))) for n, step in enumerate(self.record.steps))
        return sum(now.size - before.size for before, now in found if before is not None and now is not None)

    def clear_left_overs(self) -> None:
        """Remove half-written records that a crash left, recognised by our own names."""
        for path in fsops.entries(self.directory):
            if _LEFT_OVER.fullmatch(path.name):
                fsops.unlink(path)

    def drop(self, paths: Iterable[Path]) -> None:
        """Delete kept files."""
        for path in paths:
            fsops.unlink(path)
        for place in (self.kept_directory, self.aside_directory):
            if fsops.remove_directory(place):
                fsops.sync_dir(self.directory)

    def dissolve(self) -> None:
        """Remove the record of a change, and what it kept."""
        self.drop(self.holdings())
        fsops.unlink(self.directory / _RECORD)
        remove_unbegun(self.directory)

    # --- where things are ---------------------------------------------------------------------

    def path(self, number: int) -> Path:
        """The current path of the step's file."""
        return self._place(number, self.inside(self.record.steps[number].path))

    def target(self, number: int) -> Path:
        """The current target of a move."""
        return self._place(number, self.inside(self.record.steps[number].target or ""))

    def _hidden(self, number: int, suffix: str = "") -> Path:
        """A name beside the file that no client lists: it starts with a dot and has none of their suffixes."""
        return self.path(number).with_name(f".{self.record.id}-{number}{suffix}.recollect")

    def _staged_copy(self, number: int) -> Path:
        """A hidden name beside the target of a move, for a copy that is being made."""
        return self.target(number).with_name(f".{self.record.id}-{number}c.recollect")

    def _place(self, number: int, path: Path) -> Path:
        """Follow the moves of directories: earlier ones not yet done, later ones done."""
        moves = self._directory_moves
        if not any(path.is_relative_to(new if index < number else old) for index, old, new in moves):
            return path
        last = max((index for index, _, _ in moves if self._is_moved(index)), default=-1)
        for index, old, new in reversed(moves):
            if last < index < number:
                path = rebased(path, new, old)
        for index, old, new in moves:
            if number < index <= last:
                path = rebased(path, old, new)
        return path

    def _is_moved(self, number: int) -> bool:
        """Whether a move has happened, and no later one has carried its target further."""
        step = self.record.steps[number]
        source, target = self.inside(step.path), self.inside(step.target or "")
        found = seen_or_none(target)
        if found is None or step.before is None:
            return False
        return step.before.is_same_file(found) or not is_there(source)


def is_without_record(directory: Path) -> bool:
    """Whether a crash came before the first record: then nothing was kept and nothing changed."""
    return not is_there(directory / _RECORD)


def remove_unbegun(directory: Path) -> None:
    """Remove the directory of a change without a record; foreign files in it prevent that."""
    for path in fsops.entries(directory):
        if _LEFT_OVER.fullmatch(path.name):
            fsops.unlink(path)
    fsops.remove_directory(directory / "kept")
    fsops.remove_directory(directory)
