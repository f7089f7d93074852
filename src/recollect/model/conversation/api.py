"""A conversation as the list of messages client 2.1.325 sends to the API when it resumes.

The client does not send what is in the file. It drops answers without content, pairs every call with exactly
one result, merges neighbours of one role and renders its own notes into the user's messages. Each step below
was measured against the real client and is checked against it by ``tests/oracle``.

Some kinds of notes are worded by the client on resume. Of these the list holds what people and tools put into
them; a block that begins with ``STAND_IN`` names the kind and its data in place of the client's own text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any

from msgspec import Struct, UnsetType

from recollect.model.conversation.client_words import (
    COMMAND_CAVEAT,
    FILLER,
    INTERRUPTED,
    INTERRUPTED_RESULT,
    MISSING_RESULT,
    NO_CONTENT,
    NO_TOOL_LEFT,
    REMINDER,
    REMOVED_CALL,
    REMOVED_RESULT,
    TOOL_LOADED,
    TOOLS,
    NotePlace,
    is_sent,
    notification,
    resumed_model,
    worded_note,
)
from recollect.model.cost.prices import SYNTHETIC_MODEL
from recollect.model.lines.entry import Assistant, Attachment, Entry, System, User
from recollect.model.lines.json_text import Json, loose_object, loose_value
from recollect.model.views.fact_line import graph_line

_THINKING = frozenset(["thinking", "redacted_thinking"])
_SERVER_CALLS = frozenset(["server_tool_use", "mcp_tool_use"])


class _EntryContribution(Struct):
    """One entry's contribution, before anything is merged."""

    role: str  # user, assistant, or note
    content: str | list[Json]
    message_id: str | None = None
    note_role: str = "user"
    model: str = ""
    more: list[str | list[Json]] = []  # further parts of a note
    only_inside: bool = False  # a note for models that get notes inside the user's message
    is_note: bool = False  # a turn of notes alone
    is_command: bool = False  # what a local command printed: no message to those who look for one

    @property
    def blocks(self) -> list[Json]:
        return [_text(self.content)] if isinstance(self.content, str) else self.content

    def of_type(self, kind: str) -> list[Json]:
        blocks = (
            self.content
        )  # asked for each line several times: plain text is made a block only where it counts
        if isinstance(blocks, str):
            return [_text(blocks)] if kind == "text" else []
        return [block for block in blocks if block.get("type") == kind]


def api_messages(entries: Sequence[Entry]) -> list[Json]:
    """The messages the client would send before a new prompt, without its filler answers."""
    tools = TOOLS | _recorded_tools(entries)
    said = [one for entry in entries for one in _said(entry, tools)]
    in_error = _ends_in_error(entries, (User, Assistant))
    said = _results_after_calls(_without_dead_answers(said, in_error=in_error))
    said = said if in_error else _with_open_calls_closed(said)
    said = said if in_error else _with_filler(said)
    model, place = resumed_model(next((one.model for one in reversed(said) if one.model), ""))
    if place is not NotePlace.INSIDE:
        said = [one for one in said if not one.only_inside]
    is_answered = _ends_in_error(entries, (User, Assistant, Attachment)) or _needs_no_filler(said)
    for one in said:
        if (
            one.role == "assistant" and one.model != model
        ):  # only the model that continues gets its own thinking back
            one.content = [block for block in one.blocks if block.get("type") not in _THINKING]
    said = _notes_first(said)
    turns = _merged(said, place, is_answered=is_answered)
    _pair_calls(turns)
    return [
        {
            "role": turn.role,
            "content": _final_answer(turn.blocks)
            if turn.role == "assistant"
            else _final_results(turn.content),
        }
        for turn in turns
    ]


# ---- what each entry contributes -------------------------------------------------------------------------


def _recorded_tools(entries: Sequence[Entry]) -> set[str]:
    """Tools whose definitions the client stored in the log."""
    found: set[str] = set()
    for entry in entries:
        if isinstance(entry.body, Attachment) and b"deferred_tools_record" in bytes(entry.body.attachment):
            kept = loose_object(bytes(entry.body.attachment)).get("entries")
            tools = kept if isinstance(kept, list) else ()
            found.update(str(tool.get("name")) for tool in tools if isinstance(tool, dict))
    return found


