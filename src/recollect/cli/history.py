"""``show --prompts``, ``show --plan`` and ``show --todos``: what lies beside the logs."""

from __future__ import annotations

import datetime as dt
from argparse import ArgumentParser, Namespace
from pathlib import Path

from msgspec import structs, to_builtins

from recollect.ask.history import (
    CommandHistory,
    PlanDocument,
    TypedProject,
    by_project,
    command_history,
    plan_documents,
)
from recollect.ask.todos import SessionTodo, SessionTodoList, TodosDocument, lists_of, move_item, to_do_lists
from recollect.cli.terminal import output
from recollect.cli.terminal.options import (
    add_apply,
    add_json,
    add_session,
    command,
    flag,
    option,
    own_data,
    say_end,
)
from recollect.cli.terminal.rows import print_data
from recollect.cli.terminal.sessions import open_home
from recollect.cli.terminal.text import ago, counted, shortened, size, visible, visible_lines, when
from recollect.errors import Ambiguous, NotFound, UsageError
from recollect.model.lines.ids import short_id

_SHOWN = 50


def add_history_options(parser: ArgumentParser) -> None:
    add_session(parser, "?")
    parser.add_argument("-p", "--project", metavar="DIR", help="only what was typed in this directory")
    parser.add_argument(
        "-n", "--limit", metavar="N", type=int, default=_SHOWN, help=f"at most N commands (default {_SHOWN})"
    )
    parser.add_argument("--find", metavar="WORDS", help="only what holds all of these words")
    parser.add_argument("--by", choices=["project"], help="count by directory, the most recent first")
    add_json(parser, csv=True)


def run_history(options: Namespace) -> int:
    home = open_home(options.homes)
    session = None if options.session is None else home.session(options.session)
    project = None if options.project is None else str(Path(options.project).expanduser().resolve())
    found = command_history(
        home, session, project=project, limit=None if options.by else options.limit, words=options.find
    )
    if options.by:
        return _tell_projects(options, by_project(found.commands))
    if print_data(options, found, found.commands):
        return 0
    _tell_history(found, with_text=session is not None)
    for problem in (problem for one in home.homes for problem in one.problems):
        output.note(f"could not be read: {visible(str(problem.path))}: {visible(str(problem.reason))}")
    return 0


def _tell_projects(options: Namespace, projects: list[TypedProject]) -> int:
    if print_data(options, {"projects": projects}, projects):
        return 0
    for one in projects[: options.limit]:
        output.say(f"{when(one.last_at):<16}  {one.commands:>7,}  {visible(one.project)}")
    output.say(counted(len(projects), "project"), "dim")
    return 0


def _tell_history(found: CommandHistory, *, with_text: bool) -> None:
    for one in found.commands:
        place = f"{short_id(one.session or ''):<8}  {one.project or ''}"
        output.say(f"{when(one.at):<16}  {shortened(visible(one.text), 80)}")
        output.say(visible(f"    {place}"), "dim")
    for plan in found.plans:
        output.say(f"plan {output.styled(visible(plan.name), 'cyan')}  {visible(str(plan.path))}")
        if with_text:
            output.say(visible_lines(plan.text))
    for file in found.environment:
        output.say(f"environment  {visible(str(file.path))}  {size(file.bytes)}")
    counts = {
        "command": len(found.commands),
        "plan": len(found.plans),
        "environment file": len(found.environment),
    }
    output.say(", ".join(counted(count, noun) for noun, count in counts.items()), "dim")


_HEADING_COLUMNS = 60


def add_plans_options(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="name of a plan, or the start of it")
    parser.add_argument("--find", metavar="WORDS", help="only plans that hold all of these words")
    add_json(parser, csv=True)


def run_plans(options: Namespace) -> int:
    found = plan_documents(open_home(options.homes), options.find)
    if options.name is not None:
        found = [_named(found, options.name)]
    if print_data(options, {"plans": found, "total": len(found)}, found):
        return 0
    if options.name is not None:
        output.say(visible_lines(found[0].text))
        return 0
    now = dt.datetime.now(dt.UTC)
    for one in found:
        seen = one.path.stat()
        age = ago(dt.datetime.fromtimestamp(seen.st_mtime, dt.UTC), now)
        output.say(f"{output.styled(visible(one.name), 'cyan')}  {age}, {size(seen.st_size)}")
        output.say(f"    {shortened(visible(_heading(one)), _HEADING_COLUMNS)}")
    output.say(counted(len(found), "plan"), "dim")
    return 0


