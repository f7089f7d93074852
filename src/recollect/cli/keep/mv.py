"""Let a project that was renamed or moved keep its history; split a folder that two projects share.

Sessions that worked in OLD or below it are found by their own entries, and go to where the
client looks for NEW: logs, sub-agents, tool output, memory; their cwd, the prompt history and the
project's entry in the global config say the new path. The directory itself is yours to move.

--split FOLDER: directories whose names differ only in characters that are no letters or digits
share one project folder, where clients take the sessions of one for those of the other. The directory worked in last (or
--keep DIR) keeps the folder; sessions of others go to folders of their own, where `recollect resume` and
`claude --resume FILE` find them. FOLDER is a folder below projects/, its name, or a directory that shares it.

One change, one undo. Prints the plan; --apply does it.

Example:
  recollect mv ~/src/shop ~/work/shop
  recollect mv ~/src/shop ~/work/shop --apply
  recollect mv --split ~/src/my-shop --keep ~/src/my-shop
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from recollect.cli.terminal import output, plans
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import counted, visible
from recollect.errors import NotFound, UsageError
from recollect.services.move.move import MovePlan, carry_out, planned_move
from recollect.services.move.split import planned_split
from recollect.storage.changes.journal import AppliedChange
from recollect.storage.home import ClaudeHome


def add_options(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("old", metavar="OLD", nargs="?", help="the directory as it was")
    parser.add_argument("new", metavar="NEW", nargs="?", help="the directory as it is now")
    parser.add_argument(
        "--split", metavar="FOLDER", help="part the sessions of one project folder by directory"
    )
    parser.add_argument("--keep", metavar="DIR", help="with --split: the directory that keeps the folder")
    plans.add_apply(parser)


def run(options: Namespace) -> int:
    """Plan or do it, in every home that knows the directory."""
    _require(options)
    found: list[MovePlan] = []
    missing: NotFound | None = None
    for home in open_home(options.homes, options.data).homes:
        try:
            found.append(_planned(options, home))
        except NotFound as problem:
            missing = problem
    if not found:
        raise missing or NotFound("mv: there is no home", hint="name one with --home DIR")
    data = plans.own_data(options)
    done = [carry_out(one, data) for one in found if one.plan.steps] if options.apply else []
    if options.json:
        output.print_json(_document(options, found, done))
    else:
        _tell(options, found, done)
    return 0


def _require(options: Namespace) -> None:
    if options.split is None and options.keep is not None:
        raise UsageError("mv: --keep without --split", hint="say which folder to split")
    if options.split is not None and options.old is not None:
        raise UsageError("mv: --split and a directory to move", hint="split first, then move")
    if options.split is None and options.new is None:
        raise UsageError("mv: name the directory as it was and as it is now", hint="recollect mv OLD NEW")


def _planned(options: Namespace, home: ClaudeHome) -> MovePlan:
    if options.split is not None:
        return planned_split(home, options.split, options.keep)
    old, new = (str(Path(path).expanduser().absolute()) for path in (options.old, options.new))
    return planned_move(home, old, new)


def _document(options: Namespace, found: list[MovePlan], done: list[AppliedChange]) -> dict[str, object]:
    return {
        "sessions": [one for relocation in found for one in relocation.sessions],
        "conflicts": [one for relocation in found for one in relocation.conflicts],
        "config_keys": [key for relocation in found for key in relocation.config_keys],
        "prompts": sum(relocation.prompts for relocation in found),
        "steps": [step for relocation in found for step in relocation.plan.steps],
        "applied": options.apply,
        "undo": [plans.command(options, "undo", one.id, "--apply") for one in done],
    }


def _tell(options: Namespace, found: list[MovePlan], done: list[AppliedChange]) -> None:
    verb = "Moved" if options.apply else "Would move"
    for one in found:
        output.say(visible(f"{one.home.root}:"))
        for moved in one.sessions:
            output.say(
                visible(
                    f"  {verb} {moved.session[:8]}  {moved.source.parent.name} -> {moved.target.parent.name}  ({moved.cwd})"
                )
            )
        for conflict in one.conflicts:
            output.say(
                output.styled(visible(f"  Stays: {conflict.session[:8]}: {conflict.reason}"), "yellow")
            )
        parts = [counted(len(one.sessions), "session"), counted(len(one.plan.steps), "file") + " changed"]
        parts += [counted(one.prompts, "prompt") + " in the history"] if one.prompts else []
        parts += [f"{len(one.config_keys):,} project entries in the config"] if one.config_keys else []
        output.say(f"  {', '.join(parts)}")
    if done:
        for applied in done:
            output.say(f"Undo with: {plans.command(options, 'undo', applied.id, '--apply')}")
        return
    plans.say_end(options, _with_apply(options), "")


def _with_apply(options: Namespace) -> str:
    if options.split is None:
        return plans.applied(options, "mv", options.old, options.new)
    keep = plans.option("--keep", options.keep) if options.keep is not None else []
    return plans.command(options, "mv", *plans.option("--split", options.split), *keep, "--apply")
