"""A project's directory name, computed as the clients compute it.

A key is the working directory with everything but ASCII letters and digits turned into hyphens. That is
lossy: ``/a/b``, ``/a-b`` and ``/a.b`` share the key ``-a-b``, so a key is never decoded and never proves that
two sessions belong together; the ``cwd`` inside the entries does.

The client counts UTF-16 code units and does not normalise: an emoji gives two hyphens, a combining accent one
more. The Python Agent SDK normalises to NFC and counts characters, so for such paths it uses another
directory.

Paths are text, possibly with the lone surrogates that ``os.fsdecode`` creates for undecodable bytes; no
function here raises for them. They do not access the disk: the caller resolves links first.
"""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from collections.abc import Iterable

import msgspec

from recollect.model.lines.ids import ProjectKey

LONGEST_PLAIN_KEY = 200
"""Longer names are cut here and get a hyphen and a hash of the whole path."""

_NOT_KEPT = re.compile(r"[^a-zA-Z0-9]")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def project_key(path: str) -> ProjectKey:
    """The directory name the client (2.1.197 and later) uses for an absolute, resolved path."""
    name = _NOT_KEPT.sub(lambda match: "--" if match[0] > "\uffff" else "-", path)
    if len(name) <= LONGEST_PLAIN_KEY:
        return ProjectKey(name)
    raw = path.encode("utf-16-le", "surrogatepass")
    units = struct.unpack(f"<{len(raw) // 2}H", raw)
    return ProjectKey(f"{name[:LONGEST_PLAIN_KEY]}-{_hash36(units)}")


def same_long_prefix(name: str, key: ProjectKey) -> bool:
    """Whether ``name`` differs from the over-long ``key`` only in the hash at its end.

    Earlier native builds used another hash, so the client accepts such a directory when it reads. A key that
    was not cut has no such variants.
    """
    return len(key) > LONGEST_PLAIN_KEY and name.startswith(key[:LONGEST_PLAIN_KEY] + "-")


def flat_project_hash(path: str) -> ProjectKey:
    """The directory name in the flat layout: 20 characters of base64url(SHA-256 of the path)."""
    digest = hashlib.sha256(_path_bytes(path)).digest()
    return ProjectKey(base64.urlsafe_b64encode(digest)[:20].decode("ascii"))


def _hash36(units: Iterable[int]) -> str:
    """The absolute value of ``h * 31 + unit``, computed in a signed 32-bit integer as in JavaScript, in base 36."""
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFFFFFF
    number, digits = value if value < 0x80000000 else 0x100000000 - value, ""
    while number:
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
    return digits or "0"


def _path_bytes(path: str) -> bytes:
    """The operating system's bytes of a path, if it has any."""
    try:
        return path.encode("utf-8", "surrogateescape")
    except (
        UnicodeEncodeError
    ):  # a surrogate that no file system produces: the result must still be deterministic
        return path.encode("utf-8", "surrogatepass")


class PathMapping:
    """From ``old`` to ``new``, and everything below."""

    def __init__(self, old: str, new: str, fields: tuple[str, ...] = ("cwd", "project")) -> None:
        self.old, self.new = old.rstrip("/") or "/", new.rstrip("/") or "/"
        names = "|".join(map(re.escape, fields)).encode()
        self._value = re.compile(rb'("(?:' + names + rb')"[ \t]*:[ \t]*)("(?:[^"\\]|\\.)*")')

    def moved(self, path: str) -> str | None:
        """The new location of a path; None where it did not move."""
        if path == self.old:
            return self.new
        prefix = self.old if self.old.endswith("/") else self.old + "/"
        return self.new.rstrip("/") + "/" + path[len(prefix) :] if path.startswith(prefix) else None

    def edited(self, line: bytes) -> bytes:
        """A line with its new paths; the same bytes where none moved."""
        return self._value.sub(self._edited_value, line)

    def _edited_value(self, found: re.Match[bytes]) -> bytes:
        try:
            path = msgspec.json.decode(found[2], type=str)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return found[0]
        moved = self.moved(path)
        return found[0] if moved is None else found[1] + msgspec.json.encode(moved)
