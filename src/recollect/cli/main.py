"""The entry point: global options, the table of commands, exit codes.

Start-up must stay fast, and a broken house must not break the others: a command's module, and through it all it needs,
is imported only when that command runs. What ``--help`` says of each stands in ``help.md``.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False  # importing typing would take longer than the rest of --help
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Sequence

    from recollect.errors import Ambiguous

# Command -> (module, one line for the help). A module has ``add_options`` and ``run``; one with several commands has
# ``add_tag_options`` and ``run_tag`` for `tag`.
COMMANDS: dict[str, tuple[str, str]] = {
    "overview": ("recollect.cli.overview", "what is on this machine (the default command)"),
    "list": ("recollect.cli.list", "list sessions, newest first"),
    "show": ("recollect.cli.show", "print a conversation as the client would load it"),
    "search": ("recollect.cli.search", "search prompts, answers, tool calls and their results"),
    "cost": ("recollect.cli.cost", "tokens and cost by day, session, project, model and more"),
    "budget": ("recollect.cli.budget", "what is left of your budgets, and the warnings given"),
    "tree": ("recollect.cli.tree", "branches, forks, compactions and sub-agents of a session"),
    "agents": ("recollect.cli.tree", "list the sub-agents of a session"),
    "files": ("recollect.cli.files", "list, compare and restore versions of files a session touched"),
    "blame": ("recollect.cli.blame", "which session wrote each line of a file, and the prompt"),
    "log": ("recollect.cli.blame", "the sessions that changed a file, and their commits"),
    "todos": ("recollect.cli.history", "todo lists and tasks with their states"),
    "history": ("recollect.cli.history", "typed prompts, plans and shell environment beside the logs"),
    "plans": ("recollect.cli.history", "the documents of plan mode: list, find, print"),
    "export": ("recollect.cli.export", "write a session as Markdown, HTML or JSON; all as Parquet tables"),
    "sql": ("recollect.cli.sql", "run a SELECT over responses, messages, tool calls and sessions"),
    "resume": ("recollect.cli.resume", "find a session and continue it in the client"),
    "open": ("recollect.cli.resume", "read sessions in the terminal: pick, scroll, search"),
    "fork": ("recollect.cli.tidy", "start a new session as a copy of another"),
    "convert": ("recollect.cli.handover", "hand a session over to another client: claude, codex"),
    "rename": ("recollect.cli.tidy", "set the title of a session"),
    "tag": ("recollect.cli.tidy", "set the tag of a session"),
    "check": ("recollect.cli.check", "find damaged sessions and requests the API would refuse"),
    "repair": ("recollect.cli.check", "repair a session that cannot be resumed, or make it smaller"),
    "fix": ("recollect.cli.check", "find everything that is broken in a home, and fix it"),
    "migrate": ("recollect.cli.handover", "convert sessions from one disk layout to another"),
    "config": ("recollect.cli.client", "find config files the client would ignore; restore them"),
    "settings": (
        "recollect.guard.cli.settings",
        "which settings apply here and where they are set; change one",
    ),
    "perm": ("recollect.guard.cli.perm", "whether a tool call may run: check, explain, replay, suggest"),
    "flags": ("recollect.cli.client", "the client's cached feature flags"),
    "archive": ("recollect.cli.archive", "keep verified copies of sessions: add, list, restore and more"),
    "import": ("recollect.cli.handover", "import sessions of another home, directory, bundle or log"),
    "protect": ("recollect.cli.protect", "archive all sessions every hour, by itself"),
    "scan": ("recollect.cli.secrets", "find credentials in sessions, settings and backups"),
    "redact": ("recollect.cli.secrets", "remove the credentials from a session"),
    "mv": ("recollect.cli.tidy", "keep the history of a project that moved; split a shared folder"),
    "cleanup": ("recollect.cli.trash", "archive old sessions, then move them to the trash"),
    "trash": ("recollect.cli.trash", "removed sessions: list, restore, delete for good"),
    "undo": ("recollect.cli.trash", "undo a change that a command made in a home"),
    "watch": ("recollect.cli.watch", "live sessions and their cost, updated as they run"),
    "web": ("recollect.cli.web", "open sessions, search, costs and findings in the browser"),
    "stats": ("recollect.cli.stats", "what was done: weeks, hours, tools, agents, savings"),
    "statusline": ("recollect.cli.statusline", "print one line for the client's status line"),
    "index": ("recollect.cli.index", "the index of sessions: status, rebuild, vacuum"),
    "mcp": ("recollect.guard.cli.mcp", "MCP servers of a project: list, trust, call; or serve as one"),
    "plugin": ("recollect.cli.client", "the Claude Code plugin: ask the past inside the client"),
    "run": ("recollect.guard.cli.run", "run a command in a sandbox if the permission rules allow it"),
    "agent": ("recollect.guard.cli.agent", "let the model work on a prompt unattended; record the session"),
    "rm": ("recollect.cli.trash", "move sessions to the trash"),
    "serve": ("recollect.server.cli.serve", "run the team server, on SQLite or PostgreSQL"),
    "sync": ("recollect.cli.sync", "share sessions between machines: login, push, pull, status, watch"),
    "team": ("recollect.cli.team", "a team's sessions on its server: list, search, show, cost"),
    "admin": ("recollect.server.cli.admin", "manage organisations, members and tokens of a team server"),
    "lake": ("recollect.server.cli.lake", "write an organisation's data as Iceberg tables to S3"),
    "completion": ("recollect.cli.completion", "print a completion script for bash, zsh or fish"),
}
GROUPS = {
    "Look at sessions": "overview list show search tree agents files blame log todos history plans export sql resume open watch web",
    "Know what they cost": "cost budget stats statusline",
    "Keep, name, move and remove them": "fork convert rename tag migrate archive import protect mv cleanup trash undo rm",
    "Mend what is damaged": "check repair fix config index",
    "Find and remove credentials": "scan redact",
    "Rules: permissions, settings, tools": "settings perm flags mcp plugin run agent",
    "Share them in a team": "serve sync team admin lake",
    "The shell": "completion",
}
# Words that people type, and what they mean.
ALIASES = {"doctor": "check", "help": "--help"}
_DEFAULT = "overview"
# Those that need no home, and one that writes into its log that there is none.
_WITHOUT_A_HOME = ("completion", "protect")
# The client takes a hook that fails as no opinion: it must answer, home or not.
_HOOK = ("perm", "hook")
_WITH_VALUE = ("--home", "--data", "--color", "--agent")
_IN_COMMANDS = ("--home", "--data", "--agent")  # what a command that is printed has too
_CANDIDATES = 20

HELP = """usage: recollect [--home DIR]... [--data DIR] [COMMAND] [OPTION]...

