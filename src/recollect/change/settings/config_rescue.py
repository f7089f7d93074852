"""The client's config files: which it would ignore or reset, and how to restore what was lost.

Every running client rewrites the global config (``.claude.json``), and a torn or emptied one loses trust,
servers and settings of all projects. Copies of it exist: the client's own backups and the damaged ones it set
aside. ``planned_restore`` merges all readable ones (``model/config_merge``); the change goes through the
journal, which keeps the original bytes. Settings have no copies: they are only checked.

Values never leave this module; plans name only keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from recollect.errors import Busy, NotFound, RecollectError, StorageError
from recollect.model.settings.config_merge import (
    Document,
    KeyChange,
    differences,
    merged,
    parsed,
    settings_problem,
    written,
)
from recollect.store.changes.journal import Change, ChangeJournal, ChangePlan, FileState
from recollect.store.client_settings import content
from recollect.store.home import ClaudeHome
from recollect.store.live import live_sessions

_MILLISECONDS = re.compile(r"\.(\d{13})\Z")
ConfigState = Literal["fine", "missing", "reset", "ignored", "unreadable"]


class ConfigFileCheck(Struct, frozen=True):
    """A config file and how the client would treat it."""

    path: Path
    kind: Literal["config", "settings", "servers"]
    verdict: ConfigState
    why: str = ""

    @property
    def is_problem(self) -> bool:
        return self.verdict not in ("fine", "missing")


class ConfigCopy(Struct, frozen=True):
    """A copy of the global config; ``problem`` says why it cannot be used. ``at`` is in nanoseconds."""

    path: Path
    at: int
    size: int
    problem: str = ""
    projects: int = 0
    servers: int = 0


class ConfigRestore(Struct, frozen=True):
    """What restoring a global config would change, by key; no value is shown. ``best`` is the newest readable copy."""

    config: Path
    problem: str
    best: Path
    copies: list[ConfigCopy]
    changes: list[KeyChange]
    open_in: list[int]


# ---- check -----------------------------------------------------------------------------------------------


def checked(home: ClaudeHome) -> list[ConfigFileCheck]:
    """The files of a home and of the projects in its config; missing files are listed only for the home."""
    found: list[ConfigFileCheck] = []
    config: Document = {}
    if home.config_file is not None:
        document = _document(home.config_file)
        config = document if isinstance(document, dict) else {}
        found.append(_checked_config(home.config_file, document))
    found.append(_checked_settings(home.settings_file))
    projects = config.get("projects")
    for project in sorted(projects) if isinstance(projects, dict) else ():
        files = [one for one in _project_files(project) if one.verdict != "missing"]
        found += [one for one in files if all(one.path != known.path for known in found)]
    return found


def _checked_config(path: Path, document: Document | str | None) -> ConfigFileCheck:
    if document is None:
        return ConfigFileCheck(path, "config", "missing")
    if isinstance(document, str):
        return ConfigFileCheck(path, "config", "reset", document)
    if not isinstance(document.get("projects", {}), dict):
        return ConfigFileCheck(path, "config", "unreadable", "its projects are not an object")
    return ConfigFileCheck(path, "config", "fine")


def _checked_settings(path: Path) -> ConfigFileCheck:
    """An invalid file is ignored as a whole, its deny rules included, and print mode does not report it."""
    document = _document(path)
    if document is None:
        return ConfigFileCheck(path, "settings", "missing")
    problem = document if isinstance(document, str) else settings_problem(document)
    return ConfigFileCheck(path, "settings", "ignored" if problem else "fine", problem or "")


def _project_files(project: str) -> Iterator[ConfigFileCheck]:
    root = Path(project)
    if "\0" in project or not root.is_absolute():
        return
    yield _checked_settings(root / ".claude" / "settings.json")
    yield _checked_settings(root / ".claude" / "settings.local.json")
    servers = root / ".mcp.json"
    document = _document(servers)
    if document is None:
        yield ConfigFileCheck(servers, "servers", "missing")
    else:
        is_object = isinstance(document, dict) and isinstance(document.get("mcpServers", {}), dict)
        problem = (
            document if isinstance(document, str) else "" if is_object else "mcpServers is not an object"
        )
        yield ConfigFileCheck(servers, "servers", "ignored" if problem else "fine", problem)


def _document(path: Path) -> Document | str | None:
    """The contents of a file; the reason if it is not an object; None if there is no file."""
    try:
        data = content(path)
    except RecollectError as problem:
        return problem.message
    return None if data is None else parsed(data)


# ---- restore ---------------------------------------------------------------------------------------------


def planned_restore(home: ClaudeHome, others: Iterable[ClaudeHome] = ()) -> ConfigRestore:
    """Merge the config with its copies; nothing is written.

    ``others`` are homes whose clients may share it.
    """
    return _planned(home, others)[0]


def _planned(home: ClaudeHome, others: Iterable[ClaudeHome]) -> tuple[ConfigRestore, ChangePlan | None]:
    if home.config_file is None:
        raise NotFound(f"{home.root}: no config file belongs to it", hint="name its home with --home DIR")
    config = Path(os.path.realpath(home.config_file))
    seen = FileState.at(config) if config.exists() else None
    current = _document(config)
    copies = list(_copies(home, config))
    copies.sort(key=lambda pair: (pair[0].at, pair[0].path.name), reverse=True)
    usable = [(copy.path, found) for copy, found in copies if isinstance(found, dict)]
    if isinstance(current, dict):
        usable.insert(0, (config, current))
    if not usable:
        raise NotFound(
            f"{config}: no copy of it can be read", hint="nothing was changed; the client creates a new one"
        )
    sound = current if isinstance(current, dict) else None
    result = merged([document for _, document in usable], keep_secrets_of_first=sound is not None)
    restore = ConfigRestore(
        config,
        "it is missing" if current is None else current if isinstance(current, str) else "",
        usable[0][0],
        [copy for copy, _ in copies],
        differences(sound or {}, result),
        sorted({one.pid for each in (home, *others) for one in live_sessions(each)}),
    )
    return restore, _change(config, seen, result) if result != sound else None


def restored(home: ClaudeHome, data: Path, others: Iterable[ClaudeHome] = ()) -> Change | None:
    """Carry it out; ``Busy`` where a client runs, because it would overwrite the result."""
    restore, plan = _planned(home, others)
    if plan is None:
        return None
    if restore.open_in:
        raise Busy(
            f"{restore.config}: a client is running (process {restore.open_in[0]}); nothing was changed",
            hint="quit every client first: each rewrites this file",
        )
    return ChangeJournal(data / "undo").apply(plan)


def _change(config: Path, seen: FileState | None, result: Document) -> ChangePlan:
    plan = ChangePlan("config", str(config), config.parent)
    if seen is None:
        plan.create(config, written(result))
    else:
        plan.replace(config, written(result), expected=seen)
    return plan


def _copies(home: ClaudeHome, config: Path) -> Iterator[tuple[ConfigCopy, Document | str]]:
    """The client's backups and the damaged files it set aside, beside the config and in the home."""
    # The target of a link may have another name and place; the client's copies are beside the link.
    named = home.config_file or config
    name = named.name
    seen: set[Path] = {config}
    for directory in dict.fromkeys((home.backups_dir, named.parent, home.root)):
        for path in sorted(_listed(directory)):
            is_copy = path.name.startswith((f"{name}.backup", f"{name}.corrupted"))
            real = Path(os.path.realpath(path))
            if is_copy and real not in seen:
                seen.add(real)
                document = _document(path)
                if document is not None:
                    yield _copy(path, document), document


def _listed(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as cause:
        raise StorageError("list", directory, cause, hint="nothing was changed") from cause


def _copy(path: Path, document: Document | str) -> ConfigCopy:
    try:
        found = path.stat()
    except OSError as cause:
        raise StorageError("look at", path, cause, hint="nothing was changed; try again") from cause
    named = _MILLISECONDS.search(path.name)
    at = int(named[1]) * 10**6 if named else found.st_mtime_ns
    if isinstance(document, str):
        return ConfigCopy(path, at, found.st_size, document)
    projects, servers = document.get("projects"), document.get("mcpServers")
    return ConfigCopy(
        path,
        at,
        found.st_size,
        projects=len(projects) if isinstance(projects, dict) else 0,
        servers=len(servers) if isinstance(servers, dict) else 0,
    )
