"""From the errors of a log to the plan of its repair.

Errors depend on one another: a recovered line or a mended link brings entries into the conversation that have
errors of their own. So the log is repaired in rounds, each of which fixes what the rules of ``check`` find in
the result of the one before, until they find nothing that can be fixed. A second repair of the result
therefore changes nothing, and errors that only a later round finds are findings of the log as well. What is
said about the conversation without being an error is said about the mended one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

import msgspec
from msgspec import Struct, structs

from recollect.model.checks import CODES, RuleViolation
from recollect.model.checks.scan import LogScan, LogSource
from recollect.model.repair.draft import RepairAction, RepairDraft, SetAsideBytes
from recollect.model.repair.fixes import fix_errors
from recollect.model.repair.proof import RepairProof, proved, scan_of, unchanged, violation_key

_ROUNDS = 12
# These depend on what is resumed: behind a cut they cannot be judged.
_ABOUT_THE_CONVERSATION = frozenset(
    [
        "missing-parent",
        "circle",
        "second-root",
        "open-call",
        "call-without-result",
        "duplicate-result",
        "result-cut-off",
        "result-not-reached",
        "result-not-sent",
    ]
)


class LogRepair(Struct, frozen=True):
    """The plan of a repair: what is done to which line, what is set aside, and the proof of the result.

    ``violations`` are those of the log, with the errors that only show once others are fixed. ``mended`` are
    those that the repair fixes, by their index.
    """

    draft: RepairDraft
    actions: tuple[RepairAction, ...]
    set_aside: tuple[SetAsideBytes, ...]
    notes: tuple[str, ...]
    proof: RepairProof
    violations: tuple[RuleViolation, ...]
    mended: frozenset[int]
    bytes_before: int
    bytes_kept: int
    bytes_set_aside: int
    bytes_after: int


def mended(source: LogSource, before: LogScan) -> LogRepair:
    """Plan the repair of a log from its scan."""
    draft = as_read(source)
    after, found = _mend_in_rounds(draft, source, before)
    if not draft.actions:
        return untouched(source, before)
    leaf = before.resumed.leaf
    if leaf is not None and len(after.resumed.history) < len(before.resumed.history):
        mark = {"type": "last-prompt", "leafUuid": leaf.uuid, "sessionId": source.log.session}
        why = "recovered lines start a shorter branch; the longer one is still resumed"
        draft.insert(len(draft.rows), msgspec.json.encode(mark), "leaf-kept", why, leaf.uuid)
        after = scan_of(draft, source.log, before)
    draft.notes += _repeats(draft)
    violations = _judged(draft, before, found, after)
    proof, gone = proved(draft, before, violations, after)
    return summed(draft, proof, violations, gone)


def _judged(
    draft: RepairDraft, before: LogScan, found: list[RuleViolation], after: LogScan
) -> tuple[RuleViolation, ...]:
    """The violations of the log; those about the conversation as the mended one shows them."""
    own = [one for one in before.violations if one.code not in _ABOUT_THE_CONVERSATION]
    shown = [
        one if one.offset is None else structs.replace(one, offset=draft.rows[one.offset].offset)
        for one in after.violations
        if one.code in _ABOUT_THE_CONVERSATION
    ]
    return (*own, *found, *shown)


def _mend_in_rounds(
    draft: RepairDraft, source: LogSource, before: LogScan
) -> tuple[LogScan, list[RuleViolation]]:
    """Fix errors until none is left that can be fixed; the last scan, and the errors found on the way."""
    scan = before
    known = {violation_key(one, before.line_number(one) or 0) for one in before.violations}
    found: list[RuleViolation] = []
    for _ in range(_ROUNDS):
        errors = [one for one in scan.violations if CODES[one.code].is_mendable and one.offset is not None]
        rows = [_row(before, one) if scan is before else one.offset or 0 for one in errors]
        for number, error in zip(rows, errors, strict=True):
            row = draft.rows[number]
            key = violation_key(error, row.line)
            if key not in known:
                known.add(key)
                found.append(structs.replace(error, offset=row.offset))
        if not fix_errors(draft, list(zip(rows, errors, strict=True)), source.written):
            return scan, found
        scan = scan_of(draft, source.log, before)
    draft.notes.append(f"problems remain after {_ROUNDS} rounds: repair the result again")
    return scan, found


def _row(scan: LogScan, violation: RuleViolation) -> int:
    """The row of a violation in a draft whose rows are the lines of the log."""
    return max(0, bisect_right(scan.starts, violation.offset or 0) - 1)


def untouched(source: LogSource, before: LogScan) -> LogRepair:
    """The plan that changes nothing."""
    return summed(as_read(source), unchanged(before), before.violations, frozenset())


def summed(
    draft: RepairDraft, proof: RepairProof, violations: tuple[RuleViolation, ...], mended: frozenset[int]
) -> LogRepair:
    """The plan of a finished draft."""
    kept, aside, after = draft.sums()
    return LogRepair(
        draft,
        tuple(draft.actions),
        tuple(draft.set_aside()),
        tuple(draft.notes),
        proof,
        violations,
        mended,
        draft.size,
        kept,
        aside,
        after,
    )


def as_read(source: LogSource) -> RepairDraft:
    """The log as it is: one row for each line."""
    draft = RepairDraft(source.read, source.size)
    number = 1
    for line in source.lines():
        draft.keep(number, line.offset, line.length)
        number += line.text_lines
    if source.end < source.size:
        draft.keep(number, source.end, source.size - source.end)
    return draft


def _repeats(draft: RepairDraft) -> list[str]:
    """Ids on several lines with different bytes; the client takes the last, which does not change."""
    texts: dict[str, set[bytes]] = {}
    wanted = {name for name, count in Counter(draft.graph().duplicates).items() if count}
    if not wanted:
        return []
    for number in range(len(draft.rows)):
        entry = draft.entry(number)
        if entry is not None and entry.uuid in wanted:
            texts.setdefault(entry.uuid or "", set()).add(draft.text(number))
    return [
        f"entry {uuid} is in the log {len(found)} times with different bytes; the client takes the last"
        for uuid, found in texts.items()
        if len(found) > 1
    ]
