"""What a check says: one thing that is wrong or will be, where it is, and what to do about it.

Codes are stable, scripts rely on them; the table of all codes is ``CODES``. A finding is a
value: looking never fails because of what is found.
"""

from __future__ import annotations

import enum

from msgspec import Struct


class Severity(enum.StrEnum):
    """How much it matters: data or a session is at stake, something is odd, good to know."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Finding(Struct, frozen=True, omit_defaults=False):
    """One finding. ``line`` counts from 1; ``offset`` is the byte where the line starts.

    ``repair`` is what a repair would do about it; None where it is not mended by one.
    """

    code: str
    severity: Severity
    what: str
    fix: str
    path: str = ""
    session: str | None = None
    agent: str | None = None
    line: int | None = None
    offset: int | None = None
    uuid: str | None = None
    repair: str | None = None
