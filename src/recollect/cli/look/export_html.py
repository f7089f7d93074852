"""`recollect export --format html --output`: write the pages and report on them."""

from __future__ import annotations

from argparse import Namespace

from msgspec import UNSET

from recollect.cli.look.export import tell_replaced
from recollect.cli.look.show import tell_damage
from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.not_shown import tell_lost_beginning
from recollect.cli.terminal.text import counted, size, visible
from recollect.services.documents.export import ExportDocument, ExportProblemDocument, damages, redacted
from recollect.services.export.export import Redactor
from recollect.services.export.html_export import HtmlExport, export_project, export_session


def run(options: Namespace) -> int:
    home = open_home(options.homes)
    whole = options.whole is not False
    redactor = None if options.no_redact else Redactor(change_plans.own_data(options))
    if options.project is not None:
        name = options.project
        done = export_project(home, options.project, options.output, redactor, whole=whole)
    else:
        session = home.session(options.session)
        name = session.id
        done = export_session(session, options.output, redactor, whole=whole, force=options.force)
        tell_lost_beginning(session)
    if redactor is not None:
        done.damage = list(redactor.discreet(done.damage))
    _report(options, name, done, redactor)
    return 0


def _report(options: Namespace, name: str, done: HtmlExport, redactor: Redactor | None) -> None:
    if options.json:
        output.print_json(
            ExportDocument(
                session=name if options.project is None else UNSET,
                project=UNSET if options.project is None else name,
                format="html",
                output=str(done.target),
                bytes=done.bytes,
                files=done.files,
                sessions=done.sessions,
                redacted=redacted(redactor),
                losses=(),
                findings=damages(done.damage),
                problems=[ExportProblemDocument(*problem) for problem in done.problems],
            )
        )
        return
    if done.damage:
        tell_damage(done.damage)
    for session, problem in done.problems:
        output.note(visible(f"not exported: {session}: {problem}"))
    tell_replaced(redactor)
    files = f" in {counted(done.files, 'file')}" if done.files > 1 else ""
    output.note(f"wrote {size(done.bytes)}{files} to {visible(str(done.target))}")
