"""From the errors of a log to the plan of its repair.

Errors depend on one another: a recovered line or a mended link brings entries into the conversation that have
errors of their own. So the log is repaired in rounds, each of which fixes what the rules of ``doctor`` find in
the result of the one before, until they find nothing that can be fixed. A second repair of the result
therefore changes nothing, and errors that only a later round finds are findings of the log as well. What is
said about the conversation without being an error is said about the mended one.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec import Struct, structs

from recollect.model.checks.rules import CODES, REPAIR, CheckRule, Finding, RuleViolation, Severity
from recollect.model.checks.scan import MOST_KEPT, LogIdentity, LogScan, LogSource, scanned
from recollect.model.lines.damage import Line
from recollect.model.lines.ids import hint_name
from recollect.model.repair.draft import ACTIONS, RepairAction, RepairDraft, SetAsideBytes, fix_errors

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
    """What ``doctor`` would find in the result of a log with that scan. Offsets are row numbers."""
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
    problems = [f"{one.code}: {one.what}" for one in new]
    if len(now.history) < len(old.history):
        problems.insert(0, f"the history would have {len(now.history)} messages, and has {len(old.history)}")
    proof = RepairProof(
        len(old.messages),
        len(now.messages),
        len(old.history),
        len(now.history),
        tuple(uuid for uuid in now.history if uuid not in known),
        tuple(problems),
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
    """The plan of a repair: the finished draft, and the proof of its result.

    ``violations`` are those of the log, with the errors that only show once others are fixed. ``mended`` are
    those that the repair fixes, by their index.
    """

    draft: RepairDraft
    proof: RepairProof
    violations: tuple[RuleViolation, ...]
    mended: frozenset[int]
    bytes_kept: int
    bytes_set_aside: int
    bytes_after: int

    @property
    def actions(self) -> tuple[RepairAction, ...]:
        """What is done to which line."""
        return tuple(self.draft.actions)

    @property
    def set_aside(self) -> tuple[SetAsideBytes, ...]:
        """The spans of the log that are not in the result unchanged."""
        return tuple(self.draft.set_aside())

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self.draft.notes)

    @property
    def bytes_before(self) -> int:
        return self.draft.size


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
    return LogRepair(draft, proof, violations, mended, *draft.sums())


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


# For these codes a finding says how much history is affected.
_ABOUT_HISTORY = frozenset(["history-cut", "unlinked-answer", "session-not-found"])
_NOT_RESUMED = "nothing to do: the client does not resume a sub-agent's log"


class Diagnosis(Struct, frozen=True):
    """The findings of one log, and the repair that fixes those with ``repair`` set; None where it fixes none.

    ``counts`` has all findings by code; ``findings`` holds only the first ones of a rule that is violated
    very often. ``refusal`` has the reasons why a planned repair would not be sound.
    """

    scan: LogScan
    findings: tuple[Finding, ...]
    counts: Counter[str]
    repair: LogRepair | None = None
    refusal: tuple[str, ...] = ()

    @property
    def mended(self) -> tuple[Finding, ...]:
        """The findings that the repair fixes."""
        return tuple(one for one in self.findings if one.repair is not None)

    @property
    def left(self) -> tuple[Finding, ...]:
        """The findings that no repair fixes."""
        return tuple(one for one in self.findings if one.repair is None)


def diagnosed(source: LogSource) -> Diagnosis:
    """Examine one log without changing it."""
    scan = source.scan()
    plan = mended(source, scan) if source.log.kind != "agent" and scan.is_mendable else None
    refusal = plan.proof.problems if plan is not None else ()
    # Worth it: it fixes a finding that repairs are for, not only what changes as a side effect.
    is_worth_it = plan is not None and any(
        CODES[plan.violations[one].code].is_mendable for one in plan.mended
    )
    is_sound = plan is not None and plan.proof.holds and is_worth_it
    repair = plan if is_sound else None
    violations = scan.violations if repair is None else repair.violations
    findings = tuple(
        _finding(source, scan, violation, repair, is_mended=repair is not None and number in repair.mended)
        for number, violation in enumerate(violations)
    )
    # Of a rule that is violated very often the scan kept only the first violations.
    more = {code: count - MOST_KEPT for code, count in scan.counts.items() if count > MOST_KEPT}
    return Diagnosis(scan, findings, Counter(one.code for one in violations) + Counter(more), repair, refusal)


def _finding(
    source: LogSource, scan: LogScan, violation: RuleViolation, repair: LogRepair | None, *, is_mended: bool
) -> Finding:
    rule, log, line = CODES[violation.code], source.log, scan.line_number(violation)
    return Finding(
        violation.code,
        rule.severity,
        violation.what + _numbers(violation, scan, repair if is_mended else None),
        _fix(rule, log, is_mended=is_mended),
        log.path,
        log.session or None,
        log.agent,
        line,
        violation.offset,
        violation.uuid,
        _how(violation, line, repair) if repair is not None and is_mended else None,
    )


@functools.lru_cache(maxsize=64)
def _fix(rule: CheckRule, log: LogIdentity, *, is_mended: bool) -> str:
    if log.kind == "agent" and rule.is_mendable:
        return _NOT_RESUMED
    return (REPAIR if is_mended else rule.other_fix).format(
        session=hint_name(log.session, log.path), path=log.path
    )


def _numbers(violation: RuleViolation, scan: LogScan, repair: LogRepair | None) -> str:
    if violation.code not in _ABOUT_HISTORY:
        return ""
    now = f"the history has {len(scan.resumed.history):,} messages now"
    return f"; {now}" if repair is None else f"; {now}, {repair.proof.history_after:,} after a repair"


def _how(violation: RuleViolation, line: int | None, repair: LogRepair) -> str:
    """What the repair does to the entry or line of a finding."""
    own = [
        action.code
        for action in repair.actions
        if (action.uuid == violation.uuid if violation.uuid and action.uuid else action.line == line)
    ]
    words = [ACTIONS[code] for code in dict.fromkeys(own)]
    return ", ".join(words) or "fix other lines, which fixes this too"
