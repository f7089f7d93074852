"""Show todo lists and tasks with their states, of all sessions or of one.

Clients leave an empty list for nearly every session; --all shows those too.
--orphans shows only lists whose session no longer exists.

`set S N STATUS` takes one item of a session's list a step further: pending to
in_progress, in_progress to completed, and either to cancelled. Every other step
is refused. N is the number shown, or else the place in the list. --agent and
--kind choose the list where a session has several. Prints the step; --apply
carries it out and prints how to undo it.

Example:
  recollect todos
  recollect todos 6ada00ba --json
  recollect todos --orphans --all
  recollect todos set 6ada00ba 2 in_progress --apply
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace

from msgspec import to_builtins

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.csv_tables import add_csv, print_csv, wants_csv
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import counted, visible
from recollect.errors import UsageError
from recollect.model.ids import short_id
from recollect.services.documents.changes.files import TodoMoveDocument
from recollect.services.documents.parts import TodosDocument
from recollect.services.todos import SessionTodo, SessionTodoList, TodoMove, lists_of, move_item, to_do_lists

_MARKS = {
    "pending": ("[ ]", "bold"),
    "in_progress": ("[>]", "yellow"),
    "completed": ("[x]", "green"),
    "cancelled": ("[-]", "dim"),
}


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "words",
        metavar="S",
        nargs="*",
        help="session: id, start of an id, title, path, or @last; or: set S N STATUS",
    )
    parser.add_argument("--orphans", action="store_true", help="only lists whose session no longer exists")
    parser.add_argument("--all", action="store_true", help="include empty lists")
    parser.add_argument("--move", nargs=2, help=SUPPRESS)  # as it was spelled before `set`
    parser.add_argument("--agent", metavar="A", help="with set: the list of this sub-agent")
    parser.add_argument("--kind", choices=("todos", "tasks"), help="with set: which of two lists")
    change_plans.add_apply(parser)
    add_csv(parser)


def run(options: Namespace) -> int:
    options.session = options.words[0] if options.words else None
    if options.words[:1] == ["set"] and len(options.words) == 4:
        _, options.session, *options.move = options.words
    elif len(options.words) > 1 or options.words == ["set"]:
        raise UsageError(
            "todos: name one session, or set S N STATUS", hint="recollect todos set 6ada00ba 2 completed"
        )
    if options.move:
        return _move(options)
    home = open_home(options.homes)
    lists = lists_of(home, options.session) if options.session else to_do_lists(home)
    chosen = [one for one in lists if one.orphan or not options.orphans]
    shown = [one for one in chosen if one.items or options.all]
    problems = [problem for root in home.homes for problem in root.problems]
    for problem in problems:
        output.note(f"could not be read: {visible(str(problem.path))}: {visible(str(problem.reason))}")
    if wants_csv(options):
        print_csv([row for one in shown for row in _item_rows(one)])
        return 0
    if options.json:
        output.print_json(TodosDocument(shown, len(shown), _hidden(chosen)))
        return 0
    for one in shown:
        _tell(one)
    summary = f"{counted(len(shown), 'list')} with items" if not options.all else f"{len(shown)} lists"
    output.say(output.styled(f"{summary}; {_hidden(chosen)} empty", "dim"))
    return 0


def _move(options: Namespace) -> int:
    if not options.session:
        raise UsageError("todos: name a session", hint="`recollect todos` shows all lists")
    number, status = options.move
    home = open_home(options.homes)
    data = change_plans.own_data(options) if options.apply else None
    step = move_item(home, options.session, number, status, kind=options.kind, agent=options.agent, data=data)
    undo = change_plans.command(options, "undo", step.undo, "--apply") if step.undo else None
    if options.json:
        output.print_json(
            TodoMoveDocument(
                applied=step.undo is not None,
                undo=undo,
                session=step.session,
                kind=step.kind,
                agent=step.agent,
                number=step.number,
                text=step.text,
                before=step.before,
                after=step.after,
                path=str(step.path),
            )
        )
        return 0
    verb = "Moved" if step.undo else "Would move"
    output.say(f"{verb} {visible(step.number)}. {visible(step.text)}: {visible(step.before)} -> {step.after}")
    change_plans.say_end(options, _again(options, step), undo or "")
    return 0


def _again(options: Namespace, step: TodoMove) -> str:
    agent = change_plans.option("--agent", options.agent) if options.agent else []
    words = ["set", step.session, step.number, step.after, "--kind", step.kind]
    return change_plans.command(options, "todos", *words, *agent, "--apply")


def _item_rows(one: SessionTodoList) -> list[dict[str, object]]:
    """A row for each item, with the list it is in."""
    about = to_builtins(one, enc_hook=str)
    items = about.pop("items")
    return [about | {"item": item} for item in items]


def _hidden(lists: list[SessionTodoList]) -> int:
    return sum(not one.items for one in lists)


def _tell(one: SessionTodoList) -> None:
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
