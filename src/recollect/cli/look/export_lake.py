"""``export --format parquet``: all sessions as tables for analytic engines."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import counted, size, visible
from recollect.errors import UsageError


def check(options: Namespace) -> None:
    """Refuse options of other formats before anything is read."""
    if options.session is not None or options.project is not None:
        raise UsageError(
            "--format parquet: exports all sessions",
            hint="leave the session out, and filter with `recollect sql`",
        )
    if options.output is not None:
        raise UsageError("--format parquet: writes a directory, not a file", hint="write --to DIR")
    if options.no_redact:
        raise UsageError(
            "--format parquet: texts are always redacted", hint="leave --no-redact out; --text adds texts"
        )


def run(options: Namespace) -> int:
    from recollect.services.documents.lake import LakeDocument, LakeTableDocument
    from recollect.services.lake.export import export_lake, lake_directory
    from recollect.services.lake.schema import VERSION

    home, data = open_home(options.homes), change_plans.own_data(options)
    target = Path(options.to).absolute() if options.to else lake_directory(home, data)
    with output.progress_bar("reading logs") as progress:
        report = export_lake(home, target, data=data, with_text=options.text, progress=progress)
    if options.json:
        tables = {name: LakeTableDocument(rows, report.bytes[name]) for name, rows in report.rows.items()}
        output.print_json(
            LakeDocument(
                format="parquet",
                output=str(report.directory),
                schema_version=VERSION,
                with_text=report.with_text,
                tables=tables,
                written=report.written,
                removed=report.removed,
                logs=report.logs,
                logs_read=report.logs_read,
                notes=report.notes,
            )
        )
        return 0
    for note in report.notes:
        output.note(visible(note))
    for name, rows in report.rows.items():
        output.say(f"{name:<12}{rows:>12,} rows{size(report.bytes[name]):>12}")
    files = counted(len(report.written), "file")
    output.say(
        f"wrote {files} to {visible(str(report.directory))}; read {report.logs_read} of {report.logs} logs"
    )
    return 0
