"""The commands ``rename``, ``tag``, ``fork`` and ``mv``: sessions get other names and other places."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path

from recollect.ask.sessions.home_guard import without_mirrors
from recollect.change import fork, label
from recollect.change.fork import ForkPlan, fork_document
from recollect.change.move import MovePlan, carry_out, planned_move, planned_split
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import chosen_homes, directories, no_claude_home
from recollect.cli.terminal.options import (
    add_apply,
    add_json,
    add_session,
    command,
    option,
    own_data,
    positional,
    say_end,
    undo_of,
    with_apply,
)
from recollect.cli.terminal.sessions import open_home
from recollect.cli.terminal.text import counted, size, visible
from recollect.errors import NotFound, UsageError
from recollect.model.lines.ids import command_name, short_id
from recollect.store.home import ClaudeHome


def add_rename_options(parser: ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument("title", metavar="TITLE", help='the new title; "" removes it')
    add_json(parser)


def run_rename(options: Namespace) -> int:
    session = open_home(options.homes).own_session(options.session)
    return _labelled(options, "rename", label.titled(session, options.title))


def _labelled(options: Namespace, name: str, plan: label.LabelPlan) -> int:
    """Give a title or a tag at once: the line before it in the log has the old one."""
    label.apply(plan, own_data(options))
    undo = command(options, name, *positional(command_name(plan.session, plan.path), plan.before))
    if options.json:
        return output.print_json(label.label_document(plan, applied=True, undo=undo))
    change = f"{_shown(plan.before)} -> {output.styled(_shown(plan.after), 'bold')}"
    output.say(
        f"{plan.what.capitalize()} of {output.styled(visible(short_id(plan.session)), 'cyan')}: {change}"
    )
    output.say(f"Undo with: {undo}")
    return 0


def _shown(label_text: str) -> str:
    return visible(label_text) or "(none)"


def add_tag_options(parser: ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument("tag", metavar="TAG", help='the new tag; "" removes it')
    add_json(parser)


def run_tag(options: Namespace) -> int:
    session = open_home(options.homes).own_session(options.session)
    return _labelled(options, "tag", label.tagged(session, options.tag))


def add_fork_options(parser: ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument(
        "--at", metavar="UUID", help="last entry to copy; the leaf of a branch copies that branch"
    )
    parser.add_argument("--title", help='title of the new session (default: the old title with "(fork)")')
    add_json(parser)


def run_fork(options: Namespace) -> int:
    session = open_home(options.homes).own_session(options.session)
    plan = fork.planned_fork(session, options.at, options.title)
    fork.apply(plan)
    undo = command(options, "rm", plan.new, "--apply")
    if options.json:
        return output.print_json(fork_document(plan, applied=True, undo=undo))
    _tell_fork(plan)
    output.say(f"Continue it with: {command(options, 'resume', plan.new)}")
    output.say(f"Undo with: {undo}")
    return 0


def _tell_fork(plan: ForkPlan) -> None:
    what = f"{counted(plan.entries, 'entry').replace('entrys', 'entries')}, {size(plan.bytes)}"
    if plan.backups:
        what += f", {counted(len(plan.backups), 'file backup')}"
    output.say(
        f"Forked {output.styled(visible(short_id(plan.session)), 'cyan')} at {visible(plan.leaf[:8])}: {what}"
    )
    output.say(f"Title: {visible(plan.title)}")
    output.say(f"New session: {output.styled(plan.new, 'bold')}")


def add_mv_options(parser: ArgumentParser) -> None:
    parser.add_argument("old", metavar="OLD", nargs="?", help="the old path of the directory")
    parser.add_argument("new", metavar="NEW", nargs="?", help="its new path")
    parser.add_argument(
        "--split", metavar="FOLDER", help="separate the directories that share a project folder"
    )
    parser.add_argument("--keep", metavar="DIR", help="with --split: the directory that keeps the folder")
    add_apply(parser)


def run_mv(options: Namespace) -> int:
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
    data = own_data(options)
    done = [carry_out(one, data) for one in found if one.plan.steps] if options.apply else []
    undo = undo_of(options, [one.id for one in done])  # one command, also if several homes were changed
    if options.json:
        output.print_json(
            {
                "sessions": [one for relocation in found for one in relocation.sessions],
                "conflicts": [one for relocation in found for one in relocation.conflicts],
                "config_keys": [key for relocation in found for key in relocation.config_keys],
                "prompts": sum(relocation.prompts for relocation in found),
                "steps": [step for relocation in found for step in relocation.plan.steps],
                "applied": options.apply,
                "undo": undo,
            }
        )
    else:
        _tell_mv(options, found, undo)
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


def _tell_mv(options: Namespace, found: list[MovePlan], undo: list[str]) -> None:
    verb = "Moved" if options.apply else "Would move"
    for one in found:
        output.say(visible(f"{one.home.root}:"))
        ways = Counter(
            (moved.source.parent.name, moved.target.parent.name, moved.cwd) for moved in one.sessions
        )
        for (old, new, cwd), count in ways.items():
            output.say(visible(f"  {verb} {counted(count, 'session')}  {old} -> {new}  ({cwd})"))
        for conflict in one.conflicts:
            output.say(visible(f"  Stays: {short_id(conflict.session)}: {conflict.reason}"), "yellow")
        parts = [counted(len(one.sessions), "session"), counted(len(one.plan.steps), "file") + " changed"]
        parts += [counted(one.prompts, "prompt") + " in the history"] if one.prompts else []
        parts += [f"{len(one.config_keys):,} project entries in the config"] if one.config_keys else []
        output.say(f"  {', '.join(parts)}")
    if undo:
        output.say(f"Undo with: {undo[0]}")
    elif options.split is None:
        say_end(options, with_apply(options, "mv", options.old, options.new), "")
    else:
        keep = option("--keep", options.keep) if options.keep is not None else []
        say_end(options, command(options, "mv", *option("--split", options.split), *keep, "--apply"), "")
