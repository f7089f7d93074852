"""What reading on in a rollout of Codex needs to know of what was read before."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Struct

from recollect.agents import lines as entry
from recollect.agents.codex_records import COUNTS, fitted_line, meta_of
from recollect.agents.growth import UnitState
from recollect.agents.lines import LineFields, Voice
from recollect.agents.loose import Fields
from recollect.agents.mirror import AgentMirror
from recollect.agents.mirror_files import originals


class RolloutState(UnitState, Struct, kw_only=True):
    """What reading on needs to know."""

    voice: Voice = msgspec.field(default_factory=Voice)
    source: str = ""  # where it lay when it was first read; the client moves and compresses rollouts
    thread: str = ""
    forked_from: str | None = None
    origin: str = ""  # the thread whose meta line stands last above
    copy_of: str = ""  # the first other one: what was copied
    model: str | None = None
    turn: str | None = None
    models: dict[str, str | None] = {}
    recorded: list[str] = []  # turns whose calls have records of their own
    total: tuple[int, ...] | None = None
    is_reviewer: bool = False
    in_review: bool = False
    searches: int = 0
    tier: str | None = None  # of the service, where the client says it
    prompts: list[str | None] = []  # the entry before each prompt, for rolling back
    carried: int = 0  # bytes of prompts that compactions without a list of what they left carried over
    calls: dict[str, str] = {}  # open calls by id: the tool
    edits: dict[str, list[LineFields]] = {}  # what open calls are to change

    def begin_again(self) -> None:
        """The file is another one."""
        fresh = RolloutState(growth=self.growth)
        for name in self.__struct_fields__:
            setattr(self, name, getattr(fresh, name))


# How many turns back a count may belong to.
_TURNS_KEPT = 32


class CallCounter:
    """Which lines are one model call each; everything else repeats one.

    A ``token_usage_record`` is. In a turn without any, a ``token_count`` is where it has tokens of its own and the
    running total moved. Copies in other files have the same key. Between the marks of a review (0.77) the counts
    are those of the reviewer's own rollout.
    """

    def __init__(self, state: RolloutState) -> None:
        self._state = state

    def of(self, kind: object, payload: Fields, voice: Voice) -> list[LineFields]:
        state, event = self._state, payload.get("type")
        if kind == "turn_context":
            state.turn = payload.get("turn_id") or state.turn
            state.model = payload.get("model") or state.model
            if state.turn:
                state.models[state.turn] = state.model
                while len(state.models) > _TURNS_KEPT:
                    state.models.pop(next(iter(state.models)))
        elif kind == "token_usage_record":
            return self._recorded(payload, voice)
        elif kind == "event_msg" and event == "thread_settings_applied":
            state.tier = (payload.get("thread_settings") or {"service_tier": state.tier}).get("service_tier")
        elif kind == "event_msg" and event == "task_started":
            state.turn = payload.get("turn_id") or state.turn
        elif kind == "event_msg" and event in ("entered_review_mode", "exited_review_mode"):
            state.in_review = event == "entered_review_mode"
        elif kind == "event_msg" and event == "token_count" and payload.get("info"):
            return self._counted(payload["info"], voice)
        return []

    def _recorded(self, payload: Fields, voice: Voice) -> list[LineFields]:
        state, turn = self._state, payload.get("turn_id")
        if turn is not None and turn not in state.recorded:
            state.recorded = [*state.recorded[-_TURNS_KEPT:], turn]
        counts = vector(payload.get("usage"))
        # Not every service gives its responses names of their own; a copy keeps the turn.
        return self._call(voice, entry.key_of("codex", payload.get("response_id"), turn), turn, counts)

    def _counted(self, info: Fields, voice: Voice) -> list[LineFields]:
        state = self._state
        total, last = vector(info.get("total_token_usage")), vector(info.get("last_token_usage"))
        is_call = last[0] + last[3] > 0
        if state.in_review:
            key = entry.key_of("codex-review", total, last)
            echo = self._call(voice, key, state.turn, last) if is_call else []
            for line in echo:
                line["isSidechain"] = True  # the reviewer's own copy goes before it
            return echo
        is_call = is_call and total != state.total and state.turn not in state.recorded
        state.total = total
        if not is_call:
            return []
        if state.turn:
            key = entry.key_of("codex-turn", state.turn, total)
        elif state.is_reviewer:
            key = entry.key_of("codex-review", total, last)
        else:
            key = entry.key_of("codex-thread", state.origin, total, last)
        return self._call(voice, key, state.turn, last)

    def _call(self, voice: Voice, key: str, turn: str | None, counts: tuple[int, ...]) -> list[LineFields]:
        state = self._state
        model = state.models.get(turn, state.model) if turn is not None else state.model
        whole, cached, written, output, thought = counts
        said = {
            "input": max(whole - cached - written, 0),
            "cache_read": cached,
            "cache_write": written,
            "output": output,
        }
        if state.searches:
            said["web_searches"] = state.searches
        state.searches = 0
        # Its "fast" is the service's "priority", which in Claude's logs is another thing.
        name = {"priority": "fast"}.get(state.tier or "", state.tier)
        tier = {} if name in (None, "default", "auto") else {"service_tier": name}
        return [
            entry.usage(voice, key, model, said, output_tokens_details={"thinking_tokens": thought}, **tier)
        ]


def vector(usage: Fields | None) -> tuple[int, ...]:
    """The counts of a usage, in the order of ``COUNTS``."""
    return tuple([(usage or {}).get(name) or 0 for name in COUNTS])


class InheritedHistory(NamedTuple):
    """What a fork goes on from: the conversation, first entry first, the running total of its tokens, and whether all of it
    is here.
    """

    chain: list[LineFields]
    total: tuple[int, ...] | None
    is_whole: bool


def inherited_history(into: AgentMirror, log: str, rollout: str, end: int) -> InheritedHistory:
    """The history of a rollout in a log, up to an ordinal."""
    records = _records(into, log, rollout)
    last = records[-1].get("ordinal") if records else None  # old ones number nothing
    is_whole = last is None or last >= end - 1
    return InheritedHistory(_chain(into, log, rollout, end), _total(into, records, end, {rollout}), is_whole)


def _records(into: AgentMirror, log: str, rollout: str) -> list[LineFields]:
    sources = originals(into.lines(log))
    mine = next((sources[name] for name in sources if f"{rollout}.jsonl" in name), [])
    return [fitted_line(raw).fields for raw in mine]


def _chain(into: AgentMirror, log: str, rollout: str, end: int) -> list[LineFields]:
    by_id: dict[str, LineFields] = {}
    leaf, name = None, ""
    for line in into.lines(log):
        if line.get("type") == entry.SOURCE:
            name = str(line["source"])
        if "uuid" not in line:
            continue
        by_id[line["uuid"]] = line
        is_own = "original" not in line and "forkedFrom" in line
        if (rollout in name or is_own) and line.get("ordinal", end) < end:
            leaf = line["uuid"]
    chain: list[LineFields] = []
    while leaf in by_id and len(chain) <= len(by_id):
        line = by_id[leaf]
        chain.append({key: value for key, value in line.items() if not key.startswith("original")})
        leaf = line.get("parentUuid") or line.get("logicalParentUuid")
    return chain[::-1]


def _total(into: AgentMirror, records: list[LineFields], end: int, below: set[str]) -> tuple[int, ...] | None:
    """A circle of forks ends where it began."""
    total = None
    for line in records:
        payload: Fields = line.get("payload") or {}
        info = payload.get("info") if payload.get("type") == "token_count" else None
        if info and line.get("ordinal", end) < end:
            total = vector(info.get("total_token_usage"))
    metas = (meta for line in records if (meta := meta_of(line)))
    above: Fields = next(metas, {}).get("history_base") or {}
    elder = str(above.get("thread_id"))
    log = into.log_of(elder) if total is None and elder not in below else None
    if log is None:
        return total
    until = min(end, above.get("end_ordinal_exclusive") or 0)
    return _total(into, _records(into, log, elder), until, below | {elder})


def before_prompts(chain: list[LineFields]) -> list[str | None]:
    """The entry before each prompt that is still sent after such a history; what a compaction left counts too."""
    result: list[str | None] = []
    for line in chain:
        if line.get("subtype") == entry.COMPACTED:
            result.clear()
        elif is_prompt_line(line) or line.get("isCompactSummary"):
            result.append(line["parentUuid"])
    return result


def is_prompt_line(line: LineFields) -> bool:
    """Whether an entry is a prompt for a roll-back: what a person typed, or a sub-agent told."""
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    is_result = isinstance(content, list) and any(block.get("type") == "tool_result" for block in content)
    is_aside = line.get("isMeta") and entry.FROM_AGENT not in line
    return line.get("type") == "user" and not (is_aside or line.get("isCompactSummary") or is_result)
