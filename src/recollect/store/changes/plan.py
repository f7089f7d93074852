"""The planned changes to files of a home, recorded before anything is touched.

A plan is a list of steps: replace a file, create one, remove one, move a file or directory. Each step sees
the tree after the steps before it: after ``move(a, b)`` the file ``a/x`` is ``b/x``. A plan can be printed;
``ChangeJournal.apply`` carries it out, once.

The plan remembers the state of each file (``FileState``). If a file is another one by the time of the change,
nothing is touched.

Every path is beneath the home, with links in its parents resolved (``HomeBorder``), and is not a link itself. A file
belongs to one step only, so that every step can be reverted on its own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct, structs

from recollect.errors import NotFound, StorageError, UsageError
from recollect.store.session_files import HomeBorder
from recollect.system import fsops
from recollect.system.whole_files import digest

StepKind = Literal["replace", "create", "remove", "move"]
_HINT = "nothing was changed"


class FileState(Struct, frozen=True):
    """The state of a file when it was examined. ``sha256`` is empty if it was not read."""

    size: int
    mtime_ns: int
    inode: int
    device: int
    mode: int = 0
    user: int = -1
    group: int = -1
    sha256: str = ""

    @classmethod
    def of(cls, found: os.stat_result, sha256: str = "") -> FileState:
        return cls(
            found.st_size,
            found.st_mtime_ns,
            found.st_ino,
            found.st_dev,
            found.st_mode,
            found.st_uid,
            found.st_gid,
            sha256,
        )

    @classmethod
    def at(cls, path: Path, *, with_hash: bool = False) -> FileState:
        """Examine a path without following its last part; a hash reads the whole file."""
        if not with_hash:
            return cls.of(path.lstat())
        with fsops.reading(path) as fd:
            before = os.fstat(fd)
            return cls.of(before, digest(fd, before.st_size))

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        """Whether this was a regular file, not a link to one."""
        return stat.S_ISREG(self.mode)

    def is_same_file(self, other: FileState | None) -> bool:
        """Whether both are the same file, even with other bytes."""
        return other is not None and (self.inode, self.device) == (other.inode, other.device)

    def difference(self, other: FileState | None) -> str | None:
        """How ``other`` differs, as text; None where they are the same."""
        if other is None:
            return "it is gone"
        if not self.is_same_file(other):
            return "another file has its name"
        if self.is_directory:
            return None
        if self.size != other.size:
            return f"it had {self.size} bytes and has {other.size}"
        if self.mtime_ns != other.mtime_ns:
            return "it was written to"
        if self.sha256 and other.sha256 and self.sha256 != other.sha256:
            return "its bytes are different"
        return None


class JournalFile(NamedTuple):
    """A file stored in the journal that is to be restored, and its state."""

    path: Path
    seen: FileState


FileContent = bytes | Iterable[bytes] | JournalFile


class Step(Struct, frozen=True):
    """One step, for printing. Sizes are None where unknown, as for a stream or a directory."""

    kind: StepKind
    path: Path
    target: Path | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None


class PlannedStep(NamedTuple):
    """One step, ready to be carried out."""

    kind: StepKind
    path: Path
    target: Path | None = None
    before: FileState | None = None
    content: FileContent = b""
    mode: int = fsops.FILE_MODE
    mtime_ns: int | None = None
    is_copied: bool = False


class ChangePlan:
    """The steps of one change. ``what`` is the command ("repair"), ``subject`` a session or project.

    ``also`` is a directory outside the home that may take part, such as our trash. ``base`` is above everything.
    """

    def __init__(self, what: str, subject: str, home: Path, *, also: Path | None = None) -> None:
        self.what = what
        self.subject = subject
        border = HomeBorder(home)
        self.home = border.root
        self._areas = border.areas if also is None else (*border.areas, Path(os.path.realpath(also)))
        self.base = Path(os.path.commonpath(self._areas))
        self._planned: list[PlannedStep] = []
        self._moves: list[PlannedStep] = []
        self._named: set[Path] = set()
        self._above: set[Path] = set()
        self._is_taken = False
        self.prunes: list[Path] = []

    def replace(
        self,
        path: Path,
        data: bytes | Iterable[bytes],
        *,
        expected: FileState | None = None,
        mtime_ns: int | None = None,
    ) -> None:
        """Replace the bytes of a file; mode and owner stay.

        ``expected`` is the file the bytes were made from.
        """
        path = self._inside(path)
        before = self._file_at(path)
        self._add(
            PlannedStep("replace", path, None, expected_or(before, expected), data, before.mode, mtime_ns),
            path,
        )

    def create(
        self,
        path: Path,
        data: bytes | Iterable[bytes],
        *,
        mode: int = fsops.FILE_MODE,
        mtime_ns: int | None = None,
    ) -> None:
        """Create a file and missing directories above it (0700)."""
        path = self._inside(path)
        self._require_free(path)
        self._add(PlannedStep("create", path, None, None, data, mode, mtime_ns), path)

    def remove(self, path: Path, *, expected: FileState | None = None) -> None:
        """Move a file out of the home, into the journal."""
        path = self._inside(path)
        self._add(PlannedStep("remove", path, None, expected_or(self._file_at(path), expected)), path)

    def move(self, source: Path, target: Path) -> None:
        """Rename a file or directory; never overwrites."""
        seen = self._seen_at(self._inside(source))
        if not seen.is_file and not seen.is_directory:
            raise UsageError(f"{source}: neither a file nor a directory", hint=_HINT)
        self.carry(source, target)

    def carry(self, source: Path, target: Path, *, is_copied: bool = False) -> None:
        """As ``move``, but also a link as such. ``is_copied``: to another file system, by a copy."""
        source, target = self._inside(source), self._inside(target)
        before = self._seen_at(source)
        if target == source or source in target.parents or target in self._above:
            raise UsageError(f"move {source}: {target} cannot be its new name", hint=_HINT)
        self._require_free(target)
        step = PlannedStep("move", source, target, before, is_copied=is_copied)
        self._add(step, source, target)
        if before.is_directory:
            self._moves.append(step)

    def prune(self, directory: Path) -> None:
        """Remove a directory at the end, if it is empty then; name outer directories before inner ones."""
        self.prunes.append(self._inside(directory))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps in order."""
        return tuple(map(_printable, self._planned))

    def take(self) -> list[PlannedStep]:
        """The steps to carry out. Works once, because a stream of bytes can be read only once."""
        if self._is_taken:
            raise UsageError(
                f"{self.what} {self.subject}: this plan was carried out already", hint="make a new plan"
            )
        if not self._planned:
            raise UsageError(f"{self.what} {self.subject}: there is nothing to do", hint=_HINT)
        self._is_taken = True
        return self._planned

    def _inside(self, path: Path) -> Path:
        """The path with its parents resolved; refused where it is not beneath the home."""
        if not _is_text(path) or not _is_text(real := Path(os.path.realpath(path.parent), path.name)):
            shown = ascii(str(path))[:200]
            raise UsageError(f"path {shown}: its name is not valid UTF-8", hint=_HINT)
        if path.name in {"", ".", ".."} or not any(area in real.parents for area in self._areas):
            raise UsageError(f"{path}: not beneath {self.home}", hint=f"{_HINT}; name a path inside the home")
        if any(real.is_relative_to(step.path) for step in self._moves):
            raise UsageError(f"{path}: moved away by an earlier step", hint="name it at its new place")
        return real

    def _origin(self, path: Path) -> Path:
        """The present path of a file, before the moves of this plan."""
        for step in reversed(self._moves):
            if step.target is not None:
                path = rebased(path, step.target, step.path)
        return path

    def _seen_at(self, path: Path) -> FileState:
        seen = self._look(path)
        if seen is None:
            raise NotFound(f"{path}: there is no such file", hint=_HINT)
        return seen

    def _look(self, path: Path) -> FileState | None:
        try:
            return seen_or_none(self._origin(path))
        except OSError as cause:
            hint = f"{_HINT}; {fsops.next_step(cause, 'try again')}"
            raise StorageError("look at", path, cause, hint=hint) from cause

    def _file_at(self, path: Path) -> FileState:
        seen = self._seen_at(path)
        if not seen.is_file:
            raise UsageError(f"{path}: not a regular file, and links are not followed", hint=_HINT)
        return seen

    def _require_free(self, path: Path) -> None:
        if self._look(path) is not None:
            raise UsageError(f"{path}: the path is already taken", hint=_HINT)

    def _add(self, step: PlannedStep, *paths: Path) -> None:
        origins = [self._origin(path) for path in paths]
        if not self._named.isdisjoint([*paths, *origins]):
            raise UsageError(f"{paths[0]}: another step already changes it", hint="combine both in one step")
        self._named.update(paths, origins)
        self._above.update(*(path.parents for path in paths))
        self._planned.append(step)


