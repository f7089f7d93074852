"""The entry point: global options, the table of commands, exit codes.

Start-up must stay fast, and a broken house must not break the others: a command's module, and through it all it needs,
is imported only when that command runs. What ``--help`` says of each stands in ``help.md``.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing would take longer than the rest of --help
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Sequence

    from recollect.errors import RecollectError

# The words of a command -> (module and the suffix of its functions, one line for the help). A module has ``add_options``
# and ``run``, or one pair a suffix: ``add_tag_options`` and ``run_tag``. A command may end in the option that chooses it.
COMMANDS: dict[str, tuple[str, str]] = {
    "": ("recollect.cli.overview", "what is here, and what needs attention"),
    "search": ("recollect.cli.search", "find the session in which something was said or done"),
    "list": ("recollect.cli.list", "list sessions, newest first"),
    "show": ("recollect.cli.show", "print a conversation"),
    "show --tree": ("recollect.cli.tree:tree", "its branches, forks and compactions"),
    "show --sub-agents": ("recollect.cli.tree:agents", "its sub-agents"),
    "show --todos": ("recollect.cli.history:todos", "its todos and tasks; without S, all"),
    "show --plan": ("recollect.cli.history:plans", "the documents of plan mode"),
    "show --prompts": ("recollect.cli.history:history", "what was typed; without S, everywhere"),
    "resume": ("recollect.cli.resume:resume", "find a session and continue it in its agent"),
    "open": ("recollect.cli.resume:open", "read sessions in the terminal: pick, scroll, search"),
    "web": ("recollect.cli.web", "read sessions, search and see costs in the browser"),
    "files": ("recollect.cli.files:files", "the files a session touched; restore a version, rewind a turn"),
    "diff": ("recollect.cli.diff", "what sessions changed in files: one, a time or a path"),
    "blame": ("recollect.cli.blame", "which session wrote each line of a file, and the prompt"),
    "cost": ("recollect.cli.cost", "tokens and cost by day, project, model and more"),
    "report": ("recollect.cli.report", "what was done in a time, and what it cost"),
    "limits": ("recollect.cli.budget", "budgets, the five-hour and weekly limits"),
    "limits --watch": ("recollect.cli.watch", "live sessions and their cost, as they run"),
    "limits statusline": ("recollect.cli.statusline", "one line for the agent's status line"),
    "limits statusline --install": ("recollect.cli.client:statusline", "set the agent's status line"),
    "protect": ("recollect.cli.protect:protect", "archive every session, every hour, by itself"),
    "protect now": ("recollect.cli.archive:now", "archive sessions now"),
    "protect list": ("recollect.cli.archive:list", "list the archived sessions"),
    "protect verify": ("recollect.cli.archive:verify", "read every byte of the archive"),
    "protect restore": ("recollect.cli.archive:restore", "put sessions back, byte for byte"),
    "protect rm": ("recollect.cli.archive:rm", "take sessions out of the archive"),
    "protect tidy": ("recollect.cli.trash:tidy", "archive old sessions, then move them to the trash"),
    "protect off": ("recollect.cli.protect:off", "end the hourly run"),
    "doctor": ("recollect.cli.check:check", "what is broken, and how to mend it"),
    "doctor --fix": ("recollect.cli.check:fix", "mend what is broken: a session, or everything"),
    "secrets": ("recollect.cli.secrets:scan", "find credentials in sessions, settings and backups"),
    "secrets remove": ("recollect.cli.secrets:redact", "remove credentials"),
    "undo": ("recollect.cli.trash:undo", "take back what a command changed"),
    "undo --purge": ("recollect.cli.trash:purge", "delete removed sessions for good"),
    "rename": ("recollect.cli.tidy:rename", "set the title of a session"),
    "tag": ("recollect.cli.tidy:tag", "set the tag of a session"),
    "mv": ("recollect.cli.tidy:mv", "keep the history of a project that moved"),
    "rm": ("recollect.cli.trash:rm", "move sessions to the trash"),
    "fork": ("recollect.cli.tidy:fork", "start a new session as a copy of another"),
    "import": ("recollect.cli.handover:import", "take in sessions of another home, a bundle or a log"),
    "export": ("recollect.cli.export", "write a session as Markdown, HTML or JSON"),
    "export --to": ("recollect.cli.handover:convert", "hand a session over to another agent"),
    "export --bundle": ("recollect.cli.archive:export", "write archived sessions to one file"),
    "rules check": ("recollect.guard.cli.perm:check", "whether the rules allow a tool call, and why"),
    "rules suggest": ("recollect.guard.cli.perm:suggest", "rules that would save prompts"),
    "rules replay": ("recollect.guard.cli.perm:replay", "decide all calls of the past again"),
    "rules hook": ("recollect.guard.cli.perm:hook", "answer the agent's PreToolUse hook"),
    "rules settings": ("recollect.guard.cli.settings", "which settings apply here; change one"),
    "rules restore": ("recollect.cli.client:restore", "restore .claude.json from its backups"),
    "rules flags": ("recollect.cli.client:flags", "the agent's cached feature flags"),
    "rules run": ("recollect.guard.cli.run", "run a command in a sandbox, if the rules allow it"),
    "mcp": ("recollect.guard.cli.mcp", "MCP servers of a project; be one that agents ask"),
    "mcp plugin": ("recollect.cli.client:plugin", "the Claude Code plugin"),
    "agent": ("recollect.guard.cli.agent", "let the model work on a prompt unattended"),
    "team login": ("recollect.cli.sync:login", "choose the team server and sign in"),
    "team push": ("recollect.cli.sync:push", "send new lines of every session, without credentials"),
    "team pull": ("recollect.cli.sync:pull", "fetch sessions of other machines"),
    "team status": ("recollect.cli.sync:status", "what is to be sent, and where to"),
    "team watch": ("recollect.cli.sync:watch", "push whenever something changes"),
    "team list": ("recollect.cli.team:list", "sessions of the members"),
    "team search": ("recollect.cli.team:search", "find what was said in them"),
    "team show": ("recollect.cli.team:show", "fetch one session and show it"),
    "team share": ("recollect.cli.team:share", "choose who sees a session of yours"),
    "team cost": ("recollect.cli.team:cost", "cost by person, repo, branch, model and more"),
    "team tokens": ("recollect.cli.sync:tokens", "your tokens and the browsers you signed in with"),
    "team rotate": ("recollect.cli.sync:rotate", "replace the token of this machine"),
    "team revoke": ("recollect.cli.sync:revoke", "end a token at once"),
    "team serve": ("recollect.server.cli.serve", "run the team server, on SQLite or PostgreSQL"),
    "team admin": ("recollect.server.cli.admin", "organisations, members and tokens of a server"),
    "team lake": ("recollect.server.cli.lake", "write an organisation's data as Iceberg tables to S3"),
    "data sql": ("recollect.cli.sql", "run a SELECT over sessions, messages, calls and costs"),
    "data parquet": ("recollect.cli.export:parquet", "write all sessions as Parquet tables"),
    "data index": ("recollect.cli.index", "the index: status, rebuild, vacuum"),
    "data migrate": ("recollect.cli.handover:migrate", "convert sessions to another layout on disk"),
    "completion": ("recollect.cli.completion", "complete commands, options and sessions in the shell"),
}
# Groups have no parser of their own: their help lists their commands.
GROUPS = {
    "rules": "Permission rules, settings and the sandbox of the agent.",
    "team": "Share sessions between machines and people, through a server.",
    "data": "The tables behind the answers.",
}
WORDS = tuple(dict.fromkeys(name.split()[0] for name in (*COMMANDS, *GROUPS) if name))
# Those that need no home, and one that writes into its log that there is none.
_WITHOUT_A_HOME = ("completion", "protect")
# The client takes a hook that fails as no opinion: it must answer, home or not.
_HOOK = "rules hook"
_NEEDED = {"--color": "auto, always or never", "--agent": "the name of an agent"}
_PLACEHOLDER = {"--color": "WHEN", "--agent": "NAME"}
_WITH_VALUE = ("--home", "--data", "--color", "--agent")
_AT_ONCE = ("rename", "tag", "fork")  # these change a home without --apply: they are harmless
_WITH_A_VALUE = ("export --to", "export --bundle")
_IN_COMMANDS = ("--home", "--data", "--agent")  # what a command that is printed has too
_CANDIDATES = 20

HELP = """recollect keeps everything your coding agents did: findable, priced, safe.
  recollect                what is here, and what needs attention
