"""Which MCP servers a project has, and for each whether it may be started, and if not why.

Starts nothing, asks nobody: it reads ``.mcp.json`` (the repository's), ``.claude.json`` (the user's, for this
project and for all) and the lists of disabled servers, and holds each entry against the trust store. An entry of
the user for this project stands before the repository's, and that before the user's for all projects.

``READY`` means: its content was trusted here, nobody disabled it, every variable is set and, for the
repository's own entries, the workspace is trusted too (E02). Only ``READY`` servers are ever started.
"""

from __future__ import annotations

import datetime as dt
import enum
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from recollect.errors import NotFound, UsageError
from recollect.model.settings.mcp_config import (
    Origin,
    Problem,
    ServerConfig,
    content_hash,
    expanded,
    servers_in,
)
from recollect.storage.config.mcp_files import Document, read_document
from recollect.storage.config.mcp_trust import Grants, Trusted, TrustStore
from recollect.system.paths import HomeRoot, data_dir


class State(enum.StrEnum):
    """What stands between a server and its start."""

    READY = "ready"
    UNTRUSTED = "untrusted"
    WORKSPACE_UNTRUSTED = "workspace untrusted"
    DISABLED = "disabled"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class KnownServer:
    """One server, whether it may start, and what it may do then."""

    written: ServerConfig
    config: ServerConfig
    hash: str
    state: State
    why: str
    grants: Grants
    source: Path

    @property
    def name(self) -> str:
        """Its key in the file, and in the names of its tools."""
        return self.written.name


@dataclass(frozen=True, slots=True)
class ProjectServers:
    """All servers of one project, and the entries that are not used."""

    project: Path
    store: TrustStore
    servers: tuple[KnownServer, ...]
    problems: tuple[tuple[Path, Problem], ...]

    def named(self, name: str) -> KnownServer:
        """The server with this name; an entry that is not used says why."""
        for server in self.servers:
            if server.name == name:
                return server
        for path, problem in self.problems:
            if problem.name == name:
                raise UsageError(f"MCP server {name!a} in {path}: {problem.why}", hint="correct the entry")
        known = ", ".join(server.name for server in self.servers) or "none"
        raise NotFound(
            f"no MCP server {name!a} in this project",
            hint=f"known here: {known}; `recollect mcp list` shows where each comes from",
        )


@dataclass(slots=True)
class _Gathered:
    servers: dict[str, tuple[ServerConfig, Path]] = field(default_factory=dict)
    problems: list[tuple[Path, Problem]] = field(default_factory=list)
    disabled: dict[str, Path] = field(default_factory=dict)
    workspace_trusted: bool = False
    unreadable_list: Path | None = None


def project_servers(
    project: Path,
    homes: Sequence[HomeRoot],
    *,
    data: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> ProjectServers:
    """The servers of the project at this directory, as these homes' configuration has them."""
    root = Path(os.path.realpath(project))
    store = TrustStore(data if data is not None else data_dir(environ))
    gathered = _gathered(root, homes)
    if gathered.workspace_trusted is False:
        gathered.workspace_trusted = store.workspace_trusted(str(root))
    env = os.environ if environ is None else environ
    known = [
        _judged(server, path, _digested(server, root, env), gathered, store)
        for server, path in gathered.servers.values()
    ]
    return ProjectServers(root, store, tuple(known), tuple(gathered.problems))


def trust(project: ProjectServers, server: KnownServer, grants: Grants, now: dt.datetime) -> None:
    """Trust this very content, with these grants; for a repository's entry the workspace with it."""
    record = Trusted(server.name, str(project.project), now.isoformat(timespec="seconds"), grants)
    workspace = str(project.project) if server.written.origin is Origin.PROJECT else None
    project.store.trust(server.hash, record, workspace=workspace)


def _gathered(root: Path, homes: Sequence[HomeRoot]) -> _Gathered:
    found = _Gathered()
    configs = [read_document(home.config_file) for home in homes]
    entries = [(config, _project_entry(config, root)) for config in configs]
    for config, entry in entries:
        if config.problem:
            found.problems.append((config.path, Problem("", config.problem)))
            found.unreadable_list = config.path
        # Strictly true: a text or a number in this place is not a consent.
        found.workspace_trusted |= entry.get("hasTrustDialogAccepted") is True
        _disable(found, entry, config.path)
        _take(found, Document(config.path, entry), Origin.LOCAL)
    _take(found, read_document(root / ".mcp.json"), Origin.PROJECT)
    for config, _ in entries:
        _take(found, config, Origin.USER)
    for path in _settings_files(root, homes):
        settings = read_document(path)
        if settings.problem:
            found.problems.append((path, Problem("", settings.problem)))
            found.unreadable_list = path
        _disable(found, settings.value, path)
    return found


def _settings_files(root: Path, homes: Iterable[HomeRoot]) -> list[Path]:
    own = [root / ".claude" / "settings.json", root / ".claude" / "settings.local.json"]
    return [*(home.path / "settings.json" for home in homes), *own]


def _project_entry(config: Document, root: Path) -> dict[str, object]:
    projects = config.value.get("projects") if isinstance(config.value, dict) else None
    entry = projects.get(str(root)) if isinstance(projects, dict) else None
    return entry if isinstance(entry, dict) else {}


def _take(found: _Gathered, document: Document, origin: Origin) -> None:
    if document.problem and origin is Origin.PROJECT:
        found.problems.append((document.path, Problem("", document.problem)))
    if document.value is None:
        return
    read = servers_in(document.value, origin)
    found.problems += [(document.path, problem) for problem in read.problems]
    for server in read.servers:
        found.servers.setdefault(server.name, (server, document.path))


def _disable(found: _Gathered, holder: object, path: Path) -> None:
    """Note whom a list disables. Being enabled there is by name only, and so is not trust in any content."""
    if not isinstance(holder, dict):
        return
    names = holder.get("disabledMcpjsonServers", [])
    if not isinstance(names, list):
        found.problems.append((path, Problem("", "disabledMcpjsonServers is not a list")))
        found.unreadable_list = path
        return
    for name in names:
        if isinstance(name, str):
            found.disabled.setdefault(name, path)


class _Digested(NamedTuple):
    config: ServerConfig
    missing: tuple[str, ...]
    hash: str


def _digested(server: ServerConfig, root: Path, env: Mapping[str, str]) -> _Digested:
    config, missing = expanded(server, env)
    return _Digested(config, missing, content_hash(server, config, str(root)))


def _judged(
    server: ServerConfig, path: Path, digested: _Digested, found: _Gathered, store: TrustStore
) -> KnownServer:
    record = store.trusted(digested.hash)
    state, why = _state(server, digested.missing, record, found)
    grants = record.grants if record else Grants()
    return KnownServer(server, digested.config, digested.hash, state, why, grants, path)


def _state(
    server: ServerConfig, missing: tuple[str, ...], record: Trusted | None, found: _Gathered
) -> tuple[State, str]:
    of_repository = server.origin is Origin.PROJECT
    if of_repository and server.name in found.disabled:
        return State.DISABLED, f"disabled in {found.disabled[server.name]}"
    if of_repository and found.unreadable_list is not None:
        return State.DISABLED, f"{found.unreadable_list} cannot be read, and it could disable this server"
    if missing:
        return State.INCOMPLETE, f"not set: {', '.join(missing)}"
    if record is None:
        return State.UNTRUSTED, "its content was not trusted here, or was changed since"
    if of_repository and not found.workspace_trusted:
        return State.WORKSPACE_UNTRUSTED, "the workspace is not trusted"
    return State.READY, ""
