"""The command ``team``: what the team server knows."""

from __future__ import annotations

import datetime as dt
import glob
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

import msgspec

from recollect.cli.main import main
from recollect.cli.terminal import output
from recollect.cli.terminal.options import add_json, add_limit, add_span, own_data, span_of
from recollect.cli.terminal.rows import aligned, wants_csv
from recollect.cli.terminal.text import padded, shortened, visible, visible_lines
from recollect.errors import Busy, UsageError
from recollect.model.budget import dollars
from recollect.share.sync.http_remote import HttpRemote
from recollect.share.sync.pull import Pull
from recollect.share.sync.sync import SyncClient, session_named
from recollect.share.sync.wire import RemoteSessions, TeamCostReport, TeamCostRow
from recollect.store.own_settings import load_login

_KEYS = ("person", "repo", "branch", "model", "project", "machine", "session", "day")
_WIDEST = 44
_WHO = ("private", "team", "organisation", "default")
_MOST_ROWS, _MOST_HITS = 1_000, 200


def add_list_options(parser: ArgumentParser) -> None:
    parser.add_argument("--person", metavar="NAME", help="only of this member")
    parser.add_argument("--repo", metavar="NAME", help="only of this repository (host/owner/name)")
    _add_common(parser)


def add_search_options(parser: ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="WORD", help="what to look for, as in `recollect search`")
    _add_common(parser)


def _add_common(parser: ArgumentParser) -> None:
    parser.add_argument("-p", "--project", metavar="DIR", help="only of this project")
    add_limit(parser, "maximum number of rows (default 50)", 50)
    add_span(parser)
    add_json(parser)


def add_show_options(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="S", help="its id, or the beginning of it")
    add_json(parser)


def add_share_options(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="S", help="its id, or the beginning of it")
    parser.add_argument("who", metavar="WHO", choices=_WHO, help=f"one of {', '.join(_WHO)}")


def add_cost_options(parser: ArgumentParser) -> None:
    keys = f"{', '.join(_KEYS)}; separate several with commas (default person)"
    parser.add_argument("--by", default="person", metavar="KEYS", help=keys)
    add_span(parser)
    add_json(parser, csv=True)


@contextmanager
def _asked(options: Namespace) -> Iterator[HttpRemote]:
    limit = getattr(options, "limit", 1)
    if not 1 <= limit <= _MOST_ROWS:
        raise UsageError(f"--limit {limit}: not from 1 to {_MOST_ROWS}", hint="narrow the question instead")
    server = _client(options).server()
    try:
        yield server
    finally:
        server.close()


def run_list(options: Namespace) -> int:
    with _asked(options) as server:
        return _list(options, server)


def run_search(options: Namespace) -> int:
    with _asked(options) as server:
        return _search(options, server)


def run_show(options: Namespace) -> int:
    with _asked(options) as server:
        return _show(options, server)


def run_share(options: Namespace) -> int:
    with _asked(options) as server:
        return _share(options, server)


def run_cost(options: Namespace) -> int:
    wants_csv(options)
    with _asked(options) as server:
        return _cost(options, server)


def _client(options: Namespace) -> SyncClient:
    return SyncClient(load_login(), own_data(options), patience=20.0)


def _bounds(options: Namespace) -> dict[str, str]:
    moments = map(_moment, span_of(options, dt.datetime.now(dt.UTC)))
    return {name: text for name, text in zip(("since", "until"), moments, strict=True) if text}


def _cost(options: Namespace, server: HttpRemote) -> int:
    by = ",".join(word.strip() for word in options.by.split(","))
    unknown = sorted(set(by.split(",")) - {*_KEYS, "repository", "user"})
    if unknown:
        raise UsageError(f"--by {unknown[0]!a}: unknown key", hint=f"known: {', '.join(_KEYS)}")
    span = _bounds(options)
    answer = server.cost(by, span.get("since"), span.get("until"), "csv" if options.csv else "json")
    if options.csv:
        text = answer.decode("utf-8", "replace")
        sys.stdout.write(visible_lines(text) if sys.stdout.isatty() else text)
        return 0
    report = _report(answer)
    if options.json:
        # As the server sent it: a newer one may say more than this version knows.
        output.write_json([msgspec.json.format(answer, indent=2), b"\n"])
    else:
        _say(report)
    return 0


def person_costs(
    options: Namespace, since: dt.datetime, until: dt.datetime
) -> dict[str, tuple[int, list[str]]]:
    """What each person spent, in pico-dollars, and the models without a price."""
    server = _client(options).server()
    try:
        answer = server.cost("person", _moment(since), _moment(until), "json")
    finally:
        server.close()
    return {row.keys["person"]: (row.pico_usd, row.unpriced) for row in _report(answer).rows}


