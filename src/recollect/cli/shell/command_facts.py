"""What the parsers say of every command, as values: for completion scripts and manual pages."""

from __future__ import annotations

import argparse
from typing import NamedTuple

from recollect.cli.main import COMMANDS, command_parser

SESSION, DIRECTORY, FILE, WORD = "session", "directory", "file", "word"
_KINDS = {"S": SESSION, "DIR": DIRECTORY, "PROJECT": DIRECTORY, "FILE": FILE, "PATH": FILE}


class OptionFacts(NamedTuple):
    """An option, or with no names a positional argument. ``value`` is "" for an option without one."""

    names: tuple[str, ...]
    value: str
    about: str
    choices: tuple[str, ...]
    kind: str


class CommandFacts(NamedTuple):
    """A command with its options and arguments."""

    name: str
    about: str
    text: str
    options: list[OptionFacts]
    arguments: list[OptionFacts]


def all_commands() -> list[CommandFacts]:
    """In the order of the help."""
    return [command_facts(name) for name in COMMANDS]


def command_facts(name: str) -> CommandFacts:
    parser = command_parser(name)
    actions = [_facts(parser, action) for action in parser._actions]  # noqa: SLF001 - argparse offers no other way
    options = [one for one in actions if one.names]
    options += [
        OptionFacts((option,), value, about, choices, kind) for option, value, about, choices, kind in _GLOBAL
    ]
    arguments = [one for one in actions if not one.names]
    return CommandFacts(name, COMMANDS[name][1], parser.description or "", options, arguments)


def _facts(parser: argparse.ArgumentParser, action: argparse.Action) -> OptionFacts:
    names = tuple(action.option_strings)
    has_value = not names or action.nargs != 0
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    value = (metavar or action.dest.upper()) if has_value else ""
    about = (action.help or "") % {"prog": parser.prog} if action.help else ""
    choices = tuple(map(str, action.choices)) if action.choices is not None else ()
    is_session = has_value and (
        (action.help or "").startswith("session:") or action.dest in ("session", "sessions")
    )
    kind = SESSION if is_session or (name_is_resume(parser) and not names) else _KINDS.get(value, WORD)
    return OptionFacts(names, value, about, choices, kind)


def name_is_resume(parser: argparse.ArgumentParser) -> bool:
    """Its words name a session, among other things."""
    return parser.prog.endswith(" resume")


_GLOBAL = [
    ("--home", "DIR", "use this Claude home (repeatable)", (), DIRECTORY),
    ("--data", "DIR", "recollect's data directory", (), DIRECTORY),
    ("--color", "WHEN", "auto, always or never", ("auto", "always", "never"), WORD),
]