Read, search, price, repair and archive your coding-agent sessions.

Commands that read change nothing. Commands that change something print a plan
and do nothing until you add --apply. Without a command: an overview.

{commands}

Also understood: {aliases}.

Global options, before or after the command:
  --home DIR     use this home, of Claude or another agent, instead of this
                 machine's (repeatable); :sample is an example home in recollect
  --agent NAMES  only homes of these agents, with commas between them:
                 {agents}
  --data DIR     recollect's data directory (default: $XDG_DATA_HOME/recollect)
  --color WHEN   auto (the default), always or never; NO_COLOR and FORCE_COLOR
                 are honoured
  --version      print the version
  -h, --help     print this text; `recollect COMMAND --help`: one command

Example:
  recollect
  recollect show 6ada00ba
  recollect --home ~/backup/.claude list --json

Exit status: 0 ok, 1 findings, 2 wrong usage, 3 not found or ambiguous,
4 damaged data, 5 locked, busy or out of time, 74 I/O error, 130 interrupted.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; every failure becomes a message and an exit code."""
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what the typed line can become
        from recollect.cli.completion import complete

        complete()
    if argv is None:
        gc.disable()  # until the modules of the command are loaded: none of them is garbage
    arguments = list(sys.argv[1:] if argv is None else argv)
    _make_streams_safe()
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        print("recollect: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `recollect | head` is no error; keeps Python from failing in its last flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as problem:
        from recollect.system.fsops import next_step

        place = f"{problem.filename}: " if problem.filename else ""
        return _failed(f"{place}{problem.strerror or problem}", next_step(problem, "run it again"), 74)
    except Exception as problem:
        from recollect.errors import Ambiguous, RecollectError

        if not isinstance(problem, RecollectError):
            raise
        if isinstance(problem, Ambiguous):
            return _several(problem)
        return _failed(problem.message, problem.hint, problem.exit_code)


def _make_streams_safe() -> None:
    """A closed stream, or one that cannot encode a character, must not cause a traceback."""
    if sys.stdout is None:
        sys.stdout = open("/dev/null" if sys.platform != "win32" else "nul", "w", encoding="utf-8")  # noqa: PTH123, SIM115 - pathlib would cost more than the rest of --help
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _dispatch(arguments: list[str]) -> int:
    options, rest = global_options(arguments)
    if options["--color"]:
        _choose_colour(options["--color"][-1])
    if rest[:1] in (["-h"], ["--help"]):
        topic = next((word for word in rest[1:] if not word.startswith("-")), None)
        if topic is None:
            _print_help()
            return 0
        rest = [ALIASES.get(topic, topic), "--help"]
    if rest[:1] == ["--version"]:
        from recollect.version import __version__

        print(f"recollect {__version__}")
        return 0
    named = bool(rest) and not rest[0].startswith("-")
    command = rest[0] if named else _DEFAULT
    if options["--data"]:
        _refuse_data(options["--data"][-1], "--data DIR")
    if command == "statusline" and "-h" not in rest and "--help" not in rest:
        # Every open client runs this several times a second, so it does without a parser.
        from recollect.cli.statusline import main as status_line

        return status_line(rest[1:], options["--home"], options["--data"][-1] if options["--data"] else None)
    if command == "budget" and rest[1:] == ["--hook"]:
        from recollect.cli.statusline import answer_hook

        return answer_hook(options["--home"], options["--data"][-1] if options["--data"] else None)
    if command not in COMMANDS:
        from recollect.cli.terminal.text import near_miss

        near = near_miss(command, [*COMMANDS, *ALIASES])
        return _failed(f"unknown command {command!a}{near}", "`recollect --help` lists the commands", 2)
    return _run(command, options, rest[1:] if named else rest)


def _refuse_data(place: str, option: str) -> None:
    """Our own files do not go into the home of another agent."""
    from recollect.system.paths import absolute, agent_homes_around

    directory = absolute(place, os.environ)
    if agent_homes_around(
        directory, os.environ
    ):  # looks, and loads nothing: the status line comes by here too
        from pathlib import Path

        from recollect.ask.sessions.home_guard import refuse_agent_home

        refuse_agent_home(Path(directory), option)


def global_options(arguments: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Split off the global options, before or after the command. What follows ``--`` is left alone."""
    options: dict[str, list[str]] = {name: [] for name in _WITH_VALUE}
    rest: list[str] = []
    waiting = iter(arguments)
    for word in waiting:
        name, equals, value = word.partition("=")
        if word == "--":
            rest += [word, *waiting]
        elif name not in _WITH_VALUE:
            rest.append(word)
        else:
            given = value if equals else next(waiting, "")
            if name == "--agent":
                from recollect.cli.terminal.options import are_agents, no_such_agent

                if not are_agents(given):
                    if not rest:  # before the command only homes of agents are meant
                        command = next((word for word in waiting if word in COMMANDS or word in ALIASES), "")
                        raise no_such_agent(command, given)
                    rest += [word] if equals else [word, given]  # the sub-agent that some commands take
                    continue
            options[name].append(_value(name, given))
    if rest[:1] == ["--json"] and rest[1:2] and (rest[1] in COMMANDS or rest[1] in ALIASES):
        rest[:2] = [rest[1], "--json"]
    if rest:
        rest[0] = ALIASES.get(rest[0], rest[0])
    return options, rest


