"""All that a new agent needs beside a row in ``AGENTS``: the dialect of a client that does not exist.

Its home has one file a session, ``talks/<uuid>.jsonl``, of lines such as ``{"who": "me", "at": "…", "says": "…"}``; an answer
has ``used``.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from recollect.agents import lines as entry
from recollect.agents.blocks import Item, MirroredThread, as_messages
from recollect.agents.growth import Unit, UnitState, files_below, new_lines
from recollect.agents.lines import LineFields, Voice
from recollect.agents.loose import COUNT, MOMENT, Fields, Shape, fitted, parsed, translated
from recollect.agents.mirror import AgentMirror
from recollect.system.peek import ReadProblems

_LINE: dict[str, Shape] = {"who": str, "at": MOMENT, "says": str, "used": {"in": COUNT, "out": COUNT}}


class State(UnitState, kw_only=True):
    voice: Voice = msgspec.field(default_factory=Voice)


def units(home: Path, problems: ReadProblems | None = None) -> list[Unit]:
    return list(files_below(home, "talks", (".jsonl",), problems))


def mirror(unit: Unit, state: State, into: AgentMirror) -> None:
    lines, is_restarted, _ = new_lines(unit, state.growth)
    place = into.place(unit.path.stem, "/srv/app")
    state.voice.session = state.voice.seed = place.session
    state.voice.cwd = "/srv/app"
    found: list[LineFields] = []
    for raw in lines:
        fields, odd = fitted(parsed(raw), _LINE)
        told = translated("parrot", state.voice, odd, lambda said=fields: _entries(said, state.voice))  # type: ignore[misc]
        found += entry.with_original(told, raw)
    origin = (unit.source, state.growth.generation)
    into.append_read(into.log(place), found, origin, state.voice, is_restarted=is_restarted)


def _entries(said: Fields, voice: Voice) -> list[LineFields]:
    voice.at = said.get("at") or voice.at
    if said.get("who") == "me":
        return [entry.user(voice, said.get("says", ""))]
    if said.get("who") != "bird":
        return [entry.record(voice, f"parrot:{said.get('who')}")]
    answer = entry.assistant(voice, "gpt-5", {"type": "text", "text": said.get("says", "")})
    counts = {"input": said.get("used", {}).get("in", 0), "output": said.get("used", {}).get("out", 0)}
    return [answer, entry.usage(voice, entry.key_of("parrot", answer["uuid"]), "gpt-5", counts)]


def resumed(thread: MirroredThread) -> list[Item]:
    return as_messages(thread.entries())
