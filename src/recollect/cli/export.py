"""The commands ``export`` and ``data parquet``: a session as Markdown, HTML, JSON or lines; all sessions as tables."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import UNSET, Struct

from recollect.ask.conversation.documents import conversation_pieces
from recollect.ask.secrets.redactor import Redactor
from recollect.ask.sessions import messages as whole_session
from recollect.ask.sessions.home_guard import refuse_agent_home, refuse_own_home
from recollect.ask.sessions.originals import left_out, original_files, unpacked_files
from recollect.ask.sessions.session import Session
from recollect.cli.show import tell_damage
from recollect.cli.terminal import conversation_view, output
from recollect.cli.terminal.conversation_view import DisplayOptions, ToolDetail
from recollect.cli.terminal.options import add_json, add_session, flag, own_data
from recollect.cli.terminal.sessions import named_session, open_home, tell_lost_beginning
from recollect.cli.terminal.text import counted, size, visible
from recollect.errors import UsageError
from recollect.model.conversation.conversation import Messages
from recollect.model.convert.turns import Loss
from recollect.model.lines.damage import Damage
from recollect.share.export import export
from recollect.share.export.export import ExportDocument, damages, redacted
from recollect.share.export.page import session_page
from recollect.share.export.project import check_directory, export_project
from recollect.share.lake_export import export_lake, lake_directory
from recollect.system import fsops

_ORIGINAL = "original"
_FORMATS = ("md", "html", "json", "jsonl", "flat", _ORIGINAL)
_Look = Callable[[], list[Damage]]


class _ExportContent(Struct):
    """The pieces to write, and what the report says afterwards."""

    pieces: Iterable[bytes]
    losses: list[Loss] = []
    findings: Callable[[], list[Damage]] = list


def add_options(parser: ArgumentParser) -> None:
    add_session(parser, "?")
    parser.add_argument(
        "--format",
        choices=_FORMATS,
        help="default: what the name of FILE ends in (.html, .json, .jsonl), else md",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write to this new file instead of stdout"
    )
    parser.add_argument(
        "-p",
        "--project",
        metavar="P",
        help="html: every session of this directory (path or part of its name)",
    )
    flag(parser, "--force", "replace FILE if it exists")
    parser.add_argument(
        "--whole",
        action=BooleanOptionalAction,
        help="everything that was said, or only what a resume loads (default: whole; flat: what it loads)",
    )
    parser.add_argument(
        "--tools",
        choices=[str(one) for one in ToolDetail],
        default="full",
        help="md: detail of tool calls (default full)",
    )
    flag(parser, "--thinking", "md: include the model's thinking")
    flag(parser, "--no-redact", "do not replace credentials")
    flag(parser, "--json", "print a report on FILE as JSON")


def run(options: Namespace) -> int:
    options.format = options.format or _format_of(options)
    _check(options)
    if options.output is not None and options.format != _ORIGINAL:
        refuse_agent_home(options.output, "--output")
    if options.project is not None:
        return _export_project(options)
    session = named_session(options, options.session)
    if options.format == _ORIGINAL:
        return _originals(session, options)
    redactor = None if options.no_redact else Redactor(own_data(options))
    content = _content(session, options, redactor)
    if options.output is None:
        output.write_json(content.pieces)
        written = 0
    else:
        written = export.write_file(options.output, content.pieces, force=options.force)
    _report(session, options, content, written, redactor)
    tell_lost_beginning(session)
    return 0


def _format_of(options: Namespace) -> str:
    """What the name of the file says; a project is written as pages."""
    ending = "html" if options.project is not None else str(options.output or "").rpartition(".")[2].lower()
    return {"htm": "html"}.get(ending, ending) if ending in ("html", "htm", "json", "jsonl") else "md"


def _check(options: Namespace) -> None:
    if options.project is not None:
        _check_project(options)
    elif options.session is None:
        raise UsageError(
            "export: no session was named", hint="for example: recollect export @last --output talk.md"
        )
    if options.project is not None:
        check_directory(options.output)
    elif options.output is not None and options.format != _ORIGINAL:
        export.check_target(options.output, force=options.force)
    elif options.json:
        raise UsageError(
            "--json: needs --output FILE to report on",
            hint="add --output FILE; for the conversation as JSON use --format json",
        )
    elif options.format in ("jsonl", "flat") and sys.stdout.isatty():
        raise UsageError(
            f"--format {options.format}: log lines are not printed to a terminal",
            hint="add --output FILE, or use a pipe",
        )


def _originals(session: Session, options: Namespace) -> int:
    """Every file at the path it had below the home of its agent; nothing is overwritten."""
    if options.output is None or not options.no_redact:
        raise UsageError(
            "--format original: bytes are written as they are, into a directory",
            hint="add --no-redact --output DIRECTORY",
        )
    refuse_own_home(options.output, session, "--output DIRECTORY")
    files = original_files(session)
    for name, data in files.items():
        path = options.output / name
        fsops.make_directories(path.parent)
        export.check_target(path, force=options.force)
        export.write_file(path, [data], force=options.force)
    total = size(sum(map(len, files.values())))
    output.note(f"{counted(len(files), 'file')}, {total}, in {visible(str(options.output))}")
    unpacked = unpacked_files(session) & files.keys()
    for name in sorted(unpacked):
        output.note(
            f"{visible(name)}: not compressed, and without .zst in its name, as the client reads it too"
        )
    if missing := left_out(session):
        output.note(f"Not mirrored, so not in it: {missing}.")
    return 0


def _check_project(options: Namespace) -> None:
    if options.session is not None:
        raise UsageError(
            "--project and a session exclude each other", hint="leave the session or --project out"
        )
    if options.format != "html" or options.output is None:
        raise UsageError(
            "--project: can only be written as html to a directory",
            hint="add --format html --output DIRECTORY",
        )


def _markdown(
    session: Session, options: Namespace, damage: _Look, redactor: Redactor | None
) -> _ExportContent:
    messages = _messages(session, options)
    view = DisplayOptions(ToolDetail(options.tools), options.thinking)

    def pieces() -> Iterator[bytes]:
        yield conversation_view.document_head(session.title, session.id, session.cwd).encode(
            "utf-8", "replace"
        )
        for message in messages:
            yield conversation_view.message(message, view).encode("utf-8", "replace")

    return _ExportContent(pieces() if redactor is None else redactor.texts(pieces()), findings=damage)


def _json(session: Session, options: Namespace, damage: _Look, redactor: Redactor | None) -> _ExportContent:
    messages = _messages(session, options)
    found: list[Damage] = []

    def looked_for() -> Iterator[Damage]:
        found.extend(damage())
        yield from found

    is_whole = options.whole is not False
    pieces = conversation_pieces(session.id, messages, len(messages), looked_for(), is_whole=is_whole)
    return _ExportContent(pieces if redactor is None else redactor.fragments(pieces), findings=lambda: found)


def _html(session: Session, options: Namespace, damage: _Look, redactor: Redactor | None) -> _ExportContent:
    return _ExportContent(session_page(session, redactor, whole=options.whole is not False), findings=damage)


def _jsonl(session: Session, options: Namespace, damage: _Look, redactor: Redactor | None) -> _ExportContent:
    pieces = export.log_bytes(session.path)
    return _ExportContent(pieces if redactor is None else redactor.lines(pieces))


def _flat(session: Session, options: Namespace, damage: _Look, redactor: Redactor | None) -> _ExportContent:
    conversion = export.flat(session, whole=bool(options.whole))
    pieces = (line + b"\n" for line in conversion.lines)
    return _ExportContent(pieces if redactor is None else redactor.lines(pieces), losses=conversion.losses)


_CONTENT: dict[str, Callable[[Session, Namespace, _Look, Redactor | None], _ExportContent]] = {
    "md": _markdown,
    "html": _html,
    "json": _json,
    "jsonl": _jsonl,
    "flat": _flat,
}


def session_pieces(name: str, session: Session, whole: bool, redactor: Redactor | None) -> Iterable[bytes]:
    """A session in one of the formats, with all that was said and done."""
    options = Namespace(format=name, whole=whole, tools="full", thinking=True)
    return _content(session, options, redactor).pieces


def _content(session: Session, options: Namespace, redactor: Redactor | None) -> _ExportContent:
    damage = session.damage if redactor is None else lambda: list(redactor.discreet(session.damage()))
    return _CONTENT[options.format](session, options, damage, redactor)


def _messages(session: Session, options: Namespace) -> Messages:
    is_whole = options.whole is not False
    return whole_session.whole_story(session).messages if is_whole else session.conversation().messages


def _report(
    session: Session,
    options: Namespace,
    content: _ExportContent,
    written: int,
    redactor: Redactor | None,
) -> None:
    findings = content.findings()
    if options.json:
        output.print_json(
            ExportDocument(
                session=session.id,
                format=options.format,
                output=str(options.output),
                bytes=written,
                redacted=redacted(redactor),
                losses=content.losses,
                findings=damages(findings),
            )
        )
        return
    for loss in content.losses:
        output.note(
            visible(f"not exported: {loss.what} ({loss.code}), {loss.count:,}, first at byte {loss.offset}")
        )
    if findings:
        tell_damage(findings)
    tell_replaced(redactor)
    if options.output is not None:
        output.note(f"wrote {size(written)} to {visible(str(options.output))}")


def tell_replaced(redactor: Redactor | None) -> None:
    """Print on stderr how many secrets were replaced."""
    if redactor is None:
        return
    if redactor.found:
        different = len({(one.kind, one.fingerprint) for one in redactor.found})
        places = f"{counted(different, 'secret')} in {counted(len(redactor.found), 'place')}"
        output.note(f"replaced {places}; --no-redact keeps them")
    for note in redactor.notes:
        output.note(note)


def _export_project(options: Namespace) -> int:
    home = open_home(options.homes)
    redactor = None if options.no_redact else Redactor(own_data(options))
    whole = options.whole is not False
    done = export_project(home, options.project, options.output, redactor, whole=whole)
    if options.json:
        return output.print_json(done)
    for problem in () if done.problems is UNSET else done.problems:
        output.note(visible(f"not exported: {problem.session}: {problem.problem}"))
    tell_replaced(redactor)
    files = 1 if done.files is UNSET else done.files
    output.note(f"wrote {size(done.bytes)} in {counted(files, 'file')} to {visible(done.output)}")
    return 0


def add_parquet_options(parser: ArgumentParser) -> None:
    parser.add_argument("--to", metavar="DIR", help="the directory to write to")
    flag(parser, "--text", "also texts, without the credentials in them")
    add_json(parser)


def run_parquet(options: Namespace) -> int:
    home, data = open_home(options.homes), own_data(options)
    target = Path(options.to).absolute() if options.to else lake_directory(home, data)
    with output.progress_bar("reading logs") as progress:
        report = export_lake(home, target, data=data, with_text=options.text, progress=progress)
    if options.json:
        return output.print_json(report)
    for note in report.notes:
        output.note(visible(note))
    for name, table in report.tables.items():
        output.say(f"{name:<12}{table.rows:>12,} rows{size(table.bytes):>12}")
    files = counted(len(report.written), "file")
    output.say(
        f"wrote {files} to {visible(str(report.output))}; read {report.logs_read} of {report.logs} logs"
    )
    return 0
