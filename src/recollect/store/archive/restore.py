"""Put archived sessions back into a home, or take them out of the archive: changes of the journal, with an undo.

Apart from the archive, which is asked before every answer and changes nothing itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from recollect.errors import DamagedData, UsageError
from recollect.store.archive.archive import Archive, missing_lines
from recollect.store.archive.manifest import SHARED_PLACES, ArchivedFile, Manifest
from recollect.store.changes.journal import Change, ChangeJournal, ChangePlan, FileState
from recollect.system import fsops
from recollect.system.openat import components
from recollect.system.peek import open_regular


class RestorePlan(Struct, frozen=True):
    """What a restore would do: the files it creates, those it leaves because they are there, and what is in its way."""

    files: tuple[ArchivedFile, ...]
    there: tuple[Path, ...]
    obstacles: tuple[Path, ...]


def take_out(archive: Archive, manifest: Manifest) -> Change:
    """Take a session out: its manifest, and the objects no other session uses. The journal keeps them until they
    are forgotten.

    The caller must hold ``adding``.
    """
    used = {name for one in archive.manifests() if one != manifest for name in one.objects()}
    plan = ChangePlan("archive rm", manifest.session, archive.root)
    plan.remove(archive.place_of(manifest))
    for name in manifest.objects():
        if name not in used and os.path.lexists(archive.objects.path(name)):
            plan.remove(archive.objects.path(name))
    return ChangeJournal(archive.journal).apply(plan)


def plan_restore(archive: Archive, manifest: Manifest, home: Path) -> RestorePlan:
    """What ``put_back`` would do with each file. A left-over that holds the archived bytes, or goes on from them, stays."""
    files, there, obstacles = [], [], []
    for file in manifest.restorable():
        target = home.joinpath(*components(file.path))
        if not os.path.lexists(target):
            files.append(file)
        elif file.path.startswith(SHARED_PLACES) or (
            file.path != manifest.log.path and archive.is_in(file, target)
        ):
            there.append(target)
        else:
            obstacles.append(target)
    return RestorePlan(tuple(files), tuple(there), tuple(obstacles))


def put_back(archive: Archive, manifest: Manifest, home: Path) -> Change:
    """Put every file back below ``home``, its log last; refused where a file is in the way.

    One change of the journal beside the archive: a crash leaves all of it or nothing, and it can be
    undone. The files get the present time: a client's clean-up goes by it, and would delete them again at
    once.
    """
    planned = plan_restore(archive, manifest, home)
    if planned.obstacles:
        raise UsageError(
            f"restore {manifest.session}: {planned.obstacles[0]} already exists",
            hint="move it away first, or use --to DIR; nothing was changed",
        )
    made = fsops.make_directories(home)
    try:
        plan = ChangePlan("restore", manifest.session, home)
        _put_prompts_back(archive, plan, manifest, home / "history.jsonl")
        # A client must not find a session whose other files are still missing.
        for file in reversed(planned.files):
            target = home.joinpath(*components(file.path))
            plan.create(target, _unpacked(archive, file), mode=file.mode)
        return ChangeJournal(archive.journal).apply(plan)
    except BaseException:
        for directory in reversed(made):
            with contextlib.suppress(OSError):
                fsops.remove_directory(directory)
        raise


def _put_prompts_back(archive: Archive, plan: ChangePlan, manifest: Manifest, history: Path) -> None:
    """Add the prompts that the home's history lacks, before its own: they are older."""
    if manifest.prompts is None or not manifest.is_own:
        return
    lines = archive.whole(manifest.prompts)
    if not os.path.lexists(history):
        plan.create(history, lines)
        return
    seen = FileState.at(history)
    with open_regular(history) as opened:
        now = opened.read()
    missing = missing_lines(now, lines)
    if missing:
        plan.replace(history, missing + now, expected=seen)


def _unpacked(archive: Archive, file: ArchivedFile) -> Iterator[bytes]:
    """The bytes of a file, frame by frame; the last comes only if all of them are correct."""
    digest, held = hashlib.sha256(), b""
    with archive.objects.reading(file.stored.sha256) as reader:
        for data in reader.raw():
            digest.update(data)
            yield held
            held = data
    if digest.hexdigest() != file.stored.sha256:
        raise DamagedData(
            f"{file.path}: the archive's copy is damaged",
            hint="`recollect protect verify` checks every byte",
        )
    yield held
