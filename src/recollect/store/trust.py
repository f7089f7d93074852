"""Which MCP servers the user trusts: hashes of their entries, their grants, and their tools' descriptions.

One small file in our own data directory, ``mcp-trust.json``, mode 0600, replaced as a whole under a lock.
Trust is given to a hash of content (``guard.mcp.servers.content_hash``), never to a name. Beside it are the
user's grants (hosts, directories) and the hashes of the tools' descriptions when they were first listed, so
that a later change of a description is noticed.

A file that cannot be read or parsed trusts nothing and is an error: it is never treated as an empty one that
the next write would replace.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from recollect.errors import DamagedData
from recollect.system import fsops
from recollect.system.fsops import as_storage_error
from recollect.system.lock import FileLock

_NAME = "mcp-trust.json"
_MAX_BYTES = 16 * 1024 * 1024


class ServerGrants(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a trusted server may do beyond reading: hosts it may contact, directories it may write."""

    allow_hosts: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    unconfined: bool = False
    private_address: bool = False


class TrustedServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One trusted entry. ``tools`` is None until its tools were listed for the first time."""

    name: str
    directory: str
    at: str
    grants: ServerGrants = ServerGrants()
    tools: dict[str, str] | None = None


class _TrustFile(msgspec.Struct, forbid_unknown_fields=True):
    version: int = 1
    servers: dict[str, TrustedServer] = {}
    workspaces: list[str] = []


class TrustStore:
    """The file in one data directory. Reading creates nothing."""

    def __init__(self, data: Path) -> None:
        self.path = data / _NAME

    def trusted(self, content_hash: str) -> TrustedServer | None:
        """The grants of this content, or None if it is not trusted."""
        return self._read().servers.get(content_hash)

    def workspace_trusted(self, directory: str) -> bool:
        """Whether a server of exactly this directory was trusted (a parent's trust does not count, R22)."""
        return directory in self._read().workspaces

    def trust(self, content_hash: str, record: TrustedServer, *, workspace: str | None = None) -> None:
        """Trust this content; ``workspace`` is the directory whose repository it came from."""

        def change(file: _TrustFile) -> None:
            file.servers[content_hash] = record
            if workspace is not None and workspace not in file.workspaces:
                file.workspaces.append(workspace)

        self._change(change)

    def revoke(self, content_hash: str) -> bool:
        """Forget this content; returns whether it was trusted."""
        known = self.trusted(content_hash) is not None
        if known:
            self._change(lambda file: file.servers.pop(content_hash, None))
        return known

    def pin(self, content_hash: str, tools: Mapping[str, str], *, only_first: bool = False) -> dict[str, str]:
        """Store the tools' descriptions, and return what is stored; with ``only_first`` an earlier list
        stays.
        """
        known = self.trusted(content_hash)
        if only_first and known is not None and known.tools is not None:
            return dict(known.tools)
        kept: dict[str, str] = {}

        def change(file: _TrustFile) -> None:
            record = file.servers.get(content_hash)
            if record is None:  # revoked while its tools were being listed
                return
            if record.tools is None or not only_first:
                record = msgspec.structs.replace(record, tools=dict(tools))
                file.servers[content_hash] = record
            kept.update(record.tools or {})

        self._change(change)
        return kept

    def _change(self, change: Callable[[_TrustFile], object]) -> None:
        with as_storage_error("write", self.path):
            fsops.make_directories(self.path.parent)
            lock = FileLock(self.path.with_suffix(".lock"), guards=self.path)
            with lock:
                file = self._read()
                change(file)
                encoded = msgspec.json.format(msgspec.json.encode(file), indent=1)
                fsops.replace_file(self.path, encoded + b"\n")

    def _read(self) -> _TrustFile:
        if not os.path.lexists(self.path):
            return _TrustFile()
        hint = "make it readable, or move it away"
        with as_storage_error("read", self.path, hint), fsops.reading(self.path) as fd:
            data = fsops.pread(fd, _MAX_BYTES, 0)
        try:
            file = msgspec.json.decode(data, type=_TrustFile)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
            raise self._damaged("not a trust file") from cause
        if file.version != 1:
            raise self._damaged(f"written by another version ({file.version})")
        return file

    def _damaged(self, what: str) -> DamagedData:
        return DamagedData(
            f"{self.path}: {what}; no MCP server is trusted",
            hint="move it away and trust the servers again with `recollect mcp trust NAME`",
        )
