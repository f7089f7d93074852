"""What a mirror remembers beside its logs, and what can be asked of it without looking at the home it mirrors."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.system.locations import MIRROR_FACTS

STATE, PROBLEMS, STAMPS = "state.msgpack", "problems.json", "stamps.json"
LOST = "beginnings.json"  # which logs lack theirs: lists ask that of every session


class MirrorFacts(Struct, frozen=True):
    """What a mirror says of itself."""

    agent: str
    source: str
    translation: int = 1  # by which version of the agent's module; the first ones did not say


class MirrorProblem(Struct, frozen=True):
    """What a mirror lacks: a file that could not be read, or a part of a store that is not known."""

    path: str
    reason: str
    is_unknown: bool = False


class Placed(Struct):
    """Where a session or sub-agent is mirrored."""

    project: str
    session: str
    agent: str | None = None
    title: str | None = None


class HistoryBase(Struct, frozen=True):
    """What a log goes on from, by its other name; ``was_here``: the log has a copy of it. ``had``: how large that was when it
    was here in part.
    """

    alias: str
    was_here: bool
    had: int = 0


class MirrorState(Struct):
    """What a pass goes on from."""

    units: dict[str, bytes] = {}
    logs: dict[str, int] = {}
    headers: dict[str, tuple[str, int]] = {}
    placed: dict[str, Placed] = {}
    aliases: dict[str, str] = {}  # other names of sources, such as the id of a rollout
    bases: dict[str, HistoryBase] = {}  # of logs whose history is in another one


def problems_of_mirror(root: Path) -> list[MirrorProblem]:
    """What the last pass could not mirror."""
    return [problem for found in saved_problems(root).values() for problem in found]


def saved_problems(root: Path) -> dict[str, list[MirrorProblem]]:
    """The same, by unit."""
    try:
        return msgspec.json.decode((root / PROBLEMS).read_bytes(), type=dict[str, list[MirrorProblem]])
    except (OSError, msgspec.DecodeError):
        return {}


def lost_in_mirror(root: Path) -> dict[str, str]:
    """Logs that lack their beginning, each with the name of the session that has it."""
    try:
        return msgspec.json.decode((root / LOST).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}


def facts_of_mirror(root: Path) -> MirrorFacts | None:
    """Whose mirror a directory is; None where it is none."""
    try:
        return msgspec.json.decode((root / MIRROR_FACTS).read_bytes(), type=MirrorFacts)
    except (OSError, msgspec.DecodeError):
        return None


def native_name(root: Path, session: str) -> str:
    """What the client calls a session; the same unless its names are no UUIDs."""
    for name, place in saved_state(root).placed.items():
        if place.session == session and place.agent is None:
            return name
    return session


def own_name(root: Path, native: str) -> str | None:
    """The session that a client calls so, by the name it has here; None where it is not mirrored."""
    place = saved_state(root).placed.get(native)
    return None if place is None or place.agent is not None else place.session


def alias_log(root: Path, name: str) -> Path | None:
    """The log of a mirror that goes by another name, such as the id of a rollout; or what our archive has of that session."""
    log = saved_state(root).aliases.get(name)
    if log is not None and (root / log).is_file():
        return root / log
    from recollect.storage.foreign.mirroring.archived_logs import archived_log

    found = archived_log(root.parent.parent, root, name)
    return None if found is None else Path(found)


def saved_state(root: Path) -> MirrorState:
    """As the last pass left it; empty where there was none."""
    try:
        return msgspec.msgpack.decode((root / STATE).read_bytes(), type=MirrorState)
    except (OSError, msgspec.DecodeError):
        return MirrorState()


def saved_stamps(root: Path) -> dict[str, tuple[int, ...]]:
    """How each unit was when it was last mirrored."""
    try:
        return msgspec.json.decode((root / STAMPS).read_bytes(), type=dict[str, tuple[int, ...]])
    except (OSError, msgspec.DecodeError):
        return {}
