"""The result type of a check: one problem, its place, and what to do about it.

Codes are stable because scripts rely on them; the table of all codes is ``CODES``. A finding is a value:
checking never fails because of what it finds.
"""

from __future__ import annotations

import enum

from msgspec import Struct


class Severity(enum.StrEnum):
    """Severity: data or a session is at risk, something is unusual, good to know."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Finding(Struct, frozen=True, omit_defaults=False):
    """One finding. ``line`` counts from 1; ``offset`` is the byte where the line starts.

    ``repair`` is what a repair would do about it; None where no repair fixes it.
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