def _value(name: str, value: str) -> str:
    if not value or value == "--":
        from recollect.errors import UsageError

        what = "auto, always or never" if name == "--color" else "a directory"
        raise UsageError(
            f"{name}: needs {what}", hint=f"write {name} {'WHEN' if name == '--color' else 'DIR'}"
        )
    return value


def _choose_colour(choice: str) -> None:
    from recollect.cli.terminal import output

    if choice not in output.COLOUR_CHOICES:
        from recollect.errors import UsageError

        raise UsageError(f"--color {choice}: no such choice", hint="write auto, always or never")
    output.choose_colour(choice)


def command_functions(command: str) -> tuple[Callable[[ArgumentParser], None], Callable[[Namespace], int]]:
    """What adds the options of a command, and what runs it."""
    import importlib

    module = vars(importlib.import_module(COMMANDS[command][0]))
    add_options = module.get("add_options") or module[f"add_{command}_options"]
    return add_options, module.get("run") or module[f"run_{command}"]


def command_parser(command: str) -> ArgumentParser:
    from recollect.cli.terminal.options import CommandParser

    add_options, run = command_functions(command)
    parser = CommandParser(command, sys.modules[run.__module__].__doc__ or "")
    add_options(parser)
    return parser


def _run(command: str, options: dict[str, list[str]], arguments: list[str]) -> int:
    run = command_functions(command)[1]
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    parsed: Namespace = command_parser(command).parse_args(arguments)
    from recollect.cli.terminal.options import CHOSEN, agents_named
    from recollect.cli.terminal.output import choose_options

    data = options["--data"]
    if not data and os.environ.get("RECOLLECT_DATA"):
        _refuse_data(os.environ["RECOLLECT_DATA"], "$RECOLLECT_DATA")
    parsed.homes, parsed.data = options["--home"], data[-1] if data else None
    parsed.only_agents = [name for given in options["--agent"] for name in agents_named(given)]
    choose_options([word for name in _IN_COMMANDS for value in options[name] for word in (name, value)])
    # Where a program runs several commands, the choice of one must not be left to the next.
    CHOSEN.replace(parsed.data, parsed.only_agents)
    is_applied = getattr(parsed, "apply", False)
    if is_applied and ":sample" in parsed.homes:
        from recollect.errors import UsageError

        raise UsageError(
            "the sample home is part of the package and cannot be changed",
            hint="copy it (`recollect --home :sample` prints its path), then use --home DIR",
        )
    if command not in _WITHOUT_A_HOME and (command, getattr(parsed, "action", "")) != _HOOK:
        _say_homes(parsed)
    if is_applied:
        from recollect.store.changes.batch import one_batch

        with one_batch(command):
            code = run(parsed)
    else:
        code = run(parsed)
    if CHOSEN.is_without_home:
        from recollect.cli.terminal.homes import note_no_home

        note_no_home()
    return code


