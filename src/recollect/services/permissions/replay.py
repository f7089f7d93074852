"""Replay history against rules: what would have been allowed, asked and denied, by which rule, with examples.

Every past call is decided as it would be now, in its own directory: with that project's settings and trust,
or with the rules of a file instead. Decisions are cached by tool, arguments and directory, because sessions
repeat calls. Files are examined as they are today; links and missing files may have been different then.

Nothing is run and nothing is written.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from recollect.model.json.text import loose_object
from recollect.policy.decision import Decision, RuleSource, Verdict
from recollect.policy.engine import PolicyEngine, RuleSet
from recollect.policy.tool_names import PRIMARY_ARGUMENTS
from recollect.services.permissions.call_history import PastCall
from recollect.services.permissions.engine import ProjectEngine, permit
from recollect.services.permissions.file_world import CachedFileWorld
from recollect.storage.home import ClaudeHome

EXAMPLES = 3
# Without a rule the reason names the file; reasons that differ only in that are one.
_ANY_PATH = re.compile(r"^[~/].*(?= (?:is|was|has) )", re.DOTALL)
_LONG = 2_000
_EXAMPLE_LENGTH = 500


class CallExample(NamedTuple):
    """One example call."""

    tool: str
    text: str
    session: str
    cwd: str
    at: dt.datetime | None


@dataclass(slots=True)
class RuleUse:
    """The decisions of one rule, or of the lack of one."""

    verdict: Verdict
    rule: str | None
    source: RuleSource | None
    why: str
    calls: int = 0
    examples: list[CallExample] = field(default_factory=list)

    def add(self, call: PastCall) -> None:
        """Add a call; the first few different ones are kept as examples."""
        self.calls += 1
        if len(self.examples) < EXAMPLES:
            example = _example(call)
            if all(example.text != one.text for one in self.examples):
                self.examples.append(example)


@dataclass(slots=True)
class VerdictShift:
    """Calls that new rules would decide differently."""

    before: Verdict
    after: Verdict
    rule: str | None
    calls: int = 0
    examples: list[CallExample] = field(default_factory=list)


@dataclass(slots=True)
class Replay:
    """The result of a replay."""

    calls: int = 0
    counts: dict[Verdict, int] = field(default_factory=lambda: dict.fromkeys(Verdict, 0))
    uses: dict[tuple[Verdict, str, str | None, int | None], RuleUse] = field(default_factory=dict)
    unanalysable: int = 0
    shifts: dict[tuple[Verdict, Verdict, str], VerdictShift] = field(default_factory=dict)
    fired: set[tuple[str, str, str | None, int | None]] = field(default_factory=set)
    """Rules that decided part of a call: verdict, text, file, line."""
    directories: int = 0

    def by_count(self, verdict: Verdict) -> list[RuleUse]:
        """The uses with that verdict, the most frequent first."""
        found = [use for use in self.uses.values() if use.verdict is verdict]
        return sorted(found, key=lambda use: (-use.calls, use.rule or "", use.why))


class Replayer:
    """Decides past calls; one engine per directory, one decision per distinct call."""

    def __init__(
        self,
        home: ClaudeHome,
        *,
        rules: RuleSet | None = None,
        managed: Path | None = None,
        command_line: str | None = None,
        mode: str | None = None,
    ) -> None:
        self._home, self._rules, self._mode = home, rules, mode
        self._managed, self._command_line = managed, command_line
        self._world = CachedFileWorld()
        self._permits: dict[str, ProjectEngine] = {}
        self._decided: dict[tuple[str, bytes, str], Decision] = {}

    @property
    def permits(self) -> Sequence[ProjectEngine]:
        """The engines of all directories so far."""
        return list(self._permits.values())

    def permit(self, cwd: str) -> ProjectEngine:
        """The engine of a directory."""
        found = self._permits.get(cwd)
        if found is None:
            found = permit(
                self._home,
                cwd or "/",
                mode=self._mode,
                managed=self._managed,
                command_line=self._command_line,
                world=self._world,
                rules=self._rules,
            )
            self._permits[cwd] = found
        return found

    def with_more(self, cwd: str, rules: RuleSet) -> PolicyEngine:
        """The engine of a directory with other rules instead of its own."""
        engine = self.permit(cwd).engine
        return PolicyEngine(rules, engine.workspace, engine.mode, self._world)

    def decide(self, call: PastCall) -> Decision:
        """What would be decided about a call today."""
        key = (call.tool, hashlib.blake2b(call.input, digest_size=16).digest(), call.cwd)
        found = self._decided.get(key)
        if found is None:
            found = self._decided[key] = self.permit(call.cwd).decide(call.tool, arguments_of(call))
        return found


def replay(calls: Iterable[PastCall], replayer: Replayer, before: Replayer | None = None) -> Replay:
    """Decide every call; with ``before``, also list what those rules decided differently."""
    result = Replay()
    for call in calls:
        decision = replayer.decide(call)
        result.calls += 1
        result.counts[decision.verdict] += 1
        result.unanalysable += bool(decision.unanalysable)
        _use(result, decision).add(call)
        for part in decision.parts:
            if part.rule is not None and part.source is not None:
                result.fired.add((part.verdict, part.rule, part.source.path, part.source.line))
        if before is not None:
            _compare(result, call, before.decide(call), decision)
    result.directories = len(replayer.permits)
    return result


def _use(result: Replay, decision: Decision) -> RuleUse:
    source = decision.source
    place = (source.path, source.line) if source is not None else (None, None)
    why = decision.why if decision.rule is not None else _ANY_PATH.sub("the path", decision.why)
    key = (decision.verdict, decision.rule or why, *place)
    found = result.uses.get(key)
    if found is None:
        found = result.uses[key] = RuleUse(decision.verdict, decision.rule, source, why)
    return found


def _compare(result: Replay, call: PastCall, old: Decision, new: Decision) -> None:
    if old.verdict is new.verdict:
        return
    rule = new.rule or new.why
    shift = result.shifts.setdefault(
        (old.verdict, new.verdict, rule), VerdictShift(old.verdict, new.verdict, new.rule)
    )
    shift.calls += 1
    if len(shift.examples) < EXAMPLES:
        shift.examples.append(_example(call))


def arguments_of(call: PastCall) -> dict[str, object]:
    """A call's arguments; file contents are cut, because no rule reads them."""
    try:
        found = msgspec.json.decode(call.input)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = loose_object(call.input)
    if not isinstance(found, dict):
        return {}
    if call.tool == "Bash" or len(call.input) <= _LONG:
        return dict(found)
    return {
        name: value[:_LONG] if isinstance(value, str) and name not in PRIMARY_ARGUMENTS else value
        for name, value in found.items()
    }


def _example(call: PastCall) -> CallExample:
    return CallExample(call.tool, shown(call), call.session, call.cwd, call.at)


def shown(call: PastCall) -> str:
    """A short text for a call, without its secrets: its command, path or address, else its arguments."""
    return _without_secrets(_about(call))


@lru_cache(maxsize=10_000)
def _without_secrets(text: str) -> str:
    # Imported here: the patterns cost more to load than a single decision.
    from recollect.model.secrets.redaction import redacted

    return redacted(text, lambda _: "hidden").text[:_EXAMPLE_LENGTH]


def _about(call: PastCall) -> str:
    arguments = arguments_of(call)
    for name in ("command", "file_path", "notebook_path", "url", "pattern", "path", "query"):
        value = arguments.get(name)
        if isinstance(value, str):
            return value[:_LONG]
    return call.input[:_LONG].decode("utf-8", "replace")
