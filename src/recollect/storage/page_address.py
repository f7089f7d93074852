"""The port and the cookie of a page whose address is to outlive its server, where a person chose that."""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.system import fsops
from recollect.system.refusals import as_storage_error


class PageAddress(Struct, frozen=True):
    """What is kept between two servers. The cookie is as secret as the sessions: the file is for its owner only."""

    port: int
    cookie: str


class PageAddressFile:
    """The kept address below a data directory."""

    def __init__(self, data: Path) -> None:
        self._path = data / "page.json"

    def read(self) -> PageAddress | None:
        """The kept address; None where none was asked for, or the file is damaged."""
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=PageAddress)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return found if 1 <= found.port <= 65_535 and len(found.cookie) >= 32 else None

    def keep(self, port: int) -> PageAddress:
        """Keep this port, with the cookie that is known or a new one."""
        before = self.read()
        kept = PageAddress(port, secrets.token_urlsafe(32) if before is None else before.cookie)
        if kept != before:
            with as_storage_error("write", self._path):
                fsops.make_directories(self._path.parent)
                fsops.replace_file(self._path, msgspec.json.encode(kept) + b"\n")
        return kept

    def forget(self) -> bool:
        """Remove it: browsers that were signed in by it are no longer. False where there was none."""
        if not self._path.exists():
            return False
        with as_storage_error("remove", self._path):
            fsops.unlink(self._path)
        return True
