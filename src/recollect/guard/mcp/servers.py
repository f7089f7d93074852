"""The MCP servers of a project: entries by name, how each is reached, and whether it may be started, or why not.

Starts nothing and asks nothing: it reads ``.mcp.json`` (the repository's), ``.claude.json`` (the user's, for this project
and for all), a home's ``config.json`` (the user's, for this project; its trust does not count here) and the lists of
disabled servers, and compares each entry with the trust store. The user's entry for this project takes precedence over
the repository's, and that over the user's for all projects.

An entry is an instruction to run a program or to contact a host, so it is read strictly: one with anything unknown is a
problem, never a server. Trust is given to ``content_hash``, which covers what would be run, where, and every text as
written; a changed entry must be trusted again. The name is not part of the hash, and trust is never given to a name.
``${VAR}`` and ``${VAR:-default}`` are expanded in ``command``, ``args``, ``env``, ``url`` and ``headers``.

``READY`` means: its content is trusted, it is not disabled, every variable is set and, for the repository's own entries,
the workspace is trusted too (E02). Only ``READY`` servers are ever started.
"""

from __future__ import annotations

import datetime as dt
import enum
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from recollect.errors import NotFound, UsageError
from recollect.store.client_settings import McpDocument, read_document
from recollect.store.trust import ServerGrants, TrustedServer, TrustStore
from recollect.system.locations import HomeRoot, data_dir

SEPARATOR = "__"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}[A-Za-z0-9-])?")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")  # JSON can contain half a surrogate pair
_MAX_SERVERS = 200
_MAX_TEXT = 32_768
_MAX_ITEMS = 1_000
# Keys of other clients that do not change what is run.
_HARMLESS = frozenset({"description", "disabled", "timeout", "alwaysAllow", "autoApprove", "note", "icon"})


class ServerTransport(enum.StrEnum):
    """How a server is reached."""

    STDIO = "stdio"
    HTTP = "http"
    SSE = "sse"


class ServerOrigin(enum.StrEnum):
    """Who wrote the entry: the repository, the user for this project, or the user for all projects."""

    PROJECT = "project"
    LOCAL = "local"
    USER = "user"


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One server as written (or, after ``expanded``, as it would be started)."""

    name: str
    kind: ServerTransport
    origin: ServerOrigin
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the environment variables it reads, each once, in order."""
        values = (value for _, value in (*self.env, *self.headers))
        texts = (self.command, *self.args, self.url, *values)
        return tuple(dict.fromkeys(match[1] for text in texts for match in _VARIABLE.finditer(text)))


class _Unusable(Exception):
    """Why an entry is not used."""


Problem = tuple[str, str]
"""The name of an entry that is not used, as written and hence hostile, and why; "" for the whole file."""


def servers_in(document: object, origin: ServerOrigin) -> tuple[list[ServerConfig], list[Problem]]:
    """The servers under ``mcpServers``, none without that key, and the entries that are not used."""
    if not isinstance(document, dict):
        return [], [("", "the file is not a JSON object")]
    entries = document.get("mcpServers", {})
    if not isinstance(entries, dict):
        return [], [("", "mcpServers is not an object")]
    if len(entries) > _MAX_SERVERS:
        return [], [("", f"mcpServers has {len(entries)} entries; at most {_MAX_SERVERS} are read")]
    servers: list[ServerConfig] = []
    problems: list[Problem] = []
    for name, entry in entries.items():
        try:
            servers.append(_server(name, entry, origin))
        except _Unusable as why:
            problems.append((name, str(why)))
    return servers, problems


def expanded(server: ServerConfig, environ: Mapping[str, str]) -> tuple[ServerConfig, tuple[str, ...]]:
    """The server with its variables expanded, and the names of those that are not set and have no default."""
    missing: dict[str, None] = {}

    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        # As in a shell, ``:-`` also applies to a variable that is set but empty.
        found = environ.get(name) or default if default is not None else environ.get(name)
        if found is None:
            missing[name] = None
            return match[0]
        return found

    def put_in(text: str) -> str:
        return _VARIABLE.sub(value, text)

    changed = replace(
        server,
        command=put_in(server.command),
        args=tuple(map(put_in, server.args)),
        env=tuple((name, put_in(text)) for name, text in server.env),
        url=put_in(server.url),
        headers=tuple((name, put_in(text)) for name, text in server.headers),
    )
    return changed, tuple(missing)


