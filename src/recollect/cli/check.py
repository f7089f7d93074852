"""The commands ``doctor`` and ``doctor --fix``: what is damaged, and how it is mended."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from msgspec.structs import replace

from recollect.ask.doctor.check import CheckSummary, check
from recollect.ask.homes import Homes
from recollect.ask.sessions.session import Session
from recollect.change import repair
from recollect.change.fix import FixKind, FixPlan, FixStep, fixed, planned_fix
from recollect.change.repair import RepairPlan, SessionRepair, repair_document, with_slimming
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import chosen_homes, no_claude_home
from recollect.cli.terminal.options import add_apply, add_json, add_session, command, flag, own_data, say_end
from recollect.cli.terminal.rows import codes_of, finding_lines, fix_lines, place_of, print_data, wants_csv
from recollect.cli.terminal.sessions import open_home
from recollect.cli.terminal.text import counted, shortened, size, visible, wrapped
from recollect.errors import NotFound, StorageError, UsageError
from recollect.model.checks.rules import CODES, Finding, Severity
from recollect.model.lines.ids import command_name, short_id
from recollect.system.paths import CLAUDE

_SHOWN = 100
_OF_HOMES = 20  # of either severity, before the sessions: the rest come at the end
_ORDER = [Severity.ERROR, Severity.WARNING, Severity.INFO]


def add_check_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "sessions", metavar="S|CODE", nargs="*", help="only these sessions; or what a code means"
    )
    parser.add_argument(
        "--code", action="append", metavar="CODE", help="only findings with this code (repeatable)"
    )
    parser.add_argument(
        "--severity", choices=[one.value for one in _ORDER], help="only this severity and worse"
    )
    parser.add_argument(
        "-n", "--limit", type=int, metavar="N", help=f"show at most N findings (default {_SHOWN}; 0: all)"
    )
    flag(parser, "--no-secrets", "do not look for credentials; much faster")
    flag(parser, "--codes", "list all codes with their meaning and exit")
    add_json(parser, csv=True)


def run_check(options: Namespace) -> int:
    _require(options)
    if options.codes or (options.sessions and set(options.sessions) <= CODES.keys()):
        return _list_codes(options)
    # Of whole homes the report lists what could not be read; of sessions it has only what is in their logs.
    home = open_home(options.homes, with_notes=bool(options.sessions))
    sessions = [home.session(name) for name in options.sessions] or None
    # Findings may be shown in the order in which they are found.
    is_for_a_person = not options.json and not wants_csv(options) and options.limit is None
    found = _FoundOnTerminal(options) if is_for_a_person and sys.stdout.isatty() else None
    with output.progress_bar("checking") as progress:
        checked = check(
            home,
            sessions,
            data=own_data(options),
            with_secrets=not options.no_secrets,
            progress=progress,
            as_found=found.say if found is not None else None,
        )
    chosen = [_typed(one) for one in checked.findings if _fits(options, one.severity, one.code)]
    listed = chosen[: options.limit or None]
    if print_data(options, replace(checked, findings=listed), listed):
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


def _require(options: Namespace) -> None:
    if options.limit is not None and options.limit < 0:
        raise UsageError(f"--limit {options.limit}: must be 0 or more", hint="0 shows all")
    for code in options.code or ():
        if code not in CODES:
            raise UsageError(f"--code {code}: no such code", hint="`recollect doctor --codes` lists them")


def _list_codes(options: Namespace) -> int:
    known = {code: CODES[code] for code in options.sessions or CODES}
    if options.json:
        rows = [
            {"code": code, "severity": rule.severity, "meaning": rule.meaning} for code, rule in known.items()
        ]
        return output.print_json({"codes": rows})
    longest = max(map(len, known))
    for code, rule in known.items():
        head = f"{code:<{longest}}  {rule.severity.value:<7}  "
        for line in wrapped(rule.meaning, head, " " * len(head)):
            output.say(line)
    return 0


def _fits(options: Namespace, severity: Severity, code: str) -> bool:
    worst = _ORDER.index(Severity(options.severity)) if options.severity else len(_ORDER)
    return (not options.code or code in options.code) and _ORDER.index(severity) <= worst


def _typed(finding: Finding) -> Finding:
    """The fix as a command line to type, with the same global options as this one."""
    return replace(finding, fix=output.typed(finding.fix))


def _say_findings(home: Homes, findings: Sequence[Finding]) -> None:
    titles = {session.id: session for session in home.sessions()} if findings else {}
    group: str | None = ""
    for finding in findings:
        if finding.session != group:
            group = finding.session
            _say_session(group, titles.get(group or ""))
        _say(finding)


def _say_session(name: str | None, session: Session | None) -> None:
    text = f"{visible(short_id(name))}  {_title(session)}".rstrip() if name else "Homes"
    output.say(text, "bold")


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
        output.say(f"          in {visible(finding.path)}", "dim")
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


_TITLE_COLUMNS = 36
_HEADINGS: dict[FixKind, str] = {
    "session": "Sessions",
    "directory": "Directories that are gone",
    "config": "Config files",
    "todos": "Todos of deleted sessions",
}


def add_fix_options(parser: ArgumentParser) -> None:
    add_session(parser, "?")
    flag(parser, "--copy", "with S: write a repaired copy, and leave the session as it is")
    flag(parser, "--slim", "with S: also remove what no resume needs")
    add_apply(parser)


def run_fix(options: Namespace) -> int:
    if options.session is not None:
        return _repair(options)
    if options.copy or options.slim:
        raise UsageError("doctor --fix: --copy and --slim are for one session", hint="name a session")
    # Clients of other agents have other rules, and nothing is ever written into their homes.
    mine = [root for root in chosen_homes(options.homes) if root.exists and root.agent == CLAUDE]
    if not mine:
        raise no_claude_home("doctor --fix", chosen_homes(options.homes))
    home = Homes(*[root.path for root in mine], data=options.data)
    data = own_data(options)
    with output.progress_bar("checking") as progress:
        plan = planned_fix(home, data, progress)
    done = fixed(home, plan, data) if options.apply and plan.steps else None
    undo = command(options, "undo", done.undo, "--apply") if done is not None and done.undo else None
    shown = replace(plan if done is None else done, undo=undo)
    if options.json:
        output.print_json(shown)
    else:
        _tell_fix(options, shown)
    return 1 if done is not None and done.failed else 0


def _tell_fix(options: Namespace, plan: FixPlan) -> None:
    for kind, heading in _HEADINGS.items():
        steps = [one for one in plan.steps if one.kind == kind]
        if steps:
            output.say(heading, "bold")
        for step in steps:
            _tell_step(step, is_done=plan.applied)
    if plan.left:
        output.say("Left to you", "bold")
    for step in plan.left:
        _tell_fix_left(step)
    output.say(
        f"{counted(plan.sessions, 'session')} checked: {counted(len(plan.steps), 'thing')} to fix, {len(plan.left):,} left to you"
    )
    if plan.steps and (plan.undo is not None or not plan.applied):
        say_end(options, command(options, "doctor", "--fix", "--apply"), plan.undo or "")


def _tell_step(step: FixStep, *, is_done: bool) -> None:
    arrow = f"{visible(step.cost)} -> {visible(step.does)}"
    if is_done:
        name = command_name(step.result or step.subject, "") if step.kind == "session" else ""
        result = f": {visible(step.result)}" if step.result else ""
        result = output.typed(f"; now: recollect resume {name}") if name else result
        arrow = f"failed: {visible(step.problem)}" if step.problem else f"{visible(step.does)}{result}"
    for line in wrapped(f"{_name(step)}  {arrow}", "  ", "      "):
        output.say(output.styled(line, "red") if step.problem else line)


def _tell_fix_left(step: FixStep) -> None:
    text = f"{_name(step)}  {visible(step.cost)}: {visible(step.why)}"
    for line in wrapped(text, "  ", "      "):
        output.say(line, "yellow")


def _name(step: FixStep) -> str:
    if step.kind != "session":
        return visible(step.subject)
    return f"{visible(short_id(step.subject))}  {shortened(visible(step.title), _TITLE_COLUMNS)}".rstrip()


_ACTIONS_SHOWN = 40
_FINDINGS_SHOWN = 20


def _repair(options: Namespace) -> int:
    session = open_home(options.homes).own_session(options.session)
    with repair.planned_repair(session) as mending:
        plan = with_slimming(mending) if options.slim else mending
        in_place = not options.copy and plan.open_in is None
        apply = repair.apply_in_place if in_place else repair.apply_as_copy
        done = apply(plan, own_data(options)) if options.apply and plan.is_needed else None
        undo = command(options, "undo", done.undo, "--apply") if done is not None and done.undo else None
        if options.json:
            output.print_json(replace(done or repair_document(plan, in_place=in_place), undo=undo))
        else:
            _tell_repair(options, plan, done, undo or "")
    return 0


def _tell_repair(options: Namespace, plan: RepairPlan, done: SessionRepair | None, undo: str) -> None:
    name = output.styled(visible(short_id(plan.session)), "cyan")
    if not plan.is_needed:
        _tell_nothing_to_do(plan, name)
        return
    output.say(f"{'Repaired' if done else 'Would repair'} {name}")
    _tell_findings(plan)
    _tell_steps(plan)
    _tell_notes(plan)
    _tell_sizes(plan)
    _tell_counts(plan)
    if plan.open_in is not None and not options.copy and done is None:
        output.say(
            f"A client has it open (process {plan.open_in}): a repaired copy is written instead", "yellow"
        )
    if done is not None:
        _tell_done(options, done)
    words = ["doctor", command_name(plan.session, plan.path), "--fix", *(["--slim"] if options.slim else [])]
    again = command(options, *words, *(["--copy"] if options.copy else []), "--apply")
    say_end(options, again, undo)


def _tell_nothing_to_do(plan: RepairPlan, name: str) -> None:
    if not plan.diagnosis.refusal:
        output.say(f"{name}: nothing to repair")
    for number, reason in enumerate(plan.diagnosis.refusal):
        text = f"the repaired session would have problems: {reason}" if number == 0 else reason
        for line in wrapped(visible(text), "" if number == 0 else "  ", "  "):
            output.say(f"{name}: {line}" if number == 0 else line)
    _tell_repair_left(plan)
    _tell_notes(plan)
    _tell_counts(plan)


def _tell_findings(plan: RepairPlan) -> None:
    """The findings, as `recollect doctor` prints them."""
    mended = plan.diagnosis.mended
    if mended:
        output.say(f"Fixes {counted(len(mended), 'finding')} of `recollect doctor`:")
    for finding in mended[:_FINDINGS_SHOWN]:
        for line in finding_lines(finding):
            output.say(line)
    if len(mended) > _FINDINGS_SHOWN:
        output.say(f"  ... and {len(mended) - _FINDINGS_SHOWN:,} more; --json lists all")
    _tell_repair_left(plan)


def _tell_repair_left(plan: RepairPlan) -> None:
    if plan.diagnosis.left:
        for line in wrapped(f"Leaves {codes_of(plan.diagnosis.left)}", "", "  "):
            output.say(line)


def _tell_steps(plan: RepairPlan) -> None:
    actions = plan.mending.actions
    output.say(f"Does {counted(len(actions), 'step')}:")
    for action in actions[:_ACTIONS_SHOWN]:
        text = f"{place_of(action.line, action.offset)}: {action.code}: {visible(action.why)}"
        for line in wrapped(text, "  ", "    "):
            output.say(line)
    if len(actions) > _ACTIONS_SHOWN:
        output.say(f"  ... and {len(actions) - _ACTIONS_SHOWN:,} more; --json lists all")


def _tell_notes(plan: RepairPlan) -> None:
    for text in plan.mending.notes:
        for line in wrapped(f"Note: {visible(text)}", "  ", "    "):
            output.say(line, "dim")


def _tell_sizes(plan: RepairPlan) -> None:
    mending = plan.mending
    text = (
        f"Bytes: {mending.bytes_before:,} before = {mending.bytes_kept:,} kept + "
        f"{mending.bytes_set_aside:,} set aside; {mending.bytes_after:,} after"
    )
    for line in wrapped(text, "", "  "):
        output.say(line)
    for kind, count in plan.saved.items():
        output.say(f"  Saves {size(count)} of {kind}")


def _tell_counts(plan: RepairPlan) -> None:
    """Messages sent on resume and length of the history, before and after a planned repair."""
    proof = plan.mending.proof
    for name, now, after in (
        ("Sent on resume", proof.messages_before, proof.messages_sent),
        ("History", proof.history_before, proof.history_after),
    ):
        then = f" now, {after:,} after the repair" if plan.is_needed else ""
        output.say(f"{name}: {counted(now, 'message')}{then}")


def _tell_done(options: Namespace, done: SessionRepair) -> None:
    if done.new is not None:
        output.say(f"New session: {output.styled(done.new, 'bold')}")
    name = done.new or command_name(short_id(done.session), done.path)
    output.say(f"Now: {command(options, 'resume', name)}")
    if done.quarantine is not None:
        output.say(f"Removed lines are in: {visible(str(done.quarantine))}")
