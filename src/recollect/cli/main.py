"""The entry point: global options, the table of commands, errors to exit codes.

Start-up is a feature. This module imports the standard library's ``sys`` and
nothing of ours but the error tree; a command's module, and through it storage
and the model, is imported only when that command runs. ``tests/cli`` holds the
list of modules ``recollect --help`` may load.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence
    from typing import NoReturn

# Command -> (module, one line for the help). The order is the order of the help.
COMMANDS: dict[str, tuple[str, str]] = {
    "overview": ("recollect.cli.look.overview", "what is on this machine (also without a command)"),
    "list": ("recollect.cli.look.list", "sessions, newest first"),
    "show": ("recollect.cli.look.show", "a conversation as the client would load it"),
    "search": (
        "recollect.cli.look.search",
        "every text of every session: words, phrases, substrings, patterns",
    ),
    "cost": (
        "recollect.cli.spend.cost",
        "tokens and money, by day, session, project, model, branch and more",
    ),
    "tree": ("recollect.cli.look.tree", "branches, forks, compactions and agents of a session"),
    "agents": ("recollect.cli.look.agents", "sub-agents of a session and the calls that sent them"),
    "files": ("recollect.cli.look.files", "every version of every file a session touched"),
    "todos": ("recollect.cli.look.todos", "todos and tasks with their states"),
    "export": ("recollect.cli.look.export", "a session as Markdown, JSON, JSONL or flat"),
    "resume": ("recollect.cli.look.resume", "find a session and go on with it in the client"),
    "fork": ("recollect.cli.keep.fork", "a new session that starts as a copy of another"),
    "rename": ("recollect.cli.keep.rename", "give a session a title"),
    "tag": ("recollect.cli.keep.tag", "give a session a tag"),
    "check": (
        "recollect.cli.mend.check",
        "what is damaged, cut off or refused by the API, and what to do about it",
    ),
    "repair": (
        "recollect.cli.mend.repair",
        "mend a session that cannot be resumed, with a proof; --slim makes it light",
    ),
    "migrate": ("recollect.cli.keep.migrate", "bring sessions from one layout on disk into another"),
    "config": ("recollect.cli.mend.config", "config files the client would ignore or reset; restore them"),
    "settings": (
        "recollect.cli.rules.settings",
        "which setting counts here, from which file and line; change one",
    ),
    "perm": ("recollect.cli.rules.perm", "may this tool call run? check, explain, replay, suggest, hook"),
    "flags": ("recollect.cli.rules.flags", "the client's cached feature flags"),
    "archive": (
        "recollect.cli.keep.archive",
        "keep sessions for good, verified: add, list, restore and more",
    ),
    "scan": ("recollect.cli.secrets.scan", "secrets in everything that was kept, by kind and fingerprint"),
    "redact": ("recollect.cli.secrets.redact", "take the secrets out of a session, with an undo"),
    "mv": ("recollect.cli.keep.mv", "let a project that moved keep its history; split a shared folder"),
    "cleanup": ("recollect.cli.keep.cleanup", "archive old sessions, then move them to the trash"),
    "trash": ("recollect.cli.keep.trash", "what was removed: list, restore, empty"),
    "undo": ("recollect.cli.keep.undo", "take back what a command changed in a home"),
    "watch": ("recollect.cli.look.watch", "live sessions with their cost, redrawn as they go"),
    "web": ("recollect.cli.look.web", "a page in the browser: read, search, costs, health"),
    "statusline": ("recollect.cli.spend.statusline", "one line for the client's status line"),
    "index": ("recollect.cli.mend.index", "the index: its state, rebuild, vacuum"),
    "mcp": ("recollect.cli.rules.mcp", "MCP servers of a project: list, trust, tools, call"),
    "run": ("recollect.cli.rules.run", "a command in a sandbox, if the permission rules let it run"),
    "agent": (
        "recollect.cli.rules.agent",
        "work on a prompt headless: model, tools, and the session written down",
    ),
    "rm": ("recollect.cli.keep.rm", "move a session to the trash, or bring it back"),
    "serve": ("recollect.cli.team.serve", "the team server, on SQLite or PostgreSQL"),
    "sync": (
        "recollect.cli.team.sync",
        "sessions of several machines together: login, push, pull, status, watch",
    ),
    "team": ("recollect.cli.team.team", "what a team's sessions cost, from its server"),
    "admin": ("recollect.cli.team.admin", "organisations, members and tokens of a team server"),
}
_DEFAULT = "overview"
_WITH_VALUE = ("--home", "--data")

HELP = """usage: recollect [--home DIR]... [--data DIR] [COMMAND] [OPTION]...

Keeps every coding-agent session you ever had: readable, lossless, durable.
Looking changes nothing; what would change something prints a plan and waits for
--apply. Without a command: an overview.

Commands:
{commands}

Global options, before the command:
  --home DIR     look at this Claude home instead of this machine's (repeatable);
                 :sample is the one that ships with recollect
  --data DIR     recollect's own directory (default: $XDG_DATA_HOME/recollect)
  --version      print the version
  -h, --help     show this text; `recollect COMMAND --help` for one command

Example:
  recollect
  recollect --home ~/backup/.claude --json