def _said(entry: Entry, tools: Set[str]) -> Iterable[_EntryContribution]:
    body = entry.body
    if isinstance(body, User):
        yield _EntryContribution("user", _of_user(_content_of(entry), tools))
    elif isinstance(body, Assistant):
        if not (body.is_api_error_message and body.message.model == SYNTHETIC_MODEL):
            model = body.message.model if body.message.model != SYNTHETIC_MODEL else ""
            said = _as_blocks(_content_of(entry))
            # Calls are sent under the current names of the client's tools.
            blocks = [
                {**block, "name": "Agent"}
                if block.get("type") == "tool_use" and block.get("name") == "Task"
                else block
                for block in said
                if block.get("type") != "fallback"
            ]
            yield _EntryContribution("assistant", blocks, body.message.id, model=model or "")
    elif isinstance(body, System) and body.subtype == "local_command":
        yield _EntryContribution("user", body.text, is_command=True)
    elif isinstance(body, Attachment):
        note = loose_object(bytes(body.attachment))
        if not isinstance(body.rendered, UnsetType):
            if is_sent(note):
                yield from _notes(loose_value(body.rendered), body.rendered_role or "user")
        elif (worded := worded_note(note)) is not None:
            (first, *more), role, only_inside = worded
            yield _EntryContribution("note", first, None, role, more=more, only_inside=only_inside)


def _ends_in_error(entries: Sequence[Entry], kinds: tuple[type, ...]) -> bool:
    last = next((one.body for one in reversed(entries) if isinstance(one.body, kinds)), None)
    return isinstance(last, Assistant) and last.is_api_error_message is True


def _with_filler(said: list[_EntryContribution]) -> list[_EntryContribution]:
    """The client's filler answer stands between an unanswered prompt and what local commands printed after it.

    Not where the prompt is the command itself, behind the caveat that the client writes before it.
    """
    end = len(said)
    while end and said[end - 1].is_command:
        end -= 1
    spoken = [one for one in said[:end] if one.role != "note"]
    if end == len(said) or not spoken or spoken[-1].role == "assistant":
        return said
    if any(
        str(block.get("text", "")).startswith(COMMAND_CAVEAT) for one in spoken[-2:] for block in one.blocks
    ):
        return said
    return [*said[:end], _EntryContribution("assistant", [_text(FILLER)]), *said[end:]]


def _needs_no_filler(said: list[_EntryContribution]) -> bool:
    """Whether the last thing said is an answer, or that the user interrupted one.

    The client then writes no filler answer, and the last notes go after the new prompt.
    """
    last = next((one for one in reversed(said) if one.role != "note"), None)
    texts = last.of_type("text") if last is not None else []
    interrupted = bool(texts) and str(texts[-1].get("text")).startswith(INTERRUPTED)
    return last is not None and (last.role == "assistant" or interrupted)


def _of_user(content: str | list[Json], tools: Set[str]) -> str | list[Json]:
    """Results keep references to the tools that exist, and state that those are loaded."""
    if isinstance(content, str):
        return content
    blocks = [_with_known_tools(block, tools) for block in content]
    loaded = any(_references(block) for block in blocks)
    return [*blocks, _text(TOOL_LOADED)] if loaded else blocks


def _with_known_tools(block: Json, tools: Set[str]) -> Json:
    unknown = [part for part in _references(block) if part.get("tool_name") not in tools]
    if not unknown:
        return block
    return {
        **block,
        "content": [part for part in block["content"] if part not in unknown] or [_text(NO_TOOL_LEFT)],
    }


def _references(block: Json) -> list[Json]:
    content = block.get("content") if block.get("type") == "tool_result" else None
    parts = content if isinstance(content, list) else []
    return [part for part in parts if isinstance(part, dict) and part.get("type") == "tool_reference"]


