"""Every file of a home, or of one session, that may hold a secret.

Logs and tool output in side files; prompts and pastes; todos, tasks, plans and notes; backups of files;
settings, the global config and its copies. Also the settings of the projects that the config names, because
people put tokens there. Not searched: ``.credentials.json`` and the ``.key`` files of running clients, which
exist to hold secrets, and any path that only a transcript names, because transcripts are not trusted.

Files are listed, not opened, except the config for its projects and the prompt history for its pastes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from recollect.agents.mirror import dialect_of
from recollect.ask.archive import plan_files
from recollect.ask.sessions.session import Session
from recollect.errors import DamagedData, InvalidId, NotFound, RecollectError
from recollect.index.file_results import SeenState
from recollect.model.lines.ids import EntryId
from recollect.model.lines.json_text import loose_object
from recollect.store.archive.archive import Archive
from recollect.store.changes.record import ChangeFiles
from recollect.store.home import ClaudeHome
from recollect.store.home_walk import scan_logs
from recollect.store.prompt_history import prompts
from recollect.store.trash import Trash
from recollect.system.locations import agent_of, client_home
from recollect.system.paths import CLAUDE
from recollect.system.peek import ReadProblems, is_directory, list_directory, open_regular, regular_file

PlaceShape = Literal["lines", "document", "text"]
_LARGEST_CONFIG = 64 << 20
_NOT_THERE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP))
_ROLES = {"session": "log", "agent": "agent", "tool-output": "tool-result"}


class SecretPlace(Struct, frozen=True):
    """A file to search. ``lines`` are JSON line by line, a ``document`` is one JSON text.

    ``role`` is its purpose in the client. With ``only_own`` only lines that name the session count. ``seen`` is its
    state where it was listed with it.
    """

    path: Path
    role: str
    shape: PlaceShape
    size: int
    session: str | None = None
    agent: str | None = None
    only_own: bool = False
    seen: SeenState | None = None


class HomePlaces:
    """All places of one home; what could not be listed is in ``problems`` afterwards."""

    def __init__(self, home: ClaudeHome) -> None:
        self.home = home
        self._problems = ReadProblems()
        self._unreadable: list[tuple[str, str]] = []

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Paths that could not be listed, and why."""
        return self._unreadable + [(str(one.path), one.reason) for one in self._problems]

    def all(self) -> Iterator[SecretPlace]:
        """Everything, the largest part first."""
        yield from self._logs()
        yield from self._by_session()
        yield from self._shared()
        yield from self._project_settings()

    def of(self, session: Session) -> Iterator[SecretPlace]:
        yield from self.to_redact(session)
        if session.session_id is not None:
            yield from self._files(self.home.session_env_dir(session.session_id), "shell", session=session.id)

    def to_redact(self, session: Session) -> Iterator[SecretPlace]:
        """The files of one session that hold its conversation, its log first."""
        file, home = session.file, self.home
        yield SecretPlace(file.path, "log", "lines", file.size, session.id)
        for agent in home.agents(file):
            name = None if agent.agent_id is None else str(agent.agent_id)
            yield SecretPlace(agent.path, "agent", "lines", agent.size, session.id, name)
            if agent.meta_path is not None:
                yield from self._file(agent.meta_path, "agent", session.id, name)
        yield from self._files(file.tool_results, "tool-result", session=session.id)
        yield from self._file(file.custom_title, "title", session.id)
        # Only here: listing a whole home does without it, and loading it takes as long as listing half of it.

        for plan in plan_files(session):
            yield from self._file(plan, "plan", session.id)
        if file.id is not None:
            yield from self._files(home.file_history_dir(file.id), "file-backup", session=session.id)
            yield from self._files(home.tasks_dir(file.id), "task", ".json", session.id)
            for todo in home.todos():
                if todo.session == file.id:
                    yield SecretPlace(todo.path, "todo", "document", todo.size, session.id)
            yield from self._history_of(session.id)

    # --- parts ----------------------------------------------------------------------------------

    def _logs(self) -> Iterator[SecretPlace]:
        for log in scan_logs(self.home.root, self._unreadable):
            shape: PlaceShape = "text" if log.role == "tool-output" else "lines"
            yield SecretPlace(
                Path(log.path), _ROLES[log.role], shape, log.size, log.session, log.agent, seen=log[4:]
            )
            stem = os.path.splitext(log.path)[0]  # noqa: PTH122 - mostly there is no such file, and no path is made
            if log.role == "agent":
                yield from self._file(f"{stem}.meta.json", "agent", log.session, log.agent)
            elif log.role == "session":
                yield from self._file(f"{stem}/custom-title.json", "title", log.session)

    def _by_session(self) -> Iterator[SecretPlace]:
        """Files in directories named after sessions."""
        for name, role in (("file-history", "file-backup"), ("tasks", "task"), ("session-env", "shell")):
            for entry in list_directory(self.home.root / name, self._problems):
                if is_directory(entry, self._problems, follow=False):
                    yield from self._files(Path(entry.path), role, session=entry.name)
        for todo in self.home.todos():
            owner = None if todo.session is None else str(todo.session)
            yield SecretPlace(todo.path, "todo", "document", todo.size, owner)

    def _shared(self) -> Iterator[SecretPlace]:
        home, root = self.home, self.home.root
        yield from self._file(home.history_file, "history")
        yield from self._files(home.paste_cache_dir, "paste")
        for name in ("settings.json", "settings.local.json", "CLAUDE.md"):
            yield from self._file(root / name, "settings")
        if home.config_file is not None:
            yield from self._file(home.config_file, "config")
        yield from self._files(home.backups_dir, "config")
        yield from self._files(home.plans_dir, "plan")
        yield from self._files(root / "shell-snapshots", "shell")
        for project in home.projects():
            yield from self._files(project.memory, "memory")

    def _project_settings(self) -> Iterator[SecretPlace]:
        """Settings of the projects in the client's config; never of those that only a transcript names."""
        for project in self._known_projects():
            for name in (".claude/settings.json", ".claude/settings.local.json", ".mcp.json"):
                yield from self._file(project / name, "settings")

    def _known_projects(self) -> list[Path]:
        if self.home.config_file is None:
            return []
        try:
            with open_regular(self.home.config_file) as file:
                projects = loose_object(file.read(_LARGEST_CONFIG)).get("projects")
        except OSError:
            return []
        names = projects if isinstance(projects, dict) else {}
        return [Path(name) for name in names if name.startswith("/") and "\0" not in name]

    def _history_of(self, session: str) -> Iterator[SecretPlace]:
        """The prompt history, for its lines of this session, and their pastes."""
        hashes: dict[str, None] = {}
        is_named = False
        try:
            for prompt in prompts(self.home):
                if prompt.session_id == session:
                    is_named = True
                    hashes.update((paste.content_hash, None) for paste in prompt.pastes if paste.content_hash)
        except RecollectError:
            return
        if is_named:
            for place in self._file(self.home.history_file, "history", session):
                yield SecretPlace(place.path, "history", "lines", place.size, session, only_own=True)
        for name in hashes:
            try:
                yield from self._file(self.home.paste_file(EntryId(name)), "paste", session)
            except (InvalidId, NotFound):
                continue

    # --- files ----------------------------------------------------------------------------------

    def _files(
        self, directory: Path, role: str, ending: str = "", session: str | None = None
    ) -> Iterator[SecretPlace]:
        for entry in list_directory(directory, self._problems):
            if entry.name.endswith(ending) and not is_directory(entry, self._problems, follow=False):
                yield from self._entry(entry, role, session)

    def _entry(self, entry: os.DirEntry[str], role: str, session: str | None) -> Iterator[SecretPlace]:
        found = regular_file(entry, self._problems, follow=False)
        if found is not None and found.st_size:
            path = Path(entry.path)
            yield SecretPlace(path, role, _shape(path, role), found.st_size, session)

    def _file(
        self, named: Path | str, role: str, session: str | None = None, agent: str | None = None
    ) -> Iterator[SecretPlace]:
        try:
            found = os.stat(named)  # noqa: PTH116 - a name is not made a path before there is a file
        except ValueError:
            return  # no file can have such a name
        except OSError as cause:
            if cause.errno not in _NOT_THERE:
                self._problems.note(Path(named), cause)
            return
        if stat.S_ISREG(found.st_mode) and found.st_size:
            path = Path(named)
            yield SecretPlace(path, role, _shape(path, role), found.st_size, session, agent)


