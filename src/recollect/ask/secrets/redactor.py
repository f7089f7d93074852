"""Fingerprints of secrets, and what removes secrets from texts and lines on their way out."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import structs

from recollect.errors import StorageError
from recollect.model.lines.damage import Damage
from recollect.model.secrets import KEY_BYTES
from recollect.model.secrets.prefilter import suspects
from recollect.model.secrets.redaction import (
    Redacted,
    Redaction,
    fingerprint,
    redacted,
    redacted_bytes,
    redacted_fragment,
    redacted_line,
)
from recollect.store.own_settings import fingerprint_key, ignored_secrets

FOR_THIS_RUN = "the fingerprint key cannot be saved: fingerprints are valid for this run only"


class Fingerprints:
    """Computes fingerprints. The key is loaded or created on first use."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.notes: list[str] = []

    def __call__(self, secret: str) -> str:
        return fingerprint(secret, self.key)

    @functools.cached_property
    def key(self) -> bytes:
        """The key of our own directory, or, if it cannot be saved there, a temporary one."""
        try:
            return fingerprint_key(self._data)
        except StorageError:
            self.notes.append(FOR_THIS_RUN)
            return secrets.token_bytes(KEY_BYTES)


class Redactor:
    """Removes secrets from what passes through it, and counts them.

    The fingerprint key is loaded at the first secret.
    """

    def __init__(self, data: Path) -> None:
        self._fingerprints = Fingerprints(data)
        self._keep = ignored_secrets()
        self.found: list[Redaction] = []

    @property
    def notes(self) -> list[str]:
        """Notes about the fingerprints."""
        return self._fingerprints.notes

    def texts(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Pieces of text; no secret spans two of them."""
        return (self._taken(redacted_bytes(piece, self._fingerprints, self._keep)) for piece in pieces)

    def fragments(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Pieces of one JSON document, each cut between two strings."""
        return (self._taken(redacted_fragment(piece, self._fingerprints, self._keep)) for piece in pieces)

    def lines(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """A log in pieces of any size; lines without a secret are unchanged, byte for byte."""
        for block in _whole_lines(pieces):
            end = 0
            for start, stop in suspects(block):
                yield block[end:start]
                yield self._taken(redacted_line(block[start:stop], self._fingerprints, self._keep))
                end = stop
            yield block[end:]

    def text(self, text: str) -> str:
        clean = redacted(text, self._fingerprints, self._keep)
        self.found += clean.found
        return clean.data

    def line(self, data: bytes, *, count: bool = True) -> bytes:
        """One line of a log, without its newline; ``count`` says whether its secrets are counted."""
        if not suspects(data):
            return data
        clean = redacted_line(data, self._fingerprints, self._keep)
        self.found += clean.found if count else []
        return clean.data

    def discreet(self, damage: Iterable[Damage]) -> Iterator[Damage]:
        """Damage reports without quotes from lines that hold a secret."""
        for one in damage:
            if redacted_bytes(one.data, self._fingerprints, self._keep).found:
                yield structs.replace(one, detail=one.detail.partition(": ")[0])
            else:
                yield one

    def _taken(self, result: Redacted[bytes]) -> bytes:
        self.found += result.found
        return result.data


def _whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, cut only after newlines; an unterminated rest comes last."""
    rest: list[bytes] = []
    for piece in pieces:
        newline = piece.rfind(b"\n")
        if newline < 0:
            rest.append(piece)
            continue
        yield b"".join([*rest, piece[: newline + 1]])
        rest = [piece[newline + 1 :]]
    yield b"".join(rest)
