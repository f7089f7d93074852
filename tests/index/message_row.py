"""The values of one line in a frame, by name."""

from __future__ import annotations

from typing import NamedTuple

from recollect.index.frame import Columns
from recollect.index.schema import Id


class MessageRow(NamedTuple):
    """As ``frame.MessageValues`` has them, in its order."""

    offset: int
    length: int
    uuid: Id
    at: int | None
    kind: int
    digest: int | None
    texts: Columns | None
    typed: str | None = None
