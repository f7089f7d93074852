"""The command ``data index``: its state, built anew, made smaller."""

from __future__ import annotations

import datetime as dt
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

from recollect.cli.terminal import output
from recollect.cli.terminal.homes import chosen_homes
from recollect.cli.terminal.options import add_json, own_cache
from recollect.cli.terminal.text import ago, counted, padded, size, visible
from recollect.index import upkeep
from recollect.index.upkeep import IndexStatus

_LABEL_COLUMNS = 11


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        default="status",
        choices=("status", "rebuild", "vacuum"),
        help="see above (default: status)",
    )
    add_json(parser)


def run(options: Namespace) -> int:
    homes = [home.path for home in chosen_homes(options.homes) if home.exists]
    return _ACTIONS[options.action](options, homes, own_cache(options))


def _status(options: Namespace, homes: list[Path], cache: Path) -> int:
    found = upkeep.status(homes, cache)
    if options.json:
        output.print_json(found)
    else:
        for label, text in _lines(found, dt.datetime.now(dt.UTC)):
            output.say(output.styled(padded(label, _LABEL_COLUMNS), "bold") + text)
    return 1 if found.problem else 0


def _lines(found: IndexStatus, now: dt.datetime) -> Iterator[tuple[str, str]]:
    yield "Index", f"{visible(str(found.path))}  (version {found.version})"
    if not found.exists:
        yield "State", "none yet: the first search or cost builds it, or `recollect data index rebuild`"
        return
    yield "State", _state(found)
    of_logs = "" if found.share is None else f", {found.share:.0%} of {size(found.log_bytes)} of logs"
    yield "Size", size(found.bytes) + of_logs
    yield "Refreshed", _freshness(found, now)
    if found.rows:
        outputs = counted(found.tool_outputs, "tool output")
        yield (
            "Holds",
            f"{counted(found.sessions, 'session')}, {counted(found.agents, 'sub-agent')}, {outputs}",
        )
        if found.gone_sessions:
            yield "", f"{counted(found.gone_sessions, 'deleted session')} still in the totals"
        yield "Rows", ", ".join(f"{name} {number:,}" for name, number in found.rows.items())
        yield "Words", f"in {counted(found.segments, 'segment')}"
    if found.stale:
        names = ", ".join(visible(path.name) for path in found.stale)
        yield "Left over", f"{names}: `recollect data index vacuum` removes them"


def _state(found: IndexStatus) -> str:
    if found.problem:
        problem = f"damaged: {visible(found.problem)}; the next query sets it aside and builds a new one"
        return output.styled(problem, "red")
    return "complete" if found.is_complete else "incomplete: the next query continues it"


def _freshness(found: IndexStatus, now: dt.datetime) -> str:
    when = "never" if found.refreshed_at is None else ago(found.refreshed_at, now)
    if found.problem:
        return when
    news = []
    if found.changed_logs:
        news.append(f"{counted(found.changed_logs, 'log')} changed since then")
    if found.missing_logs:
        news.append(f"{counted(found.missing_logs, 'log')} deleted since then")
    return f"{when}; {', '.join(news) or 'no log changed since then'}"


def _rebuild(options: Namespace, homes: list[Path], cache: Path) -> int:
    with output.progress_bar("indexing") as progress:
        done = upkeep.rebuild(homes, cache, progress)
    for path, reason in done.problems:
        output.note(visible(f"could not be read: {path}: {reason}"))
    for old in done.unread:
        remark = f"{old.name} could not be read: deleted sessions it knew are missing from the totals"
        output.note(visible(remark))
    if options.json:
        return output.print_json(done)
    output.say(f"Rebuilt from {counted(done.logs, 'log')}: {size(done.bytes)}.")
    if done.gone_sessions:
        stay = "stays" if done.gone_sessions == 1 else "stay"
        output.say(f"{counted(done.gone_sessions, 'deleted session')} {stay} in the totals.")
    return 0


def _vacuum(options: Namespace, homes: list[Path], cache: Path) -> int:
    done = upkeep.vacuum(homes, cache)
    if options.json:
        return output.print_json(done)
    output.say(f"{size(done.bytes_before)} before, {size(done.bytes_after)} now.")
    for path in done.removed:
        output.say(f"removed {visible(path.name)}")
    return 0


_ACTIONS = {"status": _status, "rebuild": _rebuild, "vacuum": _vacuum}
