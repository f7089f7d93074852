"""The MCP servers of a project, and whether each may be started, or why not.

Starts nothing and asks nothing: it reads ``.mcp.json`` (the repository's), ``.claude.json`` (the user's, for
this project and for all), a home's ``config.json`` (the user's, for this project; its trust does not count here) and the lists of disabled servers, and compares each entry with the trust store. The
user's entry for this project takes precedence over the repository's, and that over the user's for all
projects.

``READY`` means: its content is trusted, it is not disabled, every variable is set and, for the repository's
own entries, the workspace is trusted too (E02). Only ``READY`` servers are ever started.
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
from recollect.guard.mcp.config import (
    ServerConfig,
    ServerConfigProblem,
    ServerOrigin,
    content_hash,
    expanded,
    servers_in,
)
from recollect.store.client_settings import McpDocument, read_document
from recollect.store.trust import ServerGrants, TrustedServer, TrustStore
from recollect.system.locations import HomeRoot, data_dir


class ServerState(enum.StrEnum):
    """Why a server may not be started, or ``READY``."""

    READY = "ready"
    UNTRUSTED = "untrusted"
    WORKSPACE_UNTRUSTED = "workspace untrusted"
    DISABLED = "disabled"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class KnownServer:
    """One server, whether it may start, and its grants."""

    written: ServerConfig
    config: ServerConfig
    hash: str
    state: ServerState
    why: str
    grants: ServerGrants
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
    problems: tuple[tuple[Path, ServerConfigProblem], ...]

    def named(self, name: str) -> KnownServer:
        """The server with this name; for an unused entry the error says why."""
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
class _ServerSources:
    servers: dict[str, tuple[ServerConfig, Path]] = field(default_factory=dict)
    problems: list[tuple[Path, ServerConfigProblem]] = field(default_factory=list)
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
    """The servers of the project at this directory, in these homes' configuration."""
    root = Path(os.path.realpath(project))
    store = TrustStore(data if data is not None else data_dir(environ))
    sources = _collected_sources(root, homes)
    if sources.workspace_trusted is False:
        sources.workspace_trusted = store.workspace_trusted(str(root))
    env = os.environ if environ is None else environ
    known = [
        _judged(server, path, _digested(server, root, env), sources, store)
        for server, path in sources.servers.values()
    ]
    return ProjectServers(root, store, tuple(known), tuple(sources.problems))


def trust(project: ProjectServers, server: KnownServer, grants: ServerGrants, now: dt.datetime) -> None:
    """Trust exactly this content, with these grants; for a repository's entry also the workspace."""
    record = TrustedServer(server.name, str(project.project), now.isoformat(timespec="seconds"), grants)
    workspace = str(project.project) if server.written.origin is ServerOrigin.PROJECT else None
    project.store.trust(server.hash, record, workspace=workspace)


def _collected_sources(root: Path, homes: Sequence[HomeRoot]) -> _ServerSources:
    found = _ServerSources()
    configs = [read_document(home.config_file) for home in homes]
    entries = [(config, _project_entry(config, root)) for config in configs]
    for config, entry in entries:
        if config.problem:
            found.problems.append((config.path, ServerConfigProblem("", config.problem)))
            found.unreadable_list = config.path
        # Strictly true: a text or a number here is not consent.
        found.workspace_trusted |= entry.get("hasTrustDialogAccepted") is True
        _disable(found, entry, config.path)
        _take(found, McpDocument(config.path, entry), ServerOrigin.LOCAL)
    for home in homes:
        older = read_document(home.path / "config.json")
        _take(found, McpDocument(older.path, _project_entry(older, root)), ServerOrigin.LOCAL)
    _take(found, read_document(root / ".mcp.json"), ServerOrigin.PROJECT)
    for config, _ in entries:
        _take(found, config, ServerOrigin.USER)
    for path in _settings_files(root, homes):
        settings = read_document(path)
        if settings.problem:
            found.problems.append((path, ServerConfigProblem("", settings.problem)))
            found.unreadable_list = path
        _disable(found, settings.value, path)
    return found


def _settings_files(root: Path, homes: Iterable[HomeRoot]) -> list[Path]:
    own = [root / ".claude" / "settings.json", root / ".claude" / "settings.local.json"]
    return [*(home.path / "settings.json" for home in homes), *own]


def _project_entry(config: McpDocument, root: Path) -> dict[str, object]:
    projects = config.value.get("projects") if isinstance(config.value, dict) else None
    entry = projects.get(str(root)) if isinstance(projects, dict) else None
    return entry if isinstance(entry, dict) else {}


def _take(found: _ServerSources, document: McpDocument, origin: ServerOrigin) -> None:
    if document.problem and origin is ServerOrigin.PROJECT:
        found.problems.append((document.path, ServerConfigProblem("", document.problem)))
    if document.value is None:
        return
    read = servers_in(document.value, origin)
    found.problems += [(document.path, problem) for problem in read.problems]
    for server in read.servers:
        found.servers.setdefault(server.name, (server, document.path))


def _disable(found: _ServerSources, holder: object, path: Path) -> None:
    """Record the servers that a list disables. An enabling list names no content, so it is not trust."""
    if not isinstance(holder, dict):
        return
    names = holder.get("disabledMcpjsonServers", [])
    if not isinstance(names, list):
        found.problems.append((path, ServerConfigProblem("", "disabledMcpjsonServers is not a list")))
        found.unreadable_list = path
        return
    for name in names:
        if isinstance(name, str):
            found.disabled.setdefault(name, path)


class _ServerDigest(NamedTuple):
    config: ServerConfig
    missing: tuple[str, ...]
    hash: str


def _digested(server: ServerConfig, root: Path, env: Mapping[str, str]) -> _ServerDigest:
    config, missing = expanded(server, env)
    return _ServerDigest(config, missing, content_hash(server, config, str(root)))


def _judged(
    server: ServerConfig, path: Path, digested: _ServerDigest, found: _ServerSources, store: TrustStore
) -> KnownServer:
    record = store.trusted(digested.hash)
    state, why = _state(server, digested.missing, record, found)
    grants = record.grants if record else ServerGrants()
    return KnownServer(server, digested.config, digested.hash, state, why, grants, path)


def _state(
    server: ServerConfig, missing: tuple[str, ...], record: TrustedServer | None, found: _ServerSources
) -> tuple[ServerState, str]:
    of_repository = server.origin is ServerOrigin.PROJECT
    if of_repository and server.name in found.disabled:
        return ServerState.DISABLED, f"disabled in {found.disabled[server.name]}"
    if of_repository and found.unreadable_list is not None:
        return (
            ServerState.DISABLED,
            f"{found.unreadable_list} cannot be read, and it could disable this server",
        )
    if missing:
        return ServerState.INCOMPLETE, f"not set: {', '.join(missing)}"
    if record is None:
        return ServerState.UNTRUSTED, "its content is not trusted here, or has changed since"
    if of_repository and not found.workspace_trusted:
        return ServerState.WORKSPACE_UNTRUSTED, "the workspace is not trusted"
    return ServerState.READY, ""
