"""Proof that a repair is sound: its result is scanned with the rules of ``check`` and compared with the log.

A violation that is gone from the result is fixed. A new error makes the repair unsound, and so does a shorter
history; such a repair is neither recommended nor made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from recollect.model.checks import CODES, RuleViolation
from recollect.model.checks.scan import MOST_KEPT, LogIdentity, LogScan, scanned
from recollect.model.damage import Line
from recollect.model.findings import Severity
from recollect.model.repair.draft import RepairDraft

# Findings about the whole log; the entry they are placed at does not matter, unless they name what it lacks.
_ONE_A_LOG = frozenset(["session-not-found", "nothing-said", "no-conversation"])
ViolationKey = tuple[str, str, str]


class RepairProof(Struct, frozen=True):
    """What was proved about the result. ``problems`` is empty where everything holds.

    ``messages`` are those the client would send, ``history`` all from the root to the leaf, including those
    hidden by compactions. ``gained`` are the ids that are in the history only after the repair.
    """

    messages_before: int
    messages_sent: int
    history_before: int
    history_after: int
    gained: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the client resumes no less than before, and no error is new."""
        return not self.problems


def scan_of(draft: RepairDraft, log: LogIdentity, before: LogScan) -> LogScan:
    """What ``check`` would find in the result of a log with that scan. Offsets are row numbers."""
    ended = len(draft.rows) - draft.has_tail
    lines = (Line(draft.text(number), number) for number in range(ended))
    tail = Line(draft.text(ended), ended) if draft.has_tail else None
    return scanned(lines, tail, draft.line_of, draft.output_size, log, half_links=before.half_links)


def unchanged(before: LogScan) -> RepairProof:
    """The proof of an unchanged log."""
    messages, history = len(before.resumed.messages), len(before.resumed.history)
    return RepairProof(messages, messages, history, history)


def proved(
    draft: RepairDraft, before: LogScan, violations: Sequence[RuleViolation], after: LogScan
) -> tuple[RepairProof, frozenset[int]]:
    """The proof, and which of the errors are fixed, by their index in ``violations``."""
    left = Counter(keys_of(after, draft))
    mended: set[int] = set()
    for number, violation in enumerate(violations):
        key = violation_key(violation, before.line_number(violation) or 0)
        if left[key]:
            left[key] -= 1
        elif CODES[violation.code].severity is Severity.ERROR:
            mended.add(number)
    new = [
        one
        for one, key in zip(after.violations, keys_of(after, draft), strict=True)
        if left[key] > 0
        and CODES[one.code].severity is Severity.ERROR
        and before.counts[one.code] <= MOST_KEPT
    ]
    old, now = before.resumed, after.resumed
    known = set(old.history)
    proof = RepairProof(
        len(old.messages),
        len(now.messages),
        len(old.history),
        len(now.history),
        tuple(uuid for uuid in now.history if uuid not in known),
        (*_shorter(old.history, now.history), *(f"{one.code}: {one.what}" for one in new)),
    )
    return proof, frozenset(mended)


def keys_of(after: LogScan, draft: RepairDraft) -> list[ViolationKey]:
    """The identities of the violations of a result."""
    return [
        violation_key(one, draft.rows[one.offset].line if one.offset is not None else 0)
        for one in after.violations
    ]


def violation_key(violation: RuleViolation, line: int) -> ViolationKey:
    """The identity of a violation before and after; lines may move, entries keep their id."""
    if violation.code in _ONE_A_LOG and not violation.subject:
        return violation.code, "", ""
    return violation.code, violation.uuid or (f"line {line}" if line else ""), violation.subject


def _shorter(before: tuple[str, ...], after: tuple[str, ...]) -> Iterator[str]:
    if len(after) < len(before):
        yield f"the history would have {len(after)} messages, and has {len(before)}"