Find
  search WORDS, list       sessions: by words or a question; the newest
  show S, resume, open     read one, continue one, browse in the terminal
  web                      the same in the browser
Code
  files, diff, blame       files of a session, what changed, who wrote a line
Money
  cost, report, limits     by day or model; what was done; what is left
Safe
  protect, doctor          archive every hour; find and mend what is broken
  secrets, undo            find and remove credentials; take back a change
Tidy
  rename, tag, mv, rm, fork, import, export
Groups
  rules, mcp, agent        what agents may do; servers, plugin; a headless run
  team, data               share with others; SQL, tables, the index

S is an id or its start, a title, @last or a number of the last search.
Options: --home DIR, --agent NAMES, --data DIR, --color WHEN, --version, --json.
More: recollect COMMAND --help. Changes print a plan first: add --apply.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; every failure becomes a message and an exit code."""
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what the typed line can become
        from recollect.cli.completion import complete

        complete()
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
    except Exception as problem:
        from recollect.errors import RecollectError

        if not isinstance(problem, (RecollectError, OSError)):
            raise
        return _refused(problem, as_json="--json" in arguments)


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
    if rest[:1] == ["help"]:
        rest = [*rest[1:], "--help"]
    if rest[:1] in (["-h"], ["--help"]):
        rest = [word for word in rest[1:] if not word.startswith("-")]
        if not rest:
            _print_wrapped(HELP)
            return 0
        rest.append("--help")
    if rest[:1] == ["--version"]:
        from recollect.version import __version__

        print(f"recollect {__version__}")
        return 0
    data = options["--data"][-1] if options["--data"] else None
    if data:
        _refuse_data(data, "--data DIR")
    if rest[:2] == ["limits", "statusline"] and not {"-h", "--help", "--install"} & {*rest}:
        # Every open client runs this several times a second, so it does without a parser.
        from recollect.cli.statusline import main as status_line

        return status_line(rest[2:], options["--home"], data)
    if rest == ["limits", "--hook"]:
        from recollect.cli.statusline import answer_hook

        return answer_hook(options["--home"], data)
    return _named(rest, options)


def _named(rest: list[str], options: dict[str, list[str]]) -> int:
    """Run the command that was named, or say what it may have been."""
    command, words = resolve(rest)
    if command in COMMANDS:
        return _run(command, options, words)
    if command in GROUPS:
        return _group(command, words)
    from recollect.cli.terminal.text import near_miss
    from recollect.errors import UsageError

    near = near_miss(command, [*WORDS, "help"])
    raise UsageError(f"unknown command {command!a}{near}", hint="`recollect --help` lists the commands")


def resolve(words: list[str]) -> tuple[str, list[str]]:
    """The command that words name, as in ``COMMANDS``, and its arguments; what it is not, is named as it was typed.

    An option that chooses a command is not among its arguments, unless it has a value.
    """
    if not words or words[0].startswith("-"):
        return "", words
    command, rest = words[0], words[1:]
    if rest and not rest[0].startswith("-") and f"{command} {rest[0]}" in COMMANDS:
        command, rest = f"{command} {rest[0]}", rest[1:]
    for place, word in enumerate(rest):
        name = word.partition("=")[0]
        if word == "--":
            break
        if name.startswith("--") and f"{command} {name}" in COMMANDS:
            is_choice = f"{command} {name}" not in _WITH_A_VALUE or rest[place + 1 :] == ["--help"]
            return f"{command} {name}", rest[:place] + rest[place + is_choice :]
    return command, rest


def _group(name: str, words: list[str]) -> int:
    """The commands of a group; without one, or with one that it does not have."""
    known = members(name)
    if not words or words[0] in ("-h", "--help"):
        _print_wrapped(group_help(name))
        return 0 if words else 2
    from recollect.cli.terminal.text import near_miss
    from recollect.errors import UsageError

    near = near_miss(words[0], known)
    hint = f"one of {', '.join(known)}; `recollect {name} --help` says what they do"
    raise UsageError(f"unknown command {f'{name} {words[0]}'!a}{near}", hint=hint)


def members(name: str) -> list[str]:
    """The second words of a command or a group."""
    return [command[len(name) + 1 :] for command in COMMANDS if name and command.startswith(f"{name} ")]


def group_help(name: str) -> str:
    return f"usage: recollect {name} COMMAND [OPTION]...\n\n{GROUPS[name]}\n\n{members_help(name)}"


def members_help(name: str) -> str:
    """A line for each command below a word, for its help."""
    rows = [(f"{name} {one}", COMMANDS[f"{name} {one}"][1]) for one in members(name)]
    longest = max((len(command) for command, _ in rows), default=0)
    return "".join(f"  {command:<{longest}}  {about}\n" for command, about in rows)


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
            given = _value(name, value if equals else next(waiting, ""))
            if name == "--agent":
                _require_agents(given)
            options[name].append(given)
    if rest[:1] == ["--json"] and rest[1:2] and rest[1] in WORDS:
        rest = [*rest[1:], "--json"]
    return options, rest


def _require_agents(given: str) -> None:
    from recollect.cli.terminal.options import agents_named, no_such_agent
    from recollect.system.paths import known_agents

    if not set(agents_named(given)) <= {*known_agents()}:
        raise no_such_agent(given)


def _value(name: str, value: str) -> str:
    if not value or value == "--":
        from recollect.errors import UsageError

        what = _NEEDED.get(name, "a directory")
        raise UsageError(f"{name}: needs {what}", hint=f"write {name} {_PLACEHOLDER.get(name, 'DIR')}")
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

    place, _, suffix = COMMANDS[command][0].partition(":")
    module = vars(importlib.import_module(place))
    return (
        module[f"add_{suffix}_options" if suffix else "add_options"],
        module[f"run_{suffix}" if suffix else "run"],
    )


def command_parser(command: str) -> ArgumentParser:
    from recollect.cli.terminal.options import CommandParser

    add_options, run = command_functions(command)
    parser = CommandParser(command, sys.modules[run.__module__].__doc__ or "")
    add_options(parser)
    return parser


def _run(command: str, options: dict[str, list[str]], arguments: list[str]) -> int:
    run = command_functions(command)[1]
    from recollect.cli.terminal.options import CHOSEN, agents_named
    from recollect.cli.terminal.output import choose_options

    choose_options([word for name in _IN_COMMANDS for value in options[name] for word in (name, value)])
    parsed: Namespace = command_parser(command).parse_args(arguments)
    data = options["--data"]
    if not data and os.environ.get("RECOLLECT_DATA"):
        _refuse_data(os.environ["RECOLLECT_DATA"], "$RECOLLECT_DATA")
    parsed.homes, parsed.data = options["--home"], data[-1] if data else None
    parsed.only_agents = [name for given in options["--agent"] for name in agents_named(given)]
    # Where a program runs several commands, the choice of one must not be left to the next.
    CHOSEN.replace(parsed.data, parsed.only_agents)
    is_applied = getattr(parsed, "apply", command in _AT_ONCE)
    if is_applied and ":sample" in parsed.homes:
        from recollect.errors import UsageError

        raise UsageError(
            "the sample home is part of the package and cannot be changed",
            hint="copy it (`recollect --home :sample` prints its path), then use --home DIR",
        )
    if command not in _WITHOUT_A_HOME and command != _HOOK:
        _say_homes(parsed)
    if is_applied:
        from recollect.store.changes.batch import one_batch

        with one_batch(command.replace(" --", " ").replace(" ", "-")):
            code = run(parsed)
    else:
        code = run(parsed)
    if CHOSEN.is_without_home:
        from recollect.cli.terminal.homes import note_no_home

        note_no_home()
    choose_options(())
    return code


def _say_homes(parsed: Namespace) -> None:
    """A home that was named must be one, for every command. Without HOME, it says which home is used."""
    if parsed.homes:
        from recollect.cli.terminal.homes import chosen_homes

        chosen_homes(parsed.homes)
    if os.name == "posix" and not os.environ.get("HOME") and not (parsed.homes and parsed.data):
        from recollect.system.paths import user_home

        print(f"recollect: HOME is not set: using {user_home(os.environ)}", file=sys.stderr)


def _print_wrapped(text: str) -> None:
    """At once where it fits; in a narrow terminal, broken between words."""
    if sys.stdout.isatty():
        from recollect.cli.terminal import output

        room = output.terminal_size()[0]
        if room < 80:
            text = "\n".join(row for line in text.split("\n") for row in output.fitted(line, room))
    print(text, end="")


def _refused(problem: RecollectError | OSError, *, as_json: bool) -> int:
    """Say why, and what to do next, on stderr; with ``--json`` as a document too, unless one was begun."""
    from recollect.cli.terminal import output
    from recollect.cli.terminal.text import visible
    from recollect.errors import Ambiguous
    from recollect.system.fsops import next_step

    matches: Sequence[str] = ()
    if isinstance(problem, OSError):
        place = f"{problem.filename}: " if problem.filename else ""
        message, hint, code = f"{place}{problem.strerror or problem}", next_step(problem, "run it again"), 74
    else:
        message, hint, code = problem.message, problem.hint, problem.exit_code
        if isinstance(problem, Ambiguous):
            message, matches = f"{problem.summary}:", problem.matches
    lines = [f"recollect: {message}", *(f"  {match}" for match in matches[:_CANDIDATES])]
    if len(matches) > _CANDIDATES:
        lines.append(f"  and {len(matches) - _CANDIDATES} more")
    print("\n".join(map(visible, lines)), file=sys.stderr)
    output.note(f"  {visible(hint)}")
    if as_json and not output.has_written():
        error = {"message": message, "hint": output.typed(hint), "exit_code": code, "matches": list(matches)}
        output.print_json({"error": error})
    output.choose_options(())  # where a program runs several commands, the next one begins anew
    return code


if __name__ == "__main__":
    sys.exit(main())
