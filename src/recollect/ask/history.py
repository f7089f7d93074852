"""What a client keeps beside the logs: typed prompts, plan documents, and the shell environment of sessions.

``history.jsonl`` holds what was typed, in all projects; ``plans/`` the documents of plan mode, which entries
name by their slug; ``session-env/`` what a session's shell was started with. Read-only. What cannot be read
is in the ``problems`` of its home.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from msgspec import Struct

from recollect.ask.archive import plan_files
from recollect.ask.homes import Homes
from recollect.ask.sessions.session import Session
from recollect.errors import UsageError
from recollect.system.peek import open_regular

_LARGEST = 1 << 20


class TypedCommand(Struct, frozen=True):
    """One line that a person typed: a prompt, a slash command or a ``!`` line."""

    text: str
    at: dt.datetime | None
    project: str | None
    session: str | None


class TypedProject(Struct, frozen=True):
    """A directory and how much was typed in it."""

    project: str
    commands: int
    last_at: dt.datetime | None


class PlanDocument(Struct, frozen=True):
    """A document of plan mode."""

    name: str
    path: Path
    text: str


class EnvironmentFile(Struct, frozen=True):
    """A file of a session's shell environment. Its values are not shown: they may be secret."""

    path: Path
    bytes: int


class CommandHistory(Struct, frozen=True):
    """The newest commands first; plans and environment of one session, or all plans."""

    commands: list[TypedCommand]
    plans: list[PlanDocument]
    environment: list[EnvironmentFile]


def command_history(
    home: Homes,
    session: Session | None = None,
    *,
    project: str | None = None,
    limit: int | None = None,
    words: str | None = None,
) -> CommandHistory:
    """What is kept for one session, or for all; ``project`` is a directory, ``limit`` counts commands.

    ``words`` keeps what holds all of them, in any case: commands by what was typed, plans by their text.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"limit {limit}: too small", hint="use at least 1")
    needles = (words or "").casefold().split()
    wanted = (
        one
        for one in home.prompts()
        if ((session is None or one.session_id == session.id) and (project is None or one.project == project))
        and _holds(one.display, needles)
    )
    newest = sorted(wanted, key=lambda one: one.at or _EARLIEST, reverse=True)
    commands = [TypedCommand(one.display, one.at, one.project, one.session_id) for one in newest[:limit]]
    plans = _all_plans(home) if session is None else plan_files(session)
    return CommandHistory(
        commands,
        [one for one in map(_plan, plans) if _holds(f"{one.name} {one.text}", needles)],
        [] if session is None else list(_environment(session)),
    )


def by_project(commands: list[TypedCommand]) -> list[TypedProject]:
    """How much was typed in each directory, the most recent first."""
    found: dict[str, list[TypedCommand]] = {}
    for one in commands:
        found.setdefault(one.project or "", []).append(one)
    return [TypedProject(project, len(typed), typed[0].at) for project, typed in found.items()]


def plan_documents(home: Homes, words: str | None = None) -> list[PlanDocument]:
    """Every plan of every home that holds all of the words, the newest first."""
    needles = (words or "").casefold().split()
    found = [one for one in map(_plan, _all_plans(home)) if _holds(f"{one.name} {one.text}", needles)]
    return sorted(found, key=lambda one: one.path.stat().st_mtime_ns, reverse=True)


def _plan(path: Path) -> PlanDocument:
    return PlanDocument(path.stem, path, _text(path))


def _holds(text: str, needles: list[str]) -> bool:
    folded = text.casefold()
    return all(one in folded for one in needles)


_EARLIEST = dt.datetime.min.replace(tzinfo=dt.UTC)


def _all_plans(home: Homes) -> Iterator[Path]:
    for one in home.homes:
        if one.plans_dir.is_dir():
            found = (path for path in one.plans_dir.glob("*.md") if path.is_file() and not path.is_symlink())
            yield from islice(sorted(found), 10_000)


def _environment(session: Session) -> Iterator[EnvironmentFile]:
    if session.session_id is None:
        return
    place = session.home.session_env_dir(session.session_id)
    for path in sorted(place.rglob("*")) if place.is_dir() else ():
        if path.is_file() and not path.is_symlink():
            yield EnvironmentFile(path, path.stat().st_size)


def _text(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return file.read(_LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""
