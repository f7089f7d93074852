"""Find credentials in logs, sub-agents, tool results, settings, history, backups.

Prints kind, location and a fingerprint of each; never the value or part of it.
Equal fingerprints mean equal secrets. Without a session, everything in the home
is searched, and the settings of its projects too; with --everywhere also the
copies that recollect keeps. Credentials on the allow list
(config.toml, [secrets] ignore = ["kind:fingerprint"]) are only counted. Changes
nothing. Exit status: 0 nothing found, 1 something was found, 4 a file could not
be read, so that the answer is incomplete.

Example:
  recollect scan
  recollect scan 6ada00ba --everywhere --json
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.csv_tables import add_csv, print_csv, wants_csv
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import counted, padded, size, visible
from recollect.errors import UsageError
from recollect.model.ids import short_id
from recollect.services.documents.secrets import scan_document
from recollect.services.home_guard import kept_by_its_client
from recollect.services.homes import Home
from recollect.services.secrets import scan as scan_service
from recollect.services.secrets.place_results import SecretFinding
from recollect.services.secrets.scan import SecretScan

_SHOWN, _PROBLEMS_SHOWN = 100, 20
_UNREADABLE = 4  # as for check


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "sessions", metavar="S", nargs="*", help="session: id, start of an id, title, path, or @last"
    )
    parser.add_argument("--all", action="store_true", help="everything in the homes (the default)")
    parser.add_argument(
        "--everywhere", action="store_true", help="also archive, trash, undo, quarantine and left-over files"
    )
    parser.add_argument("--limit", type=int, metavar="N", help=f"show at most N (default {_SHOWN}; 0: all)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_csv(parser)


def run(options: Namespace) -> int:
    if options.all and options.sessions:
        raise UsageError("scan: --all and a session exclude each other", hint="name sessions, or use --all")
    if options.limit is not None and options.limit < 0:
        raise UsageError(f"--limit {options.limit}: must be 0 or more", hint="0 shows all")
    home = open_home(options.homes)
    chosen = [home.session(name) for name in options.sessions] or None
    start = time.monotonic()
    with output.progress_bar("looking for secrets") as progress:
        found = scan_service.scan(
            home,
            chosen,
            data=change_plans.own_data(options),
            everywhere=options.everywhere,
            progress=progress,
        )
    seconds = time.monotonic() - start
    if wants_csv(options):
        print_csv(found.findings)
    elif options.json:
        output.print_json(scan_document(found, seconds))
    else:
        _tell(options, found, seconds)
    for note in (*_of_other_agents(home, found), *found.notes):
        output.note(note)
    for path, reason in found.problems[:_PROBLEMS_SHOWN]:
        output.note(visible(f"could not be read: {path}: {reason}"))
    if len(found.problems) > _PROBLEMS_SHOWN:
        output.note(f"… and {len(found.problems) - _PROBLEMS_SHOWN:,} more: --json lists all")
    return _UNREADABLE if found.problems else int(bool(found.findings))


def _of_other_agents(home: Home, found: SecretScan) -> Iterator[str]:
    """What was found in our copy of another agent's home is in that home too, which no command of ours changes."""
    for one in home.homes:
        said = kept_by_its_client(one)
        if said and any(Path(finding.path).is_relative_to(one.root) for finding in found.findings):
            yield visible(f"{one.root}: {said}, and have these secrets too")


def _tell(options: Namespace, found: SecretScan, seconds: float) -> None:
    limit = _SHOWN if options.limit is None else options.limit or len(found.findings)
    for path, rows in groupby(found.findings[:limit], key=lambda one: one.path):
        output.say(output.styled(visible(path), "bold"))
        for one in rows:
            output.say(f"  {_row(one)}")
    if len(found.findings) > limit:
        output.say(output.styled(f"… and {len(found.findings) - limit:,} more: --limit 0 shows all", "dim"))
    rate = found.bytes / max(seconds, 1e-9)
    looked = f"{counted(found.files, 'file')}, {size(found.bytes)}, {size(int(rate))}/s"
    ignored = f"; {found.ignored:,} on the allow list" if found.ignored else ""
    if found.problems:
        unread = counted(len(found.problems), "path")
        output.say(output.styled(f"Incomplete: {unread} could not be read", "red"))
    if not found.findings:
        read = " in what could be read" if found.problems else ""
        output.say(f"No secrets found{read} ({looked}){ignored}")
        return
    many = f"{counted(found.secrets, 'secret')} in {counted(len(found.findings), 'place')}"
    output.say(output.styled(many, "red") + f" ({looked}){ignored}")
    sessions = [one.session for one in found.findings if one.session and one.role in _REDACTABLE]
    if sessions:
        first = Counter(sessions).most_common(1)[0][0]
        output.say(f"Remove them from a session with: {change_plans.command(options, 'redact', first)}")
    output.say("Also revoke them at the service that issued them: they were stored on disk in clear text.")


_REDACTABLE = frozenset(
    {"log", "agent", "tool-result", "file-backup", "history", "paste", "task", "todo", "title"}
)


def _row(one: SecretFinding) -> str:
    kind = output.styled(padded(one.kind, 24), "yellow")
    whose = f"{short_id(one.session)} " if one.session and one.role in ("history", "paste") else ""
    place = f"{whose}line {one.line:,}, byte {one.offset:,}"
    return f"{kind} {one.fingerprint}  {visible(place)}" + (f"  {visible(one.field)}" if one.field else "")
