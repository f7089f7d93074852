"""Repair a session that the client cannot resume or that the API refuses.

Prints a plan: the findings of `recollect check` it fixes, what happens to which
line, and how many messages the client resumes before and after. Only lines that
`check` calls an error are touched. The result is checked with the same rules: a
repair that would add an error or shorten the history is refused.

--apply carries out the plan, by default on a copy beside the original;
--in-place changes the session itself, unless a client has it open. Removed or
changed lines are saved byte for byte. --slim also removes what no resume needs.

Example:
  recollect repair 6ada00ba
  recollect repair 6ada00ba --apply
  recollect repair 6ada00ba --slim --in-place --apply
  recollect undo 20261115T203000-12-1f2e3d --apply
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.findings import codes_of, finding_lines, place_of
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import counted, size, visible, wrapped
from recollect.errors import UsageError
from recollect.model.ids import short_id
from recollect.services import undo
from recollect.services.documents.changes.change import ChangeStepDocument
from recollect.services.documents.changes.mending import RepairUndoDocument
from recollect.services.documents.findings import RepairDocument, repair_members
from recollect.services.repair import repair
from recollect.services.repair.repair import RepairPlan, RepairResult
from recollect.services.repair.slim import with_slimming

_ACTIONS_SHOWN = 40
_FINDINGS_SHOWN = 20


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "session", metavar="S", nargs="?", help="session: id, start of an id, title, path, or @last"
    )
    parser.add_argument("--in-place", action="store_true", help="change the session itself, not a copy")
    parser.add_argument("--slim", action="store_true", help="also remove what no resume needs")
    parser.add_argument("--undo", metavar="ID", help="undo a repair, byte for byte")
    change_plans.add_apply(parser)


def run(options: Namespace) -> int:
    if (options.session is None) == (options.undo is None):
        raise UsageError(
            "repair: name a session, or --undo ID", hint="`recollect repair --help` has examples"
        )
    if options.undo is not None:
        return _undo(options)
    session = open_home(options.homes).own_session(options.session)
    with repair.planned_repair(session) as mending:
        plan = with_slimming(mending) if options.slim else mending
        done = _applied(options, plan) if options.apply and plan.is_needed else None
        if options.json:
            output.print_json(_document(options, plan, done))
        else:
            _tell(options, plan, done)
    return 0


def _applied(options: Namespace, plan: RepairPlan) -> RepairResult:
    data = change_plans.own_data(options)
    return repair.apply_in_place(plan, data) if options.in_place else repair.apply_as_copy(plan, data)


def _undo_line(options: Namespace, change: str) -> str:
    return change_plans.command(options, "undo", change, "--apply")


# ---- JSON ------------------------------------------------------------------------------------------------


def _document(options: Namespace, plan: RepairPlan, done: RepairResult | None) -> RepairDocument:
    return RepairDocument(
        mends=plan.diagnosis.mended,
        left=plan.diagnosis.left,
        in_place=options.in_place,
        applied=done is not None,
        new=done.session if done is not None and not options.in_place else None,
        result=str(done.path) if done is not None else None,
        quarantine=str(done.quarantine) if done is not None and done.quarantine is not None else None,
        undo=_undo_line(options, done.change.id) if done is not None else None,
        **repair_members(plan),
    )


# ---- text ------------------------------------------------------------------------------------------------


def _tell(options: Namespace, plan: RepairPlan, done: RepairResult | None) -> None:
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
    if plan.open_in is not None and options.in_place and done is None:
        output.say(
            output.styled(f"A client has it open (process {plan.open_in}): refused until it is closed", "red")
        )
    if done is not None:
        _tell_done(options, done)
    words = ["repair", plan.session, *(["--slim"] if options.slim else [])]
    again = change_plans.command(options, *words, *(["--in-place"] if options.in_place else []), "--apply")
    change_plans.say_end(options, again, _undo_line(options, done.change.id) if done else "")


def _tell_nothing_to_do(plan: RepairPlan, name: str) -> None:
    if not plan.diagnosis.refusal:
        output.say(f"{name}: nothing to repair")
    for number, reason in enumerate(plan.diagnosis.refusal):
        text = f"the repaired session would have problems: {reason}" if number == 0 else reason
        for line in wrapped(visible(text), "" if number == 0 else "  ", "  "):
            output.say(f"{name}: {line}" if number == 0 else line)
    _tell_left(plan)
    _tell_notes(plan)
    _tell_counts(plan)


def _tell_findings(plan: RepairPlan) -> None:
    """The findings, as `recollect check` prints them."""
    mended = plan.diagnosis.mended
    if mended:
        output.say(f"Fixes {counted(len(mended), 'finding')} of `recollect check`:")
    for finding in mended[:_FINDINGS_SHOWN]:
        for line in finding_lines(finding):
            output.say(line)
    if len(mended) > _FINDINGS_SHOWN:
        output.say(f"  ... and {len(mended) - _FINDINGS_SHOWN:,} more; --json lists all")
    _tell_left(plan)


def _tell_left(plan: RepairPlan) -> None:
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
            output.say(output.styled(line, "dim"))


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


def _tell_done(options: Namespace, done: RepairResult) -> None:
    if not options.in_place:
        output.say(f"New session: {output.styled(done.session, 'bold')}")
        output.say(f"Continue it with: {change_plans.command(options, 'resume', done.session)}")
    if done.quarantine is not None:
        output.say(f"Removed lines are in: {visible(str(done.quarantine))}")


# ---- undo ------------------------------------------------------------------------------------------------


def _undo(options: Namespace) -> int:
    data = change_plans.own_data(options)
    change = undo.found_change(data, options.undo, repair.WHAT, "repair")
    done = undo.undo(data, change) if options.apply else None
    redo = change_plans.command(options, *undo.redo_words(done)) if done is not None else None
    if options.json:
        steps = [ChangeStepDocument(step.kind, str(step.path)) for step in change.steps]
        output.print_json(
            RepairUndoDocument(
                change=change.id, session=change.subject, steps=steps, applied=done is not None, undo=redo
            )
        )
        return 0
    verb = "Undone" if done is not None else "Would undo"
    output.say(f"{verb}: {change.what} of {visible(change.subject)}")
    for step in change.steps:
        output.say(f"  {step.kind} {visible(str(step.path))}")
    change_plans.say_end(options, _undo_line(options, change.id), redo or "")
    return 0
