"""Codex CLI, 0.8 to 0.166: rollouts of three eras, as docs/design/agents.md sums up their format.

Here is where they are; ``codex_rollout`` reads one, ``codex_usage`` decides what is a model call, ``codex_context`` what is sent
on resume.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from recollect.agents import lines as entry
from recollect.agents.blocks import Item, MirroredThread, Sources
from recollect.agents.codex_records import ROLLOUT, fitted_line, is_injected, rollout_of
from recollect.agents.codex_rollout import RolloutReader
from recollect.agents.codex_state import RolloutState as State
from recollect.agents.growth import Unit, content, new_lines, stamped, walked
from recollect.agents.mirror import AgentMirror
from recollect.model.lines.json_text import loose_value
from recollect.system.peek import ReadProblems

NAMES = "session_index.jsonl"
_ARCHIVE = "archived_sessions"


def units(home: Path, problems: ReadProblems | None = None) -> list[Unit]:
    """Every rollout once, the plain form before the compressed, oldest first; then the names."""
    result: dict[str, str] = {}
    for directory in ("sessions", _ARCHIVE):
        for where, names in walked(home / directory, problems):
            for name in names:
                if ROLLOUT.match(name):
                    key = name.removesuffix(".zst")
                    if key == name or key not in result:
                        result[key] = os.path.join(where, name)  # noqa: PTH118 - thousands of names
    rollouts = (stamped(home, path, key) for key, path in sorted(result.items(), key=_by_time))
    return [unit for unit in (*rollouts, stamped(home, str(home / NAMES))) if unit is not None]


def _by_time(result: tuple[str, str]) -> tuple[str, ...]:
    matched = ROLLOUT.match(result[0])
    return (matched[1], matched[3] or matched[2]) if matched else (result[0],)


def mirror(unit: Unit, state: State, into: AgentMirror) -> None:
    """Translate what a rollout has gained."""
    if unit.key == NAMES:
        return
    lines, is_restarted, _ = new_lines(unit, state.growth)
    if is_restarted:
        state.begin_again()
    if lines:
        RolloutReader(unit, state, into).take(lines, is_restarted=is_restarted)


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
        into.title(thread, name, entry.titled(thread, name))


def resumed(thread: MirroredThread) -> list[Item]:
    """Items as the service takes them."""

    return resumed_items(thread.id, thread.sources(), thread.base_of)


def resume_warning(home: Path, source: str, version: str | None) -> str | None:
    """Archived threads are an error since 0.117; the first era, which noted no version, ended with 0.29."""
    if source.startswith(f"{_ARCHIVE}/"):
        return "it is archived: Codex since 0.117 does not resume it before it is taken out of its archive"
    return "clients of today find threads of Codex before 0.30 empty" if version is None else None


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
    result: list[Item] = []
    for one in items:
        kind = str(one.get("type"))
        if kind.endswith("_output") and one.get("call_id") not in calls:
            continue
        result.append(one)
        if kind in _CALLS and one.get("call_id") not in done:
            result.append({"type": f"{kind}_output", "call_id": one.get("call_id"), "output": "aborted"})
    return result
