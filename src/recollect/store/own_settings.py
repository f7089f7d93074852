"""The user's prices, ignored secrets and sync settings: sections of config.toml, and the login beside it.

Models that are not in the list or cost this user a different amount, secrets that are not reported, and what is sent::

    [prices."claude-nightly"]        # and its dated releases; "claude-nightly*": all names that begin so
    input = "3.00"                   # dollars per million tokens: text, or a number
    output = 15
    cache_write_5m = "3.75"          # left out: 1.25 x input, 2 x input and 0.1 x input,
    cache_write_1h = "6.00"          # Anthropic's published multiples
    cache_read = "0.30"
    web_search = 10                  # dollars per thousand searches; left out: 10

    [prices."claude-nightly-fast"]   # fast mode has a price of its own or none

    [secrets]
    ignore = ["jwt:1a2b3c4d"]        # as `recollect secrets` prints them

    [sync]
    allow = ["~/work"]               # only what is below; default: everything
    deny = ["~/work/secret", "/srv/*/private"]   # takes precedence over allow

The login (address, token, machine) is ``sync.json`` beside ``config.toml``, the encryption key is in our data directory; both
are readable by their owner only, and refused where others can read them. A token is never printed.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.errors import DamagedData, NotFound, StorageError, UsageError
from recollect.model.cost.prices import CACHE_MULTIPLES, PriceList
from recollect.model.secrets import KEY_BYTES as FINGERPRINT_KEY_BYTES
from recollect.store.config_file import config_section, refuse
from recollect.system import fsops, locations
from recollect.system.fsops import as_storage_error
from recollect.system.whole_files import write_new

_REQUIRED = ("input", "output")
_KEYS = (*_REQUIRED, *CACHE_MULTIPLES, "web_search")
_EXAMPLE = 'write dollars per million tokens, such as input = "3.00"'
# The last list: a command asks for it once per session, and the file rarely changes.
_last: tuple[tuple[Path, int, int], PriceList] | None = None


def price_list() -> PriceList:
    """The effective prices: the built-in list with the user's own taking precedence."""
    global _last  # noqa: PLW0603 - one remembered value, replaced as a whole
    file = locations.config_file()
    try:
        there = file.stat()
        key = (file, there.st_mtime_ns, there.st_size)
    except OSError:  # missing or unreadable: reading reports which
        key = (file, -1, -1)
    if _last is None or _last[0] != key:
        _last = (key, PriceList(price_overrides()))
    return _last[1]


def price_overrides() -> dict[str, dict[str, str]]:
    """The user's own prices, checked, in the form that ``model.cost.prices.PriceList`` takes."""
    file = locations.config_file()
    sections = config_section(file, "prices")
    return {
        model.lower(): _checked(file, model, prices_section) for model, prices_section in sections.items()
    }


def _checked(file: Path, model: str, prices_section: object) -> dict[str, str]:
    section = f'prices."{model}"'
    if not isinstance(prices_section, dict):
        refuse(file, f"{section} is not a section", f"write [{section}] and the prices below it")
    if not model.strip("* "):
        refuse(file, f"{section} names no model", 'write [prices."name of the model"]')
    for key, value in prices_section.items():
        if isinstance(value, dict):
            quoted = f'put the whole name in quotes, as in [prices."{model}.{key}"]'
            refuse(file, f"{section}.{key} is a section inside a section", quoted)
        if key not in _KEYS:
            refuse(file, f"{section}.{key} is not a price", f"the prices are {', '.join(_KEYS)}")
    for key in _REQUIRED:
        if key not in prices_section:
            refuse(file, f"{section}.{key} is missing", _EXAMPLE)
    prices = {key: _amount(file, f"{section}.{key}", value) for key, value in prices_section.items()}
    for key, (numerator, denominator) in CACHE_MULTIPLES.items():
        derived = prices["input"] * 10**6 * numerator
        if key not in prices_section and derived % denominator:
            refuse(file, f"{section}.{key} does not follow exactly from input", f"give {key} itself")
    return {key: format(value, "f") for key, value in prices.items()}


def _amount(file: Path, key: str, value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int):
        refuse(file, f"{key} is a {type(value).__name__}, not a price", _EXAMPLE)
    try:
        amount = Decimal(value)
    except InvalidOperation:
        refuse(file, f"{key} {value!r} is not a number", _EXAMPLE)
    if not amount.is_finite() or amount.is_signed() or amount >= 10**9:
        refuse(file, f"{key} {amount:.9g} is not a price", _EXAMPLE)
    # A millionth of a dollar per million tokens is one pico-dollar per token: the unit of all sums.
    if amount != amount.quantize(Decimal("0.000001")):
        refuse(file, f"{key} {amount} has more than six decimals", "give at most six")
    return amount


_ENTRY = re.compile(r"[0-9a-z-]{1,60}:[0-9a-f]{8}")
_IGNORE_EXAMPLE = 'write ignore = ["jwt:1a2b3c4d"], kind and fingerprint as `recollect secrets` prints them'


