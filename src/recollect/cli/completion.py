"""The command ``completion``, and what the shell is told when it asks."""

from __future__ import annotations

import os
from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

import argcomplete
from argcomplete.completers import DirectoriesCompleter, FilesCompleter, SuppressCompleter
from argcomplete.shell_integration import shellcode

from recollect.ask.list import ListQuery, list_sessions
from recollect.cli.main import COMMANDS, WORDS, command_functions, global_options, members, resolve
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import chosen_homes
from recollect.cli.terminal.options import flag, own_cache
from recollect.cli.terminal.text import shortened, visible
from recollect.errors import RecollectError, UsageError
from recollect.index.access import open_index
from recollect.index.refresh import FirstNeed
from recollect.model.lines.ids import command_name, short_id
from recollect.system import fsops

_SHELLS = ("bash", "zsh", "fish")
_PLACES = {
    "bash": ".local/share/bash-completion/completions/recollect",
    "zsh": ".zfunc/_recollect",
    "fish": ".config/fish/completions/recollect.fish",
}
_MOST, _TITLE_COLUMNS = 200, 60
_DIRECTORIES, _FILES = ("DIR", "PROJECT"), ("FILE", "PATH")


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("shell", nargs="?", choices=_SHELLS, help="which shell (default: yours)")
    flag(parser, "--install", "write the script where the shell looks for it")


def run(options: Namespace) -> int:
    shell = options.shell or Path(os.environ.get("SHELL", "")).name
    if shell not in _SHELLS:
        raise UsageError("completion: no shell was named", hint=f"one of {', '.join(_SHELLS)}")
    script = shellcode(["recollect"], shell=shell)
    if not options.install:
        print(script)
        return 0
    path = Path.home() / _PLACES[shell]
    fsops.make_directories(path.parent)
    fsops.replace_file(path, f"{script}\n".encode())
    output.say(f"Written to {visible(str(path))}; it counts in the next shell.")
    if shell == "zsh":
        output.say(
            "~/.zshrc needs these two lines:\n  fpath=(~/.zfunc $fpath)\n  autoload -Uz compinit && compinit"
        )
    return 0


def complete() -> None:
    """Answer the shell that asks what the typed line can become, and end the process."""
    sessions = _Sessions()
    argcomplete.autocomplete(
        _parser(os.environ["COMP_LINE"].split(), sessions),
        always_complete_options=False,
        validator=sessions.fits,
        default_completer=SuppressCompleter(),
    )


def _parser(typed: list[str], sessions: _Sessions) -> ArgumentParser:
    """All commands, and the options of the one that was typed: no other module is imported."""
    parser = ArgumentParser("recollect", allow_abbrev=False)
    parser.add_argument("--version", action="store_true")
    _add_global_options(parser)
    command = _command_of(typed)
    word = command.split(" ")[0]
    words = parser.add_subparsers()
    for name in WORDS:
        below = words.add_parser(name, help=COMMANDS.get(name, ("", ""))[1], allow_abbrev=False)
        if name == word:
            _add_typed(below, word, command, sessions)
    return parser


def _add_typed(below: ArgumentParser, word: str, command: str, sessions: _Sessions) -> None:
    """What can follow the word that was typed: its options, and the words below it."""
    _add_global_options(below)
    second, options = command.partition(" ")[2], below
    is_second = bool(second) and not second.startswith("-")
    if command in COMMANDS and not is_second:
        command_functions(command)[0](below)
    if is_second or all(action.option_strings for action in below._actions):  # noqa: SLF001 - no other way
        seconds = below.add_subparsers()
        for name in members(word):
            if not name.startswith("-"):
                one = seconds.add_parser(name, help=COMMANDS[f"{word} {name}"][1], allow_abbrev=False)
                options = one if name == second else options
    if is_second and options is not below:
        _add_global_options(options)
        command_functions(command)[0](options)
    for name in members(command.partition(" --")[0]):
        if name.startswith("--") and name not in options._option_string_actions:  # noqa: SLF001 - no other way
            options.add_argument(name, action="store_true", help=COMMANDS[f"{word} {name}"][1])
    for action in options._actions:  # noqa: SLF001 - argparse offers no other way
        _choose_completer(action, command, sessions)


def _command_of(typed: list[str]) -> str:
    """What was typed so far, as far as it is a command."""
    try:
        return resolve([word for word in global_options(typed[1:])[1] if word != "--json"])[0]
    except RecollectError:
        return ""


def _add_global_options(parser: ArgumentParser) -> None:
    for name in ("--home", "--data"):
        option = parser.add_argument(name, metavar="DIR", action="append", default=SUPPRESS)
        option.completer = DirectoriesCompleter()  # type: ignore[attr-defined]  # argcomplete reads it
    parser.add_argument("--color", choices=("auto", "always", "never"), default=SUPPRESS)


def _choose_completer(action: Action, command: str, sessions: _Sessions) -> None:
    is_session = action.dest in ("session", "sessions") or (action.help or "").startswith("session:")
    if action.choices is not None or action.nargs == 0:
        return
    completer: object = None
    if is_session or (command == "resume" and not action.option_strings):
        completer = sessions
    elif action.metavar in _DIRECTORIES:
        completer = DirectoriesCompleter()
    elif action.metavar in _FILES:
        completer = FilesCompleter()
    if completer is not None:
        action.completer = completer  # type: ignore[attr-defined]  # argcomplete reads it


class _Sessions:
    """Sessions whose id or title begins with a word, or else whose title contains it."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def __call__(self, prefix: str, parsed_args: Namespace, **_: object) -> dict[str, str]:
        """Value and description; nothing, rather than a message, where something is wrong."""
        try:
            rows = list(_known(parsed_args))
        except (RecollectError, OSError):
            return {}
        begin = prefix.casefold()
        by_id = [(name, title) for name, title in rows if name.startswith(begin)]
        by_title = [(title, name) for name, title in rows if begin and title.casefold().startswith(begin)]
        found = [*by_id, *by_title] or [row for row in rows if begin in row[1].casefold()]
        self._ids = {name for name, _ in rows}
        return dict(found[:_MOST])

    def fits(self, value: str, prefix: str) -> bool:
        return value in self._ids or value.casefold().startswith(prefix.casefold())


def _known(typed: Namespace) -> Iterator[tuple[str, str]]:
    """Id and title of the sessions that the index knows, newest first; it is not updated for this."""
    options = Namespace(data=getattr(typed, "data", [None])[-1])
    roots, cache = chosen_homes(getattr(typed, "home", []), may_be_missing=True), own_cache(options)
    homes = [root.path for root in roots if root.exists]
    with open_index(homes, cache=cache, is_refreshed=False, need=FirstNeed(seconds=0.3)) as opened:
        query = ListQuery(with_usage=False)
        found = list_sessions(roots, opened, query).sessions
    for session in found:
        title = shortened(visible(session.title), _TITLE_COLUMNS).removesuffix("…")
        yield visible(command_name(short_id(session.id), session.path)), title
