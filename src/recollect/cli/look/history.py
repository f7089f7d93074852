"""Show what was typed into the client, its plans, and the shells of sessions.

Reads history.jsonl (prompts, slash commands and ! lines of all projects), the
documents in plans/, and session-env/. With a session: only what belongs to it,
with the text of its plans. Environment files are listed by name and size only.
--find shows only what holds all the words; --by project counts by directory.
`recollect archive add` keeps all of it with the session. Changes nothing.

Example:
  recollect history
  recollect history @last
  recollect history --find "round cents"
  recollect history --by project
  recollect history -p ~/src/shop --limit 10 --json
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from recollect.cli.terminal import output
from recollect.cli.terminal.csv_tables import add_csv, print_csv, wants_csv
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import counted, shortened, size, visible, visible_lines
from recollect.model.ids import short_id
from recollect.services.documents.history import TypedProjectsDocument
from recollect.services.history import CommandHistory, TypedProject, by_project, command_history

_SHOWN = 50


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "session", metavar="S", nargs="?", help="session: id, start of an id, title, path, or @last"
    )
    parser.add_argument("-p", "--project", metavar="DIR", help="only what was typed in this directory")
    parser.add_argument(
        "--limit", metavar="N", type=int, default=_SHOWN, help=f"at most N commands (default {_SHOWN})"
    )
    parser.add_argument("--find", metavar="WORDS", help="only what holds all of these words")
    parser.add_argument("--by", choices=["project"], help="count by directory, the most recent first")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_csv(parser)


def run(options: Namespace) -> int:
    home = open_home(options.homes)
    session = None if options.session is None else home.session(options.session)
    project = None if options.project is None else str(Path(options.project).expanduser().resolve())
    found = command_history(
        home, session, project=project, limit=None if options.by else options.limit, words=options.find
    )
    if options.by:
        return _tell_projects(options, by_project(found.commands))
    if wants_csv(options):
        print_csv(found.commands)
        return 0
    if options.json:
        output.print_json(found)
        return 0
    _tell(found, with_text=session is not None)
    for problem in (problem for one in home.homes for problem in one.problems):
        output.note(f"could not be read: {visible(str(problem.path))}: {visible(str(problem.reason))}")
    return 0


def _tell_projects(options: Namespace, projects: list[TypedProject]) -> int:
    if wants_csv(options):
        print_csv(projects)
        return 0
    if options.json:
        output.print_json(TypedProjectsDocument(projects))
        return 0
    for one in projects[: options.limit]:
        when = one.last_at.astimezone().strftime("%Y-%m-%d %H:%M") if one.last_at else ""
        output.say(f"{when:<16}  {one.commands:>7,}  {visible(one.project)}")
    output.say(output.styled(counted(len(projects), "project"), "dim"))
    return 0


def _tell(found: CommandHistory, *, with_text: bool) -> None:
    for one in found.commands:
        when = one.at.astimezone().strftime("%Y-%m-%d %H:%M") if one.at else ""
        place = f"{short_id(one.session or ''):<8}  {one.project or ''}"
        output.say(f"{when:<16}  {shortened(visible(one.text), 80)}")
        output.say(output.styled(visible(f"    {place}"), "dim"))
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
    output.say(output.styled(", ".join(counted(count, noun) for noun, count in counts.items()), "dim"))
