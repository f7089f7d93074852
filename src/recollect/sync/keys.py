"""File names as keys of a remote, and back.

A key has only letters, digits and ``_ . -``. Every other byte is written ``_XX`` in upper-case hex, and
so is what would be ambiguous or refused: an underscore before two such digits, a dot at the end or
after another. So every name has one key, and no key leads out of its directory: ``names_of`` checks its
result again.
"""

from __future__ import annotations

import re

from recollect.errors import InvalidId
from recollect.sync.wire import checked_key

_NOT_KEPT = re.compile(rb"[^A-Za-z0-9_.-]|_(?=[0-9A-F]{2})|(?<=\.)\.|\.\Z")
_ESCAPE = re.compile(rb"_([0-9A-F]{2})")


def key_of(*names: str) -> str:
    """The key of a path of names; ``InvalidId`` where it would be too long."""
    return checked_key("/".join(map(_escaped, names)))


def names_of(key: str) -> list[str]:
    """The names in a key; ``InvalidId`` where one is not a valid file name."""
    names = [_plain(part) for part in checked_key(key).split("/")]
    for name in names:
        if name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
            raise InvalidId("key", key, "would not stay in its directory")
    return names


def _escaped(name: str) -> str:
    raw = name.encode("utf-8", "surrogateescape")
    return _NOT_KEPT.sub(lambda found: b"_%02X" % found[0][0], raw).decode("ascii")


def _plain(part: str) -> str:
    raw = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), part.encode("ascii"))
    return raw.decode("utf-8", "surrogateescape")
