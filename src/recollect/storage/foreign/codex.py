"""Codex CLI, 0.8 to 0.166: rollouts of three eras, as docs/design/agents.md sums up their format.

Here is where they are; ``codex_rollout`` reads one, ``codex_usage`` decides what is a model call, ``codex_context`` what is sent
on resume.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from recollect.model.json.text import loose_value
from recollect.storage.foreign import lines as made
from recollect.storage.foreign.codex_rollout import RolloutReader
from recollect.storage.foreign.codex_shapes import ROLLOUT
from recollect.storage.foreign.codex_state import RolloutState
from recollect.storage.foreign.growth import Unit, content, new_lines, stamped, walked
from recollect.storage.foreign.mirror import AgentMirror
from recollect.storage.foreign.resumed import Item, MirroredThread
from recollect.system.peek import ReadProblems

# 2: keys of calls have the turn; in a fork of a fork, each call belongs to the fork that made it.
# 3: messages of sub-agents are not the user's; a log begins with whose it is.
# 4: behind a compaction stands all that it left; a rollout that was moved is one source.
TRANSLATION = 4
NAMES = "session_index.jsonl"
_ARCHIVE = "archived_sessions"


def units(home: Path, problems: ReadProblems | None = None) -> list[Unit]:
    """Every rollout once, the plain form before the compressed, oldest first; then the names."""
    found: dict[str, str] = {}
    for directory in ("sessions", _ARCHIVE):
        for where, names in walked(home / directory, problems):
            for name in names:
                if ROLLOUT.match(name):
                    key = name.removesuffix(".zst")
                    if key == name or key not in found:
                        found[key] = os.path.join(where, name)  # noqa: PTH118 - thousands of names
    rollouts = (stamped(home, path, key) for key, path in sorted(found.items(), key=_by_time))
    return [unit for unit in (*rollouts, stamped(home, str(home / NAMES))) if unit is not None]


def _by_time(found: tuple[str, str]) -> tuple[str, ...]:
    matched = ROLLOUT.match(found[0])
    return (matched[1], matched[3] or matched[2]) if matched else (found[0],)


def mirror(unit: Unit, saved: bytes | None, into: AgentMirror) -> bytes:
    """Translate what a rollout has gained."""
    if unit.key == NAMES:
        return b""
    state = msgspec.msgpack.decode(saved, type=RolloutState) if saved else RolloutState()
    lines, is_restarted = new_lines(unit, state.growth)
    if is_restarted:
        state = RolloutState(growth=state.growth)
    if lines:
        RolloutReader(unit, state, into).take(lines, is_restarted=is_restarted)
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


def resume_warning(home: Path, source: str, version: str | None) -> str | None:
    """Archived threads are an error since 0.117; the first era, which noted no version, ended with 0.29."""
    if source.startswith(f"{_ARCHIVE}/"):
        return "it is archived: Codex since 0.117 does not resume it before it is taken out of its archive"
    return "clients of today find threads of Codex before 0.30 empty" if version is None else None
