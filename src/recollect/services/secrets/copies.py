"""Where copies of a session remain outside its home: archive, trash, undo, quarantine, left-over files.

A secret that was removed from a session may still be in one of them. ``scan --everywhere`` searches them too, and
``redact --everywhere`` cleans them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from recollect.errors import DamagedData
from recollect.services.secrets.places import PlaceShape, SecretPlace
from recollect.storage.archive.archive import Archive
from recollect.storage.changes.record import ChangeFiles
from recollect.storage.home import ClaudeHome
from recollect.storage.trash import Trash

# What a killed process leaves beside a file that it was about to write.
_LEFT_OVER = re.compile(r"\..+\.jsonl\.[0-9a-f]{12}\.tmp")


def copies(data: Path, home: ClaudeHome, session: str | None = None) -> Iterator[SecretPlace]:
    """Every copy, or those of one session; a left-over file names no session, so all of the home's are listed."""
    yield from _archived(data, session)
    yield from _trashed(data, session)
    yield from _kept_for_undo(data, session)
    yield from _quarantined(data, session)
    yield from _left_over(home)


def _archived(data: Path, session: str | None) -> Iterator[SecretPlace]:
    archive = Archive(data / "archive")
    for manifest in archive.manifests():
        if session in (None, manifest.session):
            stored = [(one.path, one.stored) for one in manifest.files]
            stored += [(one.path, one.stored) for one in manifest.earlier]
            stored += [] if manifest.prompts is None else [("history.jsonl", manifest.prompts)]
            for name, packed in stored:
                path = archive.objects.path(packed.sha256)
                yield SecretPlace(path, "archive", _shape(name), packed.size, manifest.session)
    # What a killed process had replaced and not yet deleted: no manifest says whose it is.
    with contextlib.suppress(DamagedData):
        for name in archive.unused():
            path = archive.objects.path(name)
            with contextlib.suppress(OSError):
                yield SecretPlace(path, "archive", "text", path.stat().st_size)


def _trashed(data: Path, session: str | None) -> Iterator[SecretPlace]:
    trash = Trash(data / "trash")
    for batch in trash.batches():
        if session in (None, batch.session):
            for file in batch.files:
                if file.kind == "file" and file.size:
                    path = trash.place(batch, file.path)
                    yield SecretPlace(path, "trash", _shape(file.path), file.size, batch.session)


def _kept_for_undo(data: Path, session: str | None) -> Iterator[SecretPlace]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for directory in sorted((data / "undo").iterdir()):
            change = ChangeFiles.read(directory) if directory.is_dir() else None
            if change is None or not _is_about(change, session):
                continue
            for path in (file for held in change.holdings() for file in (held, *held.rglob("*"))):
                if path.is_file() and not path.is_symlink() and path.stat().st_size:
                    shape = _shape(_original(change, path))
                    yield SecretPlace(path, "undo", shape, path.stat().st_size, change.record.subject)


def _is_about(change: ChangeFiles, session: str | None) -> bool:
    """Whether a change holds, or may hold, files of a session."""
    return (
        session is None
        or session == change.record.subject
        or any(session in (step.path + (step.target or "")) for step in change.record.steps)
    )


def _original(change: ChangeFiles, path: Path) -> str:
    """The name of a kept file in the home; its own where it has kept it."""
    numbers = [part for part in path.relative_to(change.directory).parts[1:2] if part.isdigit()]
    if path.suffix or not numbers or int(numbers[0]) >= len(change.record.steps):
        return path.name
    return change.record.steps[int(numbers[0])].path


def _quarantined(data: Path, session: str | None) -> Iterator[SecretPlace]:
    root = data / "quarantine"
    for path in sorted((root if session is None else root / session).rglob("*")):
        if path.is_file() and not path.is_symlink() and path.stat().st_size:
            yield SecretPlace(path, "quarantine", _shape(path.name), path.stat().st_size, path.parent.name)


def _left_over(home: ClaudeHome) -> Iterator[SecretPlace]:
    for project in home.projects():
        with contextlib.suppress(OSError):
            for path in sorted(project.path.iterdir()):
                if _LEFT_OVER.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                    yield SecretPlace(path, "left-over", "lines", path.stat().st_size)


def _shape(name: str) -> PlaceShape:
    if name.endswith((".jsonl", ".tmp")):
        return "lines"
    return "document" if name.endswith(".json") else "text"
