"""The homes a command reads: those named with ``--home``, else this machine's."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from msgspec import structs

from recollect.errors import NotFound, StorageError
from recollect.services.foreign.homes import home_of, machine_homes, of_agents, unread_files
from recollect.system.locations import HomeRoot, data_dir, home_at
from recollect.system.paths import AGENTS, CLAUDE, missing_stores, usual_places

if TYPE_CHECKING:
    from recollect.cli.terminal.numbers import NumberedHit
    from recollect.services.homes import Home
    from recollect.services.session import Session
    from recollect.storage.home import ClaudeHome

SAMPLE = ":sample"
_MOST_TOLD = 5


# A directory with none of these was not made by a client. An empty one may become a home.
_IN_A_HOME = frozenset(
    {
        *(
            "projects",
            "settings.json",
            ".claude.json",
            "history.jsonl",
            "sessions",
            "todos",
            "tasks",
            "plans",
        ),
        *(
            "statsig",
            "file-history",
            "shell-snapshots",
            "session-env",
            "plugins",
            "agents",
            "commands",
            "skills",
        ),
        *("backups", "CLAUDE.md", ".credentials.json", "ide"),
    }
)


class _Choice:
    """What the command line said about homes besides naming them: --data and --agent."""

    data: str | None = None
    agents: tuple[str, ...] = ()
    told: ClassVar[set[str]] = set()  # what was said of them already
    looked_up: ClassVar[dict[tuple[str, ...], list[HomeRoot]]] = {}  # by what named them
    is_without_home = False  # the command asked for homes to read, and there are none


def choose(data: str | None, agents: Sequence[str]) -> None:
    """Where mirrors of other agents' homes are kept, and the agents whose homes are read; none: all."""
    _Choice.data, _Choice.agents = data, tuple(agents)
    _Choice.told.clear()
    _Choice.looked_up.clear()
    _Choice.is_without_home = False


def chosen_homes(
    named: Sequence[str], *, may_be_missing: bool = False, with_notes: bool = True
) -> list[HomeRoot]:
    """The homes to read. One that is named, on the command line or by ``$CLAUDE_CONFIG_DIR``, must exist, and so must a
    database that a variable names.

    ``may_be_missing``: for what does not read the sessions in it; a client makes what a variable names when it first starts.
    ``with_notes``: say which files of other agents could not be read.
    """
    data = Path(_Choice.data) if _Choice.data else None
    # A command asks for what was found when its options were checked; who asks again has the homes looked at again.
    homes = _Choice.looked_up.pop(tuple(named), None) or _required_homes(named)
    distinct = {home.path.resolve(): home for home in reversed(homes)}
    found = list(reversed(distinct.values())) or machine_homes(data)
    if _Choice.agents:
        found = of_agents(found, _Choice.agents, data or data_dir())
    # --home was looked at above; the usual places are listed only where they exist.
    if missing := [] if may_be_missing else [home for home in found if not home.exists]:
        _require_reachable(missing[0])
        raise NotFound(
            f"home {missing[0].path}: no such directory, but $CLAUDE_CONFIG_DIR names it",
            hint="correct the variable or unset it, or name a home with --home DIR",
        )
    if _Choice.agents and not found:
        # Without this, commands would go on with the default: the homes of Claude.
        raise NotFound(
            f"no home of {' or '.join(_Choice.agents)} was found",
            hint="name one with --home DIR; `recollect` lists the homes of this machine",
        )
    if not may_be_missing:
        _Choice.is_without_home = not found
        _require_stores(named)
        if with_notes:
            _note_unread_files(found)
    return found


def note_no_home() -> None:
    """Say that there is no home to read, so that the answer is not taken for one about empty homes."""
    if _Choice.is_without_home:
        from recollect.cli.terminal import output

        output.note(
            f"No home of an agent was found: looked in {usual_places(os.environ)}."
            f" Name one with --home DIR, or try --home {SAMPLE}."
        )


def _required_homes(named: Sequence[str]) -> list[HomeRoot]:
    """The homes that were named; each must be one."""
    data = Path(_Choice.data) if _Choice.data else None
    homes = [sample() if directory == SAMPLE else home_of(directory, data) for directory in named]
    for home in homes:
        _require_home(home)
    return homes


def look_up(named: Sequence[str]) -> None:
    """Before a command runs: what it names must be homes. It is given what was found here when it asks first."""
    key, homes = tuple(named), _required_homes(named)
    _Choice.looked_up[key] = homes
    chosen_homes(named)
    _Choice.looked_up[key] = homes


def _require_stores(named: Sequence[str]) -> None:
    for missing in without_stores(named):
        raise NotFound(missing, hint="correct the variable or unset it, or name a home with --home DIR")


def without_stores(named: Sequence[str]) -> list[str]:
    """Databases of other agents that a variable names and that are not there, each in words."""
    missing = [] if named else missing_stores(os.environ)
    return [
        f"{agent}: no file {path}, but ${variable} names it"
        for agent, variable, path in missing
        if not _Choice.agents or agent in _Choice.agents
    ]


