"""Let a project that was renamed or moved keep its history.

Sessions that worked in OLD or below it are found by their own entries, and go to where the
client looks for NEW: logs, sub-agents, tool output, memory; their cwd, the prompt history and the
project's entry in the global config say the new path. The directory itself is yours to move.
One change, one undo. Prints the plan; --apply does it.

Example:
  recollect mv ~/src/shop ~/work/shop
  recollect mv ~/src/shop ~/work/shop --apply
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from recollect.cli import output, plans
from recollect.cli.homes import open_home
from recollect.cli.text import counted, visible
from recollect.errors import NotFound
from recollect.services.relocation import Relocation, carry_out, planned_move
from recollect.storage.changes import Applied


def add_options(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("old", metavar="OLD", help="the directory as it was")
    parser.add_argument("new", metavar="NEW", help="the directory as it is now")
    plans.add_apply(parser)


def run(options: Namespace) -> int:
    """Plan or do it, in every home that knows the directory."""
    old, new = (str(Path(path).expanduser().absolute()) for path in (options.old, options.new))
    found: list[Relocation] = []
    missing: NotFound | None = None
    for home in open_home(options.homes, options.data).homes:
        try:
            found.append(planned_move(home, old, new))
        except NotFound as problem:
            missing = problem
    if not found:
        raise missing or NotFound(
            f"mv: no session worked in {old}", hint="`recollect list` shows where sessions worked"
        )
    data = plans.own_data(options)
    done = [carry_out(one, data) for one in found] if options.apply else []
    if options.json:
        output.print_json(_document(options, found, done))
    else:
        _tell(options, found, done)
    return 0


def _document(options: Namespace, found: list[Relocation], done: list[Applied]) -> dict[str, object]:
    return {
        "sessions": [one for relocation in found for one in relocation.sessions],
        "conflicts": [one for relocation in found for one in relocation.conflicts],
        "config_keys": [key for relocation in found for key in relocation.config_keys],
        "prompts": sum(relocation.prompts for relocation in found),
        "steps": [step for relocation in found for step in relocation.plan.steps],
        "applied": options.apply,
        "undo": [plans.command(options, "undo", one.id, "--apply") for one in done],
    }


def _tell(options: Namespace, found: list[Relocation], done: list[Applied]) -> None:
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
    plans.say_end(options, plans.applied(options, "mv", options.old, options.new), "")
