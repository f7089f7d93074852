"""Transform lines for sending and receiving: rename values, remove secrets, encrypt; decrypt, rename back.

Everything works line by line and depends only on the line, its position and this machine's keys. So sending
twice gives the same bytes, and a remote's position can be found in the local log.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from recollect.ask.secrets.redactor import Fingerprints
from recollect.errors import DamagedData, MissingExtra
from recollect.model.project_key import PathMapping
from recollect.model.secrets.prefilter import suspects
from recollect.model.secrets.redaction import redacted_bytes, redacted_line, with_plain_thoughts
from recollect.share.sync.wire import lines_of
from recollect.store.own_settings import ignored_secrets
from recollect.store.sync_state import ValueMapping

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

    def seal(self, data: bytes, session: str, key: str, number: int | None = None) -> bytes:
        """A line, with its newline, as another line, or a whole side file. ``number``: of the line, counted from 0."""
        return _START + b64encode(self._cipher.encrypt(data, _place(session, key, number))) + _END

    def open(self, data: bytes, session: str, key: str, number: int | None = None) -> bytes:
        """The inverse of ``seal``; what was never sealed is returned unchanged."""
        if not is_sealed(data):
            return data
        try:
            text = b64decode(data[len(_START) : -len(_END)], validate=True)
            return self._cipher.decrypt(text, _place(session, key, number))
        except (self._broken, ValueError):
            what = session if number is None else f"{session}: line {number + 1}"
            raise DamagedData(
                f"{what}: cannot be decrypted: it was sealed with another key, or changed",
                hint="copy the key file of the machine that sealed it",
            ) from None


def is_sealed(line: bytes) -> bool:
    """Whether a line, or a file, has the form of a sealed one."""
    return line.startswith(_START) and line.endswith(_END)


def _place(session: str, key: str, number: int | None) -> list[bytes]:
    kind = b"file" if number is None else b"line"
    return [b"recollect-1", kind, session.encode(), key.encode(), (number or 0).to_bytes(8, "big")]


class OutgoingSecrets:
    """Removes secrets from what is sent, with the functions that export uses, and counts them."""

    def __init__(self, data: Path) -> None:
        self._fingerprints = Fingerprints(data)
        self._keep = ignored_secrets()
        self.replaced = 0

    @property
    def notes(self) -> list[str]:
        """Notes about the fingerprints."""
        return self._fingerprints.notes

    def lines(self, block: bytes) -> bytes:
        """Whole lines; those without a secret are unchanged, byte for byte."""
        pieces: list[bytes] = []
        end = 0
        for start, stop in suspects(block):
            line = block[start:stop]
            clean = self._line(line)
            # Most are only suspect: nothing is copied for them.
            if clean != line:
                pieces += (block[end:start], clean)
                end = stop
        return b"".join([*pieces, block[end:]]) if pieces else block

    def file(self, name: str, data: bytes) -> bytes:
        """A whole side file: a JSON document, or text."""
        clean = (redacted_line if name.endswith(".json") else redacted_bytes)(
            data, self._fingerprints, self._keep
        )
        self.replaced += len(clean.found)
        return clean.data

    def _line(self, line: bytes) -> bytes:
        clean = redacted_line(line, self._fingerprints, self._keep)
        self.replaced += len(clean.found)
        # A changed thinking block has no valid signature any more, but the session must stay resumable elsewhere.
        return with_plain_thoughts(clean.data, [one.field for one in clean.found]) if clean.found else line


class OutgoingLines:
    """Transforms the lines of one log for the remote."""

    def __init__(
        self,
        session: str,
        key: str,
        renamed: Sequence[ValueMapping],
        secrets: OutgoingSecrets | None,
        sealer: Sealer | None,
    ) -> None:
        self._session, self._key = session, key
        self._renaming = renaming(renamed, outward=True)
        self._secrets, self._sealer = secrets, sealer

    def lines(self, block: bytes, number: int) -> bytes:
        """Whole lines as they are sent; ``number`` is that of the first."""
        if self._renaming:
            block = b"".join(edited(line, self._renaming) for line in lines_of(block))
        if self._secrets is not None:
            block = self._secrets.lines(block)
        if self._sealer is not None:
            seal, session, key = self._sealer.seal, self._session, self._key
            block = b"".join(
                seal(line, session, key, place) for place, line in enumerate(lines_of(block), number)
            )
        return block

    def file(self, name: str, data: bytes) -> bytes:
        if self._secrets is not None:
            data = self._secrets.file(name, data)
        return data if self._sealer is None else self._sealer.seal(data, self._session, self._key)


def renaming(renamed: Iterable[ValueMapping], *, outward: bool) -> list[PathMapping]:
    """The edits for sending or receiving lines."""
    if outward:
        return [PathMapping(one.here, one.there, one.fields) for one in renamed]
    return [PathMapping(one.there, one.here, one.fields) for one in renamed]


def edited(line: bytes, mappings: Iterable[PathMapping]) -> bytes:
    """A line with its values renamed."""
    for mapping in mappings:
        line = mapping.edited(line)
    return line
