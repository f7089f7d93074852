"""How commands that change something speak: the plan, what to type to carry it out, how to undo it, and where our own files lie."""

from __future__ import annotations

import os
import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

from recollect.cli.terminal import output
from recollect.cli.terminal.text import visible
from recollect.system.locations import cache_dir, data_dir


def add_apply(parser: ArgumentParser) -> None:
    """The options every such command has."""
    parser.add_argument("--apply", action="store_true", help="do it; without this only the plan is printed")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def own_data(options: Namespace) -> Path:
    """Our own directory, or the one named with ``--data``."""
    return data_dir({**os.environ, "RECOLLECT_DATA": options.data} if options.data else None)


def own_cache(options: Namespace) -> Path:
    """Where the index lies, or would with ``--data``."""
    return cache_dir({**os.environ, "RECOLLECT_DATA": options.data} if options.data else None)


def command(options: Namespace, *words: str) -> str:
    """A command line to type, with the global options this one was given."""
    homes = [part for home in options.homes for part in ("--home", home)]
    data = ["--data", options.data] if options.data else []
    return " ".join(map(_quoted, ["recollect", *homes, *data, *words]))


def applied(options: Namespace, name: str, *positional: str) -> str:
    """The command with ``--apply``; words that look like options are kept apart from them."""
    if any(word.startswith("-") for word in positional):
        return command(options, name, "--apply", "--", *positional)
    return command(options, name, *positional, "--apply")


def option(name: str, value: str) -> list[str]:
    """An option and its value, also where the value looks like an option."""
    return [f"{name}={value}"] if value.startswith("-") else [name, value]


def _quoted(word: str) -> str:
    """A word for a shell; what would be invisible is spelled out so that the shell reads the very same word."""
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
    """The last lines of a plan, or of its execution."""
    if ":sample" in options.homes:
        output.say(output.styled("Nothing was changed: copy the sample home to try this for real.", "dim"))
    elif options.apply:
        output.say(f"Undo with: {undo}")
    else:
        output.say(output.styled(f"Nothing was changed. Do it with: {apply}", "dim"))
