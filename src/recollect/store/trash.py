"""A trash for files of a Claude home: removed completely, restored byte for byte.

A batch is a directory below our data directory. It holds the removed files under ``files/``, at the same
relative paths as in the home, and ``manifest.json`` with size, hash, mode and time of each. Removing and restoring
are changes of the journal beside the trash: a crash at any moment leaves all of a session in the home and no batch, or
none of it and a complete batch. The journal keeps no record of a finished one, because the trash lists it.

No byte is destroyed (law 3). Within one file system moving is a rename. To another file system it is a copy, which is
synced and compared before the original is deleted. What is written to while it moves stays where it was. Nothing is
ever overwritten. A failed move is reverted.

Links are moved as links; their targets are not touched. The caller checks whether a session may be removed.
"""

from __future__ import annotations

import datetime as dt
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from recollect.errors import DamagedData, NotFound, StorageError, UsageError
from recollect.store.changes.batch import open_batch
from recollect.store.changes.journal import ChangeJournal, ChangePlan
from recollect.store.changes.plan import FileState
from recollect.store.changes.steps import discard_tree
from recollect.system import fsops, openat
from recollect.system.fsops import as_storage_error
from recollect.system.whole_files import digest_at

_MANIFEST, _FILES = "manifest.json", "files"
_HINT = "nothing is lost; `recollect undo` shows what is in it"


class TrashedFile(Struct, frozen=True):
    """One file of a batch. ``path`` is relative to the home; a link has a ``target`` instead of bytes."""

    path: str
    kind: Literal["file", "directory", "link"]
    mode: int
    mtime_ns: int
    size: int = 0
    sha256: str = ""
    target: str = ""


class TrashBatch(Struct, frozen=True):
    """The result of one removal. ``items`` are the files and directories that were moved as a whole.

    ``command`` names the removals that one command made together.
    """

    batch: str
    session: str
    title: str
    home: str
    at: str
    items: tuple[str, ...]
    files: tuple[TrashedFile, ...]
    command: str = ""

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    def targets(self) -> list[Path]:
        """The original paths of its items."""
        return [Path(self.home, *openat.components(item)) for item in self.items]


