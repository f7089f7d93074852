"""The parser of a command: help that fits the terminal, and a near miss is named."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from recollect.cli.terminal.output import terminal_size
from recollect.cli.terminal.text import near_miss, visible

WIDEST_HELP = 80
_MISSING = "the following arguments are required: "
GLOBAL_OPTIONS = ("--home", "--data", "--color", "--help")
_INVALID_CHOICE = r"invalid choice: (?P<given>'[^']*'|\"[^\"]*\") \(choose from (?P<known>.*)\)"


class CommandParser(argparse.ArgumentParser):
    """Abbreviated options are refused: a new option must not change what an old script means."""

    color = False  # argparse of Python 3.14 would colour the help on its own

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(
            prog=prog, description=description, formatter_class=CommandHelpFormatter, allow_abbrev=False
        )

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self._refuse_agent(unknown)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._near(unknown)}")
        return parsed

    def _refuse_agent(self, unknown: Sequence[str]) -> None:
        """The global option takes known agents only; others are left here, for commands that take sub-agents."""
        name, equals, value = unknown[0].partition("=")
        if name == "--agent":
            from recollect.cli.terminal.agent_names import no_such_agent

            given = value if equals else "".join(unknown[1:2])
            raise no_such_agent(self.prog.partition(" ")[2], given)

    def _near(self, unknown: Sequence[str]) -> str:
        given = next((word.partition("=")[0] for word in unknown if word.startswith("-")), "")
        known = [name for action in self._actions for name in action.option_strings]
        return near_miss(given, [*known, *GLOBAL_OPTIONS]) if given else ""

    def format_help(self) -> str:
        """In a narrow terminal, what argparse does not break (long choices) is broken here."""
        text, room = super().format_help(), terminal_size()[0]
        if room >= WIDEST_HELP:
            return text
        from recollect.cli.terminal.layout import fitted

        return "\n".join(row for line in text.split("\n") for row in fitted(line, room))

    def error(self, message: str) -> NoReturn:
        wrong = re.search(_INVALID_CHOICE, message)
        if wrong is not None:
            message += near_miss(wrong["given"][1:-1], re.findall(r"[\w-]+", wrong["known"]))
        if message.startswith(_MISSING):
            message = _MISSING + ", ".join(self._missing(message.removeprefix(_MISSING).split(", ")))
        super().error(visible(message))

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
            from recollect.cli.terminal.layout import reflowed

            return reflowed(text, self._room)
        return super()._fill_text(text, width, indent)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """``-o, --output FILE`` as in Python 3.13, so that every version generates the same reference."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"
