"""Import sessions from another home, a directory of logs, a bundle or one log.

SOURCE is another Claude home (it holds projects/), a directory with logs, a
file of `recollect archive export`, or one log of any dialect; logs of other
dialects become sessions that the client resumes; the plan lists what is lost.
They go into the home (--home DIR if there are several), or with --archive into
the archive. Only files of a session are taken: log, sub-agents, tool results,
file backups, tasks, todos; never plans, shell environments or settings. A
session that is there already stays as it is. Sessions of other agents go only
into the archive.

Prints the plan; --apply carries it out. One undo takes back the whole import.

Example:
  recollect import ~/backup/.claude
  recollect --home ~/.claude import ~/backup/.claude --apply
  recollect import talk.jsonl --cwd ~/src/shop --apply
  recollect import laptop.tar --archive --apply
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.homes import chosen_homes
from recollect.cli.terminal.text import counted, shortened, size, visible, wrapped
from recollect.errors import UsageError
from recollect.model.ids import short_id
from recollect.services.archive import import_sessions
from recollect.services.archive.archive import archive_at
from recollect.services.archive.import_sessions import ImportCandidate, ImportStage
from recollect.services.documents.changes.keeping import ImportDocument
from recollect.services.foreign.unrecorded import kept_out, refusal
from recollect.system.paths import CLAUDE

_TITLE_COLUMNS = 44


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", type=Path, help="a home, a directory, a bundle or a log")
    parser.add_argument("--archive", action="store_true", help="into the archive, not into a home")
    parser.add_argument("--cwd", metavar="DIR", help="the directory that loose logs belong to")
    change_plans.add_apply(parser)


def run(options: Namespace) -> int:
    data = change_plans.own_data(options)
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
            output.print_json(_document(options, stage, found, home, undo))
        else:
            _tell(options, stage, found, home, undo)
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
        return change_plans.undo_of(options, import_sessions.import_into_home(stage, home, found))
    archive = archive_at(data)
    known = {session for _, session in archive.names()}
    taken = import_sessions.import_into_archive(stage, archive) if stage.manifests else []
    new = [one.session for one in taken if one.session not in known]
    return [change_plans.command(options, "archive", "rm", *new, "--apply")] if new else []


def _document(
    options: Namespace, stage: ImportStage, found: list[ImportCandidate], home: Path | None, undo: list[str]
) -> ImportDocument:
    return ImportDocument(
        applied=options.apply,
        undo=undo[0] if undo else None,
        kind=stage.kind,
        to=home,
        sessions=found,
        skipped=stage.skipped,
        losses=stage.losses,
    )


def _instead(options: Namespace) -> str:
    """What to do with sessions of other agents."""
    cwd = change_plans.option("--cwd", options.cwd) if options.cwd else []
    keep = change_plans.command(options, "import", str(options.source), "--archive", *cwd, "--apply")
    return (
        f"`{keep}` puts all into the archive, and from there `recollect convert S --to claude` hands one over"
    )


def _tell(
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
            output.say(output.styled(f"Stays out: {name}: {visible(one.reason)}", "dim"))
        for loss in stage.losses.get(one.session, ()):
            output.say(output.styled(f"  Lost or changed: {visible(loss)}", "yellow"))
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
        more += change_plans.option("--cwd", options.cwd) if options.cwd else []
        change_plans.say_end(
            options, change_plans.command(options, "import", str(options.source), *more, "--apply"), ""
        )
