"""A renamed directory: which paths change, and how to rewrite them in a line.

Paths are compared by their parts, so /srv/app-old is not below /srv/app. In a line only the values of the
named fields change; every other byte stays. A field name cannot occur inside a text, because there its quotes
would be escaped.
"""

from __future__ import annotations

import re

import msgspec


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