def _content_of(entry: Entry) -> str | list[Json]:
    """The content as plain values, exactly as in the line."""
    line = graph_line(entry.raw)
    written = None if line is None else line.message_content
    content = "" if written is None else loose_value(written)
    if isinstance(content, list):
        return [block for block in content if isinstance(block, dict)]
    is_from_task = line is not None and line.origin_kind == "task-notification"
    return notification(str(content)) if is_from_task else str(content)


def _notes(rendered: object, role: str) -> Iterable[_EntryContribution]:
    parts: list[str | list[Json]] = []
    for part in rendered if isinstance(rendered, list) else ():
        content = part.get("content") if isinstance(part, dict) else None
        if isinstance(content, str):
            parts.append(content)
        elif isinstance(content, list):
            parts.append([block for block in content if isinstance(block, dict)])
    if parts:
        yield _EntryContribution("note", parts[0], note_role=role, more=parts[1:])


# ---- answers without effect ------------------------------------------------------------------------------


def _without_dead_answers(said: list[_EntryContribution], *, in_error: bool) -> list[_EntryContribution]:
    """Drop calls that never got a result, thinking that nothing followed, and blank answers.

    The last calls are kept, unless an API error follows them.
    """
    open_end = len(said) if in_error else _start_of_open_turn(said)
    answered = {block.get("tool_use_id") for one in said for block in one.of_type("tool_result")}
    kept = []
    for index, one in enumerate(said):
        calls = one.of_type("tool_use") if one.role == "assistant" and index < open_end else []
        if not calls or any(call.get("id") in answered for call in calls):
            kept.append(one)
    answers = [one for one in kept if one.role == "assistant" and not _is_white_space(one)]
    with_content = {one.message_id for one in answers if not _is_thinking(one)}
    dead = [one for one in kept if one.role == "assistant" and _is_white_space(one)]
    dead += [one for one in answers if _is_thinking(one) and one.message_id not in with_content]
    gone = set(map(id, dead))
    return [one for one in kept if id(one) not in gone]


def _start_of_open_end(said: list[_EntryContribution]) -> int:
    """Where the last answer starts, if only results of its calls follow it."""
    index = len(said)
    while index and not _is_spoken(said[index - 1]):
        index -= 1
    if not index or said[index - 1].role != "assistant":
        return len(said)
    answer = said[index - 1].message_id
    while index and (said[index - 1].message_id == answer or _is_result(said[index - 1])):
        index -= 1
    return index


def _start_of_open_turn(said: list[_EntryContribution]) -> int:
    """Where the turn of an open last answer starts, if a result is in that turn; else where the answer does."""
    index = start = _start_of_open_end(said)
    if not any(one.role == "assistant" and one.of_type("tool_use") for one in said[start:]):
        return start
    while index and (said[index - 1].role == "assistant" or not _is_spoken(said[index - 1])):
        index -= 1
    return index if any(map(_is_result, said[index:])) else start


def _is_spoken(one: _EntryContribution) -> bool:
    """Whether it is an answer or a prompt."""
    return not (one.role == "note" or one.is_command or _is_result(one))


def _is_thinking(one: _EntryContribution) -> bool:
    """Whether it holds only thinking; blank text does not count."""
    said = [block for block in one.blocks if not _is_blank(block)]
    return bool(said) and all(block.get("type") in _THINKING for block in said)


def _is_white_space(one: _EntryContribution) -> bool:
    return bool(one.blocks) and all(map(_is_blank, one.blocks))


def _is_blank(block: Json) -> bool:
    return block.get("type") == "text" and not str(block.get("text", "")).strip()


def _is_result(one: _EntryContribution) -> bool:
    return (
        one.role == "user"
        and bool(one.of_type("tool_result"))
        and len(one.of_type("tool_result")) == len(one.blocks)
    )