def _named(plans: list[PlanDocument], name: str) -> PlanDocument:
    exact = [one for one in plans if one.name == name] or [one for one in plans if one.name.startswith(name)]
    if len(exact) > 1:
        raise Ambiguous("plan", name, tuple(one.name for one in exact))
    if not exact:
        raise NotFound(f"plan {name!r}: there is none", hint="`recollect show --plan` lists them")
    return exact[0]


def _heading(plan: PlanDocument) -> str:
    """The first line that says something."""
    return next(
        (line.lstrip("# ").strip() for line in plan.text.splitlines() if line.strip("# \t")), "(empty)"
    )


_MARKS = {
    "pending": ("[ ]", "bold"),
    "in_progress": ("[>]", "yellow"),
    "completed": ("[x]", "green"),
    "cancelled": ("[-]", "dim"),
}


def add_todos_options(parser: ArgumentParser) -> None:
    add_session(parser, "?")
    flag(parser, "--orphans", "only lists whose session no longer exists")
    flag(parser, "--all", "include empty lists")
    parser.add_argument(
        "--set", nargs=2, metavar=("N", "STATUS"), help="take item N of the session's list a step further"
    )
    parser.add_argument("--sub-agent", metavar="A", help="with --set: the list of this sub-agent")
    parser.add_argument("--kind", choices=("todos", "tasks"), help="with --set: which of two lists")
    add_apply(parser, csv=True)


def run_todos(options: Namespace) -> int:
    if options.set is not None:
        if options.session is None:
            hint = "for example: recollect show 6ada00ba --todos --set 2 completed"
            raise UsageError("show --todos --set: no session was named", hint=hint)
        return _move(options, *options.set)
    home = open_home(options.homes)
    lists = lists_of(home, options.session) if options.session else to_do_lists(home)
    chosen = [one for one in lists if one.orphan or not options.orphans]
    shown = [one for one in chosen if one.items or options.all]
    problems = [problem for root in home.homes for problem in root.problems]
    for problem in problems:
        output.note(f"could not be read: {visible(str(problem.path))}: {visible(str(problem.reason))}")
    empty = sum(not one.items for one in chosen)
    rows = [row for one in shown for row in _item_rows(one)]
    if print_data(options, TodosDocument(shown, len(shown), empty), rows):
        return 0
    for one in shown:
        _tell_todos(one)
    summary = f"{counted(len(shown), 'list')} with items" if not options.all else f"{len(shown)} lists"
    output.say(f"{summary}; {empty} empty", "dim")
    return 0


def _move(options: Namespace, number: str, status: str) -> int:
    home = open_home(options.homes)
    data = own_data(options) if options.apply else None
    step = move_item(
        home, options.session, number, status, kind=options.kind, agent=options.sub_agent, data=data
    )
    undo = command(options, "undo", step.undo, "--apply") if step.undo else None
    if options.json:
        return output.print_json(structs.replace(step, undo=undo))
    verb = "Moved" if step.undo else "Would move"
    output.say(f"{verb} {visible(step.number)}. {visible(step.text)}: {visible(step.before)} -> {step.after}")
    words = [step.session, "--todos", "--set", step.number, step.after, "--kind", step.kind]
    words += option("--sub-agent", options.sub_agent) if options.sub_agent else []
    say_end(options, command(options, "show", *words, "--apply"), undo or "")
    return 0


def _item_rows(one: SessionTodoList) -> list[dict[str, object]]:
    """A row for each item, with the list it is in."""
    about = to_builtins(one, enc_hook=str)
    items = about.pop("items")
    return [about | {"item": item} for item in items]


def _tell_todos(one: SessionTodoList) -> None:
    agent = f", agent {visible(one.agent)}" if one.agent else ""
    orphan = output.styled("  session no longer exists", "yellow") if one.orphan else ""
    identity = output.styled(visible(short_id(one.session)) or "(no session)", "cyan")
    output.say(f"{identity}  {one.kind}{agent}{orphan}")
    for item in one.items:
        output.say(f"  {_line(item)}")
    output.say()


def _line(item: SessionTodo) -> str:
    mark, style = _MARKS.get(item.status, (f"[{visible(item.status)}]", "red"))
    number = f"{visible(item.id)}. " if item.id else ""
    waits = f"  (waits for {visible(', '.join(item.blocked_by))})" if item.blocked_by else ""
    return f"{output.styled(mark, style)} {number}{visible(item.text)}{waits}"