def _shape(path: Path, role: str) -> PlaceShape:
    if path.suffix == ".jsonl":
        return "lines"
    # Backups of files and tool output are searched as text, regardless of their names.
    is_document = role in ("settings", "config", "task", "title", "agent", "todo") and path.suffix != ".md"
    return "document" if is_document else "text"


def distinct(places: Iterable[SecretPlace]) -> list[SecretPlace]:
    """Each file once, as first listed."""
    found: dict[Path, SecretPlace] = {}
    for place in places:
        found.setdefault(place.path, place)
    return list(found.values())


# What a killed process leaves beside a file that it was about to write.
_LEFT_OVER = re.compile(r"\..+\.jsonl\.[0-9a-f]{12}\.tmp")


def copies(data: Path, home: ClaudeHome, session: str | None = None) -> Iterator[SecretPlace]:
    """Every copy, or those of one session; a left-over file names no session, so all of the home's are listed."""
    yield from _archived(data, session)
    yield from _trashed(data, session)
    yield from _kept_for_undo(data, session)
    yield from _quarantined(data, session)
    yield from _left_over(home)


def client_files(home: ClaudeHome) -> Iterator[SecretPlace]:
    """The files of another agent that a mirror follows: searched, and never written."""
    agent, source = agent_of(str(home.root)), Path(client_home(str(home.root)))
    if agent == CLAUDE or source == home.root:
        return
    for unit in dialect_of(agent).units(source):
        log = unit.path.with_name(unit.path.name + "-wal")  # what a database has not taken over yet
        for path in sorted(unit.path.rglob("*.json")) if unit.path.is_dir() else (unit.path, log):
            if path.is_file():
                shape: PlaceShape = "document" if path.suffix == ".json" else _copy_shape(path.name)
                yield SecretPlace(path, "client", shape, path.stat().st_size)