def _results_after_calls(said: list[_EntryContribution]) -> list[_EntryContribution]:
    """A line with a result that stands before its answer, in the same turn, goes after its call.

    Not where another answer stands between the lines of that one.
    """
    calls: dict[Any, int] = {}
    results: dict[Any, int] = {}
    begins: dict[str | None, int] = {}  # by answer: where it begins, the number of the turn included
    turns: list[int] = []
    torn: set[str | None] = set()
    before: str | None = None
    for index, one in enumerate(said):
        turns.append(turns[-1] if turns else 0)
        if one.role == "assistant":
            if begins.setdefault(one.message_id, index) != index and before != one.message_id:
                torn.add(one.message_id)
            before = one.message_id
            for block in one.of_type("tool_use"):
                calls.setdefault(block.get("id"), index)
        elif one.role == "user":
            found = one.of_type("tool_result")
            results.update((block.get("tool_use_id"), index) for block in found)
            turns[-1] += not found
    moved: dict[int, int] = {}
    for call, index in results.items():
        place = calls.get(call, -1)
        answer = said[place].message_id
        if index < place and index < begins[answer] and answer not in torn and turns[place] == turns[index]:
            moved[index] = max(place, moved.get(index, 0))
    after: dict[int, list[_EntryContribution]] = {}
    for index, place in moved.items():
        after.setdefault(place, []).append(said[index])
    return [
        one
        for index, line in enumerate(said)
        for one in ([] if index in moved else [line]) + after.get(index, [])
    ]


def _with_open_calls_closed(said: list[_EntryContribution]) -> list[_EntryContribution]:
    """Give the calls of an interrupted last answer a result that says so."""
    start = _start_of_open_end(said)
    answered = {block.get("tool_use_id") for one in said for block in one.of_type("tool_result")}
    missing = [
        _result(call.get("id"), INTERRUPTED_RESULT)
        for one in said[start:]
        for call in (one.of_type("tool_use") if one.role == "assistant" else ())
        if call.get("id") not in answered
    ]
    return [*said, _EntryContribution("user", missing)] if missing else said


def _result(call: object, text: str) -> Json:
    return {"type": "tool_result", "content": text, "is_error": True, "tool_use_id": call}


# ---- merging ---------------------------------------------------------------------------------------------


def _notes_first(said: list[_EntryContribution]) -> list[_EntryContribution]:
    """Notes move up to where the user's turn begins: after the last answer or result before them."""
    ordered: list[_EntryContribution] = []
    waiting: list[_EntryContribution] = []
    for one in reversed(said):
        if one.role == "note":
            waiting.append(one)
            continue
        if waiting and (one.role == "assistant" or one.of_type("tool_result")):
            ordered += waiting
            waiting = []
        ordered.append(one)
    return [*reversed(waiting), *reversed(ordered)]


def _merged(
    said: list[_EntryContribution], place: NotePlace, *, is_answered: bool
) -> list[_EntryContribution]:
    turns: list[_EntryContribution] = []
    beside: list[str] = []
    split = _split_answers(said)
    for one in said:
        if one.role == "note" and one.note_role == "system" and place is not NotePlace.INSIDE:
            beside.append(_beside_text(one, place))
        elif one.role == "assistant":
            begun = _begun_answer(turns, one, behind_notes=one.message_id not in split)
            if begun is None or turns[-1].role == "user":
                _put_beside(turns, beside, place)
            _add_answer(turns, one, begun)
        elif one.role == "note":
            _add_note(turns, one)
        else:
            _add_user(turns, one)
    last = next((one for one in reversed(said) if one.role != "note"), None)
    # The last line of an answer may have gone into a turn that its results follow.
    is_before_results = last is not None and last.role == "assistant" and turns[-1].role == "user"
    if not is_answered or is_before_results:
        _put_beside(turns, beside, place)
    for turn in turns:
        # Only now: the newlines that join the texts of several lines are already there.
        if turn.role == "user" and isinstance(turn.content, list):
            full = [block for block in turn.content if not _is_blank(block)]
            turn.content = full if full or not turn.content else [_text(NO_CONTENT)]
    return turns


