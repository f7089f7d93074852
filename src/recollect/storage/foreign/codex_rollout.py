"""One rollout of Codex, line by line, as entries of ours.

A rollout has no parent links: its order is the conversation. A rolled back turn stays as a branch that nothing
follows. A fork without a copy of its history (``history_base``) gets one here, marked as such; a reverted thread goes on in
the same log from where it was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from recollect.model.conversation.node import ERROR_NOTE
from recollect.model.damage import UNREADABLE
from recollect.storage.foreign import lines as made
from recollect.storage.foreign.codex_inherited import (
    before_prompts,
    chain_before,
    is_all_here,
    is_prompt_line,
    total_before,
)
from recollect.storage.foreign.codex_items import (
    agent_in,
    block_of,
    edits_of,
    has_failed,
    input_of,
    is_injected,
    parts_of,
    result_blocks,
    was_refused,
)
from recollect.storage.foreign.codex_shapes import ROLLOUT, meta_of, used_line
from recollect.storage.foreign.codex_state import RolloutState
from recollect.storage.foreign.codex_usage import CallCounter
from recollect.storage.foreign.edits import with_changes
from recollect.storage.foreign.growth import Unit
from recollect.storage.foreign.lines import LineFields
from recollect.storage.foreign.loose import Fields, translated
from recollect.storage.foreign.mirror import AgentMirror
from recollect.storage.foreign.mirroring.state import Placed

# Events that repeat items in other words, or only concern what a user interface shows.
_SILENT_EVENTS = frozenset(
    [
        "token_count",
        "task_started",
        "task_complete",
        "user_message",
        "agent_message",
        "agent_reasoning",
        "entered_review_mode",
        "exited_review_mode",
        "context_compacted",
        "patch_apply_end",
        "mcp_tool_call_end",
        "web_search_end",
        "exec_command_end",
        "item_completed",
        "thread_settings_applied",
        "thread_goal_updated",
        "sub_agent_activity",
        "thread_name_updated",
        "collab_agent_spawn_end",
        "collab_waiting_end",
        "image_generation_end",
        "view_image_tool_call",
        "agent_reasoning_raw_content",
        "plan_update",
        "collab_close_end",
        "collab_agent_interaction_end",
        "guardian_assessment",
        "dynamic_tool_call_response",
        "agent_reasoning_section_break",
        "turn_diff",
        "patch_apply_begin",
        "mcp_tool_call_begin",
        "background_event",
        "undo_completed",
        "model_reroute",
        "dynamic_tool_call_request",
    ]
)
_OF_CALLS = frozenset(["event_msg", "turn_context", "token_usage_record"])
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
_NO_SUMMARY = "(compacted by the provider: no text)"
_MOST_CARRIED = 64 << 20


class RolloutReader:
    """One pass over the new lines of one rollout."""

    def __init__(self, unit: Unit, state: RolloutState, into: AgentMirror) -> None:
        self._unit, self._state, self._voice, self._into = unit, state, state.voice, into
        matched = ROLLOUT.match(unit.key)
        assert matched is not None  # noqa: S101 - for the type checker: units gives no other names
        self._named, self._rollout = matched[2].lower(), (matched[3] or matched[2]).lower()
        self._log = ""
        self._usage = CallCounter(state)
        self._original_ids: set[str] | None = None
        self._asked: dict[str | None, object] = {}  # prompts, by the entry before them
        self._has_all_asked = False  # those of earlier passes too
        self._told_by: tuple[str | None, str] | None = None  # turn and thread of the last line

    def take(self, lines: list[bytes], *, is_restarted: bool) -> None:
        generation = self._state.growth.generation
        self._begin(used_line(lines[0])[0])
        found: Iterable[LineFields] = self._told(lines)
        if generation:
            known = self._into.known_ids(self._log)
            found = [made.only_new(line, known) for line in found]
            if is_restarted:  # what a rewritten file no longer has is a branch
                found = self._into.ended(self._log, found, self._voice)
        self._into.append(self._log, found, (self._state.source, generation))

    def _told(self, lines: list[bytes]) -> Iterator[LineFields]:
        for raw in lines:
            line, odd = used_line(raw)
            told = translated("codex", self._voice, odd, partial(self._translated, line))
            yield from made.with_original(self._without_false_copies(told), raw)

    def _begin(self, first: LineFields) -> None:
        """Where the rollout belongs, by its first line, or as it was decided before."""
        state, voice = self._state, self._voice
        state.source = state.source or self._unit.source
        if not state.thread:
            meta = meta_of(first)
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

    def _place(self, meta: Fields) -> Placed:
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

    def _inherit(self, meta: Fields) -> None:
        """What a fork or a revert without a copy goes on from."""
        base = meta.get("history_base")
        if not isinstance(base, dict):
            return
        rollout, end = str(base.get("thread_id")), base.get("end_ordinal_exclusive")
        log = self._into.base(self._log, rollout) if isinstance(end, int) and end else None
        if log is None or not isinstance(end, int):
            return
        if log != self._log and not is_all_here(self._into, log, rollout, end):
            self._into.lacks_base(self._log)
        voice, state = self._voice, self._state
        chain = chain_before(self._into, log, rollout, end)
        state.total = total_before(self._into, log, rollout, end)
        if chain:
            voice.leaf = chain[-1]["uuid"]
            state.model = next(
                (m for line in reversed(chain) if (m := (line.get("message") or {}).get("model"))), None
            )
        state.prompts = before_prompts(chain)
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

    def _translated(self, line: LineFields) -> list[LineFields]:
        voice = self._voice
        time, kind, payload = line.get("timestamp"), line.get("type"), line.get("payload")
        voice.at = time if isinstance(time, str) else voice.at
        if not line:
            return [made.record(voice, f"codex{UNREADABLE}")]
        found = self._meaning(line, kind, payload)
        self._copies()
        if kind in _OF_CALLS:
            said = payload if isinstance(payload, dict) else {}
            found += self._usage.of(kind, said, voice)
            if kind == "turn_context":
                voice.cwd = str(said.get("cwd") or voice.cwd)
        ordinal = line.get("ordinal")
        if isinstance(ordinal, int):
            for one in found:
                one["ordinal"] = ordinal
        return found

    def _meaning(self, line: LineFields, kind: object, payload: object) -> list[LineFields]:
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

    def _silent(self, line: LineFields) -> LineFields:
        return made.record(self._voice, recordType=line.get("type") or line.get("record_type") or "meta")

    def _copies(self) -> None:
        """Whether what follows was copied from another thread: its turn is older than this thread."""
        state = self._state
        told = state.turn, state.origin
        if told == self._told_by:
            return
        self._told_by = told
        started, began = _uuid7_ms(state.turn), _uuid7_ms(state.thread)
        is_copy = state.origin != state.thread if started is None or began is None else started < began
        source = state.origin if state.origin != state.thread else state.forked_from
        self._voice.copied_from = (source or "unknown") if is_copy else None

    def _without_false_copies(self, found: list[LineFields]) -> list[LineFields]:
        """Without ids of turns nothing says where a copy ends: what the original does not have is this thread's own."""
        if self._voice.copied_from is None or self._state.turn or not self._state.copy_of:
            return found
        if self._original_ids is None:
            place = self._into.placed(self._state.copy_of)
            self._original_ids = set() if place is None else self._into.known_ids(self._into.log(place))
        for line in found if self._original_ids else ():  # where the original is gone, all of it is a copy
            if made.id_of(line) not in self._original_ids:
                line.pop("forkedFrom", None)
        return found

    def meta(self, meta: Fields) -> list[LineFields]:
        state, voice = self._state, self._voice
        own = meta.get("id")
        if isinstance(own, str):
            state.origin = own
            if own != state.thread:
                state.copy_of = state.copy_of or own  # a copy of a copy has the nearest first
            if voice.leaf is None:
                voice.seed = own  # a copy begins as its original does
        git = meta.get("git")
        if own == state.thread:
            voice.version = meta.get("cli_version") or voice.version
            voice.branch = (git.get("branch") if isinstance(git, dict) else None) or voice.branch
            state.is_reviewer = meta.get("source") == {"subagent": "review"}
        return [made.record(voice, recordType="session_meta")]

    def item(self, item: Fields) -> list[LineFields]:
        kind = item.get("type")
        handler = _ITEMS.get(str(kind))
        if handler is not None:
            return handler(self, item)
        if kind in _SILENT_ITEMS:
            return [self._silent(item)]
        return [made.record(self._voice, f"codex:{kind}")]

    def message(self, item: Fields) -> list[LineFields]:
        voice, role = self._voice, item.get("role")
        blocks = [block for part in parts_of(item) if (block := block_of(part)) is not None]
        if not blocks:
            return [self._silent(item)]
        if role == "assistant":
            return [made.assistant(voice, self._state.model, *blocks)]
        if role == "user" and not is_injected(item):
            plain = blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks
            return [self._prompt(plain)]
        return [made.user(voice, blocks, isMeta=True)]

    def reasoning(self, item: Fields) -> list[LineFields]:
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

    def call(self, item: Fields) -> list[LineFields]:
        call = str(item.get("call_id") or item.get("id") or "")
        name = str(item.get("name") or item.get("type"))
        space = item.get("namespace")
        if isinstance(space, str) and space.startswith("mcp__"):
            name = f"{space.removesuffix('__')}__{name}"
        self._state.calls[call] = name
        given = input_of(item)
        changed = edits_of(given)
        if changed:
            self._state.edits[call] = changed
        block = {"type": "tool_use", "id": call, "name": name, "input": given}
        return [made.assistant(self._voice, self._state.model, block)]

    def output(self, item: Fields) -> list[LineFields]:
        call, output = str(item.get("call_id") or ""), item.get("output")
        name = self._state.calls.pop(call, None)
        if name == "spawn_agent":
            self._sent(call, agent_in(output))
        told = output if isinstance(output, str) else result_blocks(output)
        changed = self._state.edits.pop(call, [])
        failed = has_failed(output)
        line = made.result(self._voice, call, told, is_error=failed)
        has_changed = changed and not failed and not was_refused(output)
        return [with_changes(line, changed) if has_changed else line]

    def search(self, item: Fields) -> list[LineFields]:
        action = item.get("action")
        asked = action if isinstance(action, dict) else {}
        self._state.searches += asked.get("type") == "search"
        call = str(item.get("id") or item.get("call_id") or f"search_{self._voice.leaf}")
        block = {"type": "server_tool_use", "id": call, "name": "web_search", "input": asked}
        return [made.assistant(self._voice, self._state.model, block)]

    def told_by_agent(self, item: Fields) -> list[LineFields]:
        """A roll-back counts it as a prompt. It is one for a sub-agent, but nothing that the user of a session typed."""
        texts = [str(part.get("text") or "") for part in parts_of(item)]
        author = str(item.get("author"))
        aside = {"isMeta": True, made.TOLD_BY: author} if self._voice.agent is None else {}
        return [self._prompt(f"{author}: " + "\n".join(texts), **aside)]

    def _prompt(self, content: object, **more: object) -> LineFields:
        """What a roll-back may go back to, and a compaction without a list carries over."""
        self._state.prompts.append(self._voice.leaf)
        self._asked[self._voice.leaf] = content
        return made.user(self._voice, content, **more)

    def communication(self, payload: Fields) -> list[LineFields]:
        content = [{"type": "input_text", "text": payload.get("content")}]
        return self.told_by_agent({"author": payload.get("author"), "content": content})

    def event(self, event: Fields) -> list[LineFields]:
        kind = event.get("type")
        if kind == "thread_rolled_back":
            return self._rolled_back(event)
        if kind == "turn_aborted":
            return [made.note(self._voice, "turn_aborted", f"Turn aborted: {event.get('reason')}")]
        failure = event.get("error") if kind == "task_complete" else event if kind == "error" else None
        if isinstance(failure, dict):
            return [made.note(self._voice, ERROR_NOTE, str(failure.get("message") or "error"), "error")]
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

    def _rolled_back(self, event: Fields) -> list[LineFields]:
        turns, prompts = event.get("num_turns"), self._state.prompts
        dropped = min(turns if isinstance(turns, int) else 0, len(prompts))
        if dropped > 0:
            self._voice.leaf = prompts[-dropped]
            del prompts[-dropped:]
        self._voice.epoch += 1
        return [made.note(self._voice, "rolled_back", f"Rolled back {turns} turns")]

    def compacted(self, payload: Fields) -> list[LineFields]:
        """What is sent from here on: the list that the client wrote; without one, the prompts so far and the summary.

        All of it stands behind the cut. What was typed before is no prompt a second time.
        """
        summary, kept = str(payload.get("message") or ""), payload.get("replacement_history")
        if not isinstance(kept, list):
            contents = [*self._asked_so_far(), summary or _NO_SUMMARY]
            cut = [self._cut()]
            return cut + [self._prompt(content, isCompactSummary=True) for content in contents]
        is_sent = any(part.get("text") == summary for item in kept for part in parts_of(item))
        return [self._cut("" if is_sent else summary), *self._left(kept)]

    def _cut(self, unsent: str = "") -> LineFields:
        self._state.prompts = []
        text = f"Conversation compacted: {unsent}" if unsent else "Conversation compacted"
        return made.boundary(self._voice, {"trigger": "auto"}, text)

    def _left(self, items: list[Fields]) -> list[LineFields]:
        """Items that a compaction left. Searches and edits among them were made before, and counted there."""
        state, found = self._state, list[LineFields]()
        before = state.searches, state.calls, state.edits
        state.calls, state.edits = {}, {}
        for item in items:
            if item.get("type") == "compaction":
                found.append(made.user(self._voice, _NO_SUMMARY, isCompactSummary=True))
                continue
            for line in self.item(item):
                is_typed = is_prompt_line(line) and not line.get("isMeta")
                found.append(line | {"isCompactSummary": True} if is_typed else line)
            state.edits.clear()
        state.searches, state.calls, state.edits = before
        return [line for line in found if line["type"] != made.RECORD]

    def _asked_so_far(self) -> list[object]:
        """The prompts that are still sent; none where carrying them over again and again takes too much."""
        state = self._state
        if not self._has_all_asked and not self._asked.keys() >= set(state.prompts):
            users = (line for line in self._into.lines(self._log) if line.get("type") == "user")
            earlier = {line.get("parentUuid"): line["message"]["content"] for line in users}
            self._asked = earlier | self._asked
        self._has_all_asked = True
        found = [self._asked[one] for one in state.prompts if one in self._asked]
        state.carried += len(made.encode(found))
        return found if state.carried <= _MOST_CARRIED else []