def _note_unread_files(homes: Sequence[HomeRoot]) -> None:
    """Once for each: a command may ask several times which homes it reads."""
    if all(home.agent == CLAUDE for home in homes):
        return
    from recollect.cli.terminal import output
    from recollect.cli.terminal.text import visible

    new = [text for text in unread_files(homes) if text not in _Choice.told]
    _Choice.told.update(new)
    for text in new[:_MOST_TOLD]:
        output.note(visible(text))
    if len(new) > _MOST_TOLD:
        output.note(f"{len(new) - _MOST_TOLD:,} other files could not be read; `recollect check` names them")


def _require_reachable(home: HomeRoot) -> None:
    """What lies in a closed directory is not missing."""
    try:
        home.path.stat()
    except PermissionError as problem:
        hint = "give this user the right to reach it, or name another home with --home DIR"
        raise StorageError("read", home.path, problem, hint=hint) from problem
    except OSError:
        return


def _require_home(home: HomeRoot) -> None:
    if not home.exists:
        _require_reachable(home)
        what = "a file and no directory" if home.path.exists() else "no such directory"
        raise NotFound(f"home {home.path}: {what}", hint="name a directory that holds projects/")
    try:
        names = set(os.listdir(home.path))  # noqa: PTH208 - names only
    except OSError:
        return  # a home that cannot be read is reported by the command that reads it
    if names and home.agent == CLAUDE and not names & _IN_A_HOME:
        inside = home.path / ".claude"
        hint = f"name {inside}" if inside.is_dir() else "name a directory that holds projects/"
        raise NotFound(
            f"home {home.path}: not a Claude home (no projects/, no settings.json),"
            f" and no sessions of {', '.join(AGENTS)} in it",
            hint=hint,
        )


def no_claude_home(command: str, homes: Sequence[HomeRoot]) -> NotFound:
    """The error of a command that works on homes of Claude, where there is none among these."""
    others = [home for home in homes if home.agent != CLAUDE]
    if not others:
        return NotFound(f"{command}: no Claude home was found", hint="name one with --home DIR")
    named = ", ".join(f"{home.source or home.path} ({home.agent})" for home in others)
    return NotFound(
        f"{command}: leaves sessions of other agents as they are, and found no Claude home beside {named}",
        hint="name a Claude home with --home DIR",
    )


def settings_home(named: Sequence[str]) -> ClaudeHome:
    """The home whose settings apply here. One that does not exist has none, only the default rules."""
    from recollect.storage.home import ClaudeHome

    root = settings_root(named)
    return ClaudeHome(root.path, root.config_file)


def settings_root(named: Sequence[str]) -> HomeRoot:
    """Where the home is whose settings apply here: the first one, even if it does not exist, since a project has its own settings."""
    homes = [home for home in chosen_homes(named, may_be_missing=True) if home.agent == CLAUDE]
    return homes[0] if homes else home_at("~/.claude")


def sample() -> HomeRoot:
    """The home that ships with the package. Read only."""
    from recollect.sample import sample_home

    return structs.replace(home_at(sample_home()), origin="built-in sample")


def directories(named: Sequence[str]) -> list[ClaudeHome]:
    """The chosen homes one by one, for what reads no session: that loads half as much as ``open_home``."""
    from recollect.storage.home import ClaudeHome

    # Taken by their paths, as ``Home`` takes them: the config file is then looked for inside and beside the home.
    homes = [home_at(home.path) for home in chosen_homes(named) if home.exists]
    return [ClaudeHome(home.path, home.config_file) for home in homes]


def open_home(named: Sequence[str], *, with_notes: bool = True) -> Home:
    """All chosen homes as one ``Home``; without notes for a command whose answer has what could not be read."""
    from recollect.services.homes import Home  # commands that only need the directories do not load this

    return Home(*[home.path for home in chosen_homes(named, with_notes=with_notes)], data=_Choice.data)


def note_unreadable(home: Home) -> None:
    """Say what could not be read: an answer without it must not look like all there is."""
    from recollect.cli.terminal import output
    from recollect.cli.terminal.text import visible
    from recollect.storage.home_walk import scan_logs

    problems: list[tuple[str, str]] = []
    for one in home.homes:
        scan_logs(one.root, problems)
    for path, reason in problems:
        output.note(visible(f"could not be read: {path}: {reason}"))


def named_session(options: Namespace, name: str) -> Session:
    """The session that a command names, to be read; a number is one of the last search in this terminal."""
    return named_hit(options, name)[1]


def named_hit(options: Namespace, name: str) -> tuple[Home, Session, NumberedHit | None]:
    """The same with its homes, and the message that a number stands for."""
    from recollect.cli.terminal.change_plans import own_cache
    from recollect.cli.terminal.numbers import numbered

    known = numbered(own_cache(options), name)
    if known is None:
        home = open_home(options.homes)
        return home, home.session(name), None
    last, hit = known
    home = open_home(options.homes or last.homes)
    return home, home.session(hit.session), hit