Exit status: 0 ok, 1 findings, 2 usage, 3 not found or ambiguous, 4 damaged data,
5 locked or busy, 74 I/O error, 130 interrupted.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; every failure becomes a message and an exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _make_streams_safe()
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        print("recollect: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return _reader_went_away()
    except OSError as problem:
        place = f"{problem.filename}: " if problem.filename else ""
        return _failed(f"{place}{problem.strerror or problem}", "check the disk and the permissions", 74)
    except Exception as problem:
        from recollect.errors import RecollectError

        if not isinstance(problem, RecollectError):
            raise
        return _failed(problem.message, problem.hint, problem.exit_code)


def _make_streams_safe() -> None:
    """A stream that is closed, or that cannot show a character, must not end in a traceback."""
    if sys.stdout is None:
        sys.stdout = open("/dev/null" if sys.platform != "win32" else "nul", "w", encoding="utf-8")  # noqa: PTH123, SIM115 - pathlib would cost more than the rest of --help
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _dispatch(arguments: list[str]) -> int:
    options, rest = _global_options(arguments)
    if rest[:1] in (["-h"], ["--help"]):
        print(help_text(), end="")
        return 0
    if rest[:1] == ["--version"]:
        from recollect import __version__

        print(f"recollect {__version__}")
        return 0
    named = bool(rest) and not rest[0].startswith("-")
    command = rest[0] if named else _DEFAULT
    if command == "statusline" and "-h" not in rest and "--help" not in rest:
        # Called several times a second by every open client: no parser is built for it.
        from recollect.cli.spend.statusline import main as status_line

        return status_line(rest[1:], options["--home"], options["--data"][-1] if options["--data"] else None)
    if command not in COMMANDS:
        return _unknown_command(command)
    return _run(command, options, rest[1:] if named else rest)


def _global_options(arguments: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Take the global options off the front, positionally: what follows the command is the command's."""
    options: dict[str, list[str]] = {name: [] for name in _WITH_VALUE}
    position = 0
    while position < len(arguments):
        name, equals, value = arguments[position].partition("=")
        if name not in _WITH_VALUE:
            break
        if not equals:
            position += 1
            value = arguments[position] if position < len(arguments) else ""
        if not value:
            from recollect.errors import UsageError

            raise UsageError(f"{name}: needs a directory", hint=f"write {name} DIR before the command")
        options[name].append(value)
        position += 1
    return options, arguments[position:]


def _run(command: str, options: dict[str, list[str]], arguments: list[str]) -> int:
    import importlib

    module = importlib.import_module(COMMANDS[command][0])
    parser = command_parser(command)
    parsed: Namespace = parser.parse_args(arguments)
    data = options["--data"]
    parsed.homes, parsed.data = options["--home"], data[-1] if data else None
    if getattr(parsed, "apply", False) and ":sample" in parsed.homes:
        from recollect.errors import UsageError

        raise UsageError(
            "the sample home is part of the package and is not changed",
            hint="copy it first (its place is the first line of `recollect --home :sample`), then use --home DIR",
        )
    code: int = module.run(parsed)
    return code


def command_parser(command: str) -> ArgumentParser:
    """The parser of one command, built by its own module."""
    import argparse
    import importlib

    module = importlib.import_module(COMMANDS[command][0])

    class CommandParser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            from recollect.cli.terminal.text import visible

            super().error(visible(message))

    class CommandHelpFormatter(argparse.RawDescriptionHelpFormatter):
        def __init__(self, prog: str) -> None:
            # With a width given, argparse does not import shutil to ask for one: it makes a formatter for
            # every option, help or not.
            super().__init__(prog, width=_columns() - 2)

        def _format_action_invocation(self, action: argparse.Action) -> str:
            """``-o, --output FILE``, as Python 3.13 writes it, in every version: the reference page is one."""
            if not action.option_strings or action.nargs == 0:
                return super()._format_action_invocation(action)
            value = self._format_args(action, self._get_default_metavar_for_optional(action))
            return f"{', '.join(action.option_strings)} {value}"

    parser = CommandParser(
        prog=f"recollect {command}",
        description=module.__doc__,
        formatter_class=CommandHelpFormatter,
        allow_abbrev=False,
    )
    module.add_options(parser)
    return parser


def _columns() -> int:
    try:
        return int(os.environ.get("COLUMNS", "")) or os.get_terminal_size().columns
    except (ValueError, OSError):
        return 80


def help_text() -> str:
    """The text of ``recollect --help``."""
    longest = max(map(len, COMMANDS))
    lines = [f"  {name:<{longest}}   {about}" for name, (_, about) in COMMANDS.items()]
    return HELP.format(commands="\n".join(lines))


def _unknown_command(command: str) -> int:
    import difflib

    near = difflib.get_close_matches(command, COMMANDS, 1)
    hint = f"did you mean `recollect {near[0]}`?" if near else "`recollect --help` lists the commands"
    return _failed(f"no command {command!a}", hint, 2)


def _failed(message: str, hint: str, code: int) -> int:
    from recollect.cli.terminal.text import visible

    print(f"recollect: {visible(message)}\n  {visible(hint)}", file=sys.stderr)
    return code


def _reader_went_away() -> int:
    """``recollect | head`` is not an error; keep Python from complaining at exit."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