def _beside_text(note: _EntryContribution, place: NotePlace) -> str:
    blocks = [block for part in (note.content, *note.more) for block in _as_blocks(part)]
    texts = [str(block.get("text", "")) for block in blocks]
    bare = "\n".join(text.removeprefix(REMINDER[0]).removesuffix(REMINDER[1]) for text in texts)
    return f"{REMINDER[0]}{bare}{REMINDER[1]}" if place is NotePlace.BESIDE_TAGGED else bare


def _put_beside(turns: list[_EntryContribution], notes: list[str], place: NotePlace) -> None:
    """Notes go after the user's turn; where there is none they are one."""
    if not notes:
        return
    text = "\n\n".join(notes)
    if turns and turns[-1].role == "user":
        turns.append(_EntryContribution("system", text))
    else:
        is_bare = place is NotePlace.BESIDE
        turns.append(_EntryContribution("user", f"{REMINDER[0]}{text}{REMINDER[1]}" if is_bare else text))
    notes.clear()


def _split_answers(said: list[_EntryContribution]) -> set[str | None]:
    """The answers with a prompt between their lines."""
    prompts = 0
    begun: dict[str | None, int] = {}
    split: set[str | None] = set()
    for one in said:
        prompts += one.role == "user" and _is_spoken(one)
        if one.role == "assistant" and begun.setdefault(one.message_id, prompts) != prompts:
            split.add(one.message_id)
    return split


def _add_answer(
    turns: list[_EntryContribution], one: _EntryContribution, begun: _EntryContribution | None
) -> None:
    """Merge the lines of one answer without blank text, also across notes and the results of its calls."""
    if begun is not None:
        begun.content = [block for block in (*begun.blocks, *one.blocks) if not _is_blank(block)]
    else:
        turns.append(_EntryContribution("assistant", list(one.blocks), one.message_id))


def _begun_answer(
    turns: list[_EntryContribution], one: _EntryContribution, *, behind_notes: bool
) -> _EntryContribution | None:
    """The answer that a line continues: behind notes, or behind other answers and results, not behind both."""
    note = other = False
    for turn in reversed(turns):
        if turn.role == "assistant":
            if one.message_id is not None and turn.message_id == one.message_id:
                return turn
            other = True
        elif turn.is_note and behind_notes:
            note = True
        elif turn.role != "user" or not turn.blocks or turn.blocks[0].get("type") != "tool_result":
            break
        if note and other:
            break
    return None


def _add_user(turns: list[_EntryContribution], one: _EntryContribution) -> None:
    if one.content == []:
        return
    if not turns or turns[-1].role != "user":
        turns.append(_EntryContribution("user", one.content))
        return
    turns[-1].is_note = False
    before, after = turns[-1].blocks, one.blocks
    if before and after and before[-1].get("type") == after[0].get("type") == "text":
        before = [*before[:-1], {**before[-1], "text": f"{before[-1].get('text', '')}\n"}]
    turns[-1].content = _results_first([*before, *after])


def _add_note(turns: list[_EntryContribution], note: _EntryContribution) -> None:
    if not turns or turns[-1].role != "user":
        turns += [_EntryContribution("user", part, is_note=True) for part in (note.content, *note.more)]
        return
    for part in (note.content, *note.more):
        before = list(turns[-1].blocks)
        is_text = all(block.get("type") == "text" for block in _as_blocks(part))
        if is_text and before and before[-1].get("type") == "tool_result":
            before[-1] = _with_note(before[-1], _as_blocks(part))
            turns[-1].content = before
        else:
            turns[-1].content = _results_first([*before, *_as_blocks(part)])


def _with_note(result: Json, note: list[Json]) -> Json:
    """A note after a tool result becomes part of the result."""
    content = result.get("content")
    if content is None or isinstance(content, str):
        texts = [content or "", *(str(block.get("text", "")) for block in note)]
        return {**result, "content": "\n\n".join(text.strip() for text in texts if text.strip())}
    parts = [dict(part) for part in content]
    if parts and parts[-1].get("type") == "text":
        parts[-1]["text"] = f"{parts[-1].get('text', '')}\n"
    return {**result, "content": [*parts, *note]}


