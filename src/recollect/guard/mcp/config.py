"""Parse ``.mcp.json``: servers by name, how each is reached, and the hash that trust is given to.

An entry is an instruction to run a program or to contact a host, so it is read strictly. An entry with
anything unknown becomes a ``ServerConfigProblem``, and callers never see it as a server. ``content_hash``
covers what would be run, where, and every text as written; a changed entry has another hash and must be
trusted again. The name is not part of the hash, and trust is never given to a name.

``${VAR}`` and ``${VAR:-default}`` are expanded in ``command``, ``args``, ``env``, ``url`` and ``headers``;
the environment comes in as a mapping. Nothing here opens a file or reads a clock.
"""

from __future__ import annotations

import enum
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

SEPARATOR = "__"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}[A-Za-z0-9-])?")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
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
        found = [match[1] for text in self._texts() for match in _VARIABLE.finditer(text)]
        return tuple(dict.fromkeys(found))

    def _texts(self) -> list[str]:
        pairs = [*self.env, *self.headers]
        return [self.command, *self.args, self.url, *(value for _, value in pairs)]


class ServerConfigProblem(NamedTuple):
    """An entry that is not used, and why. ``name`` is as written, hence hostile."""

    name: str
    why: str


class McpConfig(NamedTuple):
    """What a document holds."""

    servers: tuple[ServerConfig, ...]
    problems: tuple[ServerConfigProblem, ...]


def servers_in(document: object, origin: ServerOrigin) -> McpConfig:
    """The servers under ``mcpServers``; none without that key."""
    if not isinstance(document, dict):
        return McpConfig((), (ServerConfigProblem("", "the file is not a JSON object"),))
    entries = document.get("mcpServers", {})
    if not isinstance(entries, dict):
        return McpConfig((), (ServerConfigProblem("", "mcpServers is not an object"),))
    if len(entries) > _MAX_SERVERS:
        return McpConfig(
            (),
            (
                ServerConfigProblem(
                    "", f"mcpServers has {len(entries)} entries; at most {_MAX_SERVERS} are read"
                ),
            ),
        )
    servers: list[ServerConfig] = []
    problems: list[ServerConfigProblem] = []
    for name, entry in entries.items():
        found = _server(name, entry, origin)
        if isinstance(found, ServerConfig):
            servers.append(found)
        else:
            problems.append(ServerConfigProblem(name, found))
    return McpConfig(tuple(servers), tuple(problems))


def name_problem(name: str) -> str | None:
    """Why a name cannot be used in ``mcp__name__tool``; None when it can."""
    if SEPARATOR in name:
        return "its name contains '__', which separates server and tool"
    if not _NAME.fullmatch(name):
        return "its name is not 1 to 64 letters, digits, '-' and '_', beginning and ending without '_'"
    return None


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

    return _with_texts(server, put_in), tuple(missing)


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


def _with_texts(server: ServerConfig, change: Callable[[str], str]) -> ServerConfig:
    return replace(
        server,
        command=change(server.command),
        args=tuple(change(one) for one in server.args),
        env=tuple((name, change(value)) for name, value in server.env),
        url=change(server.url),
        headers=tuple((name, change(value)) for name, value in server.headers),
    )


def _server(name: str, entry: object, origin: ServerOrigin) -> ServerConfig | str:
    problem = name_problem(name)
    if problem is not None:
        return problem
    if not isinstance(entry, dict):
        return "its entry is not an object"
    kind = entry.get("type", "stdio" if "command" in entry else "http" if "url" in entry else None)
    if kind in ("http", "streamable-http", "streamableHttp", "sse"):
        return _remote(name, entry, ServerTransport.SSE if kind == "sse" else ServerTransport.HTTP, origin)
    if kind == "stdio":
        return _local(name, entry, origin)
    if kind is None:
        return "it has neither command nor url"
    return f"its type is {_shown(kind)}, not stdio, http or sse"


def _local(name: str, entry: dict[str, object], origin: ServerOrigin) -> ServerConfig | str:
    unknown = entry.keys() - {"type", "command", "args", "env"} - _HARMLESS
    if unknown:
        return f"it has an unknown key for a stdio server: {_shown(min(unknown))}"
    command, args = entry.get("command"), entry.get("args", [])
    if not isinstance(command, str) or not command.strip():
        return "its command is not a text"
    if not isinstance(args, list) or not all(isinstance(one, str) for one in args):
        return "its args are not a list of texts"
    env = _pairs(entry.get("env", {}))
    if env is None:
        return "its env is not an object of texts"
    if any(not name or "=" in name for name, _ in env):
        return "its env has a name that is empty or contains '='"
    server = ServerConfig(name, ServerTransport.STDIO, origin, command=command, args=tuple(args), env=env)
    return _within_limits(server)


def _remote(
    name: str, entry: dict[str, object], kind: ServerTransport, origin: ServerOrigin
) -> ServerConfig | str:
    if "headersHelper" in entry:
        return "it has a headersHelper, a program to run for its headers; recollect does not run one"
    unknown = entry.keys() - {"type", "url", "headers"} - _HARMLESS
    if unknown:
        return f"it has an unknown key for an http or sse server: {_shown(min(unknown))}"
    url, headers = entry.get("url"), _pairs(entry.get("headers", {}))
    if not isinstance(url, str) or not url.strip():
        return "its url is not a text"
    if headers is None or not all(_HEADER.fullmatch(header) for header, _ in headers):
        return "its headers are not an object of texts"
    return _within_limits(ServerConfig(name, kind, origin, url=url, headers=headers))


def _within_limits(server: ServerConfig) -> ServerConfig | str:
    texts = [server.command, *server.args, server.url]
    texts += [text for pair in (*server.env, *server.headers) for text in pair]
    if len(texts) > _MAX_ITEMS or sum(map(len, texts)) > _MAX_TEXT:
        return "its entry is too large"
    for text in texts:
        if "\0" in text or not _is_text(text):
            return "it contains a character that is not allowed on a command line"
    if any("\r" in value or "\n" in value for _, value in server.headers):
        return "a header contains a line break"
    return server


def _pairs(value: object) -> tuple[tuple[str, str], ...] | None:
    if not isinstance(value, dict):
        return None
    pairs = tuple((str(name), one) for name, one in value.items() if isinstance(one, str))
    return pairs if len(pairs) == len(value) else None


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can contain
        return False
    return True


def _shown(value: object) -> str:
    return ascii(value)[:60]