def _say_homes(parsed: Namespace) -> None:
    """A home that was named must be one, for every command. Without HOME, it says which home is used."""
    if parsed.homes:
        from recollect.cli.terminal.homes import chosen_homes

        chosen_homes(parsed.homes)
    if os.name == "posix" and not os.environ.get("HOME") and not (parsed.homes and parsed.data):
        from recollect.system.paths import user_home

        print(f"recollect: HOME is not set: using {user_home(os.environ)}", file=sys.stderr)


def help_text() -> str:
    from recollect.system.paths import known_agents

    longest = max(map(len, COMMANDS))
    parts = [
        "\n".join([f"{title}:", *(f"  {name:<{longest}}  {COMMANDS[name][1]}" for name in names.split())])
        for title, names in GROUPS.items()
    ]
    return HELP.format(
        commands="\n\n".join(parts), aliases=", ".join(ALIASES), agents=", ".join(known_agents())
    )


def _print_help() -> None:
    text = help_text()
    if sys.stdout.isatty():
        from recollect.cli.terminal import output

        if output.terminal_size()[0] < 80:
            text = output.reflowed(text, output.terminal_size()[0])
    print(text, end="")


def _failed(message: str, hint: str, code: int) -> int:
    from recollect.cli.terminal.output import note
    from recollect.cli.terminal.text import visible

    print(f"recollect: {visible(message)}", file=sys.stderr)
    note(f"  {visible(hint)}")
    return code


def _several(problem: Ambiguous) -> int:
    """One line for each object that was meant perhaps."""
    from recollect.cli.terminal.output import note
    from recollect.cli.terminal.text import visible

    lines = [f"recollect: {problem.summary}:", *(f"  {match}" for match in problem.matches[:_CANDIDATES])]
    if len(problem.matches) > _CANDIDATES:
        lines.append(f"  and {len(problem.matches) - _CANDIDATES} more")
    print("\n".join(map(visible, lines)), file=sys.stderr)
    note(f"  {visible(problem.hint)}")
    return problem.exit_code


if __name__ == "__main__":
    sys.exit(main())
