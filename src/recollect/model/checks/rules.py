"""The rules of ``recollect doctor``: every code, its severity, what the client does, and the fix.

``CODES`` is codes.json; ``docs/reference/checks.md`` is made from it. A rule whose severity depends on the case is two codes. An
**error** stops a resume or cuts what is resumed: the client finds no conversation, leaves messages out, or sends what the API
refuses. What the client repairs by itself is no error. A **warning** is something no client writes, without such an effect;
**info** is good to know. A rule yields ``RuleViolation``; ``model/repair/plan.py`` turns them into findings and says which of them
a repair fixes.
"""

from __future__ import annotations

import enum
import pkgutil

import msgspec
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


REPAIR = "recollect doctor {session} --fix"
# No command mends what a repair cannot; this one saves what can be read.
_EXPORT = "recollect export {session}"


class CheckRule(Struct, frozen=True):
    """One row of the table.

    ``client`` says what the client does about it and ``proof`` how that is known. ``source`` names the
    requirement behind the rule, if there is one. ``about_lines``: it is about the bytes of a log. Only an error can have a repair as its ``fix``. Whether a
    repair fixes it, in a given log, only the repair plan shows (``model/repair/plan.py``); otherwise
    ``other_fix`` says what to do. {session} and {path} in either are filled in.
    """

    severity: Severity
    meaning: str
    client: str
    proof: str
    fix: str = "nothing to do"
    source: str = ""
    about_lines: bool = False

    @property
    def is_mendable(self) -> bool:
        """Whether a repair can fix it."""
        return self.fix == REPAIR

    @property
    def other_fix(self) -> str:
        """What to do where a repair does not fix it."""
        return _EXPORT if self.is_mendable else self.fix


class RuleViolation(Struct, frozen=True):
    """A violated rule and where in the log. ``line`` counts from 1; 0 where only the offset is known.

    ``subject`` distinguishes several violations in one entry, for example by the id of a call. ``parent`` is
    the entry that an entry without a usable link should follow.
    """

    code: str
    what: str
    offset: int | None = None
    uuid: str | None = None
    line: int = 0
    subject: str = ""
    parent: str | None = None


CODES = msgspec.json.decode(pkgutil.get_data(__name__, "codes.json") or b"", type=dict[str, CheckRule])
# Rules about the bytes of a log, for logs whose conversation no client of Claude loads.
ABOUT_LINES = frozenset(code for code, rule in CODES.items() if rule.about_lines)
