"""One rollout of Codex, line by line, as entries of ours.

A rollout has no parent links: its order is the conversation. A rolled back turn stays as a branch that nothing
follows. A fork without a copy of its history (``history_base``) gets one here, marked as such; a reverted thread goes on in
the same log from where it was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from recollect.agents import lines as entry
from recollect.agents.blocks import thinking, with_changes
from recollect.agents.codex_records import (
    ROLLOUT,
    agent_in,
    block_of,
    edits_of,
    fitted_line,
    has_failed,
    input_of,
    is_injected,
    meta_of,
    parts_of,
    result_blocks,
    was_refused,
)
from recollect.agents.codex_state import (
    CallCounter,
    RolloutState,
    before_prompts,
    inherited_history,
    is_prompt_line,
)
from recollect.agents.growth import Unit
from recollect.agents.lines import LineFields, known_ids
from recollect.agents.loose import Fields, known_types, translated
from recollect.agents.mirror import AgentMirror
from recollect.agents.mirror_files import Placed
from recollect.model.conversation.graph import ERROR_NOTE
from recollect.model.lines.damage import UNREADABLE

_OF_CALLS = frozenset(["event_msg", "turn_context", "token_usage_record"])
# Types that repeat what others say, or only concern what a user interface shows.
_SILENT = known_types("codex")
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
        self._origin: tuple[str | None, str] | None = None  # turn and thread of the last line

    def take(self, lines: list[bytes], *, is_restarted: bool) -> None:
        self._begin(fitted_line(lines[0])[0])
        origin = (self._state.source, self._state.growth.generation)
        entries = self._entries_of(lines)
        self._into.append_read(self._log, entries, origin, self._voice, is_restarted=is_restarted)

    def _entries_of(self, lines: list[bytes]) -> Iterator[LineFields]:
        for raw in lines:
            line, odd = fitted_line(raw)
            entries = translated("codex", self._voice, odd, partial(self._translated, line))
            yield from entry.with_original(self._without_false_copies(entries), raw)

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
            written = entry.moment(self._unit.stamp[1] / 1e6)  # without a time the newest entry is not found
            voice.at = first.get("timestamp") or meta.get("timestamp") or written
            place = self._place(meta)
            voice.session, voice.agent = place.session, place.agent
            self._log = self._into.log(place)
            self._inherit(meta)
        place = self._into.place(state.thread, voice.cwd)
        self._log = self._into.log(place)
        self._into.alias(self._rollout, self._log)

    def _place(self, meta: Fields) -> Placed:
        into, thread, source = self._into, self._state.thread, meta.get("source")
        inner = source.get("subagent") if isinstance(source, dict) else None
        spawn: Fields = (inner.get("thread_spawn") if isinstance(inner, dict) else None) or {}
        parent = meta.get("parent_thread_id") or spawn.get("parent_thread_id")
        if inner is None or parent in (None, thread):
            return into.place(thread, self._voice.cwd)
        above = into.placed(parent)
        root = meta.get("session_id") if meta.get("session_id") != thread else None
        session = root or (above.session if above is not None else parent)
        place = into.place(thread, self._voice.cwd, session=session, agent=thread)
        name = spawn.get("agent_nickname") or meta.get("agent_nickname") or spawn.get("agent_path")
        about = {
            "agentType": spawn.get("agent_role") or meta.get("agent_role") or meta.get("thread_source"),
            "description": name,
            "parentAgentId": parent if above is not None and above.agent is not None else None,
            "spawnDepth": spawn.get("depth"),
        }
        into.note_agent(place, about)
        return place

    def _inherit(self, meta: Fields) -> None:
        """What a fork or a revert without a copy goes on from."""
        base = meta.get("history_base") or {}
        rollout, end = str(base.get("thread_id")), base.get("end_ordinal_exclusive")
        log = self._into.base(self._log, rollout) if end else None
        if log is None or end is None:
            return
        voice, state = self._voice, self._state
        inherited = inherited_history(self._into, log, rollout, end)
        if log != self._log and not inherited.is_whole:
            self._into.lacks_base(self._log)
        state.total, chain = inherited.total, inherited.chain
        if chain:
            voice.leaf = chain[-1]["uuid"]
            models = (
                model for line in reversed(chain) if (model := (line.get("message") or {}).get("model"))
            )
            state.model = next(models, None)
        state.prompts = before_prompts(chain)
        if log == self._log:
            voice.epoch += 1
            return
        own = {"sessionId": voice.session, "isSidechain": voice.agent is not None}
        own |= {} if voice.agent is None else {"agentId": voice.agent}
        self._into.append(
            self._log, [{**line, **own, "forkedFrom": {"sessionId": line["sessionId"]}} for line in chain]
        )

    # ---- one line --------------------------------------------------------------------------------------------

    def _translated(self, line: LineFields) -> list[LineFields]:
        voice = self._voice
        kind, payload = line.get("type"), line.get("payload")
        voice.at = line.get("timestamp") or voice.at
        if not line:
            return [entry.record(voice, f"codex{UNREADABLE}")]
        found = self._meaning(line, kind, payload)
        self._copies()
        if kind in _OF_CALLS:
            said: Fields = payload or {}
            found += self._usage.of(kind, said, voice)
            if kind == "turn_context":
                voice.cwd = said.get("cwd") or voice.cwd
        if "ordinal" in line:
            for one in found:
                one["ordinal"] = line["ordinal"]
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
        is_known = kind in _SILENT["lines"]
        return [self._silent(line) if is_known else entry.record(self._voice, f"codex:{kind}")]

    def _silent(self, line: LineFields) -> LineFields:
        return entry.record(self._voice, recordType=line.get("type") or line.get("record_type") or "meta")

    def _copies(self) -> None:
        """Whether what follows was copied from another thread: its turn is older than this thread."""
        state = self._state
        origin = state.turn, state.origin
        if origin == self._origin:
            return
        self._origin = origin
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
            self._original_ids = (
                set() if place is None else known_ids(self._into.lines(self._into.log(place)))
            )
        for line in found if self._original_ids else ():  # where the original is gone, all of it is a copy
            if entry.id_of(line) not in self._original_ids:
                line.pop("forkedFrom", None)
        return found

    def meta(self, meta: Fields) -> list[LineFields]:
        state, voice = self._state, self._voice
        own = meta.get("id")
        if own is not None:
            state.origin = own
            if own != state.thread:
                state.copy_of = state.copy_of or own  # a copy of a copy has the nearest first
            if voice.leaf is None:
                voice.seed = own  # a copy begins as its original does
        if own == state.thread:
            voice.version = meta.get("cli_version") or voice.version
            voice.branch = (meta.get("git") or {}).get("branch") or voice.branch
            state.is_reviewer = meta.get("source") == {"subagent": "review"}
        return [entry.record(voice, recordType="session_meta")]

    def item(self, item: Fields) -> list[LineFields]:
        kind = item.get("type")
        handler = _ITEMS.get(str(kind))
        if handler is not None:
            return handler(self, item)
        if kind in _SILENT["items"]:
            return [self._silent(item)]
        return [entry.record(self._voice, f"codex:{kind}")]

    def message(self, item: Fields) -> list[LineFields]:
        voice, role = self._voice, item.get("role")
        blocks = [block for part in parts_of(item) if (block := block_of(part)) is not None]
        if not blocks:
            return [self._silent(item)]
        if role == "assistant":
            return [entry.assistant(voice, self._state.model, *blocks)]
        if role == "user" and not is_injected(item):
            plain = blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks
            return [self._prompt(plain)]
        return [entry.user(voice, blocks, isMeta=True)]

    def reasoning(self, item: Fields) -> list[LineFields]:
        parts = (*parts_of(item, "summary"), *parts_of(item))
        text = "\n\n".join(part["text"] for part in parts if part.get("text"))
        return (
            [entry.assistant(self._voice, self._state.model, thinking(text))]
            if text
            else [self._silent(item)]
        )

    def call(self, item: Fields) -> list[LineFields]:
        call = str(item.get("call_id") or item.get("id") or "")
        name = str(item.get("name") or item.get("type"))
        space = item.get("namespace") or ""
        if space.startswith("mcp__"):
            name = f"{space.removesuffix('__')}__{name}"
        self._state.calls[call] = name
        given = input_of(item)
        changed = edits_of(given)
        if changed:
            self._state.edits[call] = changed
        block = {"type": "tool_use", "id": call, "name": name, "input": given}
        return [entry.assistant(self._voice, self._state.model, block)]

    def output(self, item: Fields) -> list[LineFields]:
        call, output = str(item.get("call_id") or ""), item.get("output")
        name = self._state.calls.pop(call, None)
        if name == "spawn_agent":
            self._sent(call, agent_in(output))
        content = output if isinstance(output, str) else result_blocks(output)
        changed = self._state.edits.pop(call, [])
        failed = has_failed(output)
        line = entry.result(self._voice, call, content, is_error=failed)
        has_changed = changed and not failed and not was_refused(output)
        return [with_changes(line, changed) if has_changed else line]

    def search(self, item: Fields) -> list[LineFields]:
        asked: Fields = item.get("action") or {}
        self._state.searches += asked.get("type") == "search"
        call = str(item.get("id") or item.get("call_id") or f"search_{self._voice.leaf}")
        block = {"type": "server_tool_use", "id": call, "name": "web_search", "input": asked}
        return [entry.assistant(self._voice, self._state.model, block)]

    def agent_message(self, item: Fields) -> list[LineFields]:
        """A roll-back counts it as a prompt. It is one for a sub-agent, but nothing that the user of a session typed."""
        texts = [str(part.get("text") or "") for part in parts_of(item)]
        author = str(item.get("author"))
        aside = {"isMeta": True, entry.FROM_AGENT: author} if self._voice.agent is None else {}
        return [self._prompt(f"{author}: " + "\n".join(texts), **aside)]

    def _prompt(self, content: object, **more: object) -> LineFields:
        """What a roll-back may go back to, and a compaction without a list carries over."""
        self._state.prompts.append(self._voice.leaf)
        self._asked[self._voice.leaf] = content
        return entry.user(self._voice, content, **more)

    def communication(self, payload: Fields) -> list[LineFields]:
        content = [{"type": "input_text", "text": payload.get("content")}]
        return self.agent_message({"author": payload.get("author"), "content": content})

    def event(self, event: Fields) -> list[LineFields]:
        kind = event.get("type")
        if kind == "thread_rolled_back":
            return self._rolled_back(event)
        if kind == "turn_aborted":
            return [entry.note(self._voice, "turn_aborted", f"Turn aborted: {event.get('reason')}")]
        failure = event.get("error") if kind == "task_complete" else event if kind == "error" else None
        if failure is not None:
            return [entry.note(self._voice, ERROR_NOTE, failure.get("message") or "error", "error")]
        if kind in ("item_completed", "sub_agent_activity"):
            self._activity((event.get("item") or {}) if kind == "item_completed" else event)
        if kind in _SILENT["events"]:
            return [self._silent(event)]
        return [entry.record(self._voice, f"codex:event:{kind}")]

    def _activity(self, item: Fields) -> None:
        """Which thread a call sent, where only an event says it."""
        call = item.get("event_id") or item.get("id") or ""
        if call in self._state.calls or item.get("kind") == "started" or item.get("tool") == "spawnAgent":
            for thread in item.get("receiver_thread_ids") or [item.get("agent_thread_id")]:
                self._sent(call, thread)

    def _sent(self, call: str, thread: object) -> None:
        if isinstance(thread, str) and thread:
            place = self._into.place(thread, self._voice.cwd, session=self._voice.session, agent=thread)
            self._into.note_agent(place, {"toolUseId": call})

    def _rolled_back(self, event: Fields) -> list[LineFields]:
        turns, prompts = event.get("num_turns"), self._state.prompts
        dropped = min(turns or 0, len(prompts))
        if dropped > 0:
            self._voice.leaf = prompts[-dropped]
            del prompts[-dropped:]
        self._voice.epoch += 1
        return [entry.note(self._voice, "rolled_back", f"Rolled back {turns} turns")]

    def compacted(self, payload: Fields) -> list[LineFields]:
        """What is sent from here on: the list that the client wrote; without one, the prompts so far and the summary.

        All of it stands behind the cut. What was typed before is no prompt a second time.
        """
        summary, kept = payload.get("message") or "", payload.get("replacement_history")
        if kept is None:
            contents = [*self._asked_so_far(), summary or _NO_SUMMARY]
            cut = [self._cut()]
            return cut + [self._prompt(content, isCompactSummary=True) for content in contents]
        is_sent = any(part.get("text") == summary for item in kept for part in parts_of(item))
        return [self._cut("" if is_sent else summary), *self._remaining(kept)]

    def _cut(self, unsent: str = "") -> LineFields:
        self._state.prompts = []
        text = f"Conversation compacted: {unsent}" if unsent else "Conversation compacted"
        return entry.boundary(self._voice, {"trigger": "auto"}, text)

    def _remaining(self, items: list[Fields]) -> list[LineFields]:
        """Items that a compaction left. Searches and edits among them were made before, and counted there."""
        state, found = self._state, list[LineFields]()
        before = state.searches, state.calls, state.edits
        state.calls, state.edits = {}, {}
        for item in items:
            if item.get("type") == "compaction":
                found.append(entry.user(self._voice, _NO_SUMMARY, isCompactSummary=True))
                continue
            for line in self.item(item):
                is_typed = is_prompt_line(line) and not line.get("isMeta")
                found.append(line | {"isCompactSummary": True} if is_typed else line)
            state.edits.clear()
        state.searches, state.calls, state.edits = before
        return [line for line in found if line["type"] != entry.RECORD]

    def _asked_so_far(self) -> list[object]:
        """The prompts that are still sent; none where carrying them over again and again takes too much."""
        state = self._state
        if not self._has_all_asked and not self._asked.keys() >= set(state.prompts):
            users = (line for line in self._into.lines(self._log) if line.get("type") == "user")
            earlier = {line.get("parentUuid"): line["message"]["content"] for line in users}
            self._asked = earlier | self._asked
        self._has_all_asked = True
        found = [self._asked[one] for one in state.prompts if one in self._asked]
        state.carried += len(entry.encode(found))
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
    "agent_message": RolloutReader.agent_message,
}


_LINES: dict[str, Callable[[RolloutReader, Fields], list[LineFields]]] = {
    "response_item": RolloutReader.item,
    "event_msg": RolloutReader.event,
    "session_meta": RolloutReader.meta,
    "compacted": RolloutReader.compacted,
    "inter_agent_communication": RolloutReader.communication,
}


def _uuid7_ms(name: str | None) -> int | None:
    """When an id was made; None for ids without a time."""
    if name is None or len(name) != 36 or name[14] != "7":
        return None
    try:
        return int(name[:8] + name[9:13], 16)
    except ValueError:
        return None
