"""Protects names inside a writable tree that other programs execute or trust (C05).

A confined program may write to a project, and the project holds files that other programs run without
asking: git hooks, editor tasks, MCP servers, shell start files. There are three cases:

- it exists: it is *held*, bound read-only inside the sandbox; its parent directories become
  mount points, so that they cannot be moved aside;
- it is missing: an empty directory takes its place during the run (a directory, because git
  ignores empty ones) and is removed after the last run that needs it;
- neither is possible (it is a link, or a placeholder would break git): it is *watched*, compared after
  the run and restored; the changed version is kept beside it under a name that nothing executes.

A writable directory is opened component by component, no link among them, and from then on only the
descriptor counts: an earlier run may have replaced a directory by a link (C07).

Only names at the top of each writable tree are covered, not those of nested repositories.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recollect.errors import NotFound, StorageError, UsageError
from recollect.guard.policy.paths import CONFIGURATION, hooks_directory, names_in_tree
from recollect.system.openat import descend

if sys.platform != "win32":
    import fcntl

_OPEN_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_LOOK = getattr(os, "O_PATH", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_SYSTEM = frozenset(
    ("/", "/proc", "/sys", "/dev", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/run", "/var")
)
_KERNEL = tuple(map(Path, ("/proc", "/sys", "/dev")))


@dataclass(frozen=True, slots=True)
class OpenTree:
    """A directory by its path, as the confined program sees it, and by its descriptor."""

    path: Path
    descriptor: int

    def open(self, *parts: str) -> int:
        """A descriptor of something below the tree, itself possibly a link; raises as ``os.open`` does."""
        return descend(self.descriptor, parts, _LOOK)


def open_tree(path: Path) -> OpenTree:
    """Open a directory that a run may write to. A link on the path is refused, a system directory too."""
    place = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow the links that are refused here
    if str(place) in _SYSTEM or any(one in place.parents for one in _KERNEL):
        raise UsageError(
            f"writable directory {place}: it is a system directory", hint="name a directory of your own"
        )
    top = os.open("/", _OPEN_DIRECTORY)
    try:
        return OpenTree(place, descend(top, place.parts[1:], _DIRECTORY))
    except FileNotFoundError as cause:
        raise NotFound(f"writable directory {path}: does not exist", hint="check the path") from cause
    except OSError as cause:
        raise _refused(place, cause) from cause
    finally:
        os.close(top)


def _refused(place: Path, cause: OSError) -> UsageError | StorageError:
    if cause.errno not in (errno.ELOOP, errno.ENOTDIR):
        return StorageError("open", place, cause, hint="check its permissions")
    link = next((one for one in reversed((place, *place.parents)) if one.is_symlink()), None)
    if link is None:
        return UsageError(f"writable directory {place}: not a directory", hint="name a directory")
    real = os.path.realpath(place)
    return UsageError(
        f"writable directory {place}: {link} is a link, and links are not followed",
        hint=f"if you trust the link, name the directory it leads to: {real}",
    )


PROTECTED = names_in_tree()
# Programs that run in a project read these at its top, and fail on a directory where a file should be (or
# could not use .config at all); so where they are missing they are watched.
_NO_PLACEHOLDER = frozenset(
    (
        ".claude.json",
        ".gitattributes",
        ".gitmodules",
        ".npmrc",
        ".pre-commit-config.yaml",
        ".yarnrc",
        ".yarnrc.yml",
    )
).union(CONFIGURATION)
# Placeholders for these would break git; HEAD without .git would make the tree a bare repository.
WATCHED = (".git/commondir", ".git/config.worktree", "HEAD")
PLACEHOLDER_MODE = 0o555
_MAX_BYTES = 16 * 1024 * 1024
_DIRECTORY = _OPEN_DIRECTORY | getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

State = tuple[str, int, bytes] | None
"""Of a name: kind, mode and content (a link's target, a file's bytes), or None if missing."""


@dataclass
class ProtectedNames:
    """The protected names of one run, prepared before it and settled after it.

    ``held`` and ``pinned`` map the path inside the sandbox to a descriptor of what is bound there.
    """

    held: dict[Path, int] = field(default_factory=dict)
    pinned: dict[Path, int] = field(default_factory=dict)
    watched: list[tuple[OpenTree, str, State]] = field(default_factory=list)
    placeholders: list[tuple[int, str, int]] = field(default_factory=list)
    """Empty directories in the place of missing names: the directory they are in, name and descriptor."""

    def settle(self) -> tuple[str, ...]:
        """Restore what was changed and remove the placeholders; returns the names that were restored."""
        changed, failed = [], []
        for tree, name, before in self.watched:
            try:
                if _put_back(tree.descriptor, name, before):
                    changed.append(str(tree.path / name))
            except OSError as cause:
                failed.append((tree.path / name, cause))
        for above, name, descriptor in reversed(self.placeholders):
            with contextlib.suppress(OSError):  # another run still needs it, or it is no longer empty
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if stat.S_IMODE(os.fstat(descriptor).st_mode) == PLACEHOLDER_MODE:
                    os.rmdir(name, dir_fd=above)
            os.close(descriptor)
        self.placeholders.clear()
        for descriptor in (*self.held.values(), *self.pinned.values()):
            os.close(descriptor)
        self.held.clear()
        self.pinned.clear()
        if failed:
            hint = "a command changed it: inspect it before anything else uses it"
            raise StorageError("put back", *failed[0], hint=hint)
        return tuple(changed)


def prepare(trees: Sequence[OpenTree]) -> ProtectedNames:
    """Check every protected name of every tree, and create placeholders for missing ones."""
    guarded = ProtectedNames()
    try:
        for tree in trees:
            for name in (*PROTECTED, *_hooks(tree)):
                _prepare(guarded, tree, name)
            for name in WATCHED:
                _watch(guarded, tree, name)
            _prepare_ourselves(guarded, tree)
    except BaseException:
        guarded.settle()
        raise
    return guarded


def _hooks(tree: OpenTree) -> list[str]:
    """The directory inside the tree that ``core.hooksPath`` names, in the repository's or the user's configuration."""
    home = Path(os.environ.get("HOME") or "/nonexistent")
    texts = []
    config = (".git", "config")
    with contextlib.suppress(OSError), os.fdopen(descend(tree.descriptor, config, _FILE), "rb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            texts.append(file.read(_MAX_BYTES))
    for path in (home / ".gitconfig", home / ".config" / "git" / "config"):
        with contextlib.suppress(OSError):
            texts.append(path.read_bytes()[:_MAX_BYTES])
    found = {hooks_directory(text.decode("utf-8", "replace")) for text in texts}
    places = {os.path.normpath(tree.path / name) for name in found if name and "\0" not in name}
    return [os.path.relpath(place, tree.path) for place in sorted(places) if tree.path in Path(place).parents]


def _prepare(guarded: ProtectedNames, tree: OpenTree, name: str) -> None:
    parts = tuple(name.split("/"))
    above = tree.descriptor
    for depth in range(1, len(parts) + 1):
        path = tree.path.joinpath(*parts[:depth])
        if path in guarded.held:
            return
        try:
            opened = tree.open(*parts[:depth])
        except FileNotFoundError:
            if name in _NO_PLACEHOLDER:
                _watch(guarded, tree, name)
            else:
                _hold_missing(guarded, path, above)
            return
        except OSError:
            return  # unreadable for us, so for the program too
        mode = os.fstat(opened).st_mode
        if stat.S_ISLNK(mode):
            os.close(opened)
            _watch(guarded, tree, "/".join(parts[:depth]))
            return
        is_placeholder = stat.S_ISDIR(mode) and stat.S_IMODE(mode) == PLACEHOLDER_MODE
        if depth == len(parts) or not stat.S_ISDIR(mode) or is_placeholder:
            guarded.held[path] = opened
            if is_placeholder:  # another run's, or left by a crash: the last run removes it
                _share(guarded, path.name, above)
            return
        above = _pin(guarded, path, opened)


def _pin(guarded: ProtectedNames, path: Path, opened: int) -> int:
    """Keep the descriptor of a pinned directory; the one that was kept first."""
    if path in guarded.pinned:
        os.close(opened)
    return guarded.pinned.setdefault(path, opened)


def _prepare_ourselves(guarded: ProtectedNames, tree: OpenTree) -> None:
    """recollect may be installed in the tree (a project's .venv): the run must not change it."""
    for place in {Path(__file__).resolve().parents[2], Path(sys.prefix).resolve()}:
        if tree.path not in place.parents or place in guarded.held:
            continue
        parts = place.relative_to(tree.path).parts
        guarded.held[place] = tree.open(*parts)
        for depth in range(1, len(parts)):
            path = tree.path.joinpath(*parts[:depth])
            _pin(guarded, path, tree.open(*parts[:depth]))


def _hold_missing(guarded: ProtectedNames, path: Path, above: int) -> None:
    for _ in range(100):
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            os.mkdir(path.name, 0o700, dir_fd=above)
            made = os.open(path.name, _DIRECTORY, dir_fd=above)
            try:
                os.fchmod(made, PLACEHOLDER_MODE)  # whatever the umask says
            finally:
                os.close(made)
        with contextlib.suppress(FileNotFoundError):  # removed by another run between the two steps
            opened = descend(above, (path.name,), _LOOK)
            mode = os.fstat(opened).st_mode
            if stat.S_ISLNK(mode):
                os.close(opened)
                raise OSError(errno.ELOOP, "a link appeared in the place of a protected name", str(path))
            guarded.held[path] = opened
            if _share(guarded, path.name, above) or not stat.S_ISDIR(mode):
                return
            os.close(guarded.held.pop(path))
    raise OSError(errno.EBUSY, "cannot lock a placeholder", str(path))


def _share(guarded: ProtectedNames, name: str, above: int) -> bool:
    """Register as a further user of a placeholder; False when it was removed meanwhile."""
    try:
        descriptor = os.open(name, _DIRECTORY, dir_fd=above)
    except OSError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    opened = os.fstat(descriptor)
    with contextlib.suppress(OSError):
        here = os.stat(name, dir_fd=above, follow_symlinks=False)
        if (here.st_dev, here.st_ino) == (opened.st_dev, opened.st_ino):
            guarded.placeholders.append((above, name, descriptor))
            return True
    os.close(descriptor)
    return False


def _watch(guarded: ProtectedNames, tree: OpenTree, name: str) -> None:
    if name == "HEAD" and _state(tree.descriptor, ".git/HEAD") is not None:
        return
    if not any((tree, name) == (known, other) for known, other, _ in guarded.watched):
        guarded.watched.append((tree, name, _state(tree.descriptor, name)))


def _state(tree: int, name: str) -> State:
    *way, last = name.split("/")
    try:
        above = descend(tree, tuple(way), _DIRECTORY) if way else os.dup(tree)
    except OSError:
        return None
    try:
        status = os.stat(last, dir_fd=above, follow_symlinks=False)
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            return "link", 0, os.fsencode(os.readlink(last, dir_fd=above))
        if not stat.S_ISREG(status.st_mode):
            return "directory" if stat.S_ISDIR(status.st_mode) else "special", mode, b""
        if status.st_size > _MAX_BYTES:
            raise OSError(errno.EFBIG, "too large to be watched", name)
        with os.fdopen(os.open(last, _FILE, dir_fd=above), "rb") as file:
            return "file", mode, file.read(_MAX_BYTES)
    except FileNotFoundError:
        return None
    finally:
        os.close(above)


def _put_back(tree: int, name: str, before: State) -> bool:
    """Whether it had changed. The changed version is moved aside and the original written again."""
    with contextlib.suppress(OSError):
        if _state(tree, name) == before:
            return False
    above = os.dup(tree)
    *way, last = name.split("/")
    try:
        for part in way:  # a link or file on the path is moved aside, never followed
            try:
                inner = os.open(part, _DIRECTORY, dir_fd=above)
            except OSError:
                _move_aside(above, part)
                os.mkdir(part, dir_fd=above)
                inner = os.open(part, _DIRECTORY, dir_fd=above)
            os.close(above)
            above = inner
        _move_aside(above, last)
        if before is not None:
            _write(above, last, *before)
    finally:
        os.close(above)
    return True


def _move_aside(above: int, name: str) -> None:
    for number in range(1, 10_000):
        aside = f"{name}.recollect-blocked-{number}"
        try:
            os.stat(aside, dir_fd=above, follow_symlinks=False)
        except FileNotFoundError:
            with contextlib.suppress(FileNotFoundError):
                os.rename(name, aside, src_dir_fd=above, dst_dir_fd=above)
            return


def _write(above: int, name: str, kind: str, mode: int, content: bytes) -> None:
    if kind == "link":
        os.symlink(os.fsdecode(content), name, dir_fd=above)
    elif kind == "directory":
        os.mkdir(name, dir_fd=above)
    elif kind == "file":
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(name, flags, 0o600, dir_fd=above), "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
