"""``limits --watch``: open sessions and their cost."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import structs

from recollect.ask.watch import (
    RECENT_MINUTES,
    ActiveBlock,
    WatchedSession,
    Watcher,
    WatchSnapshot,
    watch_document,
)
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import directories
from recollect.cli.terminal.options import add_index_options, flag, own_cache
from recollect.cli.terminal.text import model_name, padded, shortened, visible
from recollect.errors import UsageError
from recollect.index.access import OpenIndex, open_index
from recollect.model.budget import dollars
from recollect.store.own_settings import price_list

_EVERY = 2.0
_SHORTEST = 0.1
_NAME, _STATE, _TITLE = 8, 6, 40
# Move to the corner and clear everything below: also correct after the window shrank.
_FROM_THE_TOP = "\x1b[H\x1b[J"


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--every",
        type=float,
        default=_EVERY,
        metavar="SECONDS",
        help=f"time between updates (default {_EVERY:g})",
    )
    flag(parser, "--once", "print the current state once and exit")
    flag(parser, "--json", "print one JSON document; only with --once")
    add_index_options(parser)


def run(options: Namespace) -> int:
    if options.json and not options.once:
        raise UsageError("--json: needs --once", hint="add --once")
    if not options.every >= _SHORTEST:
        raise UsageError(f"--every {options.every:g}: too often", hint=f"give {_SHORTEST:g} seconds or more")
    homes = directories(options.homes)
    watcher = Watcher(homes, _opener(options, [home.root for home in homes]), price_list())
    if options.once:
        watched = watcher.look()
        if options.json:
            output.print_json(watch_document(watched))
        else:
            output.say("\n".join(_lines(watched)))
        return 0
    return _watch(watcher, options.every)


def _watch(watcher: Watcher, every: float) -> int:
    """Runs until interrupted, with exit status 130."""
    can_redraw = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    draw = _redraw if can_redraw else _append
    shown: WatchSnapshot | None = None
    while True:
        watched = watcher.look()
        if shown is None or _news(watched, shown):
            draw(list(_lines(watched)))
            shown = watched
        time.sleep(every)


def _news(watched: WatchSnapshot, shown: WatchSnapshot) -> bool:
    """Whether there is something new to show. A remark that disappears, or was shown before, is not new."""
    figures, before = structs.replace(watched, notes=()), structs.replace(shown, notes=())
    return figures != before or not set(watched.notes) <= set(shown.notes)


def _opener(
    options: Namespace, roots: Sequence[Path]
) -> Callable[[], contextlib.AbstractContextManager[OpenIndex]]:
    """Opens the index for one update. The first may have to build it and shows a progress bar."""
    cache = own_cache(options)
    is_first = True

    @contextlib.contextmanager
    def opened() -> Iterator[OpenIndex]:
        nonlocal is_first
        bar = output.progress_bar("indexing") if is_first else contextlib.nullcontext()
        is_first = False
        with (
            bar as progress,
            open_index(
                roots,
                cache=cache,
                is_refreshed=not options.no_refresh,
                is_temporary=options.no_index,
                progress=progress,
            ) as index,
        ):
            yield index

    return opened


# --- what is shown ------------------------------------------------------------------------


def _redraw(lines: list[str]) -> None:
    size = shutil.get_terminal_size()
    room = max(size.lines - 1, 2)
    if len(lines) > room:
        lines = [*lines[: room - 1], f"… {len(lines) - room + 1} more lines"]
    sys.stdout.write(_FROM_THE_TOP + "".join(f"{shortened(line, size.columns)}\n" for line in lines))
    sys.stdout.flush()


def _append(lines: list[str]) -> None:
    output.say(time.strftime("%H:%M:%S"))
    output.say("\n".join(lines) + "\n")
    sys.stdout.flush()


def _lines(watched: WatchSnapshot) -> Iterator[str]:
    yield _totals(watched)
    if not watched.sessions:
        yield "No session is open."
    for session in watched.sessions:
        yield ""
        yield _heading(session)
        yield f"{'':{_NAME}}  {_figures(session)}"
    if watched.unpriced:
        yield ""
        yield visible(f"+ without these models, which have no price: {', '.join(watched.unpriced)}")
    for note in watched.notes:
        yield ""
        yield visible(note)


def _totals(watched: WatchSnapshot) -> str:
    plus = "+" if watched.unpriced else ""
    today = "?" if watched.today_pico_usd is None else f"{dollars(watched.today_pico_usd)}{plus}"
    return f"today {today}  {_block(watched.block, plus)}".rstrip()


def _block(block: ActiveBlock | None, plus: str) -> str:
    if block is None:
        return ""
    return (
        f"block {dollars(block.pico_usd)}{plus}, {block.minutes_left} min left,"
        f" {dollars(block.pico_usd_per_hour)}/h, {dollars(block.projected_pico_usd)} at its end at this rate"
    )


def _heading(session: WatchedSession) -> str:
    state = visible(session.state) + ("" if session.is_certain else "?")
    title = shortened(visible(session.title) or "(no title)", _TITLE)
    parts = [
        padded(visible(session.id[:_NAME]), _NAME),
        padded(state, _STATE),
        padded(title, _TITLE),
        visible(session.cwd),
        visible(session.branch),
        visible(model_name(session.model)),
    ]
    return "  ".join(part for part in parts if part)


def _figures(session: WatchedSession) -> str:
    if session.pico_usd is None:
        return "no log yet"
    tokens = session.tokens
    written = tokens.cache_write_5m + tokens.cache_write_1h
    parts = [f"{dollars(session.pico_usd)}{'+' if session.unpriced else ''}"]
    if session.recent_pico_usd is not None and session.pico_usd_per_hour is not None:
        recent, speed = dollars(session.recent_pico_usd), dollars(session.pico_usd_per_hour)
        parts.append(f"last {RECENT_MINUTES} min {recent} ({speed}/h)")
    parts.append(
        f"{_short(tokens.input)} in, {_short(tokens.output)} out,"
        f" {_short(written)} written to and {_short(tokens.cache_read)} read from the cache"
    )
    if session.context_tokens is not None and session.context_window:
        percent = 100 * session.context_tokens // session.context_window
        parts.append(f"ctx {_short(session.context_tokens)} ({percent}%)")
    return "  ".join(parts)


def _short(tokens: int) -> str:
    for limit, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if tokens >= limit:
            return f"{tokens / limit:.1f}{unit}"
    return str(tokens)
