"""The archive: permanent copies of sessions, each a manifest over compressed objects.

    <archive>/objects/<2 hex>/<sha256>.zst     raw bytes by content, seekable
    <archive>/sessions/<project key>/<session>.json    the files of a session
    <archive>/sessions/<project key>/<session>@<checksum of the home's path>.json    of the same one in another home

One lock guards adding. An addition writes objects first, each durable and read back, then publishes the
manifest by a rename. A crash leaves the archive as it was, plus unreferenced objects: the next addition
removes half-written ones, ``unused`` lists the others. Restoring never overwrites, and is one change of the
journal.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from recollect.errors import Ambiguous, DamagedData, NotFound, StorageError, UsageError
from recollect.model.lines.ids import ProjectKey, SessionId, short_id
from recollect.store.archive.manifest import (
    ArchivedFile,
    Manifest,
    decoded,
    encoded,
)
from recollect.store.archive.objects import ObjectStore, StoredObject
from recollect.store.home_walk import SeenDirectory, seen_directory
from recollect.store.session_files import log_parts
from recollect.system import fsops
from recollect.system.locations import client_home
from recollect.system.lock import FileLock
from recollect.system.peek import open_regular
from recollect.system.pool import ProgressCallback
from recollect.system.whole_files import write_new

_OF_HOME = "@"  # no id of a session has it


class ArchiveResult(Struct, frozen=True):
    """The result of adding a session. ``new_bytes`` is the growth of the archive."""

    manifest: Manifest
    new_bytes: int
    is_new: bool
    is_changed: bool


class ArchiveProblem(Struct, frozen=True):
    """Something in the archive that differs from what was stored. ``home``: where the session was archived from, if that is known."""

    session: str
    what: str
    home: str = ""


class Archive:
    """The archive below one of our directories."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.objects = ObjectStore(root / "objects")

    # --- reading ------------------------------------------------------------------------------

    def manifests(self, problems: list[ArchiveProblem] | None = None) -> list[Manifest]:
        """Every session, newest addition first. An unreadable manifest is reported and hides no other."""
        found = []
        for path in self._manifest_files():
            try:
                found.append(self._read(path))
            except (DamagedData, StorageError) as problem:
                if problems is not None:
                    problems.append(ArchiveProblem(path.stem, problem.message))
        return sorted(found, key=lambda one: one.archived_at, reverse=True)

    def find(self, name: str, homes: Collection[Path] = ()) -> Manifest:
        """One session by its id, the start of it, or its title; where several homes had it, that of ``homes``."""
        wanted = name.casefold()
        every = self.manifests()
        found = [one for one in every if name and one.session.startswith(name)] or [
            one for one in every if wanted and one.title.casefold() == wanted
        ]
        exact = [one for one in found if one.session == name] or found
        if not exact:
            raise NotFound(
                f"session {name!r} is not in the archive", hint="`recollect protect list` shows what is"
            )
        exact = [one for one in exact if _is_of(one, homes)] or exact
        if len(exact) > 1:
            is_whole = len({one.session for one in exact}) == 1
            lines = (f"{short_id(one.session)} {one.title[:40]!r}  {client_home(one.home)}" for one in exact)
            raise Ambiguous("session", name, tuple(lines), is_whole=is_whole)
        return exact[0]

    def names(self) -> list[tuple[str, str]]:
        """Project key and id of every session, by their names alone."""
        return list(self._by_session())

    def of(self, project_key: str, session: str) -> list[Manifest]:
        """The valid manifests of a session, one for each home that it was archived from."""
        plain = self._first_place(project_key, session)
        others = sorted(plain.parent.glob(f"{plain.stem}{_OF_HOME}*.json"))
        return [one for path in (plain, *others) if (one := self.at(path)) is not None]

    def known(self, project_key: str, session: str, home: Path) -> Manifest | None:
        """The manifest of a session in a home, if it is here and valid; else one that was imported."""
        found = self.of(project_key, session)
        own = [one for one in found if one.is_own and _is_of(one, [home])]
        return next(iter(own or [one for one in found[:1] if not one.is_own]), None)

    def directories(self) -> list[SeenDirectory]:
        """Those that hold the manifests. Each addition, replacement and removal changes the time of one."""
        root = self.root / "sessions"
        return [seen_directory(os.fspath(root)), *(seen_directory(os.fspath(one)) for one in _projects(root))]

    def only_here(
        self, homes: Iterable[Path], logs: Iterable[str], unread: list[str] | None = None
    ) -> Iterator[tuple[Manifest, Path]]:
        """Sessions whose log is no longer in the home that it came from, each with that home.

        ``logs`` are the paths of the logs in the homes. Only manifests of other sessions are opened; those that
        cannot be read are added to ``unread``.
        """
        roots = {os.path.realpath(home): home for home in homes}
        paths = set(logs)
        present = {tuple(path.rsplit("/", 2)[-2:]) for path in paths}
        for (project, session), places in self._by_session().items():
            if len(places) == 1 and (project, f"{session}.jsonl") in present:
                continue
            for place in places:
                manifest = self.at(place)
                home = None if manifest is None else roots.get(os.path.realpath(manifest.home))
                if manifest is None and unread is not None:
                    unread.append(session)
                elif manifest and home and os.fspath(home / manifest.log.path) not in paths:
                    yield manifest, home

    def log_path(self, manifest: Manifest, file: ArchivedFile | None = None) -> Path:
        """A compressed log; log readers accept it like any other."""
        return self.objects.path((file or manifest.log).stored.sha256)

    # --- adding -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def adding(self, timeout: float = 600.0) -> Iterator[None]:
        """Hold the archive's lock: one process adds at a time."""
        fsops.make_directories(self.root)
        lock = FileLock(self.root / "archive.lock", timeout=timeout)
        try:
            with lock:
                self.objects.discard_unfinished()
                yield
        finally:
            lock.close()

    def add(self, described: Manifest, files: Sequence[Path], prompts: bytes = b"") -> ArchiveResult:
        """Archive a session as it is now: ``described`` without files, ``prompts`` its lines of the home's ``history.jsonl``.

        The caller must hold ``adding``; unchanged files are not read again.
        """
        root = Path(described.home)
        log = root.joinpath(*log_parts(described.project_key, described.session))
        if not files or files[0] != log:
            raise UsageError(
                f"session {described.session}: its log is a link or is missing",
                hint="links are read, but not archived: archive the session where its log lies",
            )
        before = self._before(described, log)
        known = {file.path: file for file in before.files} if before else {}
        kept: list[ArchivedFile] = []
        grown, new_bytes = [], 0
        for path in files:
            name = path.relative_to(root).as_posix()
            file = self._archived(path, name, known.get(name))
            kept.append(file)
            if name not in known or known[name].stored.sha256 != file.stored.sha256:
                new_bytes += file.stored.stored_bytes
                grown.append(name)
        earlier = self._earlier(before, kept)
        # A home may be reached by several paths; the first is the one that its manifest is named after.
        is_same = before is not None and _is_of(before, [root])
        manifest = structs.replace(
            described,
            home=before.home if before and is_same else described.home,
            files=tuple(kept),
            earlier=earlier,
            is_own=True,
            prompts=self._prompts(before, prompts),
        )
        changed = (
            before is None
            or bool(grown)
            or not before.is_own
            or (manifest.home, manifest.files, manifest.prompts)
            != (before.home, before.files, before.prompts)
        )
        if changed:
            place = self.place_of(before or manifest)
            if before is None and self.at(place) is not None:  # it was archived from other homes
                place = self._place_in_home(manifest)
            self.publish(manifest, place)
            self._discard_superseded(before, manifest)
        return ArchiveResult(
            manifest if changed or before is None else before, new_bytes, before is None, changed
        )

    def _before(self, described: Manifest, log: Path) -> Manifest | None:
        """What an addition goes on from. A home that was moved has what it had where it was before."""
        found = self.known(described.project_key, described.session, Path(described.home))
        if found is not None:
            return found
        first = self.at(self._first_place(described.project_key, described.session))
        is_moved = first is not None and not Path(first.home).is_dir() and self.is_in(first.log, log)
        return first if is_moved else None

    def _prompts(self, before: Manifest | None, lines: bytes) -> StoredObject | None:
        """The stored prompts; lines that were taken out of the home's history since are kept."""
        known = None if before is None else before.prompts
        if known is not None:
            old = self.whole(known)
            lines = lines if lines.startswith(old) else old + missing_lines(old, lines)
            if lines == old:
                return known
        return self._stored([lines]) if lines else None

    def whole(self, stored: StoredObject) -> bytes:
        with self.objects.reading(stored.sha256) as reader:
            return b"".join(reader.raw())

    def _archived(self, path: Path, name: str, known: ArchivedFile | None) -> ArchivedFile:
        try:
            found = path.lstat()
        except OSError as cause:
            raise StorageError("archive", path, cause, hint="it may have been moved; try again") from cause
        identity = (found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev)
        if known is not None and identity == (known.stored.size, known.mtime_ns, known.inode, known.device):
            return known
        stored = self.objects.store(path, size=found.st_size, before=known.stored if known else None)
        return ArchivedFile(
            name, stored, found.st_mode & 0o7777, found.st_mtime_ns, found.st_ino, found.st_dev
        )

    def _earlier(self, before: Manifest | None, now: list[ArchivedFile]) -> tuple[ArchivedFile, ...]:
        """States that would otherwise be lost: of files that were rewritten, or are no longer in the home."""
        if before is None:
            return ()
        present = {file.path: file for file in now}
        lost = [
            _earlier_version(file, before)
            for file in before.files
            if file.path not in present or not self._is_continued(file.stored, present[file.path].stored)
        ]
        return (*before.earlier, *lost)

    def combined(self, known: Manifest, other: Manifest) -> Manifest:
        """The manifest of a session that is here and comes from elsewhere too; no state of a file is lost.

        The newer one counts. What this machine archived is never displaced by an import, unless that continues it.
        """
        is_newer = dt.datetime.fromisoformat(other.archived_at) > dt.datetime.fromisoformat(known.archived_at)
        if known.is_own:
            files = {file.path: file.stored for file in other.files}
            shared = [file for file in known.files if known.may_come_from_elsewhere(file.path)]
            is_newer = all(
                file.path in files and self._is_continued(file.stored, files[file.path]) for file in shared
            )
        return _merged(other, known) if is_newer else _merged(known, other)

    def _is_continued(self, old: StoredObject, new: StoredObject) -> bool:
        """Whether the new state begins with the old one, byte for byte."""
        if old.sha256 == new.sha256:
            return True
        if old.size > new.size:
            return False
        with self.objects.reading(old.sha256) as before, self.objects.reading(new.sha256) as after:
            place = 0
            while place < old.size:
                mine = before.read(1 << 20, place)
                theirs = after.read(len(mine), place)
                if not theirs or mine[: len(theirs)] != theirs:
                    return False
                place += len(theirs)
        return True

    def publish(self, manifest: Manifest, path: Path) -> None:
        """Publish a manifest; every object it names is already durable."""
        try:
            fsops.make_directories(path.parent)
            fsops.replace_file(path, encoded(manifest))
        except OSError as cause:
            raise StorageError("archive", path, cause, hint=_unchanged(cause)) from cause

    def rewrite(self, manifest: Manifest, contents: Mapping[str, Iterable[bytes]], title: str) -> None:
        """Replace objects, by their hash, by other contents; the old ones are deleted unless another session uses them.

        The caller must hold ``adding``.
        """
        new = {name: self._stored(content) for name, content in contents.items()}
        files = (
            structs.replace(one, stored=new.get(one.stored.sha256, one.stored)) for one in manifest.files
        )
        earlier = (
            structs.replace(one, stored=new.get(one.stored.sha256, one.stored)) for one in manifest.earlier
        )
        prompts = manifest.prompts
        if prompts is not None:
            prompts = new.get(prompts.sha256, prompts)
        now = structs.replace(
            manifest, title=title, files=tuple(files), earlier=tuple(earlier), prompts=prompts
        )
        self.publish(now, self.place_of(manifest))
        self._discard_superseded(manifest, now)

    def _stored(self, content: Iterable[bytes]) -> StoredObject:
        temporary = self.objects.root / f".{os.urandom(8).hex()}.tmp"
        try:
            fsops.make_directories(self.objects.root)
            write_new(temporary, content)
            return self.objects.store(temporary)
        except OSError as cause:
            raise StorageError("archive", temporary, cause, hint=_unchanged(cause)) from cause
        finally:
            with contextlib.suppress(OSError):
                fsops.unlink(temporary)

    def _discard_superseded(self, before: Manifest | None, now: Manifest) -> None:
        """Remove objects whose bytes the new one begins with, unless another session uses them."""
        if before is None:
            return
        unused = set(before.objects()) - set(now.objects())
        if unused:
            used = {name for one in self.manifests() for name in one.objects()}
            for name in unused - used:
                with contextlib.suppress(OSError):
                    self.objects.discard(name)

    # --- maintenance --------------------------------------------------------------------------

    def verify(self, progress: ProgressCallback | None = None) -> list[ArchiveProblem]:
        """Verify every byte of every manifest and object."""
        problems: list[ArchiveProblem] = []
        manifests = self.manifests(problems)
        wanted = {name: (stored, one) for one in manifests for name, stored in one.objects().items()}
        total, done = sum(stored.stored_bytes for stored, _ in wanted.values()), 0
        for stored, one in wanted.values():
            home = client_home(one.home)
            problems += [ArchiveProblem(one.session, what, home) for what in self.objects.verify(stored)]
            done += stored.stored_bytes
            if progress is not None:
                progress(done, total)
        return problems

    def unused(self) -> list[str]:
        """Objects without a manifest: left by a crash, or by a removed manifest."""
        problems: list[ArchiveProblem] = []
        used = {name for one in self.manifests(problems) for name in one.objects()}
        if problems:
            raise DamagedData(
                f"archive: {len(problems)} manifests cannot be read, so the objects in use are unknown",
                hint="`recollect protect verify` names them",
            )
        return [name for name in self.objects.names() if name not in used]

    def is_in(self, file: ArchivedFile, target: Path) -> bool:
        """Whether a file in a home begins with the archived bytes."""
        try:
            with open_regular(target) as there, self.objects.reading(file.stored.sha256) as reader:
                return all(there.read(len(frame)) == frame for frame in reader.raw())
        except OSError:  # a link, a directory, or not ours to read
            return False

    @property
    def journal(self) -> Path:
        """The journal of restored sessions, beside the archive."""
        return self.root.parent / "undo"

    # --- places -------------------------------------------------------------------------------

    def place_named(self, manifest: Manifest, name: str) -> Path:
        """The file of a manifest that has this name elsewhere; one of the same home that is here goes first."""
        own = self._place_in_home(manifest)
        return own if own.exists() else self._place(manifest.project_key, name)

    def name_of(self, manifest: Manifest) -> str:
        """The name under which a manifest is here."""
        return self.place_of(manifest).stem

    def _place(self, project_key: str, name: str) -> Path:
        return self.root / "sessions" / ProjectKey(project_key) / f"{name}.json"

    def _first_place(self, project_key: str, session: str) -> Path:
        return self._place(project_key, SessionId(session))

    def _place_in_home(self, manifest: Manifest) -> Path:
        return self._place(manifest.project_key, name_in_home(manifest))

    def place_of(self, manifest: Manifest) -> Path:
        return self.place_named(manifest, SessionId(manifest.session))

    def _by_session(self) -> dict[tuple[str, str], list[Path]]:
        found: dict[tuple[str, str], list[Path]] = {}
        for path in self._manifest_files():
            found.setdefault((path.parent.name, path.stem.partition(_OF_HOME)[0]), []).append(path)
        return found

    def at(self, path: Path) -> Manifest | None:
        """The manifest in a file, if it is there and valid."""
        try:
            return self._read(path) if path.is_file() else None
        except (DamagedData, StorageError):
            return None

    def _manifest_files(self) -> Iterator[Path]:
        root = self.root / "sessions"
        for project in _projects(root) if root.is_dir() else ():
            yield from sorted(path for path in project.iterdir() if path.suffix == ".json")

    def _read(self, path: Path) -> Manifest:
        with fsops.as_storage_error("read", path), fsops.reading(path) as fd:
            data = fsops.pread(fd, 1 << 30, 0)
        manifest = decoded(data, path.stem)
        if not is_named(manifest, path.parent.name, path.stem):
            raise DamagedData(
                f"archive manifest {path.stem}: it is about another session",
                hint="rename it back to its own name",
            )
        return manifest


