"""Show todo lists and tasks with their states, of all sessions or of one.

Clients leave an empty list for nearly every session; --all shows those too.
--orphans shows only lists whose session no longer exists. Changes nothing.

Example:
  recollect todos
  recollect todos 6ada00ba --json
  recollect todos --orphans --all
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from recollect.cli.terminal import output
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import counted, visible
from recollect.services.documents.parts import TodosDocument
from recollect.services.todos import SessionTodo, SessionTodoList, lists_of, to_do_lists

_MARKS = {
    "pending": ("[ ]", "bold"),
    "in_progress": ("[>]", "yellow"),
    "completed": ("[x]", "green"),
    "cancelled": ("[-]", "dim"),
}


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "session", metavar="S", nargs="?", help="session: id, start of an id, title, path, or @last"
    )
    parser.add_argument("--orphans", action="store_true", help="only lists whose session no longer exists")
    parser.add_argument("--all", action="store_true", help="include empty lists")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace) -> int:
    home = open_home(options.homes, options.data)
    lists = lists_of(home, options.session) if options.session else to_do_lists(home)
    chosen = [one for one in lists if one.orphan or not options.orphans]
    shown = [one for one in chosen if one.items or options.all]
    problems = [problem for root in home.homes for problem in root.problems]
    for problem in problems:
        output.note(f"could not be read: {visible(str(problem.path))}: {visible(str(problem.reason))}")
    if options.json:
        output.print_json(TodosDocument(shown, len(shown), _hidden(chosen)))
        return 0
    for one in shown:
        _tell(one)
    summary = f"{counted(len(shown), 'list')} with items" if not options.all else f"{len(shown)} lists"
    output.say(output.styled(f"{summary}; {_hidden(chosen)} empty", "dim"))
    return 0


def _hidden(lists: list[SessionTodoList]) -> int:
    return sum(not one.items for one in lists)


def _tell(one: SessionTodoList) -> None:
    agent = f", agent {visible(one.agent)}" if one.agent else ""
    orphan = output.styled("  session no longer exists", "yellow") if one.orphan else ""
    identity = output.styled(visible(one.session[:8]) or "(no session)", "cyan")
    output.say(f"{identity}  {one.kind}{agent}{orphan}")
    for item in one.items:
        output.say(f"  {_line(item)}")
    output.say()


def _line(item: SessionTodo) -> str:
    mark, style = _MARKS.get(item.status, (f"[{visible(item.status)}]", "red"))
    number = f"{visible(item.id)}. " if item.id else ""
    waits = f"  (waits for {visible(', '.join(item.blocked_by))})" if item.blocked_by else ""
    return f"{output.styled(mark, style)} {number}{visible(item.text)}{waits}"
