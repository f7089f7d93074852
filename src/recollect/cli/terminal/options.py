"""The options that several commands share, the parser of commands, and command lines to type next."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import re
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

from recollect.cli.main import members_help
from recollect.cli.terminal import output
from recollect.cli.terminal.output import fitted, reflowed, terminal_size
from recollect.cli.terminal.text import near_miss, visible
from recollect.errors import UsageError
from recollect.model.text import timespan
from recollect.store.changes.batch import open_batch
from recollect.system.locations import cache_dir, data_dir
from recollect.system.paths import known_agents

SINCE = 'start: 2026-01-31, 7d (today and the six days before), 12h; or a whole period: yesterday, "last month", "in march"'
UNTIL = "end; a day, week or month counts to its end; 7d is where --since 7d begins"
_PERIODS = (
    "today",
    "yesterday",
    "this week",
    "last week",
    "this month",
    "last month",
    "this year",
    "last year",
)


class ChosenHomes:
    """What the command line says about homes besides naming them."""

    def __init__(self) -> None:
        self.replace(None, [])

    def replace(self, data: str | None, agents: Sequence[str]) -> None:
        """Where mirrors of other agents' homes are kept, and the agents whose homes are read; none: all."""
        self.data, self.agents = data, tuple(agents)
        self.told: set[str] = set()  # what was said of them already
        self.is_without_home = False  # the command asked for homes to read, and there are none


CHOSEN = ChosenHomes()


def agents_named(given: str) -> list[str]:
    """Agents with commas between them, as typed: spaces and capitals do not matter."""
    return [name.strip().lower() for name in given.split(",")]


def no_such_agent(given: str) -> UsageError:
    """Which of the names is wrong, and what it may have been meant to be."""
    known = known_agents()
    choices = f"write one or more of {', '.join(known)}, with commas"
    wrong = [name for name in agents_named(given) if name not in known]
    if not any(wrong):
        return UsageError("--agent: needs the name of an agent", hint=choices)
    meant = near_miss(wrong[0], known) if len(wrong) == 1 else ""
    return UsageError(f"--agent {', '.join(wrong)}: no such agent{meant}", hint=choices)


def flag(parser: argparse._ActionsContainer, *words: str) -> None:
    """An option without a value: its names, then its help."""
    parser.add_argument(*words[:-1], action="store_true", help=words[-1])


def add_json(parser: ArgumentParser, *, csv: bool = False) -> None:
    flag(parser, "--json", "print one JSON document")
    if csv:
        flag(parser, "--csv", "print the rows as CSV")


def add_apply(parser: ArgumentParser, *, csv: bool = False) -> None:
    flag(parser, "--apply", "carry out the plan; without this it is only printed")
    add_json(parser, csv=csv)


def add_session(parser: ArgumentParser, nargs: Literal["?", "*"] | None = None) -> None:
    name = "sessions" if nargs == "*" else "session"
    about = "session: id, start of an id, title, path, or @last"
    parser.add_argument(name, metavar="S", nargs=nargs, help=about)


def add_project(parser: ArgumentParser) -> None:
    parser.add_argument("-p", "--project", help="only sessions of this directory (path or part of its name)")


def add_limit(parser: ArgumentParser, about: str, default: int | None = None) -> None:
    parser.add_argument("-n", "--limit", type=int, metavar="N", default=default, help=about)


def add_span(parser: ArgumentParser) -> None:
    parser.add_argument("--since", metavar="DATE", help=SINCE)
    parser.add_argument("--until", metavar="DATE", help=UNTIL)
    for period in _PERIODS:
        name = f"--{period.replace(' ', '-')}"
        about = "only today; also --yesterday, --this-week, --last-week, --this-month, --last-month, --this-year, --last-year"
        shown = about if period == _PERIODS[0] else argparse.SUPPRESS
        parser.add_argument(name, dest="period", action="store_const", const=period, help=shown)


def span_of(
    options: Namespace, now: dt.datetime, zone: dt.tzinfo | None = None
) -> tuple[dt.datetime | None, dt.datetime | None]:
    """The first moment that the options of ``add_span`` include, and the first they exclude."""
    if options.period and (options.since or options.until):
        raise UsageError(
            f"--{options.period.replace(' ', '-')}: is a start and an end",
            hint="leave out --since and --until",
        )
    first, last = options.since or options.period or None, options.until or options.period or None
    return timespan.bounds(first, last, now, zone)


def own_data(options: Namespace) -> Path:
    """recollect's data directory, or the one named with ``--data``."""
    return data_dir({**os.environ, "RECOLLECT_DATA": options.data} if options.data else None)


def own_cache(options: Namespace) -> Path:
    """The directory of the index."""
    return cache_dir({**os.environ, "RECOLLECT_DATA": options.data} if options.data else None)


def command(options: Namespace, *words: str) -> str:
    """A command line to type, with the same global options as this one."""
    homes = [part for home in options.homes for part in ("--home", home)]
    data = ["--data", options.data] if options.data else []
    agents = ["--agent", ",".join(options.only_agents)] if options.only_agents else []
    return " ".join(map(shell_word, ["recollect", *homes, *data, *agents, *words]))


