"""The homes a command reads: those named with ``--home``, else this machine's; their index and sessions."""

from __future__ import annotations

import contextlib
import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import structs

from recollect.agents.homes import home_of, machine_homes, of_agents, unread_files
from recollect.cli.terminal import output
from recollect.cli.terminal.options import CHOSEN, own_cache
from recollect.cli.terminal.text import visible
from recollect.errors import NotFound, StorageError
from recollect.index.access import OpenIndex, open_index
from recollect.index.refresh import FirstNeed
from recollect.sample import sample_home
from recollect.store.home import ClaudeHome
from recollect.system.locations import HomeRoot, data_dir, home_at
from recollect.system.paths import AGENTS, CLAUDE, missing_stores, usual_places

SAMPLE = ":sample"
_MOST_TOLD = 5


# A directory with none of these was not made by a client. An empty one may become a home.
_IN_A_HOME = frozenset(
    [
        "projects",
        "settings.json",
        ".claude.json",
        "history.jsonl",
        "sessions",
        "todos",
        "tasks",
        "plans",
        "statsig",
        "file-history",
        "shell-snapshots",
        "session-env",
        "plugins",
        "agents",
        "commands",
        "skills",
        "backups",
        "CLAUDE.md",
        ".credentials.json",
        "ide",
    ]
)


def chosen_homes(
    named: Sequence[str], *, may_be_missing: bool = False, with_notes: bool = True
) -> list[HomeRoot]:
    """The homes to read. One that is named, on the command line or by ``$CLAUDE_CONFIG_DIR``, must exist, and so must a
    database that a variable names.

    ``may_be_missing``: for what does not read the sessions in it; a client makes what a variable names when it first starts.
    ``with_notes``: say which files of other agents could not be read.
    """
    data = Path(CHOSEN.data) if CHOSEN.data else None
    homes = [sample() if directory == SAMPLE else home_of(directory, data) for directory in named]
    for home in homes:
        _require_home(home)
    distinct = {home.path.resolve(): home for home in reversed(homes)}
    found = list(reversed(distinct.values())) or machine_homes(data)
    if CHOSEN.agents:
        found = of_agents(found, CHOSEN.agents, data or data_dir())
    # --home was looked at above; the usual places are listed only where they exist.
    if missing := [] if may_be_missing else [home for home in found if not home.exists]:
        _require_reachable(missing[0])
        raise NotFound(
            f"home {missing[0].path}: no such directory, but $CLAUDE_CONFIG_DIR names it",
            hint="correct the variable or unset it, or name a home with --home DIR",
        )
    if CHOSEN.agents and not found:
        # Without this, commands would go on with the default: the homes of Claude.
        raise NotFound(
            f"no home of {' or '.join(CHOSEN.agents)} was found",
            hint="name one with --home DIR; `recollect` lists the homes of this machine",
        )
    if not may_be_missing:
        CHOSEN.is_without_home = not found
        for missing_store in without_stores(named):
            raise NotFound(
                missing_store, hint="correct the variable or unset it, or name a home with --home DIR"
            )
        if with_notes:
            _note_unread_files(found)
    return found


def note_no_home() -> None:
    """Say that there is no home to read, so that the answer is not taken for one about empty homes."""
    if CHOSEN.is_without_home:
        output.note(
            f"No home of an agent was found: looked in {usual_places(os.environ)}."
            f" Name one with --home DIR, or try --home {SAMPLE}."
        )


def without_stores(named: Sequence[str]) -> list[str]:
    """Databases of other agents that a variable names and that are not there, each in words."""
    missing = [] if named else missing_stores(os.environ)
    return [
        f"{agent}: no file {path}, but ${variable} names it"
        for agent, variable, path in missing
        if not CHOSEN.agents or agent in CHOSEN.agents
    ]


def _note_unread_files(homes: Sequence[HomeRoot]) -> None:
    """Once for each: a command may ask several times which homes it reads."""
    if all(home.agent == CLAUDE for home in homes):
        return

    new = [text for text in unread_files(homes) if text not in CHOSEN.told]
    CHOSEN.told.update(new)
    for text in new[:_MOST_TOLD]:
        output.note(visible(text))
    if len(new) > _MOST_TOLD:
        output.note(f"{len(new) - _MOST_TOLD:,} other files could not be read; `recollect doctor` names them")


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
    root = settings_root(named)
    return ClaudeHome(root.path, root.config_file)


def settings_root(named: Sequence[str]) -> HomeRoot:
    """Where the home is whose settings apply here: the first one, even if it does not exist, since a project has its own settings."""
    homes = [home for home in chosen_homes(named, may_be_missing=True) if home.agent == CLAUDE]
    return homes[0] if homes else home_at("~/.claude")


def sample() -> HomeRoot:
    """The home that ships with the package. Read only."""
    return structs.replace(home_at(sample_home()), origin="built-in sample")


def directories(named: Sequence[str]) -> list[ClaudeHome]:
    """The chosen homes one by one, for what reads no session."""
    # Taken by their paths, as ``Home`` takes them: the config file is then looked for inside and beside the home.
    homes = [home_at(home.path) for home in chosen_homes(named) if home.exists]
    return [ClaudeHome(home.path, home.config_file) for home in homes]


def claude_directories(options: Namespace) -> list[ClaudeHome]:
    """The same for a command that needs at least one."""
    homes = directories(options.homes)
    if not homes:
        raise NotFound("no Claude home was found", hint="name one with --home DIR")
    return homes


def only_home(options: Namespace) -> ClaudeHome:
    """The home whose user settings apply: the first."""
    return claude_directories(options)[0]


@contextlib.contextmanager
def asked_index(
    options: Namespace, homes: Sequence[Path], need: FirstNeed | None = None
) -> Iterator[OpenIndex]:
    """The index, opened as the options ask. Notes about it go to stderr."""
    with (
        output.progress_bar("reading" if options.no_index else "indexing") as progress,
        open_index(
            homes,
            cache=own_cache(options),
            is_refreshed=not options.no_refresh,
            is_temporary=options.no_index,
            progress=progress,
            need=need,
        ) as opened,
    ):
        for remark in opened.notes:
            output.note(visible(remark))
        for path, reason in opened.refreshed.problems if opened.refreshed else ():
            output.note(visible(f"could not be read: {path}: {reason}"))
        yield opened
