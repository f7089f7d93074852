"""Manual pages in roff, made from the help texts: one for recollect, one for each command."""

from __future__ import annotations

from collections.abc import Iterator

from recollect import __version__
from recollect.cli.main import ALIASES, COMMANDS, GROUPS, group_of
from recollect.cli.shell.command_facts import CommandFacts, OptionFacts, command_facts

_EXIT = [
    ("0", "ok"),
    ("1", "findings"),
    ("2", "wrong usage"),
    ("3", "not found or ambiguous"),
    ("4", "damaged data"),
    ("5", "locked or busy"),
    ("74", "I/O error"),
    ("130", "interrupted"),
]


def all_pages() -> dict[str, str]:
    """File name and page."""
    pages = {"recollect.1": man_page(None)}
    return pages | {f"recollect-{name}.1": man_page(name) for name in COMMANDS}


def man_page(command: str | None) -> str:
    lines = _of_recollect() if command is None else _of_command(command_facts(command))
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """Text that roff prints as it is."""
    safe = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("'", "\\(aq")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


def _head(name: str, about: str) -> Iterator[str]:
    yield f'.TH "{name.upper()}" "1" "" "recollect {__version__}" "recollect"'
    yield from (".nh", ".ad l", ".SH NAME", f"{_text(name)} \\- {_text(about)}", ".SH SYNOPSIS")


def _of_recollect() -> Iterator[str]:
    yield from _head("recollect", "read, search, price, repair and archive coding-agent sessions")
    yield _text("recollect [--home DIR]... [--data DIR] [COMMAND] [OPTION]...")
    yield ".SH DESCRIPTION"
    yield _text(
        "Commands that read change nothing. Commands that change something print a plan and do nothing until"
    )
    yield _text("you add --apply. Without a command, an overview is shown.")
    for group, title in GROUPS.items():
        names = [name for name in COMMANDS if group_of(name) == group]
        if names:
            yield f'.SH "{title.upper()}"'
            for name in names:
                yield from (".TP", f".BR recollect\\-{name} (1)", _text(COMMANDS[name][1]))
    yield ".SH OPTIONS"
    for option in command_facts("overview").options[-3:]:
        yield from _option(option)
    yield from (
        ".SH ALIASES",
        _text(", ".join(f"{one}: {' '.join(words)}" for one, words in ALIASES.items())),
    )
    yield ".SH EXIT STATUS"
    for code, meaning in _EXIT:
        yield from (".TP", code, meaning)


def _of_command(one: CommandFacts) -> Iterator[str]:
    yield from _head(f"recollect-{one.name}", one.about)
    arguments = " ".join(
        argument.value if not argument.choices else "|".join(argument.choices) for argument in one.arguments
    )
    yield _text(f"recollect {one.name} [OPTION]... {arguments}".rstrip())
    yield ".SH DESCRIPTION"
    yield from _description(one.text)
    yield ".SH OPTIONS"
    for option in [*one.arguments, *one.options]:
        yield from _option(option)
    yield from (".SH SEE ALSO", ".BR recollect (1)")


def _option(option: OptionFacts) -> Iterator[str]:
    names = ", ".join(f"\\fB{_text(name)}\\fR" for name in option.names)
    value = "|".join(option.choices) or option.value
    yield ".TP"
    yield f"{names} \\fI{_text(value)}\\fR".strip() if value else names
    yield _text(option.about) or "\\&"


def _description(text: str) -> Iterator[str]:
    """Paragraphs are filled; an example, and whatever is indented, keeps its lines."""
    is_kept = False
    for line in text.strip().split("\n"):
        if line == "Example:":
            yield from ([".fi"] if is_kept else [])
            is_kept = False
            yield ".SH EXAMPLES"
        elif line.startswith(" "):
            yield from ([] if is_kept else [".nf"])
            is_kept = True
            yield _text(line)
        else:
            yield from ([".fi"] if is_kept else [])
            is_kept = False
            yield ".PP" if not line else _text(line)
    if is_kept:
        yield ".fi"