def _list(options: Namespace, server: HttpRemote) -> int:
    named = {"person": options.person, "repository": options.repo, "project": options.project}
    filters = {name: text for name, text in named.items() if text}
    since, until = span_of(options, dt.datetime.now(dt.UTC))
    if until is not None:
        filters["until"] = str(_moment(until))
    earliest = None if since is None else int(since.timestamp() * 1000)
    sessions = list(islice(server.sessions(earliest, **filters), options.limit + 1))
    found = RemoteSessions(sessions[: options.limit], None)
    if options.json:
        return output.print_json(found)
    for one in found.sessions:
        title = shortened(visible(one.title or "(no title)"), _WIDEST)
        who, where = visible(one.person or "-"), visible(one.repository or one.project or "-")
        output.say(
            f"{_day(one.changed)}  {visible(one.id)}  {padded(who, 16)}  {padded(title, _WIDEST)}  {where}"
        )
    if not sessions and (given := _given(options)):
        asked = " ".join(f"--{name} {visible(text)}" for name, text in given.items())
        output.note(
            f"no session that you see fits {asked}; names are exact, and `recollect team list` shows them"
        )
    if len(sessions) > options.limit:
        output.note(f"there are more than {options.limit}; --limit, --since and --person choose")
    return 0


def _given(options: Namespace) -> dict[str, str]:
    """The options that choose sessions, as they were given."""
    names = ("person", "repo", "project", "since", "until", "period")
    return {name: text for name in names if (text := getattr(options, name))}


def _search(options: Namespace, server: HttpRemote) -> int:
    more = {"project": options.project} if options.project else {}
    found = server.search(" ".join(options.words), min(options.limit, _MOST_HITS), **more, **_bounds(options))
    if options.json:
        output.print_json(found)
    else:
        for hit in found.hits:
            place = f"{visible(hit.session)}{'/' + visible(hit.key) if hit.key else ''}:{hit.line}"
            output.say(f"{_day(hit.at)}  {place}  {shortened(visible(hit.snippet), 160)}")
        if found.searched_to is not None:
            output.note(_ended_early(found.searched_to))
        elif found.more:
            output.note("there are more; --limit, --since and --project choose")
    return 0 if found.hits else 1


def _ended_early(searched_to: int) -> str:
    """The times of a query have whole seconds: the next search begins with the second that was begun."""
    last = dt.datetime.fromtimestamp(searched_to // 1000, dt.UTC)
    return (
        f"the words are in too many lines: only those after {_moment(last)} were all looked at;"
        f" --until {_moment(last + dt.timedelta(seconds=1))} goes on before, rarer words and --project find more at once"
    )


def _show(options: Namespace, server: HttpRemote) -> int:
    pull = Pull(_client(options), server)
    session = session_named(server, options.session)
    pull.one(session)
    # What this machine sent, and no other machine went on with, is not fetched: it is here.
    is_fetched = any(pull.root.glob(f"projects/*/{glob.escape(session)}.jsonl"))
    where = ["--home", str(pull.root)] if is_fetched else []
    return main([*where, "show", session, *(["--json"] if options.json else [])])


def _share(options: Namespace, server: HttpRemote) -> int:
    session, chosen = session_named(server, options.session), options.who
    server.set_visibility(session, None if chosen == "default" else chosen)
    who = {"private": "only you", "team": "members of your teams", "organisation": "all members"}
    output.say(f"{visible(session)}: seen by {who.get(chosen, 'those the organisation chose')}")
    return 0


def _day(at: int | None) -> str:
    return "-" * 10 if at is None else f"{dt.datetime.fromtimestamp(at / 1000, dt.UTC):%Y-%m-%d}"


def _moment(when: dt.datetime | None) -> str | None:
    """A time for a query, without ``+``, which would be decoded as a space."""
    return None if when is None else when.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _report(answer: bytes) -> TeamCostReport:
    try:
        return msgspec.json.decode(answer, type=TeamCostReport)
    except msgspec.DecodeError:
        raise Busy(
            "the server's answer is not a cost report",
            hint="the server may have another version of recollect",
        ) from None


def _say(report: TeamCostReport) -> None:
    head = [*report.by, "responses", "input", "output", "cache write", "cache read", "cost"]
    rows = [_cells(report.by, row) for row in report.rows]
    total = _cells([], report.total)
    rows.append(["total", *[""] * (len(report.by) - 1), *total] if report.by else total)
    for number, line in enumerate(aligned([head, *rows], len(report.by))):
        output.say(line.rstrip(), None if number else "dim")
    unpriced = sorted({name for row in report.rows for name in row.unpriced})
    if unpriced:
        output.note(f"not in the cost, because they have no price: {', '.join(map(visible, unpriced))}")


def _cells(by: list[str], row: TeamCostRow) -> list[str]:
    tokens = row.tokens
    cost = "-" if row.unpriced and not row.pico_usd else dollars(row.pico_usd)
    writes = tokens.cache_write_5m + tokens.cache_write_1h
    numbers = row.responses, tokens.input, tokens.output, writes, tokens.cache_read
    names = [shortened(visible(row.keys.get(name, "")), _WIDEST) for name in by]
    return [*names, *(f"{number:,}" for number in numbers), cost]
