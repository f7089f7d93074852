"""Write a session as Markdown, HTML, JSON, its own lines, or in the flat dialect.

md is for reading, json is the document of `show --json`, jsonl is the log line by line,
flat drops what that dialect has no place for and says so on stderr. Goes to stdout, or
with --output to a new file that only you can read; it is complete or not there at all.
--json reports on the file that was written. The session is not changed.

html is a page that opens without us, agents included. --output FILE.html writes one file,
and where the session is huge pages in FILE-pages beside it; any other name is a new
directory with index.html. --project P writes all sessions of a project to a directory.

Installed packages may bring other formats; --format NAME takes them.

Credentials are replaced by [redacted:kind:fingerprint], and how many is said on stderr;
--no-redact keeps them.

Example:
  recollect export @last > talk.md
  recollect export 3f2a --format jsonl --no-redact --output 3f2a.jsonl
  recollect export --project shop --format html --output shop-sessions
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from recollect.cli.look.show import tell_damage
from recollect.cli.terminal import markdown_view, output, plans
from recollect.cli.terminal.conversation_view import DisplayOptions, ToolDetail
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import counted, size, visible
from recollect.errors import UsageError
from recollect.model.conversation.conversation import Messages
from recollect.model.convert.loss import Loss
from recollect.model.damage import Damage
from recollect.services import history
from recollect.services.documents.conversation import conversation_pieces
from recollect.services.documents.export import ExportDocument, damages, redacted
from recollect.services.export import export
from recollect.services.session import Session

_FORMATS = ("md", "html", "json", "jsonl", "flat")
_Look = Callable[[], list[Damage]]


class _ExportContent(Struct):
    """What is written, piece by piece, and what there is to say about it afterwards."""

    pieces: Iterable[bytes]
    without_secrets: Callable[[export.Redactor, Iterable[bytes]], Iterator[bytes]]
    losses: list[Loss] = []
    findings: Callable[[], list[Damage]] = list


def add_options(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("session", nargs="?", metavar="S", help="id or its start, title, path, or @last")
    parser.add_argument("--format", default="md", metavar="|".join(_FORMATS), help="default md")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="a new file instead of stdout")
    parser.add_argument(
        "--project", metavar="P", help="in html: every session of a directory, or part of its name"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE where it is there already")
    parser.add_argument("--whole", action="store_true", help="also what compactions hide")
    parser.add_argument(
        "--tools", choices=[str(one) for one in ToolDetail], default="full", help="in md; default full"
    )
    parser.add_argument("--thinking", action="store_true", help="in md: also what the model thought")
    parser.add_argument("--no-redact", action="store_true", help="keep credentials as they are")
    parser.add_argument("--json", action="store_true", help="report on FILE as one JSON document")


def run(options: Namespace) -> int:
    """Write the session."""
    _check(options)
    if options.format == "html" and options.output is not None:
        from recollect.cli.look import export_html

        return export_html.run(options)
    session = open_home(options.homes, options.data).session(options.session)
    redactor = None if options.no_redact else export.Redactor(plans.own_data(options))
    damage = session.damage if redactor is None else lambda: list(redactor.discreet(session.damage()))
    content = _CONTENT.get(options.format, _other)(session, options, damage)
    pieces = content.pieces if redactor is None else content.without_secrets(redactor, content.pieces)
    if options.output is None:
        output.write_json(pieces)
        written = 0
    else:
        written = export.write_file(options.output, pieces, force=options.force)
    _report(session, options, content, written, redactor)
    return 0


def _check(options: Namespace) -> None:
    if options.project is not None:
        _check_project(options)
    elif options.session is None:
        raise UsageError(
            "export: which session?", hint="for example: recollect export @last --output talk.md"
        )
    if options.format not in _FORMATS:
        from recollect.services.plugins import exporter_names

        others = exporter_names()
        if options.format not in others:
            raise UsageError(
                f"--format {options.format!a}: not one of {', '.join((*_FORMATS, *others))}",
                hint="md and html are for reading",
            )
    if options.output is not None and options.format == "html":
        from recollect.services.export import html_export

        html_export.check_target(options.output, force=options.force)
    elif options.output is not None:
        export.check_target(options.output, force=options.force)
    elif options.json:
        raise UsageError(
            "--json: reports on a file, and none was named",
            hint="add --output FILE, or use --format json for the conversation itself",
        )
    elif options.format in ("jsonl", "flat") and sys.stdout.isatty():
        raise UsageError(
            f"--format {options.format}: lines of a log do not go to a terminal",
            hint="add --output FILE, or send it through a pipe",
        )


def _check_project(options: Namespace) -> None:
    if options.session is not None:
        raise UsageError("--project: is not one session", hint="leave the session or --project out")
    if options.format != "html" or options.output is None:
        raise UsageError(
            "--project: is written as html to a directory", hint="add --format html --output DIRECTORY"
        )


def _markdown(session: Session, options: Namespace, damage: _Look) -> _ExportContent:
    messages = _messages(session, options)
    view = DisplayOptions(ToolDetail(options.tools), options.thinking)

    def pieces() -> Iterator[bytes]:
        yield markdown_view.document_head(session.title, session.id, session.cwd).encode("utf-8", "replace")
        for spoken in messages:
            yield markdown_view.message(spoken, view).encode("utf-8", "replace")

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
        """Secrets go before a page is made: markup could stand between the letters of one."""
        return html_export.one_page(session, redactor, whole=options.whole)

    return _ExportContent(html_export.one_page(session, None, whole=options.whole), clean, findings=damage)


def _jsonl(session: Session, options: Namespace, damage: _Look) -> _ExportContent:
    return _ExportContent(export.log_bytes(session.path), export.Redactor.lines)


def _flat(session: Session, options: Namespace, damage: _Look) -> _ExportContent:
    conversion = export.flat(session, whole=options.whole)
    return _ExportContent(export.flat_bytes(conversion), export.Redactor.lines, losses=conversion.losses)


def _other(session: Session, options: Namespace, damage: _Look) -> _ExportContent:
    """A format that another package brings."""
    from recollect.services.plugins import exported

    return _ExportContent(exported(options.format, session), export.Redactor.texts, findings=damage)


_CONTENT: dict[str, Callable[[Session, Namespace, _Look], _ExportContent]] = {
    "md": _markdown,
    "html": _html,
    "json": _json,
    "jsonl": _jsonl,
    "flat": _flat,
}


def _messages(session: Session, options: Namespace) -> Messages:
    conversation = session.conversation(whole=options.whole)
    return history.whole_messages(session, conversation) if options.whole else conversation.messages


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
            visible(
                f"not carried over: {loss.what} ({loss.code}), {loss.count:,}, first at byte {loss.offset}"
            )
        )
    if findings:
        tell_damage(findings)
    tell_replaced(redactor)
    if options.output is not None:
        output.note(f"wrote {size(written)} to {visible(str(options.output))}")


def tell_replaced(redactor: export.Redactor | None) -> None:
    """How many secrets were replaced, on stderr."""
    if redactor is None:
        return
    if redactor.found:
        different = len({(one.kind, one.fingerprint) for one in redactor.found})
        places = f"{counted(different, 'secret')} in {counted(len(redactor.found), 'place')}"
        output.note(f"replaced {places}; --no-redact keeps them")
    for note in redactor.notes:
        output.note(note)
