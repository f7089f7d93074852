"""Transform lines for sending and receiving: rename values, remove secrets, encrypt; decrypt, rename back.

Everything works line by line and depends only on the line, its position and this machine's keys. So sending
twice gives the same bytes, and a remote's position can be found in the local log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from recollect.model.line_split import NEWLINE
from recollect.model.path_mapping import PathMapping
from recollect.model.secrets.prefilter import suspects
from recollect.model.secrets.redaction import redacted_bytes, redacted_line
from recollect.model.secrets.signed_thoughts import with_plain_thoughts
from recollect.services.secrets.fingerprints import Fingerprints
from recollect.storage.config.secret_settings import ignored_secrets
from recollect.storage.sync_state import ValueMapping
from recollect.sync.remote import lines_of
from recollect.sync.sealing import Sealer

_PART = 256 << 10


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
        for start, stop in _suspects(block):
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
        if not clean.found:
            return line
        self.replaced += len(clean.found)
        # A changed thinking block has no valid signature any more, but the session must stay resumable
        # elsewhere.
        return with_plain_thoughts(clean.data, [one.field for one in clean.found])


def _suspects(block: bytes) -> Iterator[tuple[int, int]]:
    """The lines that need a closer look, found in parts that stay in the processor's own cache meanwhile."""
    start = 0
    while start < len(block):
        # Secrets are replaced line by line, so a part may end at any of them.
        end = block.find(NEWLINE, start + _PART) + 1 or len(block)
        for first, last in suspects(block[start:end]):
            yield start + first, start + last
        start = end


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
            seal, session, key = self._sealer.seal_line, self._session, self._key
            block = b"".join(
                seal(line, session, key, number + count) for count, line in enumerate(lines_of(block))
            )
        return block

    def file(self, name: str, data: bytes) -> bytes:
        if self._secrets is not None:
            data = self._secrets.file(name, data)
        return data if self._sealer is None else self._sealer.seal_file(data, self._session, self._key)


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
