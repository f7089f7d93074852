"""The session's mode: the verdict for a call that no rule covers (R18)."""

from __future__ import annotations

import enum

from recollect.policy.decision import Verdict


class Mode(enum.StrEnum):
    """As spelled in the settings; ``manual`` is a synonym of ``default``."""

    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    PLAN = "plan"
    AUTO = "auto"
    DONT_ASK = "dontAsk"
    BYPASS = "bypassPermissions"

    @classmethod
    def _missing_(cls, value: object) -> Mode | None:
        return cls.DEFAULT if value == "manual" else None

    @property
    def edits_run(self) -> bool:
        """Whether edits inside the working directories run without asking."""
        return self in (Mode.ACCEPT_EDITS, Mode.AUTO)

    @property
    def file_commands_run(self) -> bool:
        """Whether commands such as ``mkdir`` run without asking inside the working directories."""
        return self is Mode.ACCEPT_EDITS

    def unspoken(self) -> Verdict:
        """The verdict for a call that nothing has allowed."""
        return Verdict.ALLOW if self is Mode.BYPASS else Verdict.ASK

    def final(self, verdict: Verdict) -> Verdict:
        """What an ask becomes in a mode that does not ask."""
        return Verdict.DENY if self is Mode.DONT_ASK and verdict is Verdict.ASK else verdict