def _archived(data: Path, session: str | None) -> Iterator[SecretPlace]:
    archive = Archive(data / "archive")
    for manifest in archive.manifests():
        if session in (None, manifest.session):
            stored = [(one.path, one.stored) for one in manifest.files]
            stored += [(one.path, one.stored) for one in manifest.earlier]
            stored += [] if manifest.prompts is None else [("history.jsonl", manifest.prompts)]
            for name, packed in stored:
                path = archive.objects.path(packed.sha256)
                yield SecretPlace(path, "archive", _copy_shape(name), packed.size, manifest.session)
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
                    yield SecretPlace(path, "trash", _copy_shape(file.path), file.size, batch.session)


def _kept_for_undo(data: Path, session: str | None) -> Iterator[SecretPlace]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for directory in sorted((data / "undo").iterdir()):
            change = ChangeFiles.read(directory) if directory.is_dir() else None
            if change is None or not _is_about(change, session):
                continue
            for path in (file for held in change.holdings() for file in (held, *held.rglob("*"))):
                if path.is_file() and not path.is_symlink() and path.stat().st_size:
                    shape = _copy_shape(_original(change, path))
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
            yield SecretPlace(
                path, "quarantine", _copy_shape(path.name), path.stat().st_size, path.parent.name
            )


def _left_over(home: ClaudeHome) -> Iterator[SecretPlace]:
    for project in home.projects():
        with contextlib.suppress(OSError):
            for path in sorted(project.path.iterdir()):
                if _LEFT_OVER.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                    yield SecretPlace(path, "left-over", "lines", path.stat().st_size)


def _copy_shape(name: str) -> PlaceShape:
    if name.endswith((".jsonl", ".tmp")):
        return "lines"
    return "document" if name.endswith(".json") else "text"