def _results_first(blocks: list[Json]) -> list[Json]:
    results = [block for block in blocks if block.get("type") == "tool_result"]
    return [*results, *(block for block in blocks if block.get("type") != "tool_result")]


# ---- calls and results -----------------------------------------------------------------------------------


def _pair_calls(turns: list[_EntryContribution]) -> None:
    """Give every call exactly one result, in the message after it, and every result a call."""
    used: set[Any] = set()
    index = 0
    while index < len(turns):
        turn = turns[index]
        if turn.role == "assistant":
            _keep_first_calls(turn, used)
            following = turns[index + 1] if index + 1 < len(turns) else None
            if (following is None or following.role == "assistant") and turn.of_type("tool_use"):
                # Another answer or nothing follows: a user turn after the calls says that no result came back.
                following = _EntryContribution("user", [])
                turns.insert(index + 1, following)
            if following is not None and following.role == "user":
                _match_results(turn, following)
        elif turn.role == "user" and (index == 0 or turns[index - 1].role != "assistant"):
            _match_results(None, turn)
        index += 1


def _keep_first_calls(turn: _EntryContribution, used: set[Any]) -> None:
    """Of calls with one id keep the first; of the server's calls those with a result."""
    kept: list[Json] = []
    blocks = [block for block in turn.blocks if block.get("type") != "tool_result"]
    finished = {block.get("tool_use_id") for block in blocks if "tool_use_id" in block}
    for block in blocks:
        if block.get("type") == "tool_use":
            if block.get("id") in used:
                continue
            used.add(block.get("id"))
        if block.get("type") in _SERVER_CALLS and block.get("id") not in finished:
            continue
        kept.append(block)
    turn.content = kept if kept or not turn.blocks else [_own_text(REMOVED_CALL)]


def _match_results(answer: _EntryContribution | None, user: _EntryContribution) -> None:
    calls = [call.get("id") for call in answer.of_type("tool_use")] if answer else []
    open_calls, kept, removed = set(calls), [], False
    for block in user.blocks:
        if block.get("type") == "tool_result":
            if block.get("tool_use_id") not in open_calls:
                removed = True
                continue
            open_calls.discard(block.get("tool_use_id"))
        kept.append(block)
    missing = [_result(call, MISSING_RESULT) for call in dict.fromkeys(calls) if call in open_calls]
    if missing or removed:
        user.content = [*missing, *kept] or (NO_CONTENT if answer else [_text(REMOVED_RESULT)])


# ---- final adjustments -----------------------------------------------------------------------------------


def _final_answer(blocks: list[Json]) -> list[Json]:
    """Calls go last, but not past thinking where nothing but thinking stands before the first of them.

    Empty text is dropped, or replaced where there is nothing else.
    """
    full = [block for block in blocks if block.get("type") != "text" or block.get("text")]
    if not full:
        return [_own_text(NO_CONTENT)]
    kinds = [block.get("type") for block in full]
    calls = [block for block in full if block.get("type") == "tool_use"]
    if calls:
        first = kinds.index("tool_use")
        if first and _THINKING.issuperset(kinds[:first]) and not _THINKING.isdisjoint(kinds[first:]):
            return full
    return [*(block for block in full if block.get("type") != "tool_use"), *calls]


def _final_results(content: str | list[Json]) -> str | list[Json]:
    """A result that failed holds only text."""
    if isinstance(content, str):
        return content
    results: list[Json] = []
    for block in content:
        parts = block.get("content") if block.get("type") == "tool_result" else None
        if isinstance(parts, list) and block.get("is_error") is True:
            texts = [part for part in parts if isinstance(part, dict) and part.get("type") == "text"]
            results.append({**block, "content": texts})
        else:
            results.append(block)
    return results


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _own_text(text: str) -> Json:
    """Text that the client inserts as if the model had written it."""
    return {"type": "text", "text": text, "citations": []}


def _as_blocks(content: str | list[Json]) -> list[Json]:
    return [_text(content)] if isinstance(content, str) else content
