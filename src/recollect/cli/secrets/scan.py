"""Find credentials in logs, sub-agents, tool results, settings, prompt history and backups.

Names each by kind, place and a fingerprint; the value is never printed, nor any part of it. Equal
fingerprints are equal secrets. Without a session everything in the home is looked at, settings of
its projects included. What is on the allow list (config.toml, [secrets] ignore = ["kind:fingerprint"])
is only counted. Exit status 1 when something was found. Changes nothing in the home.

Example:
  recollect scan
  recollect scan 3f2a9c1e --json
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from itertools import groupby

from recollect.cli.terminal import output, plans
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import counted, padded, size, visible
from recollect.errors import UsageError
from recollect.services.secrets import scan as scan_service
from recollect.services.secrets.file_scan import SecretFinding
from recollect.services.secrets.scan import SecretScan

_SHOWN = 100


def add_options(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("sessions", metavar="S", nargs="*", help="id or its start, title, path, or @last")
    parser.add_argument("--all", action="store_true", help="everything in the homes (also without a session)")
    parser.add_argument(
        "--limit", type=int, metavar="N", help=f"show at most so many (default {_SHOWN}; 0: all)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace) -> int:
    """Print what was found."""
    if options.all and options.sessions:
        raise UsageError("scan: sessions and --all", hint="name sessions, or look at everything")
    if options.limit is not None and options.limit < 0:
        raise UsageError(f"--limit {options.limit}: must be 0 or more", hint="0 shows all")
    home = open_home(options.homes)
    chosen = [home.session(name) for name in options.sessions] or None
    start = time.monotonic()
    with output.progress_bar("looking for secrets") as progress:
        found = scan_service.scan(home, chosen, data=plans.own_data(options), progress=progress)
    seconds = time.monotonic() - start
    if options.json:
        output.print_json(_document(found, seconds))
    else:
        _tell(options, found, seconds)
    for note in found.notes:
        output.note(note)
    for path, reason in found.problems[:20]:
        output.note(visible(f"not looked at: {path}: {reason}"))
    return 1 if found.findings else 0


def _document(found: SecretScan, seconds: float) -> dict[str, object]:
    return {
        "findings": found.findings,
        "summary": {
            "findings": len(found.findings),
            "secrets": found.secrets,
            "by_kind": dict(Counter(one.kind for one in found.findings).most_common()),
            "files": found.files,
            "bytes": found.bytes,
            "seconds": round(seconds, 3),
            "ignored": found.ignored,
        },
        "problems": [{"path": path, "reason": reason} for path, reason in found.problems],
    }


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
    if not found.findings:
        output.say(f"No secrets found ({looked}){ignored}")
        return
    many = f"{counted(found.secrets, 'secret')} in {counted(len(found.findings), 'place')}"
    output.say(output.styled(many, "red") + f" ({looked}){ignored}")
    sessions = [one.session for one in found.findings if one.session and one.role in _REDACTABLE]
    if sessions:
        first = Counter(sessions).most_common(1)[0][0]
        output.say(f"Take them out of a session with: {plans.command(options, 'redact', first)}")
    output.say("A secret that was written to disk should be revoked where it was given out.")


_REDACTABLE = frozenset(
    {"log", "agent", "tool-result", "file-backup", "history", "paste", "task", "todo", "title"}
)


def _row(one: SecretFinding) -> str:
    kind = output.styled(padded(one.kind, 24), "yellow")
    whose = f"{one.session[:8]} " if one.session and one.role in ("history", "paste") else ""
    place = f"{whose}line {one.line:,}, byte {one.offset:,}"
    return f"{kind} {one.fingerprint}  {visible(place)}" + (f"  {visible(one.field)}" if one.field else "")
