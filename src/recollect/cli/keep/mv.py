"""Keep the history of a project directory that was renamed or moved.

Finds the sessions that worked in OLD or below it and moves their logs,
sub-agents, tool output and memory to where the client looks for NEW. Updates
the path in the logs, in the prompt history and in the global config. Does not
move the directory itself.

--split FOLDER: the client stores directories whose names differ only in special
characters (my-shop, my.shop) in one project folder and mixes up their sessions.
--split gives each directory its own folder. The directory used last, or
--keep DIR, keeps the shared folder; `recollect resume` finds the sessions of
the others. FOLDER is a folder below projects/, its name, or such a directory.

Prints the plan; --apply carries it out. One undo takes back the whole change.

Example:
  recollect mv ~/src/shop ~/work/shop
  recollect mv ~/src/shop ~/work/shop --apply
  recollect mv --split ~/src/my-shop --keep ~/src/my-shop
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.homes import chosen_homes, directories, no_claude_home
from recollect.cli.terminal.text import counted, visible
from recollect.errors import NotFound, UsageError
from recollect.model.ids import short_id
from recollect.services.documents.changes.moves import MovedProjectDocument
from recollect.services.home_guard import without_mirrors
from recollect.services.move.move import MovePlan, carry_out, planned_move
from recollect.services.move.split import planned_split
from recollect.storage.changes.journal import AppliedChange
from recollect.storage.home import ClaudeHome


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("old", metavar="OLD", nargs="?", help="the old path of the directory")
    parser.add_argument("new", metavar="NEW", nargs="?", help="its new path")
    parser.add_argument(
        "--split", metavar="FOLDER", help="separate the directories that share a project folder"
    )
    parser.add_argument("--keep", metavar="DIR", help="with --split: the directory that keeps the folder")
    change_plans.add_apply(parser)


def run(options: Namespace) -> int:
    _require(options)
    found: list[MovePlan] = []
    missing: NotFound | None = None
    for home in without_mirrors(directories(options.homes)):
        try:
            found.append(_planned(options, home))
        except NotFound as problem:
            missing = problem
    if not found:
        raise missing or no_claude_home("mv", chosen_homes(options.homes))
    data = change_plans.own_data(options)
    done = [carry_out(one, data) for one in found if one.plan.steps] if options.apply else []
    if options.json:
        output.print_json(_document(options, found, done))
    else:
        _tell(options, found, done)
    return 0


def _require(options: Namespace) -> None:
    if options.split is None and options.keep is not None:
        raise UsageError("mv: --keep without --split", hint="add --split FOLDER")
    if options.split is not None and options.old is not None:
        raise UsageError("mv: --split and a directory to move", hint="split first, then move")
    if options.split is None and options.new is None:
        raise UsageError("mv: give the old and the new path", hint="recollect mv OLD NEW")


def _planned(options: Namespace, home: ClaudeHome) -> MovePlan:
    if options.split is not None:
        return planned_split(home, options.split, options.keep)
    old, new = (str(Path(path).expanduser().absolute()) for path in (options.old, options.new))
    return planned_move(home, old, new)


def _document(options: Namespace, found: list[MovePlan], done: list[AppliedChange]) -> MovedProjectDocument:
    return MovedProjectDocument(
        sessions=[one for relocation in found for one in relocation.sessions],
        conflicts=[one for relocation in found for one in relocation.conflicts],
        config_keys=[key for relocation in found for key in relocation.config_keys],
        prompts=sum(relocation.prompts for relocation in found),
        steps=[step for relocation in found for step in relocation.plan.steps],
        applied=options.apply,
        undo=_undo(options, done),
    )


def _undo(options: Namespace, done: list[AppliedChange]) -> list[str]:
    """One command, also if several homes were changed."""
    return change_plans.undo_of(options, [one.id for one in done])


def _tell(options: Namespace, found: list[MovePlan], done: list[AppliedChange]) -> None:
    verb = "Moved" if options.apply else "Would move"
    for one in found:
        output.say(visible(f"{one.home.root}:"))
        for moved in one.sessions:
            output.say(
                visible(
                    f"  {verb} {short_id(moved.session)}  {moved.source.parent.name} -> {moved.target.parent.name}  ({moved.cwd})"
                )
            )
        for conflict in one.conflicts:
            output.say(
                output.styled(visible(f"  Stays: {short_id(conflict.session)}: {conflict.reason}"), "yellow")
            )
        parts = [counted(len(one.sessions), "session"), counted(len(one.plan.steps), "file") + " changed"]
        parts += [counted(one.prompts, "prompt") + " in the history"] if one.prompts else []
        parts += [f"{len(one.config_keys):,} project entries in the config"] if one.config_keys else []
        output.say(f"  {', '.join(parts)}")
    if done:
        output.say(f"Undo with: {_undo(options, done)[0]}")
        return
    change_plans.say_end(options, _with_apply(options), "")


def _with_apply(options: Namespace) -> str:
    if options.split is None:
        return change_plans.applied(options, "mv", options.old, options.new)
    keep = change_plans.option("--keep", options.keep) if options.keep is not None else []
    return change_plans.command(
        options, "mv", *change_plans.option("--split", options.split), *keep, "--apply"
    )