_ITEMS: dict[str, Callable[[RolloutReader, Fields], list[LineFields]]] = {
    "message": RolloutReader.message,
    "reasoning": RolloutReader.reasoning,
    "function_call": RolloutReader.call,
    "custom_tool_call": RolloutReader.call,
    "local_shell_call": RolloutReader.call,
    "function_call_output": RolloutReader.output,
    "custom_tool_call_output": RolloutReader.output,
    "local_shell_call_output": RolloutReader.output,
    "web_search_call": RolloutReader.search,
    "image_generation_call": RolloutReader.search,
    "agent_message": RolloutReader.told_by_agent,
}


_LINES: dict[str, Callable[[RolloutReader, Fields], list[LineFields]]] = {
    "response_item": RolloutReader.item,
    "event_msg": RolloutReader.event,
    "session_meta": RolloutReader.meta,
    "compacted": RolloutReader.compacted,
    "inter_agent_communication": RolloutReader.communication,
}


def _spawn_of(meta: Fields) -> Fields:
    source = meta.get("source")
    inner = source.get("subagent") if isinstance(source, dict) else None
    spawn = inner.get("thread_spawn") if isinstance(inner, dict) else None
    return spawn if isinstance(spawn, dict) else {}


def _is_subagent(meta: Fields) -> bool:
    source = meta.get("source")
    return isinstance(source, dict) and "subagent" in source


def _uuid7_ms(name: str | None) -> int | None:
    """When an id was made; None for ids without a time."""
    if name is None or len(name) != 36 or name[14] != "7":
        return None
    try:
        return int(name[:8] + name[9:13], 16)
    except ValueError:
        return None
