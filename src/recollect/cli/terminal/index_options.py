"""The options of commands that query the index, and how they open it."""

from __future__ import annotations

import contextlib
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from recollect.cli.terminal import output
from recollect.cli.terminal.change_plans import own_cache
from recollect.cli.terminal.text import visible
from recollect.services.indexing.access import OpenIndex, index_path, open_index


def add_index_options(parser: ArgumentParser) -> None:
    parser.add_argument("--no-refresh", action="store_true", help="do not update the index first")
    parser.add_argument(
        "--no-index", action="store_true", help="read the log files; neither use nor write the index"
    )


@contextlib.contextmanager
def asked_index(
    options: Namespace, homes: Sequence[Path], *, is_first_awaited: bool = True, is_older_asked: bool = True
) -> Iterator[OpenIndex]:
    """The index, opened as the options ask. Notes about it go to stderr.

    Without ``is_first_awaited`` there is none while a first build of many logs runs in the background; see ``open_index``.
    """
    cache = own_cache(options)
    if options.no_index:
        yield OpenIndex(homes, index_path(homes, cache))
        return
    with (
        output.progress_bar("indexing") as progress,
        open_index(
            homes,
            cache=cache,
            is_refreshed=not options.no_refresh,
            progress=progress,
            is_first_awaited=is_first_awaited,
            is_older_asked=is_older_asked,
        ) as opened,
    ):
        for remark in opened.notes:
            output.note(visible(remark))
        for path, reason in opened.refreshed.problems if opened.refreshed else ():
            output.note(visible(f"could not be read: {path}: {reason}"))
        yield opened
