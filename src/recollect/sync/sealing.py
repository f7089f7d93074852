"""Encrypts lines so that only the holder of a key can read them (extra ``[encrypt]``).

Each line becomes ``{"sealed":1,"data":"<base64>"}``. The cipher is AES-SIV (RFC 5297), which is
deterministic: the same line at the same place gives the same bytes, so an interrupted push finds its
own lines again without a counter or random values. Session, key and line number are authenticated: a
server can drop the end of a log, but not move, swap or change a line unnoticed. It sees the number,
length and time of lines.

recollect never sends the key; to read on another machine, copy the key file there.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from importlib import import_module
from typing import Protocol, cast

from recollect.errors import DamagedData, MissingExtra

_START, _END = b'{"sealed":1,"data":"', b'"}\n'


class _Cipher(Protocol):
    def encrypt(self, data: bytes, associated_data: list[bytes]) -> bytes: ...

    def decrypt(self, data: bytes, associated_data: list[bytes]) -> bytes: ...


class Sealer:
    """Encrypts and decrypts lines and files with one key."""

    def __init__(self, key: bytes) -> None:
        try:
            module = import_module("cryptography.hazmat.primitives.ciphers.aead")
        except ImportError as cause:
            raise MissingExtra("encryption", "cryptography", "encrypt") from cause
        self._cipher = cast("_Cipher", module.AESSIV(key))
        self._broken: type[Exception] = import_module("cryptography.exceptions").InvalidTag

    def seal_line(self, line: bytes, session: str, key: str, number: int) -> bytes:
        """A line, with its newline, as another line; ``number`` counts from 0."""
        data = self._cipher.encrypt(line, _place("line", session, key, number))
        return _START + b64encode(data) + _END

    def open_line(self, line: bytes, session: str, key: str, number: int) -> bytes:
        """The inverse of ``seal_line``; a line that was never sealed is returned unchanged."""
        if not is_sealed(line):
            return line
        place = _place("line", session, key, number)
        return self._opened(line[len(_START) : -len(_END)], place, f"{session}: line {number + 1}")

    def seal_file(self, data: bytes, session: str, key: str) -> bytes:
        """A whole side file, in the same form."""
        return _START + b64encode(self._cipher.encrypt(data, _place("file", session, key, 0))) + _END

    def open_file(self, data: bytes, session: str, key: str) -> bytes:
        """The inverse of ``seal_file``; a file that was never sealed is returned unchanged."""
        if not is_sealed(data):
            return data
        return self._opened(data[len(_START) : -len(_END)], _place("file", session, key, 0), session)

    def _opened(self, text: bytes, place: list[bytes], what: str) -> bytes:
        try:
            return self._cipher.decrypt(b64decode(text, validate=True), place)
        except (self._broken, ValueError):
            raise DamagedData(
                f"{what}: cannot be decrypted: it was sealed with another key, or changed",
                hint="copy the key file of the machine that sealed it",
            ) from None


def is_sealed(line: bytes) -> bool:
    """Whether a line, or a file, has the form of a sealed one."""
    return line.startswith(_START) and line.endswith(_END)


def _place(kind: str, session: str, key: str, number: int) -> list[bytes]:
    return [b"recollect-1", kind.encode(), session.encode(), key.encode(), number.to_bytes(8, "big")]