class Trash:
    """The batches below one of our directories."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(
        self, home: Path, items: Sequence[Path], *, session: str, title: str, at: dt.datetime
    ) -> TrashBatch:
        """Move items out of a home; afterwards either all are in the new batch, or none."""
        names = [item.relative_to(home).as_posix() for item in items]
        with as_storage_error("move to the trash", home, _HINT):
            files = tuple(file for item in items for file in _described(item, home))
        name = f"{at.strftime('%Y%m%dT%H%M%S')}-{os.urandom(4).hex()}"
        batch = TrashBatch(name, session, title, str(home), at.isoformat(), tuple(names), files, open_batch())

        def removal(is_copied: bool) -> ChangePlan:
            plan = ChangePlan("rm", session, home, also=self.root)
            for item, place in zip(items, names, strict=True):
                plan.carry(item, self.place(batch, place), is_copied=is_copied)
            plan.create(self.root / name / _MANIFEST, _encoded(batch))
            return plan

        self._apply(removal)
        with as_storage_error("read", self.root, _HINT):
            return self._confirmed(batch)

    def _apply(self, planned: Callable[[bool], ChangePlan]) -> None:
        """Carry out a plan of renames; where the trash is on another file system, the same plan with copies."""
        journal = ChangeJournal(self.root.parent / "undo")
        try:
            journal.apply(planned(False), transient=True)
        except StorageError as problem:
            if problem.cause is None or problem.cause.errno != errno.EXDEV:
                raise
            journal.apply(planned(True), transient=True)

    def batches(self) -> list[TrashBatch]:
        """What can be restored, newest first. A directory without a readable manifest is not listed."""
        try:
            names = sorted((entry.name for entry in self.root.iterdir()), reverse=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        found = (self._read(name) for name in names)
        return [batch for batch in found if batch is not None]

    def find(self, name: str) -> TrashBatch:
        """The batch with this name, or the only one whose name or session has this prefix."""
        batches = self.batches()
        found = [
            one for one in batches if name and (one.batch.startswith(name) or one.session.startswith(name))
        ]
        exact = [one for one in found if one.batch == name] or found
        if len(exact) == 1:
            return exact[0]
        problem = f"fits {len(exact)} batches" if exact else "is not in the trash"
        raise NotFound(f"batch {name!r}: {problem}", hint="`recollect undo` shows what there is")

    def restore(self, batch: TrashBatch, renewed_before: int = 0) -> list[Path]:
        """Move everything back; refused where a file is in the way.

        A file last written before ``renewed_before`` (in nanoseconds) gets the present time: a client's clean-up
        goes by it, and would delete it again at once.
        """
        present = self._present(batch)
        if not present:
            raise DamagedData(
                f"batch {batch.batch}: its files are missing", hint=f"look at {self.root / batch.batch}"
            )
        for _, target in present:
            if os.path.lexists(target):
                raise UsageError(
                    f"restore {batch.batch}: {target} exists again",
                    hint="move that one away first; nothing was changed",
                )
        with as_storage_error("restore", Path(batch.home), _HINT):
            self._verify(batch)
            self._renew(batch, renewed_before)

        def restoration(is_copied: bool) -> ChangePlan:
            plan = ChangePlan("trash restore", batch.session, Path(batch.home), also=self.root)
            # The log comes last: a client must not find a session whose other files are still missing.
            for place, target in present[::-1]:
                plan.carry(place, target, is_copied=is_copied)
            directory = self.root / batch.batch
            plan.remove(directory / _MANIFEST)
            above = {above for place, _ in present for above in place.parents if directory in above.parents}
            for emptied in (directory, *sorted(above)):
                plan.prune(emptied)
            return plan

        self._apply(restoration)
        return [target for _, target in present]

    def rewrite(
        self, batch: TrashBatch, contents: Mapping[str, Callable[[], Iterator[bytes]]], title: str
    ) -> None:
        """Replace files of a batch, by their path, by other contents; all of them and the manifest, or none."""
        plan = ChangePlan("redact", batch.session, Path(batch.home), also=self.root)
        files = []
        for file in batch.files:
            if file.path in contents:
                place = self.place(batch, file.path)
                size, digest = _measured(contents[file.path]())
                plan.replace(
                    place, contents[file.path](), expected=FileState.at(place), mtime_ns=file.mtime_ns
                )
                file = structs.replace(file, size=size, sha256=digest)  # noqa: PLW2901 - the same file, with other bytes
            files.append(file)
        now = structs.replace(batch, title=title, files=tuple(files))
        manifest = self.root / batch.batch / _MANIFEST
        plan.replace(manifest, iter([_encoded(now)]), expected=FileState.at(manifest))
        ChangeJournal(self.root.parent / "undo").apply(plan, transient=True)

    def destroy(self, batch: TrashBatch) -> None:
        """Delete a batch permanently.

        The files go first: a manifest without them can be recognised, files without it cannot.
        """
        directory = self.root / batch.batch
        with as_storage_error("empty the trash", directory, _HINT):
            discard_tree(directory / _FILES)
            (directory / _MANIFEST).unlink(missing_ok=True)
            fsops.remove_directory(directory)

    def obstacles(self, batch: TrashBatch) -> list[Path]:
        """Files in the way of a restore."""
        return [target for _, target in self._present(batch) if os.path.lexists(target)]

    # --- one batch ----------------------------------------------------------------------------

    def place(self, batch: TrashBatch, item: str) -> Path:
        """Where a file of a batch is."""
        return self.root / batch.batch / _FILES / Path(*openat.components(item))

    def _present(self, batch: TrashBatch) -> list[tuple[Path, Path]]:
        places = [self.place(batch, item) for item in batch.items]
        pairs = zip(places, batch.targets(), strict=True)
        return [(place, target) for place, target in pairs if os.path.lexists(place)]

    def _read(self, name: str) -> TrashBatch | None:
        try:
            data = openat.read_file(self.root, (name, _MANIFEST))
            batch = msgspec.json.decode(data, type=TrashBatch)
        except (NotFound, StorageError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return batch if batch.batch == name else None

    def _confirmed(self, batch: TrashBatch) -> TrashBatch:
        """The manifest updated from the moved files: a client may have written until the last moment."""
        known = {(file.path, file.size, file.mtime_ns): file for file in batch.files}
        root = self.root / batch.batch / _FILES
        moved = [place for place, _ in self._present(batch)]
        files = tuple(file for place in moved for file in _described(place, root, known))
        if files == batch.files:
            return batch
        items = tuple(place.relative_to(root).as_posix() for place in moved)
        batch = structs.replace(batch, items=items, files=files)
        fsops.replace_file(self.root / batch.batch / _MANIFEST, _encoded(batch))
        return batch

    def _verify(self, batch: TrashBatch) -> None:
        root = self.root / batch.batch / _FILES
        wanted = {file.path: file for file in batch.files}
        for place, _ in self._present(batch):
            for file in _described(place, root):
                known = wanted.get(file.path)
                if known is None or (file.kind, file.size, file.sha256) != (
                    known.kind,
                    known.size,
                    known.sha256,
                ):
                    raise DamagedData(
                        f"batch {batch.batch}: {file.path} was changed in the trash",
                        hint=f"look at {root}; nothing was changed",
                    )

    def _renew(self, batch: TrashBatch, before: int) -> None:
        """Give the present time to files that are older, while they are still in the trash: a crash is harmless."""
        for file in batch.files:
            place = self.place(batch, file.path)
            if file.kind != "link" and file.mtime_ns < before and os.path.lexists(place):
                os.utime(place)


def _measured(content: Iterator[bytes]) -> tuple[int, str]:
    """Size and hash of a content."""
    size, digest = 0, hashlib.sha256()
    for piece in content:
        size += len(piece)
        digest.update(piece)
    return size, digest.hexdigest()


def _encoded(batch: TrashBatch) -> bytes:
    return msgspec.json.format(msgspec.json.encode(batch), indent=2) + b"\n"


# ---- looking ---------------------------------------------------------------------------------------------


def _described(
    path: Path, root: Path, known: dict[tuple[str, int, int], TrashedFile] | None = None
) -> Iterator[TrashedFile]:
    """A file, or a directory with its contents. An unchanged ``known`` file is not hashed again."""
    name, found = path.relative_to(root).as_posix(), path.lstat()
    mode, mtime = stat.S_IMODE(found.st_mode), found.st_mtime_ns
    if stat.S_ISLNK(found.st_mode):
        yield TrashedFile(name, "link", mode, mtime, target=str(path.readlink()))
    elif stat.S_ISDIR(found.st_mode):
        yield TrashedFile(name, "directory", mode, mtime)
        for inner in sorted(path.iterdir()):
            yield from _described(inner, root, known)
    elif stat.S_ISREG(found.st_mode):
        same = (known or {}).get((name, found.st_size, mtime))
        yield same or TrashedFile(name, "file", mode, mtime, found.st_size, digest_at(path, found.st_size))
    else:
        raise OSError(errno.EINVAL, "neither a file nor a directory", str(path))


def trash_at(data: Path) -> Trash:
    """The trash in our own directory."""
    return Trash(data / "trash")
