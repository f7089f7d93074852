"""The command ``files``: the files that sessions changed, their versions, and who changed a file."""

from __future__ import annotations

import datetime as dt
import os
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import structs, to_builtins

from recollect.ask import file_versions as documents
from recollect.ask.blame.changes import (
    FileNetChange,
    NetChanges,
    is_file_of,
    is_path,
    net_changes,
    sessions_changing,
)
from recollect.ask.sessions.session import Session
from recollect.change import rewind
from recollect.change.rewind import planned_restoration, restore
from recollect.cli.blame import say_log
from recollect.cli.terminal import output
from recollect.cli.terminal.options import (
    add_apply,
    add_project,
    add_span,
    command,
    flag,
    option,
    own_data,
    say_end,
    span_of,
)
from recollect.cli.terminal.rows import print_data, wants_csv
from recollect.cli.terminal.sessions import named_session, note_unreadable, open_home
from recollect.cli.terminal.text import counted, session_names, shortened, size, visible, visible_lines
from recollect.errors import Ambiguous, NotFound, UsageError
from recollect.model.files.history import FileVersion, version_at
from recollect.model.lines.ids import command_name, hint_name
from recollect.store.file_backups import restorable, touched_files

_FILE_NAME = re.compile(r"[\w.-]+\.[A-Za-z]\w{0,5}")

_Files = dict[str, list[FileVersion]]


def add_files_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "what", metavar="S|PATH", nargs="?", help="a session, a file (which may be deleted) or a directory"
    )
    parser.add_argument("--path", metavar="P", help="only files whose path is P, ends in P or lies in P")
    add_span(parser)
    add_project(parser)
    flag(parser, "--versions", "every version of each file of the session, also of those only read")
    parser.add_argument("--restore", metavar="PATH", help="write one version of this file")
    parser.add_argument(
        "--at",
        metavar="N|UUID",
        help="show or restore this version: its number, or the id of its entry (default: the newest with content)",
    )
    parser.add_argument(
        "--to", metavar="DIR", default=".", help="the directory to write to (default: this one)"
    )
    flag(parser, "--overwrite", "replace an existing file; undo brings it back")
    parser.add_argument(
        "--rewind",
        metavar="UUID",
        nargs="?",
        const="",
        help="undo the changes since this prompt (default: the last turn with changes)",
    )
    add_apply(parser, csv=True)


def run_files(options: Namespace) -> int:
    is_of_time = bool(options.since or options.until or options.period)
    if options.what is None or is_path_name(options.what):
        for name in ("versions", "restore", "at", "rewind"):
            if getattr(options, name) not in (None, False):
                raise UsageError(
                    f"--{name}: of which session?",
                    hint=f"for example: recollect files @last --{name}; `recollect files PATH` lists the sessions of a file",
                )
        is_narrowed = is_of_time or bool(options.project or options.path)
        is_file = options.what is not None and not _is_directory(options.what)
        if is_file and not is_narrowed:
            return say_log(options, Path(options.what).expanduser())
        return _say_changes(options, changes_asked(options, "files"), None)
    session = named_session(options, options.what)
    if options.rewind is not None:
        return _rewind(options, session)
    if options.restore is not None:
        return _restore(options, session, _touched(session))
    if options.at is not None:
        return _say_content(options, session)
    if options.versions or ((options.json or wants_csv(options)) and not is_of_time):
        return _say_versions(options, session)
    return _say_changes(options, changes_asked(options, "files", session), session)


def is_path_name(named: str) -> bool:
    """Whether this is a file or a directory and no session."""
    return is_file_name(named) or _is_directory(named)


def _is_directory(named: str) -> bool:
    return named.endswith("/") or Path(named).expanduser().is_dir()


def is_file_name(named: str) -> bool:
    """Whether this is a file and no session: logs are sessions, ids and titles have no separator."""
    path = Path(named).expanduser()
    if path.suffix == ".jsonl" or named.startswith("@"):
        return False
    return path.is_file() or (os.sep in named and " " not in named) or bool(_FILE_NAME.fullmatch(named))


def _touched(session: Session) -> _Files:
    files = touched_files(session.home, session.file)
    for problem in session.home.problems:
        output.note(f"could not be read: {visible(str(problem.path))}: {visible(str(problem.reason))}")
    return files


# ---- changes ---------------------------------------------------------------------------------------------


