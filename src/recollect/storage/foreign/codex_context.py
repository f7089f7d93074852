"""What Codex sends to the model when it resumes a thread, worked out from its rollouts alone.

Items in the order of the file, a fork's or reverted thread's history before its own. A compaction replaces what stood before it, a
roll-back drops from a prompt on. A result without its call is not sent; a call without its result is sent with the
result "aborted". Equal to what the client sends, but for archived threads and the summary of 0.45 (docs/design/agents.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from recollect.storage.foreign.codex_items import is_injected
from recollect.storage.foreign.codex_shapes import fitted_line, rollout_of
from recollect.storage.foreign.resumed import Item, Sources

_NEVER_SENT = ("ghost_snapshot", "other")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")


def resumed_items(thread: str, sources: Sources, base_of: Callable[[str], Sources]) -> list[Item]:
    """The items before the new prompt. ``sources``: the rollouts of the thread's log, as they were.

    ``base_of`` gives those of the log that holds another rollout, by its id.
    """
    own = [name for name in sources if thread in name.rpartition("/")[2]] or list(sources)
    if not own:
        return []
    newest = max(own, key=lambda name: name.rpartition("/")[2])
    return _paired(_history(_lines(newest, sources, base_of, frozenset())))


def _lines(
    name: str, sources: Sources, base_of: Callable[[str], Sources], above: frozenset[str]
) -> Iterator[Item]:
    """The lines of a rollout after those it inherits; a circle ends where it began."""
    mine = [said for raw in sources[name] if (said := fitted_line(raw).fields)]
    meta: Item = next((line.get("payload") or {} for line in mine if line.get("type") == "session_meta"), {})
    base = meta.get("history_base")
    if base is not None and name not in above:
        wanted, end = str(base.get("thread_id")), base.get("end_ordinal_exclusive")
        others = sources if any(rollout_of(one) == wanted for one in sources) else base_of(wanted)
        for other in others:
            if rollout_of(other) == wanted:
                inherited = _lines(other, others, base_of, above | {name})
                yield from (one for one in inherited if one.get("ordinal", 0) < (end or 0))
    yield from mine


def _history(lines: Iterator[Item]) -> list[Item]:
    items: list[Item] = []
    for line in lines:
        kind, said = line.get("type"), line.get("payload")
        if not isinstance(said, dict):
            if isinstance(kind, str):
                items.append(line)  # the bare era
        elif kind == "response_item" and said.get("type") not in _NEVER_SENT:
            items.append(said)
        elif kind == "inter_agent_communication":
            content = [{"type": "input_text", "text": said.get("content")}]
            items.append({"type": "agent_message", "author": said.get("author"), "content": content})
        elif kind == "compacted":
            items = _compacted(items, said)
        elif kind == "event_msg" and said.get("type") == "thread_rolled_back":
            _roll_back(items, said.get("num_turns"))
    return items


def _compacted(items: list[Item], said: Item) -> list[Item]:
    kept = said.get("replacement_history")
    if isinstance(kept, list):
        return [one for one in kept if isinstance(one, dict) and one.get("type") not in _NEVER_SENT]
    summary = [{"type": "input_text", "text": said.get("message")}]
    return [*filter(_is_prompt, items), {"type": "message", "role": "user", "content": summary}]


def _roll_back(items: list[Item], turns: object) -> None:
    for _ in range(turns if isinstance(turns, int) else 0):
        prompts = [place for place, one in enumerate(items) if _is_prompt(one)]
        if not prompts:
            return
        del items[prompts[-1] :]


def _is_prompt(item: Item) -> bool:
    """What starts a turn: typed by a person or sent by another agent."""
    is_message = item.get("type") == "message" and item.get("role") == "user"
    return item.get("type") == "agent_message" or (is_message and not is_injected(item))


def _paired(items: list[Item]) -> list[Item]:
    calls = {one.get("call_id") for one in items if str(one.get("type")).endswith("_call")}
    done = {one.get("call_id") for one in items if str(one.get("type")).endswith("_output")}
    found: list[Item] = []
    for one in items:
        kind = str(one.get("type"))
        if kind.endswith("_output") and one.get("call_id") not in calls:
            continue
        found.append(one)
        if kind in _CALLS and one.get("call_id") not in done:
            found.append({"type": f"{kind}_output", "call_id": one.get("call_id"), "output": "aborted"})
    return found
