"""What was redacted in a mirrored log, or in a file beside it, stays out when the client writes it again.

Some clients rewrite a whole chat, or a whole row, with every turn, and their own files keep the secret. The marks in our copy are
all that is remembered of it: its kind and its keyed fingerprint. Only secrets that have such a mark are taken out of
new lines, so that nothing is redacted that no one asked for.
"""

from __future__ import annotations

import contextlib
import mmap
import re
from collections.abc import Iterable
from pathlib import Path

from recollect.errors import RecollectError

_MARK = re.compile(rb"\[redacted:([a-z0-9_.-]+:[0-9a-f]{8})\]")
_START = b"[redacted:"


def redacted_again(lines: list[bytes], marked: Iterable[Path], data: Path) -> list[bytes]:
    """New lines of a log, or new files, without the secrets that were redacted in the ``marked`` ones.

    ``data`` is our own directory, with the key.
    """
    marks = {mark for path in marked for mark in _marks_in(path)}
    if not marks:
        return lines
    from recollect.model.secrets.fingerprint import fingerprint
    from recollect.model.secrets.prefilter import suspects
    from recollect.model.secrets.redaction import redacted_line
    from recollect.storage.config.fingerprint_key import fingerprint_key

    try:
        key = fingerprint_key(data)
    except RecollectError:
        return lines  # without the key no mark can be told from another; `scan` still finds what returns

    def digits(secret: str) -> str:
        return fingerprint(secret, key)

    def again(line: bytes) -> bytes:
        if not suspects(line):
            return line
        found = {f"{one.kind}:{one.fingerprint}" for one in redacted_line(line, digits).found}
        return redacted_line(line, digits, found - marks).data if found & marks else line

    return [again(line) for line in lines]


def _marks_in(path: Path) -> set[str]:
    """Kind and fingerprint of what was redacted in a file."""
    with (
        contextlib.suppress(FileNotFoundError, ValueError),  # it is gone, or empty
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        # Nearly every log has none: looking for the start of one is much faster than the pattern.
        return set() if content.find(_START) < 0 else {one.decode() for one in _MARK.findall(content)}
    return set()