def changes_asked(options: Namespace, name: str, session: Session | None = None) -> NetChanges:
    """What the sessions changed that the options of a command name, or this one did."""
    since, until = span_of(options, dt.datetime.now(dt.UTC))
    path = options.path
    if session is not None:
        found = net_changes([session], since=since, until=until, path=path)
    elif not (options.what or path or since or until or options.project):
        raise UsageError(
            f"{name}: no session, time or path was named",
            hint=f"for example: recollect {name} --since yesterday",
        )
    else:
        path = path or (None if options.what is None else str(Path(options.what).expanduser().absolute()))
        home = open_home(options.homes)
        asked = sessions_changing(home, path=path, since=since, until=until, project=options.project)
        found = net_changes(asked, since=since, until=until, path=path)
        note_unreadable(home)
    if path and not found.files:
        raise NotFound(
            f"{path}: no session changed it there and then", hint="leave out --path, or name another time"
        )
    return found


def _say_changes(options: Namespace, found: NetChanges, session: Session | None) -> int:
    found = structs.replace(found, files=[structs.replace(change, diff=None) for change in found.files])
    if wants_csv(options) or options.json:
        print_data(options, found, [to_builtins(change) for change in found.files])
        return 0
    ids = list(dict.fromkeys(one for change in found.files for one in change.sessions))
    names = dict(zip(ids, session_names(ids), strict=True))
    figures = [(f"+{change.added:,}", f"-{change.removed:,}") for change in found.files]
    added, removed = (max((len(row[at]) for row in figures), default=0) for at in (0, 1))
    for change, (plus, minus) in zip(found.files, figures, strict=True):
        row = f"{output.styled(plus.rjust(added), 'green')} {output.styled(minus.rjust(removed), 'red')}  "
        row += visible(change.path) + change_note(change)
        by = "" if session else "  " + output.styled(" ".join(names[one] for one in change.sessions), "cyan")
        output.say(row + by)
    say_total(found)
    if session is not None:
        name = hint_name(session.id, session.path)
        versions, diff = command(options, "files", name, "--versions"), command(options, "diff", name)
        output.note(f"All versions, also of files only read: {versions}; the lines: {diff}")
    elif ids:
        first = command(options, "diff", names[ids[0]])
        output.note(f"The lines that a session changed: {first}")
    return 0


def change_note(change: FileNetChange) -> str:
    """What a path does not say of its change."""
    notes = {"created": " (new)", "deleted": " (deleted)", "unchanged": " (as before)"}
    return notes.get(change.kind, "")


def say_total(found: NetChanges) -> None:
    """How many files and lines were changed."""
    where = f"of {counted(found.sessions, 'session')}, " if found.sessions != 1 else ""
    output.say(
        f"{counted(len(found.files), 'file')} changed, {where}+{found.added:,} -{found.removed:,}", "dim"
    )


# ---- versions --------------------------------------------------------------------------------------------


def _say_versions(options: Namespace, session: Session) -> int:
    files = _touched(session)
    wanted = {path: found for path, found in files.items() if not options.path or is_path(path, options.path)}
    if options.path and not wanted:
        raise NotFound(
            f"file {options.path!r}: not touched in this session", hint="leave out --path to list all files"
        )
    if wants_csv(options) or options.json:
        rows = {path: _rows(found) for path, found in wanted.items()}
        table = [{"path": path} | to_builtins(row) for path, versions in rows.items() for row in versions]
        files_touched = [documents.touched_file(path, versions) for path, versions in rows.items()]
        print_data(options, documents.FilesDocument(session.id, files_touched, len(rows)), table)
        return 0
    for path, found in wanted.items():
        output.say(visible(path), "bold")
        for line in _versions(found):
            output.say(line)
    output.say(counted(len(wanted), "file"), "dim")
    return 0


def _say_content(options: Namespace, session: Session) -> int:
    """The text of one version of one file."""
    files = _touched(session)
    if not options.path and len(files) != 1:
        raise UsageError(
            "--at: a version of which file?", hint="add --path P to show it, or --restore P to write it"
        )
    path = _only_path(options.path or next(iter(files)), files)
    number = _chosen(options.at, path, files[path])
    version = files[path][number - 1]
    data = restorable(version)
    if wants_csv(options) or options.json:
        row = documents.version_document(number, version)
        text = data.decode("utf-8", "replace")
        print_data(
            options, {"session": session.id, "path": path, "version": row, "text": text}, [to_builtins(row)]
        )
        return 0
    if b"\0" in data:
        raise UsageError(f"{path}: version {number} is no text", hint="--restore PATH writes it to a file")
    output.note(f"version {number} of {visible(path)} ({_state(version)})")
    for line in data.decode("utf-8", "replace").splitlines():
        output.say(visible_lines(line))
    return 0


