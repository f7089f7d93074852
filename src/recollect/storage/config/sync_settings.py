"""Sync settings: the login, the encryption key, and the user's lists of projects.

The login (address, token, machine) is ``sync.json`` beside ``config.toml``, readable by its owner only; a
file that others can read is refused. The encryption key is in our data directory, equally private, and is
created once. Lists of projects are in ``config.toml``::

    [sync]
    allow = ["~/work"]             # only what is below; default: everything
    deny = ["~/work/secret", "/srv/*/private"]   # takes precedence over allow

A token is never printed; the ``repr`` of ``SyncLogin`` leaves it out.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.errors import DamagedData, NotFound, StorageError, UsageError
from recollect.storage.config.config_file import config_section, refuse
from recollect.system import fsops, locations
from recollect.system.refusals import as_storage_error

_LOGIN, _KEY = "sync.json", "sync.key"
KEY_BYTES = 64
_EXAMPLE = 'write allow = ["~/work"] below [sync]'


class SyncLogin(Struct, frozen=True):
    """Address and identity. The token is "" for a folder."""

    address: str
    token: str = ""
    machine: str = ""
    encrypt: bool = False
    redact: bool = True
    plain_http: bool = False
    # When the token ends, in milliseconds.
    expires: int | None = None

    def __repr__(self) -> str:
        return f"SyncLogin({self.address!r})"


class SyncProjects(Struct, frozen=True):
    """Which directories' sessions are sent."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def allows(self, directory: str) -> bool:
        """Whether sessions of this directory may be sent."""
        if any(_covers(entry, directory) for entry in self.deny):
            return False
        return not self.allow or any(_covers(entry, directory) for entry in self.allow)


def _covers(entry: str, directory: str) -> bool:
    entry = entry.rstrip("/") or "/"
    above = [directory, *map(str, Path(directory).parents)] if directory else [""]
    return any(fnmatchcase(one, entry) for one in above)


def login_file(environ: Mapping[str, str] | None = None) -> Path:
    return locations.config_file(environ).with_name(_LOGIN)


def save_login(login: SyncLogin, environ: Mapping[str, str] | None = None) -> Path:
    """Save a login, readable by its owner only."""
    path = login_file(environ)
    with as_storage_error("write", path):
        fsops.make_directories(path.parent)
        fsops.replace_file(path, msgspec.json.format(msgspec.json.encode(login), indent=2) + b"\n")
    return path


def load_login(environ: Mapping[str, str] | None = None) -> SyncLogin:
    """Load the saved login."""
    path = login_file(environ)
    try:
        data = _private(path)
    except FileNotFoundError:
        raise NotFound("sync: not logged in", hint="`recollect sync login URL` (or a directory)") from None
    except OSError as cause:
        raise StorageError("read", path, cause, hint="make it readable, or log in again") from cause
    try:
        return msgspec.json.decode(data, type=SyncLogin)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # The contents are not quoted: they include a token.
        raise DamagedData(f"{path}: not a login", hint="`recollect sync login URL` writes it again") from None


def encryption_key(data: Path, *, make: bool) -> bytes:
    """The key that encrypts lines; created if missing and ``make`` is set."""
    path = data / _KEY
    try:
        with contextlib.suppress(FileNotFoundError):
            key = _of_hex(_private(path))
            if len(key) != KEY_BYTES:
                raise DamagedData(
                    f"{path}: not a key", hint="copy it again from the machine where it was created"
                )
            return key
        if not make:
            raise NotFound(
                f"{path}: there is no key to decrypt lines with",
                hint="copy it from the machine that encrypted them",
            )
        key = secrets.token_bytes(KEY_BYTES)
        fsops.make_directories(data)
        fd = fsops.create_new(path)
        try:
            fsops.write_all(fd, key.hex().encode() + b"\n")
            fsops.sync_file(fd)
        finally:
            fsops.close(fd)
        fsops.sync_dir(data)
    except FileExistsError:
        return encryption_key(data, make=False)
    except OSError as cause:
        raise StorageError("read", path, cause, hint="make it readable for its owner only") from cause
    return key


def _of_hex(text: bytes) -> bytes:
    try:
        return bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        return b""


def _private(path: Path) -> bytes:
    """The bytes of a small file that only its owner may read."""
    fd = fsops.open_nofollow(path)
    try:
        found = os.fstat(fd)
        if os.name == "posix" and stat.S_IMODE(found.st_mode) & 0o077:
            raise UsageError(
                f"{path}: other users may read it", hint=f"chmod 600 {path}, and consider a new token or key"
            )
        return fsops.pread(fd, 1 << 16, 0)
    finally:
        fsops.close_quietly(fd)


def projects_to_send(environ: Mapping[str, str] | None = None) -> SyncProjects:
    """The user's lists. One that cannot be parsed is an error: what should stay local must not be sent."""
    file = locations.config_file(environ)
    section = config_section(file, "sync", ("allow", "deny"))
    return SyncProjects(_paths(file, section, "allow"), _paths(file, section, "deny"))


def _paths(file: Path, section: dict[str, object], name: str) -> tuple[str, ...]:
    entries = section.get(name, [])
    if not isinstance(entries, list) or not all(isinstance(entry, str) and entry for entry in entries):
        refuse(file, f"sync.{name} is not a list of directories", _EXAMPLE)
    found = tuple(str(Path(entry).expanduser()) for entry in entries)
    if not all(entry.startswith(("/", "*")) or os.name == "nt" for entry in found):
        refuse(file, f"sync.{name}: an entry is not an absolute directory", _EXAMPLE)
    return found
