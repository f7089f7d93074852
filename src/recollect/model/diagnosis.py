"""What is wrong with a log, and what a repair would fix: one answer for ``check``, ``repair`` and the page.

Every rule is applied to the log. If a violated rule can be fixed by a repair, the repair is planned and its
result is scanned with the same rules. Only findings that are gone from that result count as fixed. So
``check`` recommends a repair exactly where ``repair`` makes one, with the same numbers.

A repair is neither recommended nor made where its result would have an error that the log has not, or a
shorter history; ``refusal`` says so. Logs of sub-agents are not repaired: no client resumes them directly.
"""

from __future__ import annotations

import functools
from collections import Counter

from msgspec import Struct

from recollect.model.checks import CODES, REPAIR, CheckRule, RuleViolation
from recollect.model.checks.scan import MOST_KEPT, LogIdentity, LogScan, LogSource
from recollect.model.findings import Finding
from recollect.model.ids import short_id
from recollect.model.repair.actions import ACTIONS
from recollect.model.repair.plan import LogRepair, mended

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
    is_sound = plan is not None and plan.proof.holds and _is_worth_it(plan)
    repair = plan if is_sound else None
    violations = scan.violations if repair is None else repair.violations
    findings = tuple(
        _finding(source, scan, violation, repair, is_mended=repair is not None and number in repair.mended)
        for number, violation in enumerate(violations)
    )
    # Of a rule that is violated very often the scan kept only the first violations.
    more = {code: count - MOST_KEPT for code, count in scan.counts.items() if count > MOST_KEPT}
    return Diagnosis(scan, findings, Counter(one.code for one in violations) + Counter(more), repair, refusal)


def _is_worth_it(plan: LogRepair) -> bool:
    """Whether it fixes a finding that repairs are for, not only what changes as a side effect."""
    return any(CODES[plan.violations[number].code].is_mendable for number in plan.mended)


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
    return (REPAIR if is_mended else rule.other_fix).format(session=short_id(log.session), path=log.path)


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
