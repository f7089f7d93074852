"""Convert sessions from one disk layout to another; can be rolled back.

Each step has a number and never changes once released. The plan lists the files
that change and the data that the new layout cannot hold. After the change, the
old and the new session are compared: messages, tool calls and results in order,
and tokens. If they differ, the change is rolled back at once. A session that a
client has open is refused. Prints the plan; --apply carries it out.

--to takes one step, or a target: a client version such as 2.1.325, or flat. A
target runs every step that leads there, the oldest layout first. Where a step
fails, the steps before it are rolled back for that session.

Example:
  recollect migrate --list
  recollect migrate --to 2.1.325 6ada00ba
  recollect migrate --to flat-agents-to-subagents ~/src/shop
  recollect migrate --to 3 --all --apply
  recollect migrate --rollback 20261115T203000-12-1f2e3d --apply
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from msgspec import structs

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import counted, visible
from recollect.errors import RecollectError, UsageError
from recollect.services import migrate, undo
from recollect.services.documents.changes.migrations import (
    MigrationDocument,
    MigrationPlanDocument,
    MigrationStepDocument,
    MigrationStepsDocument,
    PlannedSessionDocument,
    PlannedStepDocument,
    RollbackDocument,
    migrated_session,
)
from recollect.services.migrate import MigrationOutcome, MigrationRefusal, PlanOutcome
from recollect.services.session import Session
from recollect.storage.changes.journal import Step
from recollect.storage.migrations.migration import WHAT, Migration
from recollect.storage.migrations.registry import STEPS, MigrationPlan, MigrationStep, plan_to, step_named

_STEPS_SHOWN = 20


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="S", nargs="?", help="a session, or the directory or name of a project"
    )
    parser.add_argument("--list", action="store_true", help="list the steps")
    parser.add_argument("--to", metavar="STEP", help="a step, by number or name; or a version; or flat")
    parser.add_argument("--all", action="store_true", help="every session of the homes")
    parser.add_argument("--cwd", metavar="DIR", help="flat-to-claude: the directory of the session")
    parser.add_argument("--rollback", metavar="ID", help="undo a migration, byte for byte")
    change_plans.add_apply(parser)


def run(options: Namespace) -> int:
    if sum(map(bool, (options.list, options.to, options.rollback))) != 1:
        raise UsageError(
            "migrate: give one of --list, --to STEP, --rollback ID",
            hint="`recollect migrate --help` has examples",
        )
    if options.list:
        return _list(options)
    return _rollback(options) if options.rollback else _migrate(options)


def _list(options: Namespace) -> int:
    if options.json:
        rows = [
            MigrationStepDocument(step.number, step.name, step.source, step.target, step.about)
            for step in STEPS
        ]
        output.print_json(MigrationStepsDocument(rows))
        return 0
    for step in STEPS:
        output.say(f"{step.number}  {output.styled(step.name, 'cyan')}: {step.source} -> {step.target}")
        output.say(f"   {step.about}")
    return 0


# ---- plan and apply --------------------------------------------------------------------------------------


def _migrate(options: Namespace) -> int:
    if bool(options.target) == options.all:
        raise UsageError(
            "migrate: name a session or a project, or --all", hint="`recollect migrate --help` has examples"
        )
    cwd = str(Path(options.cwd).expanduser().absolute()) if options.cwd else None
    plan = plan_to(options.to)
    if plan is not None:
        return _run_plan(options, plan, cwd)
    step = step_named(options.to)
    sessions = migrate.chosen(open_home(options.homes), options.target)
    outcome = migrate.planned(step, sessions, cwd)
    if options.apply:
        _apply(options, step, sessions, outcome, cwd)
    if options.json:
        output.print_json(_document(options, step, outcome))
    else:
        _tell(options, step, outcome)
    return 1 if options.apply and outcome.refused else 0


def _apply(
    options: Namespace,
    step: MigrationStep,
    sessions: list[Session],
    outcome: MigrationOutcome,
    cwd: str | None,
) -> None:
    """Each session is a separate change: if one is refused, the others still go on."""
    planned = {one.log for one in outcome.planned}
    for session in sessions:
        if session.path not in planned:
            continue
        try:
            done = migrate.carried_out(step, session, change_plans.own_data(options), cwd)
        except RecollectError as problem:
            outcome.refused.append(MigrationRefusal(session.id, problem.message, problem.hint))
            continue
        if done is not None:
            outcome.done.append(done)


def _document(options: Namespace, step: MigrationStep, outcome: MigrationOutcome) -> MigrationDocument:
    ids = {one.subject: one.id for one in outcome.done}
    return MigrationDocument(
        step=step.name,
        number=step.number,
        sessions=[migrated_session(one, ids.get(one.session)) for one in outcome.planned],
        refused=outcome.refused,
        untouched=outcome.untouched,
        applied=options.apply,
        rollback=[_back(options, one.id) for one in outcome.done],
    )


def _tell(options: Namespace, step: MigrationStep, outcome: MigrationOutcome) -> None:
    ids = {one.subject: one.id for one in outcome.done}
    for one in outcome.planned:
        verb = "Migrated" if one.session in ids else "Would migrate"
        if not options.apply or one.session in ids:
            output.say(f"{verb} {output.styled(visible(one.session), 'cyan')}: {step.name}")
            _tell_plan(one)
        if one.session in ids:
            output.say(f"Roll back with: {_back(options, ids[one.session])}")
    _tell_end(options, outcome, step.name)


def _tell_end(options: Namespace, outcome: MigrationOutcome | PlanOutcome, to: str) -> None:
    for refused in outcome.refused:
        output.say(output.styled(f"Refused: {visible(refused.reason)}; {visible(refused.hint)}", "red"))
    output.say(f"{counted(outcome.untouched, 'session')} with nothing to migrate")
    if outcome.planned and not options.apply:
        rest = ["--all"] if options.all else [options.target]
        where = change_plans.option("--cwd", options.cwd) if options.cwd else []
        again = change_plans.command(options, "migrate", "--to", to, *where, "--apply", *rest)
        change_plans.say_end(options, again, "")


# ---- a plan of several steps -----------------------------------------------------------------------------


def _run_plan(options: Namespace, plan: MigrationPlan, cwd: str | None) -> int:
    sessions = migrate.chosen(open_home(options.homes), options.target)
    outcome = migrate.planned_steps(plan, sessions, cwd)
    for one in outcome.planned if options.apply else ():
        try:
            migrate.carry_out(plan, one, change_plans.own_data(options), cwd)
        except RecollectError as problem:
            outcome.refused.append(MigrationRefusal(one.session.id, problem.message, problem.hint))
    if options.json:
        output.print_json(_plan_document(options, plan, outcome))
    else:
        _tell_steps(options, plan, outcome)
    return 1 if options.apply and outcome.refused else 0


def _plan_document(options: Namespace, plan: MigrationPlan, outcome: PlanOutcome) -> MigrationPlanDocument:
    return MigrationPlanDocument(
        target=plan.target,
        steps=[step.name for step in plan.steps],
        sessions=[
            PlannedSessionDocument(
                one.session.id,
                [_planned_step(step, made) for step, made in one.steps],
                [change.id for change in one.done],
            )
            for one in outcome.planned
        ],
        refused=outcome.refused,
        untouched=outcome.untouched,
        applied=options.apply,
        rollback=[_back(options, change.id) for one in outcome.planned for change in reversed(one.done)],
    )


def _planned_step(step: MigrationStep, made: Migration | None) -> PlannedStepDocument:
    if made is None:
        return PlannedStepDocument(step=step.name)
    return PlannedStepDocument(step=step.name, **structs.asdict(migrated_session(made, None)))


def _tell_steps(options: Namespace, plan: MigrationPlan, outcome: PlanOutcome) -> None:
    for one in outcome.planned:
        if options.apply and not one.done:
            continue
        names = " -> ".join(step.name for step, _ in one.steps)
        verb = "Migrated" if one.done else "Would migrate"
        output.say(f"{verb} {output.styled(visible(one.session.id), 'cyan')} to {plan.target}: {names}")
        for step, made in one.steps:
            if made is None:
                output.say(f"  {step.name}: planned once the steps before it are done")
            else:
                _tell_plan(made)
        for change in reversed(one.done):
            output.say(f"Roll back with: {_back(options, change.id)}")
    _tell_end(options, outcome, plan.target)


def _tell_plan(one: Migration) -> None:
    for step in one.plan.steps[:_STEPS_SHOWN]:
        output.say(f"  {_step(step)}")
    if len(one.plan.steps) > _STEPS_SHOWN:
        output.say(f"  ... and {len(one.plan.steps) - _STEPS_SHOWN} more; --json lists all")
    for loss in one.losses:
        output.say(output.styled(f"  Lost or changed: {loss.count} x {visible(loss.what)}", "yellow"))
    for text in one.notes:
        output.say(output.styled(f"  Note: {visible(text)}", "dim"))


def _step(step: Step) -> str:
    target = "" if step.target is None else f" -> {step.target}"
    return visible(f"{step.kind} {step.path}{target}")


# ---- roll back -------------------------------------------------------------------------------------------


def _back(options: Namespace, change: str) -> str:
    return change_plans.command(options, "migrate", "--rollback", change, "--apply")


def _rollback(options: Namespace) -> int:
    data = change_plans.own_data(options)
    change = undo.found_change(data, options.rollback, [WHAT], "migration")
    done = undo.undo(data, change) if options.apply else None
    redo = change_plans.command(options, *undo.redo_words(done)) if done else None
    if options.json:
        output.print_json(
            RollbackDocument(
                change=change.id,
                session=change.subject,
                paths=[step.path for step in change.steps],
                applied=done is not None,
                undo=redo,
            )
        )
        return 0
    verb = "Rolled back" if done else "Would roll back"
    output.say(f"{verb}: {visible(change.subject)} ({change.id})")
    for step in change.steps[:_STEPS_SHOWN]:
        output.say(f"  {visible(str(step.path))}")
    change_plans.say_end(options, _back(options, change.id), redo or "")
    return 0
