"""The command ``files``: versions of the files that a session touched, and who changed a file."""

from __future__ import annotations

import os
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import structs, to_builtins

from recollect.ask import file_versions as documents
from recollect.ask.sessions.session import Session
from recollect.change import rewind
from recollect.change.rewind import planned_restoration, restore
from recollect.cli.blame import say_log
from recollect.cli.terminal import output
from recollect.cli.terminal.options import (
    add_apply,
    command,
    flag,
    option,
    own_data,
    say_end,
)
from recollect.cli.terminal.rows import print_data, wants_csv
from recollect.cli.terminal.sessions import named_session
from recollect.cli.terminal.text import counted, shortened, size, visible
from recollect.errors import Ambiguous, NotFound
from recollect.model.files.history import FileVersion, version_at
from recollect.model.lines.ids import command_name
from recollect.store.file_backups import touched_files

_FILE_NAME = re.compile(r"[\w.-]+\.[A-Za-z]\w{0,5}")

_Files = dict[str, list[FileVersion]]


def add_files_options(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="S|PATH", help="a session, or a file (which may be deleted)")
    parser.add_argument("--path", metavar="P", help="only files whose path is or ends in P")
    parser.add_argument("--restore", metavar="PATH", help="write one version of this file")
    parser.add_argument("--at", metavar="N|UUID", help="version: its number, or the id of its entry")
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
    if is_file_name(options.session):
        return say_log(options, Path(options.session).expanduser())
    session = named_session(options, options.session)
    if options.rewind is not None:
        return _rewind(options, session)
    if options.restore is not None:
        return _restore(options, session, _touched(session))
    return _say_files(options, session)


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


def _say_files(options: Namespace, session: Session) -> int:
    files = _touched(session)
    wanted = {path: found for path, found in files.items() if not options.path or _fits(path, options.path)}
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


def _fits(path: str, wanted: str) -> bool:
    ending = wanted.replace("\\", "/").removeprefix("./")
    return path == wanted or path.replace("\\", "/").endswith(f"/{ending.lstrip('/')}")


# ---- list and compare ------------------------------------------------------------------------------------


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
    found = [path for path in files if path == wanted] or [path for path in files if _fits(path, wanted)]
    if not found:
        raise NotFound(f"file {wanted!r}: not touched in this session", hint="`recollect files S` lists them")
    if len(found) > 1:
        raise Ambiguous("file", wanted, tuple(found))
    return found[0]


def _chosen(at: str | None, path: str, versions: list[FileVersion]) -> int:
    """The number of the version: the last one, or the one with this number or entry."""
    if at is None:
        return len(versions)
    if at.isascii() and at.isdigit() and 1 <= int(at[:9]) <= len(versions) and len(at) < 8:
        return int(at)
    version = version_at(versions, at)
    if version is None:
        raise NotFound(
            f"{path}: no version {at!r}",
            hint=f"it has versions 1 to {len(versions)}; an entry's id works too",
        )
    return max(number for number, one in enumerate(versions, 1) if one is version)
