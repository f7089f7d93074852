"""How commands that change something speak: the plan, what to type to carry it out, how to undo it."""

from __future__ import annotations

import os
import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

from recollect.cli import output
from recollect.cli.text import visible
from recollect.storage.places import data_dir


def add_apply(parser: ArgumentParser) -> None:
    """The options every such command has."""
    parser.add_argument("--apply", action="store_true", help="do it; without this only the plan is printed")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def own_data(options: Namespace) -> Path:
    """Our own directory, or the one named with ``--data``."""
    return data_dir({**os.environ, "RECOLLECT_DATA": options.data} if options.data else None)


def command(options: Namespace, *words: str) -> str:
    """A command line to type, with the global options this one was given."""
    homes = [part for home in options.homes for part in ("--home", home)]
    data = ["--data", options.data] if options.data else []
    return shlex.join(["recollect", *homes, *data, *words])


def say_end(options: Namespace, apply: str, undo: str) -> None:
    """The last lines of a plan, or of its execution."""
    if options.apply:
        output.say(f"Undo with: {visible(undo)}")
    else:
        output.say(output.styled(f"Nothing was changed. Do it with: {visible(apply)}", "dim"))
