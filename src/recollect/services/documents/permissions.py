"""What ``perm --json`` prints: decisions, replays of history, suggestions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import UNSET, Struct, UnsetType

from recollect.policy.decision import Decision, RuleSource, Verdict
from recollect.policy.rules.warnings import RuleWarning
from recollect.services.permissions.replay import CallExample, Replay
from recollect.services.permissions.suggest import IdleRule, RuleAdvice


class RuleSourceDocument(Struct, frozen=True):
    """Where a rule is written."""

    scope: str
    file: str | None
    line: int | None


class CallPartDocument(Struct, frozen=True, kw_only=True):
    """One part of a call, such as a command of a shell text, and what decided it."""

    text: str
    decision: str
    rule: str | None
    source: RuleSourceDocument | None
    why: str


class RuleLookDocument(Struct, frozen=True, kw_only=True, rename={"list_": "list"}):
    """A rule that was looked at, and whether it matched."""

    rule: str | None
    source: RuleSourceDocument | None
    list_: str
    matched: bool
    why: str


class SourcedWarningDocument(Struct, frozen=True, kw_only=True, rename={"list_": "list"}):
    """A rule that does something other than it seems to, with its place."""

    rule: str | None
    source: RuleSourceDocument | None
    list_: str
    kind: str
    why: str


class DecisionDocument(Struct, frozen=True, kw_only=True):
    """What ``perm check --json`` prints; ``rules`` and ``warnings`` come with ``perm explain``."""

    decision: str
    rule: str | None
    source: RuleSourceDocument | None
    why: str
    parts: list[CallPartDocument]
    unanalysable: Sequence[str]
    bound_to: str
    mode: str
    trusted: bool
    problems: list[str]
    rules: list[RuleLookDocument] | UnsetType = UNSET
    warnings: list[SourcedWarningDocument] | UnsetType = UNSET


class CallExampleDocument(Struct, frozen=True):
    """A call of the past."""

    tool: str
    text: str
    session: str
    cwd: str
    at: object


class RuleUseDocument(Struct, frozen=True, kw_only=True):
    """How often a rule decided, with examples."""

    decision: str
    rule: str | None
    source: RuleSourceDocument | None
    why: str
    calls: int
    examples: list[CallExampleDocument]


class DecisionShiftDocument(Struct, frozen=True, kw_only=True):
    """Calls that other rules would decide otherwise."""

    before: str
    after: str
    rule: str | None
    calls: int
    examples: list[CallExampleDocument]


class ReplayDocument(Struct, frozen=True, kw_only=True):
    """What ``perm replay --json`` prints."""

    calls: int
    allowed: int
    asked: int
    denied: int
    unanalysable: int
    by_rule: list[RuleUseDocument]
    changes: list[DecisionShiftDocument]


class SuggestedRuleDocument(Struct, frozen=True):
    """A rule that would have saved prompts."""

    rule: str
    tier: object
    prompts: int
    examples: list[CallExampleDocument]


class AdviceDocument(Struct, frozen=True, kw_only=True):
    """What ``perm suggest --json`` prints; ``idle`` are rules that decided nothing."""

    calls: int
    prompts: int
    saved: int
    allow: list[str]
    suggestions: list[SuggestedRuleDocument]
    idle: list[SourcedWarningDocument]


def decision_document(
    decision: Decision, *, mode: str, trusted: bool, problems: Iterable[object]
) -> DecisionDocument:
    return DecisionDocument(
        decision=decision.verdict,
        rule=decision.rule,
        source=source_document(decision.source),
        why=decision.why,
        parts=[
            CallPartDocument(
                text=part.text,
                decision=part.verdict,
                rule=part.rule,
                source=source_document(part.source),
                why=part.why,
            )
            for part in decision.parts
        ],
        unanalysable=decision.unanalysable,
        bound_to=decision.bound_to,
        mode=mode,
        trusted=trusted,
        problems=[str(one) for one in problems],
    )


def source_document(source: RuleSource | None) -> RuleSourceDocument | None:
    return None if source is None else RuleSourceDocument(source.scope, source.path, source.line)


def warning_document(warning: RuleWarning | IdleRule) -> SourcedWarningDocument:
    return SourcedWarningDocument(
        rule=warning.rule.text,
        source=source_document(warning.rule.source),
        list_=warning.rule.verdict,
        kind=warning.kind,
        why=warning.why,
    )


def _examples(examples: Iterable[CallExample]) -> list[CallExampleDocument]:
    return [CallExampleDocument(one.tool, one.text, one.session, one.cwd, one.at) for one in examples]


def replay_document(found: Replay) -> ReplayDocument:
    return ReplayDocument(
        calls=found.calls,
        allowed=found.counts[Verdict.ALLOW],
        asked=found.counts[Verdict.ASK],
        denied=found.counts[Verdict.DENY],
        unanalysable=found.unanalysable,
        by_rule=[
            RuleUseDocument(
                decision=use.verdict,
                rule=use.rule,
                source=source_document(use.source),
                why=use.why,
                calls=use.calls,
                examples=_examples(use.examples),
            )
            for verdict in found.counts
            for use in found.by_count(verdict)
        ],
        changes=[
            DecisionShiftDocument(
                before=shift.before,
                after=shift.after,
                rule=shift.rule,
                calls=shift.calls,
                examples=_examples(shift.examples),
            )
            for shift in found.shifts.values()
        ],
    )


def advice_document(advice: RuleAdvice) -> AdviceDocument:
    return AdviceDocument(
        calls=advice.calls,
        prompts=advice.prompts,
        saved=advice.saved,
        allow=[one.rule for one in advice.suggestions],
        suggestions=[
            SuggestedRuleDocument(one.rule, one.tier, one.prompts, _examples(one.examples))
            for one in advice.suggestions
        ],
        idle=[warning_document(one) for one in advice.idle],
    )
