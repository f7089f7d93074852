"""Check sessions for damage, broken history, and requests the API would refuse.

Without a session: checks all sessions and the homes themselves (settings,
permissions of files, sessions about to be deleted). Each finding has a stable
code, a location (file, line, byte) and a recommended fix. An error stops a
resume or cuts what is resumed; what the client repairs itself is no error.
Changes nothing. docs/reference/checks.md says what each code means.
The worst findings are listed first. On a terminal, errors and warnings are
shown as they are found: homes, then sessions, newest first; then all others.
Installed packages may add checks; their codes are NAME/code.

Exit status: 0 no errors or warnings, 1 errors or warnings, 4 a file cannot be
read at all.

Example:
  recollect check
  recollect check 6ada00ba --severity warning
  recollect check --all --code history-cut --json
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from msgspec.structs import replace

from recollect.cli.terminal import output
from recollect.cli.terminal.change_plans import own_data
from recollect.cli.terminal.csv_tables import add_csv, print_csv, wants_csv
from recollect.cli.terminal.findings import finding_lines, fix_lines
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import counted, shortened, size, visible, wrapped
from recollect.errors import NotFound, StorageError, UsageError
from recollect.model.checks import CODES
from recollect.model.findings import Finding, Severity
from recollect.model.ids import short_id
from recollect.services.check.check import CheckSummary, check
from recollect.services.homes import Home
from recollect.services.session import Session

_SHOWN = 100
_OF_HOMES = 20  # of either severity, before the sessions: the rest come at the end
_ORDER = [Severity.ERROR, Severity.WARNING, Severity.INFO]


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "sessions", metavar="S", nargs="*", help="session: id, start of an id, title, path, or @last"
    )
    parser.add_argument("--all", action="store_true", help="check all sessions and the homes (the default)")
    parser.add_argument(
        "--code", action="append", metavar="CODE", help="only findings with this code (repeatable)"
    )
    parser.add_argument(
        "--severity", choices=[one.value for one in _ORDER], help="only this severity and worse"
    )
    parser.add_argument(
        "--limit", type=int, metavar="N", help=f"show at most N findings (default {_SHOWN}; 0: all)"
    )
    parser.add_argument("--no-secrets", action="store_true", help="do not look for credentials; much faster")
    parser.add_argument("--no-plugins", action="store_true", help="do not run checks of other packages")
    parser.add_argument("--codes", action="store_true", help="list all codes with their meaning and exit")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_csv(parser)


def run(options: Namespace) -> int:
    _require(options)
    if options.codes:
        return _list_codes(options)
    # Of whole homes the report lists what could not be read; of sessions it has only what is in their logs.
    home = open_home(options.homes, with_notes=bool(options.sessions))
    sessions = [home.session(name) for name in options.sessions] or None
    found = _FoundOnTerminal(options) if _is_for_a_person(options) else None
    with output.progress_bar("checking") as progress:
        checked = check(
            home,
            sessions,
            data=own_data(options),
            with_secrets=not options.no_secrets,
            with_plugins=not options.no_plugins,
            progress=progress,
            as_found=found.say if found is not None else None,
        )
    chosen = [_typed(one) for one in checked.findings if _fits(options, one.severity, one.code)]
    if wants_csv(options):
        print_csv(chosen[: options.limit or None])
        return checked.exit_code
    if options.json:
        limit = options.limit or None
        output.print_json(replace(checked, findings=chosen[:limit]))
        return checked.exit_code
    limit = (_SHOWN if options.limit is None else options.limit) or len(chosen)
    said = set(found.said) if found is not None else set()
    rest = [one for one in chosen if one not in said][: max(limit - len(said), 0)]
    _say_findings(home, rest)
    _say_summary(checked.summary)
    _say_rest(options, checked.summary, len(said) + len(rest), len(chosen))
    return checked.exit_code


class _FoundOnTerminal:
    """Errors and warnings in logs, printed as they are found; ``said`` are those.

    Of either not more than a list has: the first errors must not be missed for many warnings.
    """

    def __init__(self, options: Namespace) -> None:
        self._options = options
        self.said: list[Finding] = []

    def say(self, session: Session | None, findings: Sequence[Finding]) -> None:
        fitting = [one for one in findings if _fits(self._options, one.severity, one.code)]
        shown: list[Finding] = []
        for severity in (Severity.ERROR, Severity.WARNING):
            room = _SHOWN - sum(one.severity is severity for one in self.said)
            room = room if session is not None else _OF_HOMES
            shown += [one for one in fitting if one.severity is severity][: max(room, 0)]
        if shown:
            _say_session(None if session is None else session.id, session)
        for one in shown:
            self.said.append(_typed(one))
            _say(self.said[-1])
        sys.stdout.flush()


def _is_for_a_person(options: Namespace) -> bool:
    """Whether findings may be shown in the order in which they are found."""
    return not options.json and not wants_csv(options) and options.limit is None and sys.stdout.isatty()


def _require(options: Namespace) -> None:
    if options.all and options.sessions:
        raise UsageError("check: --all and a session exclude each other", hint="name sessions, or use --all")
    if options.limit is not None and options.limit < 0:
        raise UsageError(f"--limit {options.limit}: must be 0 or more", hint="0 shows all")
    for code in options.code or ():
        if code not in CODES and "/" not in code:
            raise UsageError(f"--code {code}: no such code", hint="`recollect check --codes` lists them")


def _list_codes(options: Namespace) -> int:
    if options.json:
        # Only here: it loads all that plans repairs.
        from recollect.services.documents.findings import CheckRuleDocument, CheckRulesDocument

        rows = [CheckRuleDocument(code, rule.severity, rule.meaning) for code, rule in CODES.items()]
        output.print_json(CheckRulesDocument(rows))
        return 0
    longest = max(map(len, CODES))
    for code, rule in CODES.items():
        for line in wrapped(
            rule.meaning, f"{code:<{longest}}  {rule.severity.value:<7}  ", " " * (longest + 11)
        ):
            output.say(line)
    return 0


def _fits(options: Namespace, severity: Severity, code: str) -> bool:
    worst = _ORDER.index(Severity(options.severity)) if options.severity else len(_ORDER)
    return (not options.code or code in options.code) and _ORDER.index(severity) <= worst


def _typed(finding: Finding) -> Finding:
    """The fix as a command line to type, with the same global options as this one."""
    return replace(finding, fix=output.typed(finding.fix))


def _say_findings(home: Home, findings: Sequence[Finding]) -> None:
    titles = {session.id: session for session in home.sessions()} if findings else {}
    group: str | None = ""
    for finding in findings:
        if finding.session != group:
            group = finding.session
            _say_session(group, titles.get(group or ""))
        _say(finding)


def _say_session(name: str | None, session: Session | None) -> None:
    text = f"{visible(short_id(name))}  {_title(session)}".rstrip() if name else "Homes"
    output.say(output.styled(text, "bold"))


def _title(session: Session | None) -> str:
    """The title, if there is one that can be read."""
    try:
        return "" if session is None else shortened(visible(session.title), 60)
    except (NotFound, StorageError):
        return ""


def _say(finding: Finding) -> None:
    for line in finding_lines(finding):
        output.say(line)
    if not finding.session:
        output.say(output.styled(f"          in {visible(finding.path)}", "dim"))
    for line in fix_lines(finding):
        output.say(line)


def _say_summary(summary: CheckSummary) -> None:
    looked = f"{counted(summary.sessions, 'session')}, {counted(summary.logs, 'log')}, {size(summary.bytes)}"
    lines = f"{counted(summary.lines, 'line')}, {summary.valid:,} valid, {summary.damaged:,} damaged"
    output.say(f"{looked}: {lines}.")
    for severity in _ORDER:
        codes = [
            f"{count:,} {visible(code)}" for code, count in summary.kinds.get(severity.value, {}).items()
        ]
        if codes:
            output.say(f"  {_NOUN[severity]}s: {', '.join(codes)}")
    counts = ", ".join(counted(summary.by_severity.get(one.value, 0), _NOUN[one]) for one in _ORDER)
    output.say(f"{counts}.")


def _say_rest(options: Namespace, summary: CheckSummary, shown: int, listed: int) -> None:
    """What is counted above and not listed, so that the figures add up."""
    counted_in_all = sum(
        count
        for severity, kinds in summary.kinds.items()
        for code, count in kinds.items()
        if _fits(options, Severity(severity), code)
    )
    if listed > shown:
        output.note(f"{shown:,} of {listed:,} findings are listed, the worst first; --limit 0 lists all")
    if counted_in_all > listed:
        output.note(f"{counted_in_all - listed:,} more of the same kinds in the same logs are only counted")


_NOUN = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "remark"}
