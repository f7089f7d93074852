"""Codex CLI, 0.8 to 0.166: rollouts of three eras, as docs/design/agents.md sums up their format.

A rollout has no parent links: its order is the conversation. A rolled back turn stays as a branch that nothing
follows. A fork without a copy of its history (``history_base``) gets one here, marked as such; a reverted thread goes on in
the same log from where it was cut. What one model call used is said several times, in other words and in copies:
``_CallCounter`` decides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from recollect.model.json.text import loose_value
from recollect.storage.foreign import lines as made
from recollect.storage.foreign.edits import in_patch, with_changes
from recollect.storage.foreign.growth import Growth, Unit, content, new_lines, stamped, walked
from recollect.storage.foreign.lines import Line, Voice
from recollect.storage.foreign.loose import COUNT, MOMENT, FittedRecord, Shape, fitted, parsed, translated
from recollect.storage.foreign.mirror import AgentMirror, Placed, originals
from recollect.storage.foreign.resumed import Item, MirroredThread
from recollect.system.peek import ReadProblems

Payload = dict[str, Any]

NAMES = "session_index.jsonl"
_ROLLOUT = re.compile(
    r"rollout-(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)-([0-9a-fA-F-]{36})(?:_([0-9a-fA-F-]{36}))?\.jsonl(\.zst)?\Z"
)
_COUNTS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
)
# How many turns back a count may belong to.
_TURNS_KEPT = 32
INJECTED = (
    "<environment_context>",
    "# AGENTS.md instructions",
    "<user_instructions>",
    "<turn_aborted>",
    "<user_shell_command>",
    "<subagent_notification>",
    "<user_action>",
    "<skill>",
)
# Events that repeat items in other words, or only concern what a user interface shows.
_SILENT_EVENTS = frozenset(
    [
        *("token_count", "task_started", "task_complete", "user_message", "agent_message", "agent_reasoning"),
        *(
            "entered_review_mode",
            "exited_review_mode",
            "context_compacted",
            "patch_apply_end",
            "mcp_tool_call_end",
        ),
        *(
            "web_search_end",
            "exec_command_end",
            "item_completed",
            "thread_settings_applied",
            "thread_goal_updated",
        ),
        *("sub_agent_activity", "thread_name_updated", "collab_agent_spawn_end", "collab_waiting_end"),
        *("image_generation_end", "view_image_tool_call", "agent_reasoning_raw_content", "plan_update"),
        *(
            "collab_close_end",
            "collab_agent_interaction_end",
            "guardian_assessment",
            "dynamic_tool_call_response",
        ),
        *("agent_reasoning_section_break", "turn_diff", "patch_apply_begin", "mcp_tool_call_begin"),
        *("background_event", "undo_completed", "model_reroute", "dynamic_tool_call_request"),
    ]
)
_SILENT_LINES = frozenset(
    [
        "turn_context",
        "world_state",
        "token_usage_record",
        "inter_agent_communication_metadata",
        "security_risk_score",
    ]
)
_SILENT_ITEMS = frozenset(["ghost_snapshot", "compaction", "tool_search_call", "tool_search_output", "other"])
_CONTENT: Shape = [{"type": str, "text": str, "image_url": str}]
_SPAWN: Shape = {
    **dict.fromkeys(("parent_thread_id", "agent_role", "agent_nickname", "agent_path"), str),
    "depth": COUNT,
}
_META: dict[str, Shape] = {
    **dict.fromkeys(("id", "forked_from_id", "cwd", "session_id", "parent_thread_id", "cli_version"), str),
    **dict.fromkeys(("agent_role", "agent_nickname", "thread_source"), str),
    "source": ({"subagent": ({"thread_spawn": _SPAWN}, str)}, str),
    "history_base": {"thread_id": str, "end_ordinal_exclusive": COUNT},
    "git": {"branch": str},
    "timestamp": MOMENT,
}
_ITEM: dict[str, Shape] = {
    **dict.fromkeys(("type", "role", "id", "call_id", "name", "namespace", "author"), str),
    "content": (_CONTENT, str),
    "summary": _CONTENT,
    "arguments": (str, {}),
    "input": (str, {}),
    "action": {"type": str},
    "output": (str, _CONTENT, {}),
}
_ACTIVITY: dict[str, Shape] = {
    **dict.fromkeys(("type", "event_id", "id", "agent_thread_id", "kind", "tool"), str),
    "receiver_thread_ids": [str],
}
_USAGE: Shape = dict.fromkeys(_COUNTS, COUNT)
_EVENT: dict[str, Shape] = {
    **_ACTIVITY,
    **dict.fromkeys(("turn_id", "reason", "message", "text"), str),
    "num_turns": COUNT,
    "error": {"message": str},
    "item": _ACTIVITY,
    "info": {"total_token_usage": _USAGE, "last_token_usage": _USAGE},
    "thread_settings": {"service_tier": str},
}
_PAYLOADS: dict[str, Mapping[str, Shape]] = {
    "session_meta": _META,
    "response_item": _ITEM,
    "event_msg": _EVENT,
    "turn_context": dict.fromkeys(("turn_id", "model", "cwd"), str),
    "token_usage_record": {"turn_id": str, "response_id": str, "usage": _USAGE},
    "compacted": {"message": str, "replacement_history": [_ITEM]},
    "inter_agent_communication": {"author": str, "content": str},
}
_LINE: dict[str, Shape] = {"timestamp": MOMENT, "type": str, "ordinal": COUNT}


class _RolloutState(Struct, kw_only=True):
    """What reading on needs to know."""

    growth: Growth = msgspec.field(default_factory=Growth)
    voice: Voice = msgspec.field(default_factory=Voice)
    thread: str = ""
    forked_from: str | None = None
    origin: str = ""  # the thread whose meta line stands last above
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
    calls: dict[str, str] = {}  # open calls by id: the tool
    edits: dict[str, list[Line]] = {}  # what open calls are to change


# ---- files -----------------------------------------------------------------------------------------------


def units(home: Path, problems: ReadProblems | None = None) -> list[Unit]:
    """Every rollout once, the plain form before the compressed, oldest first; then the names."""
    found: dict[str, str] = {}
    for directory in ("sessions", "archived_sessions"):
        for where, names in walked(home / directory, problems):
            for name in names:
                if _ROLLOUT.match(name):
                    key = name.removesuffix(".zst")
                    if key == name or key not in found:
                        found[key] = os.path.join(where, name)  # noqa: PTH118 - thousands of names
    rollouts = (
        stamped(key, Path(path), os.path.relpath(path, home).replace(os.sep, "/"))
        for key, path in sorted(found.items(), key=_by_time)
    )
    return [unit for unit in (*rollouts, stamped(NAMES, home / NAMES, NAMES)) if unit is not None]


def rollout_of(source: str) -> str | None:
    """The id of the rollout in a file of this name; of a reverted thread its second one."""
    matched = _ROLLOUT.match(source.rpartition("/")[2])
    return None if matched is None else (matched[3] or matched[2]).lower()


def _by_time(found: tuple[str, str]) -> tuple[str, ...]:
    matched = _ROLLOUT.match(found[0])
    return (matched[1], matched[3] or matched[2]) if matched else (found[0],)


def mirror(unit: Unit, saved: bytes | None, into: AgentMirror) -> bytes:
    """Translate what a rollout has gained."""
    if unit.key == NAMES:
        return b""
    state = msgspec.msgpack.decode(saved, type=_RolloutState) if saved else _RolloutState()
    lines, is_restarted = new_lines(unit, state.growth)
    if is_restarted:
        state = _RolloutState(growth=state.growth)
    if lines:
        _Rollout(unit, state, into).take(lines)
    return msgspec.msgpack.encode(state)


def finish(home: Path, into: AgentMirror) -> None:
    """Names that users gave; the last one counts."""
    path = home / NAMES
    if not path.exists():
        return
    names = {}
    for raw in content(path).splitlines():
        said = loose_value(raw)
        if isinstance(said, dict) and isinstance(said.get("thread_name"), str):
            names[str(said.get("id"))] = said["thread_name"]
    for thread, name in names.items():
        into.title(thread, name, made.titled(thread, name))


def resumed(thread: MirroredThread) -> list[Item]:
    """Items as the service takes them."""
    from recollect.storage.foreign.codex_context import resumed_items

    return resumed_items(thread.id, thread.sources(), thread.base_of)


def deletion_warning(home: Path) -> str | None:
    """It deletes nothing by itself."""
    return None


class _Rollout:
    """One pass over the new lines of one rollout."""

    def __init__(self, unit: Unit, state: _RolloutState, into: AgentMirror) -> None:
        self._unit, self._state, self._voice, self._into = unit, state, state.voice, into
        matched = _ROLLOUT.match(unit.key)
        assert matched is not None  # noqa: S101 - for the type checker: units gives no other names
        self._named, self._rollout = matched[2].lower(), (matched[3] or matched[2]).lower()
        self._log = ""
        self._usage = _CallCounter(state)

    def take(self, lines: list[bytes]) -> None:
        state = self._state
        found: list[Line] = []
        for raw in lines:
            line, odd = fitted_line(parsed(raw))
            if not self._log:
                self._begin(line)
            told = translated("codex", self._voice, odd, partial(self._translated, line))
            found += made.with_original(told, raw)
        if state.growth.generation:
            known = self._into.known_ids(self._log)
            found = [made.only_new(line, known) for line in found]
        self._into.append(self._log, found, (self._unit.source, state.growth.generation))

    def _begin(self, first: Line) -> None:
        """Where the rollout belongs, by its first line, or as it was decided before."""
        state, voice = self._state, self._voice
        if not state.thread:
            meta = _meta_of(first)
            state.thread = str(meta.get("id") or self._named)
            state.origin = voice.seed = state.thread
            state.forked_from = meta.get("forked_from_id")
            voice.cwd = str(meta.get("cwd") or "")
            written = made.moment(self._unit.stamp[1] / 1e6)  # without a time the newest entry is not found
            voice.at = first.get("timestamp") or meta.get("timestamp") or written
            place = self._place(meta)
            voice.session, voice.agent = place.session, place.agent
            self._log = self._into.log(place)
            self._inherit(meta)
        place = self._into.place(state.thread, voice.cwd)
        self._log = self._into.log(place)
        self._into.alias(self._rollout, self._log)

    def _place(self, meta: Payload) -> Placed:
        into, thread = self._into, self._state.thread
        spawn = _spawn_of(meta)
        parent = meta.get("parent_thread_id") or spawn.get("parent_thread_id")
        if not isinstance(parent, str) or parent == thread or not _is_subagent(meta):
            return into.place(thread, self._voice.cwd)
        above = into.placed(parent)
        root = meta.get("session_id") if meta.get("session_id") != thread else None
        session = str(root or (above.session if above is not None else parent))
        place = into.place(thread, self._voice.cwd, session=session, agent=thread)
        into.note_agent(
            place,
            {
                "agentType": spawn.get("agent_role") or meta.get("agent_role") or meta.get("thread_source"),
                "description": spawn.get("agent_nickname")
                or meta.get("agent_nickname")
                or spawn.get("agent_path"),
                "parentAgentId": parent if above is not None and above.agent is not None else None,
                "spawnDepth": spawn.get("depth"),
            },
        )
        return place

    def _inherit(self, meta: Payload) -> None:
        """What a fork or a revert without a copy goes on from."""
        base = meta.get("history_base")
        if not isinstance(base, dict):
            return
        rollout, end = str(base.get("thread_id")), base.get("end_ordinal_exclusive")
        log = self._into.log_of(rollout)
        if log is None or not isinstance(end, int):
            return
        voice, state = self._voice, self._state
        chain = _chain_before(self._into, log, rollout, end)
        state.total = _total_before(self._into, log, rollout, end)
        if chain:
            voice.leaf = chain[-1]["uuid"]
            state.model = next(
                (m for line in reversed(chain) if (m := (line.get("message") or {}).get("model"))), None
            )
        state.prompts = [line["parentUuid"] for line in chain if _is_prompt_line(line)]
        if log == self._log:
            voice.epoch += 1
            return
        copied = [
            line
            | {
                "sessionId": voice.session,
                "isSidechain": voice.agent is not None,
                "forkedFrom": {"sessionId": line["sessionId"]},
            }
            | ({} if voice.agent is None else {"agentId": voice.agent})
            for line in chain
        ]
        self._into.append(self._log, copied)

    # ---- one line --------------------------------------------------------------------------------------------

    def _translated(self, line: Line) -> list[Line]:
        voice = self._voice
        time, kind, payload = line.get("timestamp"), line.get("type"), line.get("payload")
        voice.at = time if isinstance(time, str) else voice.at
        if not line:
            return [made.record(voice, "codex:unreadable")]
        found = self._meaning(line, kind, payload)
        self._copies()
        found += self._usage.of(kind, payload if isinstance(payload, dict) else {}, voice)
        if isinstance(payload, dict) and kind == "turn_context":
            voice.cwd = str(payload.get("cwd") or voice.cwd)
        ordinal = line.get("ordinal")
        if isinstance(ordinal, int):
            for one in found:
                one["ordinal"] = ordinal
        return found

    def _meaning(self, line: Line, kind: object, payload: object) -> list[Line]:
        """What a line says, apart from usage."""
        if not isinstance(payload, dict):
            # The bare era: items as they are, and before and between them a first line and marks of a state.
            is_known = "id" in line or "record_type" in line
            return self.item(line) if isinstance(kind, str) or not is_known else [self._silent(line)]
        handler = _LINES.get(str(kind))
        if handler is not None:
            return handler(self, payload)
        is_known = kind in _SILENT_LINES
        return [self._silent(line) if is_known else made.record(self._voice, f"codex:{kind}")]

    def _silent(self, line: Line) -> Line:
        return made.record(self._voice, recordType=line.get("type") or line.get("record_type") or "meta")

    def _copies(self) -> None:
        """Whether what follows was copied from another thread: its turn is older than this thread."""
        state = self._state
        started, began = _uuid7_ms(state.turn), _uuid7_ms(state.thread)
        is_copy = state.origin != state.thread if started is None or began is None else started < began
        source = state.origin if state.origin != state.thread else state.forked_from
        self._voice.copied_from = (source or "unknown") if is_copy else None

    def meta(self, meta: Payload) -> list[Line]:
        state, voice = self._state, self._voice
        own = meta.get("id")
        if isinstance(own, str):
            state.origin = own
            if voice.leaf is None:
                voice.seed = own  # a copy begins as its original does
        git = meta.get("git")
        if own == state.thread:
            voice.version = meta.get("cli_version") or voice.version
            voice.branch = (git.get("branch") if isinstance(git, dict) else None) or voice.branch
            state.is_reviewer = meta.get("source") == {"subagent": "review"}
        return [made.record(voice, recordType="session_meta")]

    def item(self, item: Payload) -> list[Line]:
        kind = item.get("type")
        handler = _ITEMS.get(str(kind))
        if handler is not None:
            return handler(self, item)
        if kind in _SILENT_ITEMS:
            return [self._silent(item)]
        return [made.record(self._voice, f"codex:{kind}")]

    def message(self, item: Payload) -> list[Line]:
        voice, role = self._voice, item.get("role")
        blocks = [block for part in _parts(item) if (block := _block(part)) is not None]
        if not blocks:
            return [self._silent(item)]
        if role == "assistant":
            return [made.assistant(voice, self._state.model, *blocks)]
        if role == "user" and not is_injected(item):
            self._state.prompts.append(voice.leaf)
            plain = blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks
            return [made.user(voice, plain)]
        return [made.user(voice, blocks, isMeta=True)]

    def reasoning(self, item: Payload) -> list[Line]:
        texts = [
            part.get("text")
            for key in ("summary", "content")
            for part in item.get(key) or []
            if isinstance(part, dict)
        ]
        text = "\n\n".join(part for part in texts if isinstance(part, str) and part)
        if not text:
            return [self._silent(item)]
        return [
            made.assistant(
                self._voice, self._state.model, {"type": "thinking", "thinking": text, "signature": ""}
            )
        ]

    def call(self, item: Payload) -> list[Line]:
        call = str(item.get("call_id") or item.get("id") or "")
        name = str(item.get("name") or item.get("type"))
        space = item.get("namespace")
        if isinstance(space, str) and space.startswith("mcp__"):
            name = f"{space.removesuffix('__')}__{name}"
        self._state.calls[call] = name
        given = _input_of(item)
        changed = _edits_of(given)
        if changed:
            self._state.edits[call] = changed
        block = {"type": "tool_use", "id": call, "name": name, "input": given}
        return [made.assistant(self._voice, self._state.model, block)]

    def output(self, item: Payload) -> list[Line]:
        call, output = str(item.get("call_id") or ""), item.get("output")
        name = self._state.calls.pop(call, None)
        if name == "spawn_agent":
            self._sent(call, _agent_in(output))
        told = output if isinstance(output, str) else _result_blocks(output)
        changed = self._state.edits.pop(call, [])
        failed = _has_failed(output)
        line = made.result(self._voice, call, told, is_error=failed)
        return [line if failed or _was_refused(output) else with_changes(line, changed)]

    def search(self, item: Payload) -> list[Line]:
        action = item.get("action")
        asked = action if isinstance(action, dict) else {}
        self._state.searches += asked.get("type") == "search"
        call = str(item.get("id") or item.get("call_id") or f"search_{self._voice.leaf}")
        block = {"type": "server_tool_use", "id": call, "name": "web_search", "input": asked}
        return [made.assistant(self._voice, self._state.model, block)]

    def told_by_agent(self, item: Payload) -> list[Line]:
        self._state.prompts.append(self._voice.leaf)
        texts = [str(part.get("text") or "") for part in _parts(item)]
        return [made.user(self._voice, f"{item.get('author')}: " + "\n".join(texts))]

    def communication(self, payload: Payload) -> list[Line]:
        content = [{"type": "input_text", "text": payload.get("content")}]
        return self.told_by_agent({"author": payload.get("author"), "content": content})

    def event(self, event: Payload) -> list[Line]:
        kind = event.get("type")
        if kind == "thread_rolled_back":
            return self._rolled_back(event)
        if kind == "turn_aborted":
            return [made.note(self._voice, "turn_aborted", f"Turn aborted: {event.get('reason')}")]
        failure = event.get("error") if kind == "task_complete" else event if kind == "error" else None
        if isinstance(failure, dict):
            return [made.note(self._voice, "error", str(failure.get("message") or "error"), "error")]
        if kind in ("item_completed", "sub_agent_activity"):
            self._activity(event.get("item") if kind == "item_completed" else event)
        if kind in _SILENT_EVENTS:
            return [self._silent(event)]
        return [made.record(self._voice, f"codex:event:{kind}")]

    def _activity(self, item: object) -> None:
        """Which thread a call sent, where only an event says it."""
        if not isinstance(item, dict):
            return
        call = str(item.get("event_id") or item.get("id") or "")
        threads = item.get("receiver_thread_ids") or [item.get("agent_thread_id")]
        if call in self._state.calls or item.get("kind") == "started" or item.get("tool") == "spawnAgent":
            for thread in threads if isinstance(threads, list) else ():
                self._sent(call, thread)

    def _sent(self, call: str, thread: object) -> None:
        if isinstance(thread, str) and thread:
            place = self._into.place(thread, self._voice.cwd, session=self._voice.session, agent=thread)
            self._into.note_agent(place, {"toolUseId": call})

    def _rolled_back(self, event: Payload) -> list[Line]:
        turns, prompts = event.get("num_turns"), self._state.prompts
        dropped = min(turns if isinstance(turns, int) else 0, len(prompts))
        if dropped > 0:
            self._voice.leaf = prompts[-dropped]
            del prompts[-dropped:]
        self._voice.epoch += 1
        return [made.note(self._voice, "rolled_back", f"Rolled back {turns} turns")]

    def compacted(self, payload: Payload) -> list[Line]:
        return made.compaction(
            self._voice, str(payload.get("message") or "(compacted by the provider: no text)")
        )


_ITEMS: dict[str, Callable[[_Rollout, Payload], list[Line]]] = {
    "message": _Rollout.message,
    "reasoning": _Rollout.reasoning,
    "function_call": _Rollout.call,
    "custom_tool_call": _Rollout.call,
    "local_shell_call": _Rollout.call,
    "function_call_output": _Rollout.output,
    "custom_tool_call_output": _Rollout.output,
    "local_shell_call_output": _Rollout.output,
    "web_search_call": _Rollout.search,
    "image_generation_call": _Rollout.search,
    "agent_message": _Rollout.told_by_agent,
}


_LINES: dict[str, Callable[[_Rollout, Payload], list[Line]]] = {
    "response_item": _Rollout.item,
    "event_msg": _Rollout.event,
    "session_meta": _Rollout.meta,
    "compacted": _Rollout.compacted,
    "inter_agent_communication": _Rollout.communication,
}


# ---- usage -----------------------------------------------------------------------------------------------


class _CallCounter:
    """Which lines are one model call each; everything else repeats one.

    A ``token_usage_record`` is. In a turn without any, a ``token_count`` is where it has tokens of its own and the
    running total moved. Copies in other files have the same key. Between the marks of a review (0.77) the counts
    are those of the reviewer's own rollout.
    """

    def __init__(self, state: _RolloutState) -> None:
        self._state = state

    def of(self, kind: object, payload: Payload, voice: Voice) -> list[Line]:
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
            settings = payload.get("thread_settings")
            state.tier = settings.get("service_tier") if isinstance(settings, dict) else state.tier
        elif kind == "event_msg" and event == "task_started":
            state.turn = payload.get("turn_id") or state.turn
        elif kind == "event_msg" and event in ("entered_review_mode", "exited_review_mode"):
            state.in_review = event == "entered_review_mode"
        elif kind == "event_msg" and event == "token_count" and isinstance(payload.get("info"), dict):
            return self._counted(payload["info"], voice)
        return []

    def _recorded(self, payload: Payload, voice: Voice) -> list[Line]:
        state, turn = self._state, payload.get("turn_id")
        if isinstance(turn, str) and turn not in state.recorded:
            state.recorded = [*state.recorded[-_TURNS_KEPT:], turn]
        counts = _vector(payload.get("usage"))
        return self._call(voice, made.key_of("codex", payload.get("response_id")), turn, counts)

    def _counted(self, info: Payload, voice: Voice) -> list[Line]:
        state = self._state
        total, last = _vector(info.get("total_token_usage")), _vector(info.get("last_token_usage"))
        is_call = last[0] + last[3] > 0
        if state.in_review:
            key = made.key_of("codex-review", total, last)
            echo = self._call(voice, key, state.turn, last) if is_call else []
            for line in echo:
                line["isSidechain"] = True  # the reviewer's own copy goes before it
            return echo
        is_call = is_call and total != state.total and state.turn not in state.recorded
        state.total = total
        if not is_call:
            return []
        if state.turn:
            key = made.key_of("codex-turn", state.turn, total)
        elif state.is_reviewer:
            key = made.key_of("codex-review", total, last)
        else:
            key = made.key_of("codex-thread", state.origin, total, last)
        return self._call(voice, key, state.turn, last)

    def _call(self, voice: Voice, key: str, turn: object, counts: tuple[int, ...]) -> list[Line]:
        state = self._state
        model = state.models.get(turn, state.model) if isinstance(turn, str) else state.model
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
            made.usage(voice, key, model, said, output_tokens_details={"thinking_tokens": thought}, **tier)
        ]


def _vector(usage: object) -> tuple[int, ...]:
    given = usage if isinstance(usage, dict) else {}
    return tuple(value if isinstance(value := given.get(name), int) else 0 for name in _COUNTS)


# ---- what is inherited -----------------------------------------------------------------------------------


def _chain_before(into: AgentMirror, log: str, rollout: str, end: int) -> list[Line]:
    """The conversation of a rollout up to an ordinal, first entry first."""
    by_id: dict[str, Line] = {}
    leaf, name = None, ""
    for line in into.lines(log):
        if line.get("type") == made.SOURCE:
            name = str(line["source"])
        if "uuid" not in line:
            continue
        by_id[line["uuid"]] = line
        is_own = "original" not in line and "forkedFrom" in line
        if (rollout in name or is_own) and line.get("ordinal", end) < end:
            leaf = line["uuid"]
    chain: list[Line] = []
    while leaf in by_id and len(chain) <= len(by_id):
        line = by_id[leaf]
        chain.append({key: value for key, value in line.items() if not key.startswith("original")})
        leaf = line.get("parentUuid") or line.get("logicalParentUuid")
    return chain[::-1]


def _total_before(
    into: AgentMirror, log: str, rollout: str, end: int, below: frozenset[str] = frozenset()
) -> tuple[int, ...] | None:
    """The running total that a fork goes on from. A circle of forks ends where it began."""
    records = originals(into.lines(log))
    mine = next((records[name] for name in records if f"{rollout}.jsonl" in name), [])
    total = None
    base: Payload = {}
    for raw in mine:
        line = fitted_line(parsed(raw)).fields
        base = base or _meta_of(line)
        payload: Payload = line.get("payload") or {}
        info = payload.get("info") if payload.get("type") == "token_count" else None
        if isinstance(info, dict) and line.get("ordinal", end) < end:
            total = _vector(info.get("total_token_usage"))
    above: Payload = base.get("history_base") or {}
    elder = str(above.get("thread_id"))
    where = into.log_of(elder)
    if total is None and where is not None and elder not in below | {rollout}:
        until = min(end, above.get("end_ordinal_exclusive") or 0)
        return _total_before(into, where, elder, until, below | {rollout})
    return total


# ---- small things ----------------------------------------------------------------------------------------


def fitted_line(said: object) -> FittedRecord:
    """A line with what it is expected to hold; in the bare era that is an item, or what a session began with."""
    kind = said.get("type") if isinstance(said, dict) else None
    payload = said.get("payload") if isinstance(said, dict) else None
    if payload is None:
        return fitted(said, _META | _ITEM if kind is None else _LINE | _ITEM)
    inner = _PAYLOADS.get(kind) if isinstance(kind, str) else None
    return fitted(said, _LINE | {"payload": inner or {}})


def _meta_of(line: Line) -> Payload:
    payload = line.get("payload")
    if line.get("type") == "session_meta" and isinstance(payload, dict):
        return payload
    return line if "type" not in line and "id" in line else {}


def _spawn_of(meta: Payload) -> Payload:
    source = meta.get("source")
    inner = source.get("subagent") if isinstance(source, dict) else None
    spawn = inner.get("thread_spawn") if isinstance(inner, dict) else None
    return spawn if isinstance(spawn, dict) else {}


def _is_subagent(meta: Payload) -> bool:
    source = meta.get("source")
    return isinstance(source, dict) and "subagent" in source


def _parts(item: Payload) -> Iterator[Payload]:
    content = item.get("content")
    if isinstance(content, str):
        yield {"type": "input_text", "text": content}
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict):
            yield part


def _block(part: Payload) -> Line | None:
    text, url = part.get("text"), part.get("image_url")
    if isinstance(text, str):
        return {"type": "text", "text": text} if text else None
    if isinstance(url, str):
        return _image(url)
    return {"type": "text", "text": f"[{part.get('type')}]"}


def _image(url: str) -> Line:
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        media = head.removeprefix("data:").removesuffix(";base64")
        return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}
    return {"type": "image", "source": {"type": "url", "url": url}}


def _result_blocks(output: object) -> object:
    if isinstance(output, list):
        blocks = [_block(part) for part in output if isinstance(part, dict)]
        return [block for block in blocks if block is not None]
    return "" if output is None else made.encode(output).decode()


def _edits_of(given: object) -> list[Line]:
    """The files of a patch: a tool of its own, an argument of one, or a text that a shell passes on."""
    said: Payload = given if isinstance(given, dict) else {}
    words = next((said[name] for name in ("input", "patch", "command", "cmd") if name in said), "")
    texts = [str(word) for word in words] if isinstance(words, list) else [str(words)]
    place = said.get("workdir")
    return in_patch("\n".join(texts), place if isinstance(place, str) else "")


def _was_refused(output: object) -> bool:
    """Whether a patch did not fit: that is said in words."""
    return isinstance(output, str) and ("verification failed" in output or output in ("aborted", "rejected"))


def _input_of(item: Payload) -> object:
    for name in ("arguments", "input", "action"):
        given = item.get(name)
        if isinstance(given, str):
            value = loose_value(given.encode()) if name == "arguments" else None
            return value if isinstance(value, dict) else {name: given}
        if isinstance(given, dict):
            return given
    return {}


def _agent_in(output: object) -> object:
    value = loose_value(output.encode()) if isinstance(output, str) else None
    return value.get("agent_id") if isinstance(value, dict) else None


_EXIT = re.compile(r"(?:Process exited with code|Exit code:) (\d+)|\"exit_code\": ?(\d+)")


def _has_failed(output: object) -> bool:
    found = _EXIT.search(output[:2000]) if isinstance(output, str) else None
    return found is not None and (found[1] or found[2]) != "0"


def is_injected(item: Payload) -> bool:
    """Whether a message in the user's name is context that the client put there."""
    return any(str(part.get("text") or "").lstrip().startswith(INJECTED) for part in _parts(item))


def _is_prompt_line(line: Line) -> bool:
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    is_result = isinstance(content, list) and any(block.get("type") == "tool_result" for block in content)
    return line.get("type") == "user" and not (
        line.get("isMeta") or line.get("isCompactSummary") or is_result
    )


def _uuid7_ms(name: str | None) -> int | None:
    """When an id was made; None for ids without a time."""
    if name is None or len(name) != 36 or name[14] != "7":
        return None
    try:
        return int(name[:8] + name[9:13], 16)
    except ValueError:
        return None
