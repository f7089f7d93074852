"""Remove the credentials from a session.

Covers the log, sub-agents, tool results, prompt history and file backups. Each
credential is replaced by [redacted:kind:fingerprint]; every other byte stays,
and the session can still be resumed. A session open in a client is refused.
Settings are not changed. Rewinding to a redacted file backup would write the
replacement into that file. Prints the plan; --apply carries it out.

The undo copy still holds the credentials until you delete it with
`recollect undo ID --forget --apply`, and so may archive, trash and quarantine.
--everywhere cleans all of them for good: it cannot be undone, nor can the
earlier changes whose originals hold credentials. Forks are other sessions.

Exit status: 4 where a file could not be read, so that it may still hold some;
1 where --everywhere found some again afterwards.

Example:
  recollect redact 6ada00ba
  recollect redact 6ada00ba --apply
  recollect redact 6ada00ba --everywhere --apply
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.text import counted, padded, visible
from recollect.model.ids import short_id
from recollect.services.documents.secrets import RedactedFileDocument, RedactionDocument, unread_documents
from recollect.services.secrets import redact as redact_service
from recollect.services.secrets.redact import RedactionPlan
from recollect.storage.changes.journal import AppliedChange

if TYPE_CHECKING:
    from pathlib import Path

    from recollect.services.secrets.everywhere import EverywherePlan
    from recollect.services.session import Session


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="S", help="session: id, start of an id, title, path, or @last")
    parser.add_argument(
        "--everywhere", action="store_true", help="also clean archive, trash, undo and quarantine, for good"
    )
    change_plans.add_apply(parser)


def run(options: Namespace) -> int:
    session = open_home(options.homes).own_session(options.session)
    data = change_plans.own_data(options)
    if options.everywhere:
        return _everywhere(options, session, data)
    applied: AppliedChange | None = None
    if options.apply:
        plan, applied = redact_service.redact(session, data)
    else:
        plan = redact_service.planned_redaction(session, data)
    if options.json:
        output.print_json(_document(options, plan, applied))
    else:
        _tell(options, plan, applied)
    for note in plan.notes:
        output.note(visible(note))
    return _say_unread(plan.unread) or 0


def _everywhere(options: Namespace, session: Session, data: Path) -> int:
    from recollect.services.secrets.everywhere import planned_everywhere, redact_everywhere

    if options.apply:
        plan = redact_everywhere(session, data, change_plans.own_cache(options))
    else:
        plan = planned_everywhere(session, data)
    if options.json:
        document = _document(options, plan.home, None)
        output.print_json(
            structs.replace(
                document,
                copies=plan.copies,
                left=plan.left,
                unread=unread_documents(plan.unread),
                applied=options.apply,
            )
        )
    else:
        _tell_everywhere(options, plan)
    for note in plan.home.notes:
        output.note(visible(note))
    return _say_unread(plan.unread) or int(bool(plan.left))


def _say_unread(unread: Sequence[tuple[str, str]]) -> int:
    """Name what could not be searched; returns the exit status, 0 where there is nothing."""
    for path, reason in unread:
        output.note(visible(f"could not be read: {path}: {reason}"))
    if not unread:
        return 0
    output.note("Incomplete: secrets in these files, if any, are still there")
    return 4  # as for scan and check


def _tell_everywhere(options: Namespace, plan: EverywherePlan) -> None:
    verb = "Removed" if options.apply else "Would remove"
    name = output.styled(visible(short_id(plan.home.session)), "cyan")
    read = " that could be read" if plan.unread else ""
    if not plan.home.files and not plan.copies:
        output.say(f"No secrets found in {name} or in copies of it{read}: nothing to do")
        return
    output.say(f"{verb} the secrets of {name} from:")
    for file in plan.home.files:
        output.say(f"  {visible(str(file.path))} ({file.role}, {len(file.findings):,})")
    for copy in plan.copies:
        output.say(f"  {visible(str(copy.path))} ({copy.role}, {copy.secrets:,})")
    if not options.apply:
        output.say("This cannot be undone, nor can the changes whose originals are listed as undo.")
        change_plans.say_end(
            options, change_plans.applied(options, "redact", plan.home.session, "--everywhere"), ""
        )
    elif plan.left:
        output.say(output.styled(f"{counted(len(plan.left), 'secret')} could not be removed:", "red"))
        for one in plan.left:
            output.say(f"  {visible(one.path)} ({one.role}, {one.kind})")
    else:
        output.say(
            f"Searched again: none is left{' in what' + read if read else ''}. The next question builds the index again."
        )


def _document(options: Namespace, plan: RedactionPlan, applied: AppliedChange | None) -> RedactionDocument:
    again = ["undo", applied.id] if applied is not None else []
    return RedactionDocument(
        session=plan.session,
        findings=plan.findings,
        files=[RedactedFileDocument(file.path, file.role, len(file.findings)) for file in plan.files],
        open_in=plan.open_in,
        unread=unread_documents(plan.unread),
        applied=applied is not None,
        change=None if applied is None else applied.id,
        undo=change_plans.command(options, *again, "--apply") if again else None,
        forget=change_plans.command(options, *again, "--forget", "--apply") if again else None,
    )


def _tell(options: Namespace, plan: RedactionPlan, applied: AppliedChange | None) -> None:
    name = output.styled(visible(short_id(plan.session)), "cyan")
    if not plan.files:
        read = " in what could be read of" if plan.unread else " in"
        output.say(f"No secrets found{read} {name}: nothing to do")
        return
    verb = "Replaced" if applied is not None else "Would replace"
    output.say(f"{verb} {counted(len(plan.findings), 'secret')} in {name}:")
    for file in plan.files:
        output.say(f"  {visible(str(file.path))} ({file.role}, {len(file.findings):,})")
    kinds = Counter((one.kind, one.fingerprint) for one in plan.findings)
    for (kind, digits), count in kinds.most_common():
        times = f"{count:,} times" if count > 1 else "once"
        output.say(f"    {output.styled(padded(kind, 24), 'yellow')} {digits}  {times}")
    if plan.open_in is not None:
        output.say(
            output.styled(
                f"  A client has it open (process {plan.open_in}): refused until it is closed", "red"
            )
        )
    if applied is None:
        change_plans.say_end(options, change_plans.applied(options, "redact", plan.session), "")
        return
    change_plans.say_end(options, "", change_plans.command(options, "undo", applied.id, "--apply"))
    forget = change_plans.command(options, "undo", applied.id, "--forget", "--apply")
    output.say(f"The undo copy still holds the secrets. Delete it with: {forget}")
