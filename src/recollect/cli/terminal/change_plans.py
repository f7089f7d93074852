"""Shared parts of commands that change something: the plan, the --apply and undo lines, our own directories."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from recollect.cli.terminal import output
from recollect.cli.terminal.text import visible
from recollect.system.locations import cache_dir, data_dir


def add_apply(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--apply", action="store_true", help="carry out the plan; without this it is only printed"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


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
    from recollect.storage.changes.batch import open_batch

    return [command(options, "undo", changes[0] if len(changes) == 1 else open_batch(), "--apply")]


def applied(options: Namespace, name: str, *positional: str) -> str:
    """The command with ``--apply``; arguments that look like options come after ``--``."""
    if any(word.startswith("-") for word in positional):
        return command(options, name, "--apply", "--", *positional)
    return command(options, name, *positional, "--apply")


def option(name: str, value: str) -> list[str]:
    """An option and its value, also if the value looks like an option."""
    return [f"{name}={value}"] if value.startswith("-") else [name, value]


def shell_word(word: str) -> str:
    """A word quoted for a shell. Invisible characters are spelled out, so that the shell reads the same word."""
    if visible(word) == word:
        import shlex  # few commands print a command line

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
        output.say(
            output.styled("Nothing was changed. The sample home is read-only; copy it to try this.", "dim")
        )
    elif options.apply:
        output.say(f"Undo with: {undo}")
    else:
        output.say(output.styled(f"Nothing was changed. Do it with: {apply}", "dim"))