def expected_or(seen: FileState, expected: FileState | None) -> FileState:
    """The required state of a file; fields that the caller left out come from our own examination."""
    if expected is None:
        return seen
    return structs.replace(expected, mode=seen.mode, user=seen.user, group=seen.group)


def seen_or_none(path: Path) -> FileState | None:
    """The state of a path, not followed; None where there is nothing."""
    try:
        return FileState.at(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_there(path: Path) -> bool:
    """Whether anything has this name. Unlike ``lexists``, an access error does not mean "no"."""
    return seen_or_none(path) is not None


def rebased(path: Path, old: Path, new: Path) -> Path:
    """The path after ``old`` became ``new``; unchanged where it is not beneath ``old``."""
    return new / path.relative_to(old) if path != old and path.is_relative_to(old) else path


def _is_text(path: Path) -> bool:
    try:
        return b"\0" not in str(path).encode()
    except UnicodeEncodeError:  # bytes that are not UTF-8
        return False


def _printable(step: PlannedStep) -> Step:
    is_known = step.before is not None and step.before.is_file
    before = step.before.size if step.before is not None and is_known else None
    after = len(step.content) if isinstance(step.content, bytes) else None
    if step.kind == "move":
        after = before
    return Step(
        step.kind,
        step.path,
        step.target,
        0 if step.kind == "create" else before,
        0 if step.kind == "remove" else after,
    )
