"""Replay history against rules: what would have been allowed, asked and denied, by which rule, with examples.

Every past call in the logs of the homes is decided as it would be now, in its own directory: with that project's
settings and trust, or with the rules of a file instead. Calls of sub-agents count; a call in several logs (a fork
copies its history) counts once. Files are examined as they are today. Nothing is run and nothing is written.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from recollect.errors import RecollectError
from recollect.guard.permissions.engine import FileWorld, ProjectEngine, permit
from recollect.guard.policy.engine import RuleSet
from recollect.guard.policy.path_judge import MemoizedWorld
from recollect.guard.policy.terms import PRIMARY_ARGUMENTS
from recollect.model.conversation.tool_calls import is_denial
from recollect.model.lines.damage import Line
from recollect.model.lines.ids import parsed_time
from recollect.model.lines.json_text import loose_object, loose_value
from recollect.model.secrets.redaction import redacted
from recollect.model.settings.decision import Decision, RuleSource, Verdict
from recollect.model.views.fact_line import fact_line
from recollect.store.home import ClaudeHome, LogFile
from recollect.store.logs.reader import OpenLog

_HINT = b"tool_use"
_CLOCKS_DIFFER = dt.timedelta(days=2)


class PastCall(NamedTuple):
    """One call. ``input`` is its JSON from the log; ``at`` is None where the line has no time."""

    tool: str
    input: bytes
    cwd: str
    session: str
    at: dt.datetime | None = None
    refused: bool = False
    """A person or a rule denied it."""


def past_calls(
    homes: Sequence[ClaudeHome], since: dt.datetime | None = None, until: dt.datetime | None = None
) -> Iterator[PastCall]:
    """The calls of all sessions and sub-agents, in the order of the files, each once."""
    seen: set[str] = set()
    for home in homes:
        for project in home.projects():
            for log in (*home.sessions(project), *home.project_agents(project)):
                if since is None or log.mtime_ns / 1e9 >= (since - _CLOCKS_DIFFER).timestamp():
                    for key, call in _calls(home, log):
                        if key in seen or not _within(call.at, since, until):
                            continue
                        seen.add(key)
                        yield call


def _within(at: dt.datetime | None, since: dt.datetime | None, until: dt.datetime | None) -> bool:
    if at is None:
        return since is None and until is None
    return (since is None or at >= since) and (until is None or at < until)


def _calls(home: ClaudeHome, log: LogFile) -> Iterator[tuple[str, PastCall]]:
    """The calls of one log; results follow their calls, so the whole log is read first."""
    found: dict[str, PastCall] = {}
    cwd = ""
    try:
        with OpenLog(log.path) as opened:
            for line in opened.lines():
                if isinstance(line, Line) and _HINT in line.data:
                    for key, call in _in_line(log.path, line, cwd, found):
                        cwd = call.cwd
                        found.setdefault(key, call)
    except RecollectError as problem:
        home.note_problem(log.path, problem.message)
    yield from found.items()


def _in_line(
    path: Path, line: Line, cwd: str, earlier: dict[str, PastCall]
) -> Iterator[tuple[str, PastCall]]:
    found = fact_line(line.data)
    if found is None:
        return
    session, at = found.session_id or path.stem, parsed_time(found.timestamp)
    for block in found.calls:
        key = block.id or f"{path}:{line.offset}"
        yield key, PastCall(block.name, bytes(block.input), found.cwd or cwd, session, at)
    for block in found.results:
        if not block.is_error or block.tool_use_id not in earlier:
            continue
        said = loose_value(block.content)
        if isinstance(said, list):
            said = next((one.get("text") for one in said if isinstance(one, dict)), None)
        if isinstance(said, str) and is_denial(said):
            earlier[block.tool_use_id] = earlier[block.tool_use_id]._replace(refused=True)


_EXAMPLES = 3
# Without a rule the reason names the file; reasons that differ only in that are one.
_ANY_PATH = re.compile(r"^[~/].*(?= (?:is|was|has) )", re.DOTALL)
_LONG = 2_000
_EXAMPLE_LENGTH = 500


class CallExample(Struct, frozen=True):
    """A call of the past."""

    tool: str
    text: str
    session: str
    cwd: str
    at: dt.datetime | None


class CallGroup(Struct, kw_only=True):
    """Calls that have something in common: how many, and the first few different ones."""

    calls: int = 0
    examples: list[CallExample] = []

    def add(self, call: PastCall) -> None:
        self.calls += 1
        if len(self.examples) < _EXAMPLES:
            example = CallExample(call.tool, shown(call), call.session, call.cwd, call.at)
            if all(example.text != other.text for other in self.examples):
                self.examples.append(example)


class RuleUse(CallGroup, rename={"verdict": "decision"}):
    """The decisions of one rule, or of the lack of one."""

    verdict: Verdict
    rule: str | None
    source: RuleSource | None
    why: str


class VerdictShift(CallGroup):
    """Calls that new rules would decide differently."""

    before: Verdict
    after: Verdict
    rule: str | None


class Replay(Struct, kw_only=True):
    """The result of a replay: decisions by verdict and by rule, and what other rules would change."""

    calls: int
    directories: int
    counts: dict[Verdict, int]
    unanalysable: int
    by_rule: list[RuleUse]
    """By verdict; in each the most frequent first."""
    changes: list[VerdictShift]


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
        self._world = MemoizedWorld(FileWorld())  # for analysing, never for a call that is about to run
        self._permits: dict[str, ProjectEngine] = {}
        self._decided: dict[tuple[str, bytes, str], Decision] = {}

    @property
    def permits(self) -> Sequence[ProjectEngine]:
        return list(self._permits.values())

    def permit(self, cwd: str) -> ProjectEngine:
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

    def decide(self, call: PastCall) -> Decision:
        key = (call.tool, hashlib.blake2b(call.input, digest_size=16).digest(), call.cwd)
        found = self._decided.get(key)
        if found is None:
            found = self._decided[key] = self.permit(call.cwd).decide(call.tool, arguments_of(call))
        return found


def replay(calls: Iterable[PastCall], replayer: Replayer, before: Replayer | None = None) -> Replay:
    """Decide every call; with ``before``, also list what those rules decided differently."""
    counts = dict.fromkeys(Verdict, 0)
    uses: dict[tuple[Verdict, str, RuleSource | None], RuleUse] = {}
    shifts: dict[tuple[Verdict, Verdict, str], VerdictShift] = {}
    unanalysable = 0
    for call in calls:
        decision = replayer.decide(call)
        verdict, rule, source = decision.verdict, decision.rule, decision.source
        counts[verdict] += 1
        unanalysable += bool(decision.unanalysable)
        why = decision.why if rule is not None else _ANY_PATH.sub("the path", decision.why)
        uses.setdefault((verdict, rule or why, source), RuleUse(verdict, rule, source, why)).add(call)
        old = verdict if before is None else before.decide(call).verdict
        if old is not verdict:
            shift = VerdictShift(old, verdict, rule)
            shifts.setdefault((old, verdict, rule or decision.why), shift).add(call)
    order = list(Verdict)
    return Replay(
        calls=sum(counts.values()),
        directories=len(replayer.permits),
        counts=counts,
        unanalysable=unanalysable,
        by_rule=sorted(
            uses.values(), key=lambda use: (order.index(use.verdict), -use.calls, use.rule or "", use.why)
        ),
        changes=list(shifts.values()),
    )


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


def shown(call: PastCall) -> str:
    """A short text for a call, without its secrets: its command, path or address, else its arguments."""
    return _without_secrets(_about(call))


@lru_cache(maxsize=10_000)
def _without_secrets(text: str) -> str:
    return redacted(text, lambda _: "hidden").data[:_EXAMPLE_LENGTH]


def _about(call: PastCall) -> str:
    arguments = arguments_of(call)
    for name in ("command", "file_path", "notebook_path", "url", "pattern", "path", "query"):
        value = arguments.get(name)
        if isinstance(value, str):
            return value[:_LONG]
    return call.input[:_LONG].decode("utf-8", "replace")