def name_in_home(manifest: Manifest) -> str:
    """The name of a manifest where the same session of another home has the session's own."""
    return f"{manifest.session}{_OF_HOME}{hashlib.sha256(os.fsencode(manifest.home)).hexdigest()[:16]}"


def is_named(manifest: Manifest, project_key: str, name: str) -> bool:
    """Whether a manifest may go by this name."""
    return manifest.project_key == project_key and name in (manifest.session, name_in_home(manifest))


def is_kept(sessions: str, project_key: str, session: str) -> bool:
    """Whether the directory of manifests has one of a session, by its name alone."""
    with contextlib.suppress(OSError):
        names = os.listdir(os.path.join(sessions, project_key))  # noqa: PTH118, PTH208 - names only
        return any(name == f"{session}.json" or name.startswith(f"{session}{_OF_HOME}") for name in names)
    return False


def _is_of(manifest: Manifest, homes: Collection[Path]) -> bool:
    return os.path.realpath(manifest.home) in map(os.path.realpath, homes)


def _projects(root: Path) -> list[Path]:
    return [one for one in sorted(root.iterdir()) if one.is_dir() and not one.is_symlink()]


def _unchanged(cause: OSError) -> str:
    return f"the archive is unchanged; {fsops.next_step(cause, 'archive again')}"


def missing_lines(there: bytes, lines: bytes) -> bytes:
    known = set(there.splitlines())
    return b"".join(line + b"\n" for line in lines.splitlines() if line not in known)


def _earlier_version(file: ArchivedFile, manifest: Manifest) -> ArchivedFile:
    return ArchivedFile(file.path, file.stored, archived_at=manifest.archived_at)


def _merged(newer: Manifest, older: Manifest) -> Manifest:
    """Two manifests of one session: the newer plus what only the older has."""
    present = {file.stored.sha256 for file in newer.files}
    more = tuple(_earlier_version(file, older) for file in older.files if file.stored.sha256 not in present)
    return structs.replace(
        newer, earlier=(*newer.earlier, *older.earlier, *more), prompts=newer.prompts or older.prompts
    )
