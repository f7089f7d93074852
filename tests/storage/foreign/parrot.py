"""All that a new agent needs beside a row in ``AGENTS``: the dialect of a client that does not exist.

Its home has one file a session, ``talks/<uuid>.jsonl``, of lines such as ``{"who": "me", "at": "…", "says": "…"}``; an answer
has ``used``.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.storage.foreign import lines as made
from recollect.storage.foreign.growth import Growth, Unit, new_lines, stamped, walked
from recollect.storage.foreign.lines import LineFields, Voice
from recollect.storage.foreign.loose import COUNT, MOMENT, Fields, Shape, fitted, parsed, translated
from recollect.storage.foreign.mirror import AgentMirror
from recollect.storage.foreign.resumed import Item, MirroredThread, as_messages
from recollect.system.peek import ReadProblems

TRANSLATION = 1
_LINE: dict[str, Shape] = {"who": str, "at": MOMENT, "says": str, "used": {"in": COUNT, "out": COUNT}}


class TalkState(Struct):
    growth: Growth = msgspec.field(default_factory=Growth)
    voice: Voice = msgspec.field(default_factory=Voice)


def units(home: Path, problems: ReadProblems | None = None) -> list[Unit]:
    found = [
        stamped(home, str(Path(where, name)), name)
        for where, names in walked(home / "talks", problems)
        for name in names
    ]
    return [unit for unit in found if unit is not None]


def mirror(unit: Unit, saved: bytes | None, into: AgentMirror) -> bytes:
    state = msgspec.msgpack.decode(saved, type=TalkState) if saved else TalkState()
    lines, _ = new_lines(unit, state.growth)
    place = into.place(unit.path.stem, "/srv/app")
    state.voice.session = state.voice.seed = place.session
    state.voice.cwd = "/srv/app"
    found: list[LineFields] = []
    for raw in lines:
        fields, odd = fitted(parsed(raw), _LINE)
        told = translated("parrot", state.voice, odd, lambda said=fields: _entries(said, state.voice))  # type: ignore[misc]
        found += made.with_original(told, raw)
    into.append(into.log(place), found, (unit.source, state.growth.generation))
    return msgspec.msgpack.encode(state)


def _entries(said: Fields, voice: Voice) -> list[LineFields]:
    voice.at = said.get("at") or voice.at
    if said.get("who") == "me":
        return [made.user(voice, said.get("says", ""))]
    if said.get("who") != "bird":
        return [made.record(voice, f"parrot:{said.get('who')}")]
    answer = made.assistant(voice, "gpt-5", {"type": "text", "text": said.get("says", "")})
    counts = {"input": said.get("used", {}).get("in", 0), "output": said.get("used", {}).get("out", 0)}
    return [answer, made.usage(voice, made.key_of("parrot", answer["uuid"]), "gpt-5", counts)]


def finish(home: Path, into: AgentMirror) -> None:
    """Nothing concerns several sessions."""


def resumed(thread: MirroredThread) -> list[Item]:
    return as_messages(thread.entries())


def deletion_warning(home: Path) -> str | None:
    return None


def resume_warning(home: Path, source: str, version: str | None) -> str | None:
    return None
