"""The commands ``import``, ``export --to`` and ``data migrate``: sessions from elsewhere, for elsewhere, and in another layout."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from recollect.agents.homes import kept_out, refusal
from recollect.ask.archive import archive_at
from recollect.change import import_sessions, migration
from recollect.change.import_sessions import ImportCandidate, ImportStage
from recollect.change.migration import MigrationRefusal, PlanOutcome, SessionMigration, StepReport
from recollect.change.migrations import STEPS, plan_to, step_named
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import chosen_homes
from recollect.cli.terminal.options import (
    add_apply,
    add_json,
    add_session,
    command,
    flag,
    option,
    own_data,
    say_end,
    shell_word,
    undo_of,
)
from recollect.cli.terminal.sessions import named_session, open_home, tell_lost_beginning
from recollect.cli.terminal.text import counted, shortened, size, visible, wrapped
from recollect.errors import RecollectError, UsageError
from recollect.model.lines.ids import short_id
from recollect.share import convert
from recollect.share.convert import ConvertPlan
from recollect.store.changes.journal import Step
from recollect.system.paths import CLAUDE

_TITLE_COLUMNS = 44


def add_import_options(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", type=Path, help="a home, a directory, a bundle or a log")
    flag(parser, "--archive", "into the archive, not into a home")
    parser.add_argument("--cwd", metavar="DIR", help="the directory that loose logs belong to")
    add_apply(parser)


def run_import(options: Namespace) -> int:
    data = own_data(options)
    source = options.source.expanduser()
    cwd = str(Path(options.cwd).expanduser().absolute()) if options.cwd else None
    # A source that is missing is said to be so, whatever the homes are.
    home = None if options.archive or not source.exists() else _home(options, source)
    with (
        output.progress_bar("reading") as progress,
        import_sessions.staged(source, data, cwd=cwd, progress=progress) as stage,
    ):
        found = import_sessions.candidates(stage, home)
        if found and not stage.skipped and all(one.state == "foreign" for one in found):
            raise refusal(f"import {source}", stage.agents.values(), _instead(options))
        undo = _carried_out(options, stage, found, home, data) if options.apply else []
        if options.json:
            output.print_json(
                {
                    "applied": options.apply,
                    "undo": undo[0] if undo else None,
                    "kind": stage.kind,
                    "to": home,
                    "sessions": found,
                    "skipped": stage.skipped,
                    "losses": stage.losses,
                }
            )
        else:
            _tell_import(options, stage, found, home, undo)
    return 1 if stage.skipped or any(one.state == "differs" for one in found) else 0


def _home(options: Namespace, source: Path) -> Path:
    homes = [home.path for home in chosen_homes(options.homes) if home.exists and home.agent == CLAUDE]
    if len(homes) != 1:
        where = f"{len(homes)} homes could be meant" if homes else "there is no home to import into"
        raise UsageError(f"import: {where}", hint="name one with --home DIR, or use --archive")
    if homes[0].samefile(source):
        raise UsageError(f"import {source}: it is the home itself", hint="name another source")
    return homes[0]


def _carried_out(
    options: Namespace, stage: ImportStage, found: list[ImportCandidate], home: Path | None, data: Path
) -> list[str]:
    if home is not None:
        return undo_of(options, import_sessions.import_into_home(stage, home, found))
    archive = archive_at(data)
    known = {session for _, session in archive.names()}
    taken = import_sessions.import_into_archive(stage, archive) if stage.manifests else []
    new = [one.session for one in taken if one.session not in known]
    return [command(options, "protect", "rm", *new, "--apply")] if new else []


def _instead(options: Namespace) -> str:
    """What to do with sessions of other agents."""
    cwd = option("--cwd", options.cwd) if options.cwd else []
    keep = command(options, "import", str(options.source), "--archive", *cwd, "--apply")
    return (
        f"`{keep}` puts all into the archive, and from there `recollect export S --to claude` hands one over"
    )


def _tell_import(
    options: Namespace, stage: ImportStage, found: list[ImportCandidate], home: Path | None, undo: list[str]
) -> None:
    verb = "Imported" if options.apply else "Would import"
    for one in found:
        if one.state == "foreign":
            continue
        name = f"{visible(short_id(one.session))}  {shortened(visible(one.title), _TITLE_COLUMNS)}"
        if one.state == "new":
            output.say(f"{verb} {name}  ({size(one.bytes)})  {visible(one.cwd)}")
        else:
            output.say(f"Stays out: {name}: {visible(one.reason)}", "dim")
        for loss in stage.losses.get(one.session, ()):
            output.say(f"  Lost or changed: {visible(loss)}", "yellow")
    for left in stage.skipped:
        for line in wrapped(visible(f"Left out: {left.path}: {left.reason}"), "", "  "):
            output.note(line)
    if any(one.state == "foreign" for one in found):
        output.note(visible(kept_out(stage.agents.values(), _instead(options))))
    new = sum(one.state == "new" for one in found)
    where = f"into {visible(str(home))}" if home is not None else "into the archive"
    output.say(f"{counted(new, 'session')} of {len(found):,} from a {stage.kind}, {where}")
    if undo:
        output.say(f"Undo with: {undo[0]}")
    elif new and not options.apply:
        more = ["--archive"] if options.archive else []
        more += option("--cwd", options.cwd) if options.cwd else []
        say_end(options, command(options, "import", str(options.source), *more, "--apply"), "")


def add_convert_options(parser: ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument("--to", required=True, choices=convert.TARGETS, help="the agent that goes on with it")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="write below this directory")
    add_json(parser)


def run_convert(options: Namespace) -> int:
    session = named_session(options, options.session)
    tell_lost_beginning(session)
    directory = options.output or own_data(options) / "converted" / options.to
    plan = convert.planned(session, options.to, directory.absolute())
    convert.refuse_target(plan)
    convert.apply(plan)
    undo = f"rm {shell_word(str(plan.path))}"
    if options.json:
        return output.print_json(
            {
                "session": plan.session,
                "from_agent": plan.from_agent,
                "to_agent": plan.to_agent,
                "new": plan.new,
                "path": plan.path,
                "lines": len(plan.lines),
                "bytes": plan.bytes,
                "losses": plan.losses,
                "undo": undo,
            }
        )
    _tell_convert(plan)
    output.say(f"Undo with: {undo}")
    return 0


def _tell_convert(plan: ConvertPlan) -> None:
    output.say(
        f"Handed {visible(short_id(plan.session))} of {plan.from_agent} over to {plan.to_agent}:"
        f" {counted(len(plan.lines), 'line')}, {size(plan.bytes)}"
    )
    output.say(f"File: {visible(str(plan.path))}")
    for loss in plan.losses:
        output.say(f"  not carried: {visible(loss.what)} ({loss.count:,} x {loss.code})")
    is_claude = plan.to_agent == "claude"
    words = f"claude --resume {shell_word(str(plan.path))}" if is_claude else f"codex resume {plan.new}"
    where = "" if is_claude else ", with its home as CODEX_HOME or the file copied into yours"
    output.say(visible(f"Continue it with: {words}{where}"))


_STEPS_SHOWN = 20


def add_migrate_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="S", nargs="?", help="a session, or the directory or name of a project"
    )
    flag(parser, "--list", "list the steps")
    parser.add_argument("--to", metavar="STEP", help="a step, by number or name; or a version; or flat")
    flag(parser, "--all", "every session of the homes")
    parser.add_argument("--cwd", metavar="DIR", help="flat-to-claude: the directory of the session")
    add_apply(parser)


def run_migrate(options: Namespace) -> int:
    if bool(options.list) == bool(options.to):
        raise UsageError(
            "data migrate: give one of --list, --to STEP", hint="`recollect data migrate --help` has examples"
        )
    return _list(options) if options.list else _migrate(options)


def _list(options: Namespace) -> int:
    if options.json:
        rows = [
            {
                "number": step.number,
                "name": step.name,
                "from": step.source,
                "to": step.target,
                "about": step.about,
            }
            for step in STEPS
        ]
        return output.print_json({"steps": rows})
    for step in STEPS:
        output.say(f"{step.number}  {output.styled(step.name, 'cyan')}: {step.source} -> {step.target}")
        output.say(f"   {step.about}")
    return 0


# ---- plan and apply --------------------------------------------------------------------------------------


def _migrate(options: Namespace) -> int:
    if bool(options.target) == options.all:
        raise UsageError(
            "data migrate: name a session or a project, or --all",
            hint="`recollect data migrate --help` has examples",
        )
    cwd = str(Path(options.cwd).expanduser().absolute()) if options.cwd else None
    found = plan_to(options.to)
    steps = (step_named(options.to),) if found is None else found
    target = options.to if found is not None else steps[0].name
    sessions = migration.chosen(open_home(options.homes), options.target)
    outcome = migration.planned_steps(steps, sessions, cwd)
    migrated: list[SessionMigration] = []
    for session, one in outcome.planned:
        try:
            migrated.append(
                migration.carry_out(steps, session, own_data(options), cwd) if options.apply else one
            )
        except RecollectError as problem:
            migrated.append(one)
            outcome.refused.append(MigrationRefusal(session.id, problem.message, problem.hint))
    if options.json:
        ids = [change for one in migrated for change in reversed(one.changes)]
        output.print_json(
            {
                "target": target,
                "steps": [step.name for step in steps],
                "sessions": migrated,
                "refused": outcome.refused,
                "untouched": outcome.untouched,
                "applied": options.apply,
                "undo": undo_of(options, ids),
            }
        )
    else:
        _tell_steps(options, migrated, "" if found is None else f" to {target}")
        _tell_end(options, outcome, target)
    return 1 if options.apply and outcome.refused else 0


def _tell_end(options: Namespace, outcome: PlanOutcome, to: str) -> None:
    for refused in outcome.refused:
        output.say(f"Refused: {visible(refused.reason)}; {visible(refused.hint)}", "red")
    output.say(f"{counted(outcome.untouched, 'session')} with nothing to migrate")
    if outcome.planned and not options.apply:
        rest = ["--all"] if options.all else [options.target]
        where = option("--cwd", options.cwd) if options.cwd else []
        again = command(options, "data", "migrate", "--to", to, *where, "--apply", *rest)
        say_end(options, again, "")


def _tell_steps(options: Namespace, migrated: list[SessionMigration], to: str) -> None:
    for one in migrated:
        if options.apply and not one.changes:
            continue
        names = " -> ".join(step.step for step in one.steps)
        verb = "Migrated" if one.changes else "Would migrate"
        output.say(f"{verb} {output.styled(visible(one.session), 'cyan')}{to}: {names}")
        for step in one.steps:
            if step.log is None:
                output.say(f"  {step.step}: planned once the steps before it are done")
            else:
                _tell_plan(step)
        for change in reversed(one.changes):
            output.say(f"Undo with: {command(options, 'undo', change, '--apply')}")


def _tell_plan(one: StepReport) -> None:
    for step in one.steps[:_STEPS_SHOWN]:
        output.say(f"  {_step(step)}")
    if len(one.steps) > _STEPS_SHOWN:
        output.say(f"  ... and {len(one.steps) - _STEPS_SHOWN} more; --json lists all")
    for loss in one.losses:
        output.say(f"  Lost or changed: {loss.count} x {visible(loss.what)}", "yellow")
    for text in one.notes:
        output.say(f"  Note: {visible(text)}", "dim")


def _step(step: Step) -> str:
    target = "" if step.target is None else f" -> {step.target}"
    return visible(f"{step.kind} {step.path}{target}")
