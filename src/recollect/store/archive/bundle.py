"""Export sessions of the archive as one file, and import such a file.

A bundle is a tar file of the archive's own files under their own names. It may come from anywhere, so
importing trusts nothing in it: members are read one after the other as streams; only regular files with a
name that the archive uses are accepted; each is written under a temporary name and checked against its hash
before it counts. Links, devices, sparse files, modes and owners are ignored.

A session of a bundle can only become files of that session. What an archive keeps besides (plans, shell
environments, other files of the session's directory) is neither exported nor imported. Any other path, a time that is
none, or an agent's log whose lines name another session make the bundle refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from msgspec import structs

from recollect.errors import DamagedData, StorageError, UsageError
from recollect.model.views.fact_line import fact_line
from recollect.store.archive.archive import Archive, is_named
from recollect.store.archive.manifest import Manifest, decoded, encoded
from recollect.store.archive.objects import SeekableReader, StoredObject
from recollect.store.home_walk import LOG
from recollect.store.session_files import META, is_flat_agent_log, is_flat_agent_note
from recollect.system import fsops
from recollect.system.whole_files import digest, write_new

_OBJECT = re.compile(r"objects/([0-9a-f]{2})/(\1[0-9a-f]{62})\.zst", re.ASCII)
_MANIFEST = re.compile(
    r"sessions/([A-Za-z0-9._-]{1,255})/([A-Za-z0-9._-]{1,200}(?:@[0-9a-f]{16})?)\.json", re.ASCII
)
_CHUNK = 1 << 20
# Limits of a bundle, checked while it is read, before anything counts.
_TOTAL_BYTES, _MEMBER_BYTES, _MANIFEST_BYTES = 10 << 30, 1 << 30, 64 << 20
_MEMBERS, _RATIO = 100_000, 200


def export_bundle(archive: Archive, manifests: Sequence[Manifest], target: Path) -> int:
    """Write a bundle and return its size in bytes. Never overwrites a file."""
    portable = {
        f"sessions/{manifest.project_key}/{archive.name_of(manifest)}.json": _portable(manifest)
        for manifest in manifests
    }
    objects: dict[str, StoredObject] = {
        name: one for manifest in portable.values() for name, one in manifest.objects().items()
    }
    temporary = target.with_name(f".{target.name[:200]}.{os.urandom(6).hex()}.tmp")
    try:
        fd = fsops.create_new(temporary)
        try:
            with os.fdopen(os.dup(fd), "wb") as stream, tarfile.open(fileobj=stream, mode="w|") as tar:
                for name in sorted(objects):
                    _add_object(tar, archive, objects[name])
                for name, manifest in portable.items():
                    _add(tar, name, encoded(manifest))
            fsops.sync_file(fd)
        finally:
            fsops.close(fd)
        fsops.rename_new(temporary, target)
        fsops.sync_dir(target.parent)
    except FileExistsError:
        raise UsageError(f"export {target}: the file already exists", hint="name a new file") from None
    except OSError as cause:
        raise StorageError("export", target, cause, hint="no bundle was written") from cause
    finally:
        with contextlib.suppress(OSError):
            fsops.unlink(temporary)
    return target.stat().st_size


def _portable(manifest: Manifest) -> Manifest:
    """Without what may not come from elsewhere."""
    return structs.replace(
        manifest,
        files=tuple(file for file in manifest.files if manifest.may_come_from_elsewhere(file.path)),
        earlier=tuple(one for one in manifest.earlier if manifest.may_come_from_elsewhere(one.path)),
        is_own=False,
        prompts=None,
    )


def _add_object(tar: tarfile.TarFile, archive: Archive, stored: StoredObject) -> None:
    path = archive.objects.path(stored.sha256)
    info = tarfile.TarInfo(f"objects/{stored.sha256[:2]}/{stored.sha256}.zst")
    info.size, info.mode = stored.stored_bytes, 0o600
    with os.fdopen(fsops.open_nofollow(path), "rb") as stream:
        tar.addfile(info, stream)


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o600
    tar.addfile(info, io.BytesIO(data))


def import_bundle(archive: Archive, source: Path) -> list[Manifest]:
    """Import a bundle; the caller must hold ``Archive.adding``. Imports all of its sessions, or none."""
    taken = _BundleContents(archive)
    try:
        with os.fdopen(fsops.open_nofollow(source), "rb") as stream:
            taken.read(stream)
        return taken.publish()
    except (tarfile.TarError, EOFError) as problem:
        raise DamagedData(
            f"bundle {source.name}: {problem}", hint="copy it again; nothing was imported"
        ) from problem
    except OSError as cause:
        raise StorageError("import", source, cause, hint="nothing was imported") from cause
    finally:
        taken.clean_up()


class _BundleContents:
    """The parts of a bundle read so far, none of which counts yet."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._waiting: dict[str, Path] = {}
        self._manifests: dict[Path, Manifest] = {}
        self._names: set[str] = set()
        self._total = 0

    def read(self, stream: IO[bytes]) -> None:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                self._take(tar, member)

    def publish(self) -> list[Manifest]:
        manifests = {path: _portable(manifest) for path, manifest in self._manifests.items()}
        wanted = {
            name: one for manifest in self._manifests.values() for name, one in manifest.objects().items()
        }
        stray = set(self._waiting) - set(wanted)
        if stray:
            raise self._refused(f"object {min(stray)[:12]}… belongs to no session in it")
        for name, stored in wanted.items():
            self._check(name, stored)
        for manifest in manifests.values():
            self._check_agents(manifest)
        used = {name for manifest in manifests.values() for name in manifest.objects()}
        for name in used & set(self._waiting):
            temporary, path = self._waiting[name], self._archive.objects.path(name)
            fsops.make_directories(path.parent)
            fsops.rename_over(temporary, path)
            fsops.sync_dir(path.parent)
            del self._waiting[name]
        return [self._publish(manifest, path) for path, manifest in manifests.items()]

    def clean_up(self) -> None:
        for temporary in self._waiting.values():
            with contextlib.suppress(OSError):
                fsops.unlink(temporary)

    def _take(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        self._names_one_more(member)
        body = tar.extractfile(member) if member.isreg() and not member.issparse() else None
        if body is None:
            raise self._refused(f"{member.name!a} is not a plain file")
        if found := _OBJECT.fullmatch(member.name):
            self._take_object(found[2], member.size, body)
        elif found := _MANIFEST.fullmatch(member.name):
            if member.size > _MANIFEST_BYTES:
                raise self._refused(f"{member.name!a} is too large for a manifest")
            manifest = decoded(body.read(member.size), found[2])
            if not is_named(manifest, found[1], found[2]):
                raise self._refused(f"{member.name!a} is about another session")
            self._manifests[self._archive.place_named(manifest, found[2])] = manifest
        else:
            raise self._refused(f"{member.name!a} is not a name that the archive uses")

    def _names_one_more(self, member: tarfile.TarInfo) -> None:
        folded = member.name.casefold()
        if folded in self._names:
            raise self._refused(f"{member.name!a} comes twice")
        self._names.add(folded)
        self._total += max(member.size, 0)
        if len(self._names) > _MEMBERS:
            raise self._refused(f"more than {_MEMBERS} files")
        if member.size > _MEMBER_BYTES or self._total > _TOTAL_BYTES or member.size < 0:
            raise self._refused(f"{member.name!a}: too large")

    def _take_object(self, name: str, size: int, body: IO[bytes]) -> None:
        root = self._archive.objects.root
        fsops.make_directories(root)
        temporary = root / f".{os.urandom(8).hex()}.tmp"
        self._waiting[name] = temporary
        write_new(temporary, _chunks(body, size))

    def _check(self, name: str, stored: StoredObject) -> None:
        """An object must match its manifest exactly before it is unpacked as a whole."""
        temporary = self._waiting.get(name)
        if temporary is None:
            if self._archive.objects.path(name).is_file() and not self._archive.objects.verify(stored):
                return
            raise self._refused(f"object {name[:12]}… is missing")
        with fsops.reading(temporary) as fd:
            reader, raw = SeekableReader(fd, temporary), hashlib.sha256()
            if reader.size != stored.size or reader.size > _MEMBER_BYTES:
                raise self._refused(f"object {name[:12]}… has a wrong length")
            if reader.size > _CHUNK and reader.size > stored.stored_bytes * _RATIO:
                raise self._refused(f"object {name[:12]}… unpacks to more than {_RATIO} times its size")
            for frame in reader.raw():
                raw.update(frame)
            packed = digest(fd, os.fstat(fd).st_size)
        if (raw.hexdigest(), packed) != (name, stored.stored_sha256):
            raise self._refused(f"object {name[:12]}… is not what its name says")

    def _check_agents(self, manifest: Manifest) -> None:
        """An agent's log beside the session's belongs to the session that its lines name."""
        every = (*manifest.files, *manifest.earlier)
        logs = {file.path: file for file in every if is_flat_agent_log(file.path.split("/"))}
        notes = [file.path for file in every if is_flat_agent_note(file.path.split("/"))]
        for path in logs | dict.fromkeys(path.removesuffix(META) + LOG for path in notes):
            if path not in logs or self._owner(logs[path].stored) != manifest.session:
                raise self._refused(f"{path!a} is not an agent of its session")

    def _owner(self, stored: StoredObject) -> str | None:
        path = self._waiting.get(stored.sha256) or self._archive.objects.path(stored.sha256)
        with fsops.reading(path) as fd:
            reader = SeekableReader(fd, path)
            head = reader.frame(0) if reader.frames else b""
        found = (fact_line(line) for line in head.split(b"\n"))
        return next((line.session_id for line in found if line is not None and line.session_id), None)

    def _publish(self, manifest: Manifest, path: Path) -> Manifest:
        known = self._archive.at(path)
        manifest = manifest if known is None else self._archive.combined(known, manifest)
        self._archive.publish(manifest, path)
        return manifest

    def _refused(self, problem: str) -> DamagedData:
        return DamagedData(
            f"bundle refused: {problem}",
            hint="it was not made by `recollect export --bundle`, or was changed; nothing was imported",
        )


def _chunks(body: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0:
        chunk = body.read(min(_CHUNK, size))
        if not chunk:
            raise EOFError("a member is cut short")
        size -= len(chunk)
        yield chunk
