"""The options of every command that asks the index, and how it is opened for them."""

from __future__ import annotations

import contextlib
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from recollect.cli.terminal import output
from recollect.cli.terminal.plans import own_cache
from recollect.cli.terminal.text import visible
from recollect.services.indexing.access import OpenIndex, index_path, open_index


def add_index_options(parser: ArgumentParser) -> None:
    """``--no-refresh`` and ``--no-index``."""
    parser.add_argument(
        "--no-refresh", action="store_true", help="answer as of the last refresh of the index"
    )
    parser.add_argument(
        "--no-index", action="store_true", help="read the logs themselves, use and write no index"
    )


@contextlib.contextmanager
def asked_index(options: Namespace, homes: Sequence[Path]) -> Iterator[OpenIndex]:
    """The index as the options want it. What is to be said about it is said on stderr."""
    cache = own_cache(options)
    if options.no_index:
        yield OpenIndex(homes, index_path(homes, cache))
        return
    with (
        output.progress_bar("indexing") as progress,
        open_index(homes, cache=cache, is_refreshed=not options.no_refresh, progress=progress) as opened,
    ):
        for remark in opened.notes:
            output.note(visible(remark))
        for path, reason in opened.refreshed.problems if opened.refreshed else ():
            output.note(visible(f"could not be read: {path}: {reason}"))
        yield opened