def _versions(found: Sequence[FileVersion]) -> Iterator[str]:
    for number, version in enumerate(found, 1):
        when = version.at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if version.at else ""
        entry = visible((version.entry_uuid or "")[:8])
        yield f"  {number:>3}  {when:<19}  {version.source:<6}  {_state(version):>9}  {entry}"


def _state(version: FileVersion) -> str:
    length = documents.version_length(version)
    if not version.existed:
        return "no file"
    return "unknown" if length is None else size(length)


def _rows(found: Sequence[FileVersion]) -> list[documents.FileVersionDocument]:
    return [documents.version_document(number, version) for number, version in enumerate(found, 1)]


# ---- rewind ----------------------------------------------------------------------------------------------


def _rewind(options: Namespace, session: Session) -> int:
    found, plan = rewind.planned_rewind(session, options.rewind or None)
    if options.apply:
        found = rewind.rewind(session, options.rewind or None, own_data(options))
    undo = command(options, "undo", found.undo, "--apply") if found.undo else None
    if options.json:
        return output.print_json(structs.replace(found, undo=undo))
    output.say(f"Before the prompt {found.prompt[:8]}: {shortened(visible(found.text), 70)}")
    for one in found.files:
        length = "" if one.bytes is None else f"  {size(one.bytes)}"
        why = f"  ({visible(one.why)})" if one.why else ""
        output.say(f"  {one.action:<6}  {visible(one.path)}{length}{why}")
    if plan is None:
        output.say("Nothing to undo: the files are as they were")
        return 0
    words = ["files", command_name(session.id, session.path), "--rewind", found.prompt, "--apply"]
    say_end(options, command(options, *words), undo or "")
    return 0


# ---- restore ---------------------------------------------------------------------------------------------


def _restore(options: Namespace, session: Session, files: _Files) -> int:
    path = _only_path(options.restore, files)
    number = _chosen(options.at, path, files[path])
    version = files[path][number - 1]
    directory = Path.cwd() / options.to
    found, plan = planned_restoration(version, directory, session.id, number, overwrite=options.overwrite)
    change = restore(found, plan, own_data(options)) if options.apply else None
    undo = command(options, "undo", change, "--apply") if change else None
    if options.json:
        return output.print_json(structs.replace(found, applied=options.apply, undo=undo))
    what = f"version {number} of {visible(path)} ({_state(version)})"
    if plan is None:
        output.say(f"Nothing to restore: {visible(found.to)} has the bytes of {what}")
        return 0
    output.say(f"{'Restored' if change else 'Would restore'} {what} to {visible(found.to)}")
    if found.in_the_way and not options.overwrite:
        output.say("  A file with this name exists: --overwrite replaces it", "red")
    again = [
        "files",
        command_name(session.id, session.path),
        *option("--restore", options.restore),
        *option("--to", options.to),
    ]
    again += ["--apply", *(option("--at", options.at) if options.at else [])]
    again += ["--overwrite"] if options.overwrite else []
    say_end(options, command(options, *again), undo or "")
    return 0


def _only_path(wanted: str, files: _Files) -> str:
    found = [path for path in files if path == wanted] or [path for path in files if is_file_of(path, wanted)]
    if not found:
        raise NotFound(
            f"file {wanted!r}: not touched in this session", hint="`recollect files S --versions` lists them"
        )
    if len(found) > 1:
        raise Ambiguous("file", wanted, tuple(found))
    return found[0]


def _chosen(at: str | None, path: str, versions: list[FileVersion]) -> int:
    """The number of the version: the newest with content, or the one with this number or entry."""
    if at is None:
        with_content = [number for number, one in enumerate(versions, 1) if one.existed and one.is_known]
        return max(with_content, default=len(versions))
    if at.isascii() and at.isdigit() and 1 <= int(at[:9]) <= len(versions) and len(at) < 8:
        return int(at)
    version = version_at(versions, at)
    if version is None:
        raise NotFound(
            f"{path}: no version {at!r}",
            hint=f"it has versions 1 to {len(versions)}; an entry's id works too",
        )
    return max(number for number, one in enumerate(versions, 1) if one is version)
