"""Write a session as Markdown, HTML, JSON or log lines; or all as Parquet tables.

md       for reading
html     a page that needs no server: the whole session with its sub-agents,
         search, filters, light and dark; it prints well
json     the document of `show --json`
jsonl    the log, line by line
flat     the flat dialect; what it cannot hold is listed on stderr
original the files of another agent's session, byte for byte, into the
         directory --output names; needs --no-redact. What the mirror does not
         keep of it is said. A rollout that Codex has compressed is written as
         it was before, without .zst in its name: every version reads it so
parquet  all sessions as tables (responses, messages, tool_calls, sessions) for
         DuckDB, Polars, Spark and others: one file for each table and day

Writes to stdout, or with --output to a new file that only you can read. An
interrupted export leaves no file. --json prints a report on the written file.
html: --output FILE.html writes one file (and FILE-pages/ for a huge session);
any other name becomes a directory with index.html. --project P writes all
sessions of a project to a directory. The session is not changed.

parquet: --to DIR names the directory; without it, it is in the data directory,
where `recollect sql` finds it. Another run writes only what changed. --text
adds titles, prose, tool inputs and results, without the credentials in them.

Installed packages may add formats; --format NAME selects them.

Credentials are replaced by [redacted:kind:fingerprint] and counted on stderr;
--no-redact keeps them.

Example:
  recollect export @last > talk.md
  recollect export 6ada00ba --format jsonl --no-redact --output 6ada00ba.jsonl
  recollect export --project shop --format html --output shop-sessions
  recollect export --format parquet --to ~/lake
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from recollect.cli.look.show import tell_damage
from recollect.cli.terminal import change_plans, markdown_view, output
from recollect.cli.terminal.conversation_view import DisplayOptions, ToolDetail
from recollect.cli.terminal.homes import named_session
from recollect.cli.terminal.not_shown import tell_lost_beginning
from recollect.cli.terminal.text import counted, size, visible
from recollect.errors import UsageError
from recollect.model.conversation.conversation import Messages
from recollect.model.convert.loss import Loss
from recollect.model.damage import Damage
from recollect.services import whole_session
from recollect.services.documents.conversation import conversation_pieces
from recollect.services.documents.export import ExportDocument, damages, redacted
from recollect.services.export import export
from recollect.services.home_guard import refuse_agent_home, refuse_own_home
from recollect.services.session import Session
from recollect.system import fsops

_LAKE = "parquet"
_ORIGINAL = "original"
_FORMATS = ("md", "html", "json", "jsonl", "flat", _ORIGINAL, _LAKE)
_Look = Callable[[], list[Damage]]


class _ExportContent(Struct):
    """The pieces to write, and what the report says afterwards."""

    pieces: Iterable[bytes]
    without_secrets: Callable[[export.Redactor, Iterable[bytes]], Iterator[bytes]]
    losses: list[Loss] = []
    findings: Callable[[], list[Damage]] = list


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "session", nargs="?", metavar="S", help="session: id, start of an id, title, path, or @last"
    )
    parser.add_argument(
        "--format", default="md", metavar="|".join(_FORMATS), help="output format (default md)"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write to this new file instead of stdout"
    )
    parser.add_argument(
        "--project", metavar="P", help="html: every session of this directory (path or part of its name)"
    )
    parser.add_argument("--to", metavar="DIR", help="parquet: the directory to write to")
    parser.add_argument("--text", action="store_true", help="parquet: also texts, without credentials")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument(
        "--whole",
        action=BooleanOptionalAction,
        help="include messages from before compactions (default: only for html)",
    )
    parser.add_argument(
        "--tools",
        choices=[str(one) for one in ToolDetail],
        default="full",
        help="md: detail of tool calls (default full)",
    )
    parser.add_argument("--thinking", action="store_true", help="md: include the model's thinking")
    parser.add_argument("--no-redact", action="store_true", help="do not replace credentials")
    parser.add_argument("--json", action="store_true", help="print a report on FILE as JSON")


def run(options: Namespace) -> int:
    if options.format == _LAKE:
        from recollect.cli.look import export_lake

        export_lake.check(options)
        return export_lake.run(options)
    _check(options)
    if options.output is not None and options.format != _ORIGINAL:
        refuse_agent_home(options.output, "--output")
    if options.format == "html" and options.output is not None:
        from recollect.cli.look import export_html

        return export_html.run(options)
    session = named_session(options, options.session)
    if options.format == _ORIGINAL:
        return _originals(session, options)
    redactor = None if options.no_redact else export.Redactor(change_plans.own_data(options))
    damage = session.damage if redactor is None else lambda: list(redactor.discreet(session.damage()))
    content = _CONTENT.get(options.format, _other)(session, options, damage)
    pieces = content.pieces if redactor is None else content.without_secrets(redactor, content.pieces)
    if options.output is None:
        output.write_json(pieces)
        written = 0
    else:
        written = export.write_file(options.output, pieces, force=options.force)
    _report(session, options, content, written, redactor)
    tell_lost_beginning(session)
    return 0


def _check(options: Namespace) -> None:
    if options.to is not None or options.text:
        raise UsageError(
            f"{'--text' if options.to is None else '--to'}: is for --format parquet",
            hint="add --format parquet, or write to a file with --output FILE",
        )
    if options.project is not None:
        _check_project(options)
    elif options.session is None:
        raise UsageError(
            "export: no session was named", hint="for example: recollect export @last --output talk.md"
        )
    if options.format not in _FORMATS:
        from recollect.services.library.plugins import exporter_names

        others = exporter_names()
        if options.format not in others:
            raise UsageError(
                f"--format {options.format!a}: not one of {', '.join((*_FORMATS, *others))}",
                hint="md and html are for reading",
            )
    if options.output is not None and options.format == "html":
        from recollect.services.export import html_export

        html_export.check_target(options.output, force=options.force)
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
    from recollect.services.foreign.originals import left_out, original_files, unpacked_files

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


def _markdown(session: Session, options: Namespace, damage: _Look) -> _ExportContent:
    messages = _messages(session, options)
    view = DisplayOptions(ToolDetail(options.tools), options.thinking)

    def pieces() -> Iterator[bytes]:
        yield markdown_view.document_head(session.title, session.id, session.cwd).encode("utf-8", "replace")
        for message in messages:
            yield markdown_view.message(message, view).encode("utf-8", "replace")

    return _ExportContent(pieces(), export.Redactor.texts, findings=damage)


def _json(session: Session, options: Namespace, damage: _Look) -> _ExportContent:
    messages = _messages(session, options)
    found: list[Damage] = []

    def looked_for() -> Iterator[Damage]:
        found.extend(damage())
        yield from found

    pieces = conversation_pieces(session.id, messages, len(messages), looked_for())
    return _ExportContent(pieces, export.Redactor.fragments, findings=lambda: found)


def _html(session: Session, options: Namespace, damage: _Look) -> _ExportContent:
    from recollect.services.export import html_export

    def clean(redactor: export.Redactor, _: Iterable[bytes]) -> Iterator[bytes]:
        """Remove secrets before the page is made: markup could split a secret."""
        return html_export.one_page(session, redactor, whole=options.whole is not False)

    return _ExportContent(
        html_export.one_page(session, None, whole=options.whole is not False), clean, findings=damage
    )


def _jsonl(session: Session, options: Namespace, damage: _Look) -> _ExportContent:
    return _ExportContent(export.log_bytes(session.path), export.Redactor.lines)


def _flat(session: Session, options: Namespace, damage: _Look) -> _ExportContent:
    conversion = export.flat(session, whole=bool(options.whole))
    return _ExportContent(export.flat_bytes(conversion), export.Redactor.lines, losses=conversion.losses)


def _other(session: Session, options: Namespace, damage: _Look) -> _ExportContent:
    """A format that another package brings."""
    from recollect.services.library.plugins import exported

    return _ExportContent(exported(options.format, session), export.Redactor.texts, findings=damage)


_CONTENT: dict[str, Callable[[Session, Namespace, _Look], _ExportContent]] = {
    "md": _markdown,
    "html": _html,
    "json": _json,
    "jsonl": _jsonl,
    "flat": _flat,
}


def _messages(session: Session, options: Namespace) -> Messages:
    conversation = session.conversation(whole=bool(options.whole))
    return whole_session.whole_messages(session, conversation) if options.whole else conversation.messages


def _report(
    session: Session,
    options: Namespace,
    content: _ExportContent,
    written: int,
    redactor: export.Redactor | None,
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


def tell_replaced(redactor: export.Redactor | None) -> None:
    """Print on stderr how many secrets were replaced."""
    if redactor is None:
        return
    if redactor.found:
        different = len({(one.kind, one.fingerprint) for one in redactor.found})
        places = f"{counted(different, 'secret')} in {counted(len(redactor.found), 'place')}"
        output.note(f"replaced {places}; --no-redact keeps them")
    for note in redactor.notes:
        output.note(note)