def ignored_secrets() -> frozenset[str]:
    """The ignored secrets, each as ``kind:fingerprint``."""
    file = locations.config_file()
    section = config_section(file, "secrets", ("ignore",))
    entries = section.get("ignore", [])
    if not isinstance(entries, list):
        refuse(file, "secrets.ignore is not a list", _IGNORE_EXAMPLE)
    for entry in entries:
        if not isinstance(entry, str) or not _ENTRY.fullmatch(entry):
            # The entry itself is not shown: it may be the secret.
            number = entries.index(entry) + 1
            refuse(file, f"secrets.ignore: entry {number} is not a kind and a fingerprint", _IGNORE_EXAMPLE)
    return frozenset(entries)


_LOGIN, _KEY = "sync.json", "sync.key"
KEY_BYTES = 64
_SYNC_EXAMPLE = 'write allow = ["~/work"] below [sync]'


class SyncLogin(Struct, frozen=True):
    """Address and identity."""

    address: str
    token: str
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


def login_file() -> Path:
    return locations.config_file().with_name(_LOGIN)


def save_login(login: SyncLogin) -> Path:
    """Save a login, readable by its owner only."""
    path = login_file()
    with as_storage_error("write", path):
        fsops.make_directories(path.parent)
        fsops.replace_file(path, msgspec.json.format(msgspec.json.encode(login), indent=2) + b"\n")
    return path


def load_login() -> SyncLogin:
    """Load the saved login."""
    path = login_file()
    try:
        data = _small(path, is_private=True)
    except FileNotFoundError:
        raise NotFound("sync: not logged in", hint="`recollect team login URL`") from None
    except OSError as cause:
        raise StorageError("read", path, cause, hint="make it readable, or log in again") from cause
    try:
        return msgspec.json.decode(data, type=SyncLogin)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # The contents are not quoted: they include a token.
        raise DamagedData(f"{path}: not a login", hint="`recollect team login URL` writes it again") from None


def encryption_key(data: Path, *, make: bool) -> bytes:
    """The key that encrypts lines; created if missing and ``make`` is set."""
    path = data / _KEY
    if not make and not path.exists():
        raise NotFound(
            f"{path}: there is no key to decrypt lines with",
            hint="copy it from the machine that encrypted them",
        )
    return _own_key(path, KEY_BYTES, "copy it again from the machine where it was created", is_private=True)


def fingerprint_key(data: Path) -> bytes:
    """The key for fingerprints of secrets; created if missing.

    It keeps guessable secrets from being tested against a fingerprint, so it never leaves this machine and is never
    printed. If it is lost, all fingerprints change.
    """
    hint = "move it away: a new one is created, and every fingerprint changes"
    return _own_key(data / "fingerprint.key", FINGERPRINT_KEY_BYTES, hint)


def _own_key(path: Path, length: int, hint: str, *, is_private: bool = False) -> bytes:
    """A random key in our directory, created once, readable by its owner only. ``hint``: what to do with a damaged one."""
    try:
        try:
            written = _small(path, is_private=is_private)
        except FileNotFoundError:
            _create_key(path, length)
            written = _small(path, is_private=is_private)
    except OSError as cause:
        raise StorageError("read", path, cause, hint=fsops.next_step(cause, "try again")) from cause
    try:
        key = bytes.fromhex(written.decode("ascii"))
    except ValueError:
        key = b""
    if len(key) != length:
        raise DamagedData(f"{path}: not a key", hint=hint)
    return key


def _create_key(path: Path, length: int) -> None:
    """Of two processes that create it at the same moment the first one's counts."""
    fsops.make_directories(path.parent)
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
    try:
        write_new(temporary, os.urandom(length).hex().encode() + b"\n")
        with contextlib.suppress(FileExistsError):
            fsops.rename_new(temporary, path)
        fsops.sync_dir(path.parent)
    finally:
        with contextlib.suppress(FileNotFoundError):
            fsops.unlink(temporary)


def _small(path: Path, *, is_private: bool) -> bytes:
    """The bytes of a small file; with ``is_private`` refused where others may read it."""
    with fsops.reading(path) as fd:
        found = os.fstat(fd)
        if is_private and os.name == "posix" and stat.S_IMODE(found.st_mode) & 0o077:
            raise UsageError(
                f"{path}: other users may read it", hint=f"chmod 600 {path}, and consider a new token or key"
            )
        return fsops.pread(fd, 1 << 16, 0)


def projects_to_send() -> SyncProjects:
    """The user's lists. One that cannot be parsed is an error: what should stay local must not be sent."""
    file = locations.config_file()
    section = config_section(file, "sync", ("allow", "deny"))
    return SyncProjects(_paths(file, section, "allow"), _paths(file, section, "deny"))


def _paths(file: Path, section: dict[str, object], name: str) -> tuple[str, ...]:
    entries = section.get(name, [])
    if not isinstance(entries, list) or not all(isinstance(entry, str) and entry for entry in entries):
        refuse(file, f"sync.{name} is not a list of directories", _SYNC_EXAMPLE)
    found = tuple(str(Path(entry).expanduser()) for entry in entries)
    if not all(entry.startswith(("/", "*")) or os.name == "nt" for entry in found):
        refuse(file, f"sync.{name}: an entry is not an absolute directory", _SYNC_EXAMPLE)
    return found