def undo_of(options: Namespace, changes: list[str]) -> list[str]:
    """The command that takes back everything this one changed; none if it changed nothing."""
    if not changes:
        return []
    return [command(options, "undo", changes[0] if len(changes) == 1 else open_batch(), "--apply")]


def with_apply(options: Namespace, name: str, *words: str) -> str:
    """The command with ``--apply``."""
    return command(options, *name.split(), "--apply", *positional(*words))


def positional(*words: str) -> list[str]:
    """Arguments that are no options, also if they look like some."""
    return [*(["--"] if any(word.startswith("-") for word in words) else []), *words]


def option(name: str, value: str) -> list[str]:
    """An option and its value, also if the value looks like an option."""
    return [f"{name}={value}"] if value.startswith("-") else [name, value]


def shell_word(word: str) -> str:
    """A word quoted for a shell. Invisible characters are spelled out, so that the shell reads the same word."""
    if visible(word) == word:
        return shlex.quote(word)
    spelled = "".join(
        one
        if visible(one) == one and one not in "\\'"
        else "".join(f"\\x{byte:02x}" for byte in one.encode("utf-8", "surrogateescape"))
        for one in word
    )
    return f"$'{spelled}'"


def say_end(options: Namespace, apply: str, undo: str) -> None:
    """Print the last lines of a plan or of its execution."""
    if ":sample" in options.homes:
        output.say("Nothing was changed. The sample home is read-only; copy it to try this.", "dim")
    elif options.apply:
        output.say(f"Undo with: {undo}")
    else:
        output.say(f"Nothing was changed. Do it with: {apply}", "dim")


def add_index_options(parser: ArgumentParser) -> None:
    parser.add_argument("--no-refresh", action="store_true", help="do not update the index first")
    parser.add_argument(
        "--no-index", action="store_true", help="read the log files; neither use nor write the index"
    )


WIDEST_HELP = 80
_MISSING = "the following arguments are required: "
GLOBAL_OPTIONS = ("--home", "--data", "--color", "--help")
_INVALID_CHOICE = r"invalid choice: (?P<given>'[^']*'|\"[^\"]*\") \(choose from (?P<known>.*)\)"


class CommandParser(argparse.ArgumentParser):
    """Abbreviated options are refused: a new option must not change what an old script means."""

    color = False  # argparse of Python 3.14 would colour the help on its own

    def __init__(self, command: str, about: str) -> None:
        super().__init__(
            prog=f"recollect {command}".rstrip(), formatter_class=CommandHelpFormatter, allow_abbrev=False
        )
        self._command, self._about = command, about

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._near(unknown)}")
        return parsed

    def _near(self, unknown: Sequence[str]) -> str:
        given = next((word.partition("=")[0] for word in unknown if word.startswith("-")), "")
        known = [name for action in self._actions for name in action.option_strings]
        return near_miss(given, [*known, *GLOBAL_OPTIONS]) if given else ""

    def _explanation(self) -> str:
        sections = Path(__file__).parent.with_name("help.md").read_text(encoding="utf-8").split("\n## ")
        texts = dict(section.split("\n", 1) for section in sections[1:])
        return texts.get(self._command or "recollect", self._about).strip("\n")

    def format_help(self) -> str:
        """In a narrow terminal, what argparse does not break (long choices) is broken here."""
        self.description = self._explanation()
        if also := members_help(self._command):
            self.description += f"\n\nAlso:\n{also}".rstrip("\n")
        text, room = super().format_help(), terminal_size()[0]
        if room >= WIDEST_HELP:
            return text
        return "\n".join(row for line in text.split("\n") for row in fitted(line, room))

    def error(self, message: str) -> NoReturn:
        wrong = re.search(_INVALID_CHOICE, message)
        if wrong is not None:
            message += near_miss(wrong["given"][1:-1], re.findall(r"[\w-]+", wrong["known"]))
        if message.startswith(_MISSING):
            message = f"needs {', '.join(self._missing(message.removeprefix(_MISSING).split(', ')))}"
        example = self._explanation().partition("Example:\n")[2].partition("\n")[0].strip()
        hint = f"for example: {example}" if example else f"see `{self.prog} --help`"
        raise UsageError(visible(f"{self._command}: {message}".removeprefix(": ")), hint=hint)

    def _missing(self, names: Sequence[str]) -> Iterator[str]:
        """Words to choose from by themselves, not by our name for them; words that may be left out not at all."""
        actions = {str(action.metavar or action.dest): action for action in self._actions}
        for name in names:
            action = actions.get(name)
            if action is None or action.nargs != argparse.ZERO_OR_MORE:
                choices = action.choices if action is not None and action.metavar is None else None
                yield name if choices is None else f"one of {', '.join(map(str, choices))}"


class CommandHelpFormatter(argparse.RawDescriptionHelpFormatter):
    """At most 80 columns; in a narrower terminal, its paragraphs are filled again."""

    def __init__(self, prog: str) -> None:
        # Without a width, argparse imports shutil to find one, even if no help is printed.
        self._room = min(terminal_size()[0], WIDEST_HELP)
        super().__init__(prog, width=self._room - 2, max_help_position=24 if self._room > 70 else 16)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if self._room < WIDEST_HELP:
            return reflowed(text, self._room)
        return super()._fill_text(text, width, indent)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """``-o, --output FILE`` as in Python 3.13, so that every version generates the same reference."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"