def content_hash(server: ServerConfig, expanded_server: ServerConfig, directory: str) -> str:
    """What trust is given to: the entry as written, the resulting program and address, and its directory.

    The directory counts because ``node ./server.js`` is another program in another directory. Values of
    ``env`` and ``headers`` count as written, not as expanded: renewing a token must not require new trust.
    """
    meant = {
        "kind": server.kind.value,
        "origin": server.origin.value,
        "directory": directory if server.kind is ServerTransport.STDIO else "",
        "written": [server.command, server.args, server.env, server.url, server.headers],
        "becomes": [expanded_server.command, expanded_server.args, expanded_server.url],
    }
    canonical = json.dumps(meant, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _server(name: str, entry: object, origin: ServerOrigin) -> ServerConfig:
    if SEPARATOR in name:
        raise _Unusable("its name contains '__', which separates server and tool")
    if not _NAME.fullmatch(name):
        rule = "1 to 64 letters, digits, '-' and '_', beginning and ending without '_'"
        raise _Unusable(f"its name is not {rule}")
    if not isinstance(entry, dict):
        raise _Unusable("its entry is not an object")
    kind = entry.get("type", "stdio" if "command" in entry else "http" if "url" in entry else None)
    if kind == "stdio":
        return _within_limits(_local(name, entry, origin))
    if kind in ("http", "streamable-http", "streamableHttp", "sse"):
        transport = ServerTransport.SSE if kind == "sse" else ServerTransport.HTTP
        return _within_limits(_remote(name, entry, transport, origin))
    if kind is None:
        raise _Unusable("it has neither command nor url")
    raise _Unusable(f"its type is {_shown(kind)}, not stdio, http or sse")


def _local(name: str, entry: dict[str, object], origin: ServerOrigin) -> ServerConfig:
    _require_known(entry, {"type", "command", "args", "env"}, "a stdio")
    command, args = entry.get("command"), entry.get("args", [])
    if not isinstance(command, str) or not command.strip():
        raise _Unusable("its command is not a text")
    if not isinstance(args, list) or not all(isinstance(one, str) for one in args):
        raise _Unusable("its args are not a list of texts")
    env = _pairs(entry.get("env", {}))
    if env is None:
        raise _Unusable("its env is not an object of texts")
    if any(not name or "=" in name for name, _ in env):
        raise _Unusable("its env has a name that is empty or contains '='")
    return ServerConfig(name, ServerTransport.STDIO, origin, command=command, args=tuple(args), env=env)


def _remote(name: str, entry: dict[str, object], kind: ServerTransport, origin: ServerOrigin) -> ServerConfig:
    if "headersHelper" in entry:
        raise _Unusable(
            "it has a headersHelper, a program to run for its headers; recollect does not run one"
        )
    _require_known(entry, {"type", "url", "headers"}, "an http or sse")
    url, headers = entry.get("url"), _pairs(entry.get("headers", {}))
    if not isinstance(url, str) or not url.strip():
        raise _Unusable("its url is not a text")
    if headers is None or not all(_HEADER.fullmatch(header) for header, _ in headers):
        raise _Unusable("its headers are not an object of texts")
    return ServerConfig(name, kind, origin, url=url, headers=headers)


def _require_known(entry: dict[str, object], keys: set[str], kind: str) -> None:
    unknown = entry.keys() - keys - _HARMLESS
    if unknown:
        raise _Unusable(f"it has an unknown key for {kind} server: {_shown(min(unknown))}")


def _within_limits(server: ServerConfig) -> ServerConfig:
    texts = [server.command, *server.args, server.url]
    texts += [text for pair in (*server.env, *server.headers) for text in pair]
    if len(texts) > _MAX_ITEMS or sum(map(len, texts)) > _MAX_TEXT:
        raise _Unusable("its entry is too large")
    if _NOT_TEXT.search("".join(texts)):
        raise _Unusable("it contains a character that is not allowed on a command line")
    if any("\r" in value or "\n" in value for _, value in server.headers):
        raise _Unusable("a header contains a line break")
    return server


def _pairs(value: object) -> tuple[tuple[str, str], ...] | None:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        return None
    return tuple((str(name), one) for name, one in value.items())


def _shown(value: object) -> str:
    return ascii(value)[:60]


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
    problems: tuple[tuple[Path, str, str], ...]
    """File, name of the entry or "" for all of the file, and why."""

    def named(self, name: str) -> KnownServer:
        """The server with this name; for an unused entry the error says why."""
        for server in self.servers:
            if server.name == name:
                return server
        for path, entry, why in self.problems:
            if entry == name:
                raise UsageError(f"MCP server {name!a} in {path}: {why}", hint="correct the entry")
        known = ", ".join(server.name for server in self.servers) or "none"
        raise NotFound(
            f"no MCP server {name!a} in this project",
            hint=f"known here: {known}; `recollect mcp list` shows where each comes from",
        )


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
    sources = _Sources(root, homes)
    if not sources.workspace_trusted:
        sources.workspace_trusted = store.workspace_trusted(str(root))
    known = []
    for server, path in sources.servers.values():
        config, missing = expanded(server, os.environ if environ is None else environ)
        digest = content_hash(server, config, str(root))
        record = store.trusted(digest)
        state, why = sources.state(server, missing, is_trusted=record is not None)
        grants = record.grants if record else ServerGrants()
        known.append(KnownServer(server, config, digest, state, why, grants, path))
    return ProjectServers(root, store, tuple(known), tuple(sources.problems))


def trust(project: ProjectServers, server: KnownServer, grants: ServerGrants, now: dt.datetime) -> None:
    """Trust exactly this content, with these grants; for a repository's entry also the workspace."""
    record = TrustedServer(server.name, str(project.project), now.isoformat(timespec="seconds"), grants)
    workspace = str(project.project) if server.written.origin is ServerOrigin.PROJECT else None
    project.store.trust(server.hash, record, workspace=workspace)


class _Sources:
    """What the configuration files of a project say about its servers."""

    def __init__(self, root: Path, homes: Sequence[HomeRoot]) -> None:
        self.servers: dict[str, tuple[ServerConfig, Path]] = {}
        self.problems: list[tuple[Path, str, str]] = []
        self.workspace_trusted = False
        self._disabled: dict[str, Path] = {}
        self._unreadable_list: Path | None = None
        configs = [read_document(home.config_file) for home in homes]
        for config in configs:
            entry = _project_entry(config, root)
            # Strictly true: a text or a number here is not consent.
            self.workspace_trusted |= entry.get("hasTrustDialogAccepted") is True
            self._disable(config, entry)
            self._take(McpDocument(config.path, entry), ServerOrigin.LOCAL)
        for home in homes:
            older = read_document(home.path / "config.json")
            self._take(McpDocument(older.path, _project_entry(older, root)), ServerOrigin.LOCAL)
        self._take(read_document(root / ".mcp.json"), ServerOrigin.PROJECT)
        for config in configs:
            self._take(config, ServerOrigin.USER)
        own = [root / ".claude" / name for name in ("settings.json", "settings.local.json")]
        for path in (*(home.path / "settings.json" for home in homes), *own):
            settings = read_document(path)
            self._disable(settings, settings.value)

    def _take(self, document: McpDocument, origin: ServerOrigin) -> None:
        if document.problem and origin is ServerOrigin.PROJECT:
            self.problems.append((document.path, "", document.problem))
        if document.value is None:
            return
        servers, problems = servers_in(document.value, origin)
        self.problems += [(document.path, *problem) for problem in problems]
        for server in servers:
            self.servers.setdefault(server.name, (server, document.path))

    def _disable(self, document: McpDocument, holder: object) -> None:
        """Record the servers that a list disables. An enabling list names no content, so it is not trust."""
        problem = document.problem
        names = holder.get("disabledMcpjsonServers", []) if isinstance(holder, dict) else []
        if not problem and not isinstance(names, list):
            problem = "disabledMcpjsonServers is not a list"
        if problem:
            self.problems.append((document.path, "", problem))
            self._unreadable_list = document.path
        for name in names if isinstance(names, list) else ():
            if isinstance(name, str):
                self._disabled.setdefault(name, document.path)

    def state(
        self, server: ServerConfig, missing: Sequence[str], *, is_trusted: bool
    ) -> tuple[ServerState, str]:
        of_repository = server.origin is ServerOrigin.PROJECT
        if of_repository and server.name in self._disabled:
            return ServerState.DISABLED, f"disabled in {self._disabled[server.name]}"
        if of_repository and self._unreadable_list is not None:
            why = f"{self._unreadable_list} cannot be read, and it could disable this server"
            return ServerState.DISABLED, why
        if missing:
            return ServerState.INCOMPLETE, f"not set: {', '.join(missing)}"
        if not is_trusted:
            return ServerState.UNTRUSTED, "its content is not trusted here, or has changed since"
        if of_repository and not self.workspace_trusted:
            return ServerState.WORKSPACE_UNTRUSTED, "the workspace is not trusted"
        return ServerState.READY, ""


def _project_entry(config: McpDocument, root: Path) -> dict[str, object]:
    projects = config.value.get("projects") if isinstance(config.value, dict) else None
    entry = projects.get(str(root)) if isinstance(projects, dict) else None
    return entry if isinstance(entry, dict) else {}
