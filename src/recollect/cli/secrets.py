"""The commands ``secrets`` and ``secrets remove``: credentials in sessions."""

from __future__ import annotations

import re
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from recollect.ask.homes import Homes
from recollect.ask.secrets import scan as scan_service
from recollect.ask.secrets.scan import FoundSecret, SecretFinding, SecretScan, by_secret
from recollect.ask.sessions.home_guard import kept_by_its_client
from recollect.ask.sessions.session import Session
from recollect.change import redact as redact_service
from recollect.change import undo
from recollect.change.redact import RedactedFile, RedactionPlan
from recollect.cli.terminal import output
from recollect.cli.terminal.options import (
    add_apply,
    add_json,
    add_session,
    command,
    flag,
    own_cache,
    own_data,
    say_end,
    shell_word,
    with_apply,
)
from recollect.cli.terminal.rows import print_data
from recollect.cli.terminal.sessions import open_home
from recollect.cli.terminal.text import counted, padded, size, visible
from recollect.errors import NotFound, UsageError
from recollect.model.lines.ids import command_name, short_id
from recollect.store.changes.journal import Change

_SHOWN, _PROBLEMS_SHOWN = 100, 20
_UNREADABLE = 4  # as for check


def add_scan_options(parser: ArgumentParser) -> None:
    add_session(parser, "*")
    flag(parser, "-v", "--verbose", "each place: file, line and field")
    parser.add_argument(
        "-n", "--limit", type=int, metavar="N", help=f"show at most N (default {_SHOWN}; 0: all)"
    )
    add_json(parser, csv=True)


def run_scan(options: Namespace) -> int:
    if options.limit is not None and options.limit < 0:
        raise UsageError(f"--limit {options.limit}: must be 0 or more", hint="0 shows all")
    home = open_home(options.homes)
    chosen = [home.session(name) for name in options.sessions] or None
    start = time.monotonic()
    with output.progress_bar("looking for secrets") as progress:
        found = scan_service.scan(home, chosen, data=own_data(options), everywhere=True, progress=progress)
    seconds = time.monotonic() - start
    if not print_data(options, _scanned(found, seconds), found.findings):
        _tell_scan(options, found, seconds)
    for note in (*_of_other_agents(home, found), *found.notes):
        output.note(note)
    for path, reason in found.problems[:_PROBLEMS_SHOWN]:
        output.note(visible(f"could not be read: {path}: {reason}"))
    if len(found.problems) > _PROBLEMS_SHOWN:
        output.note(f"… and {len(found.problems) - _PROBLEMS_SHOWN:,} more: --json lists all")
    return _UNREADABLE if found.problems else int(bool(found.findings))


def _scanned(found: SecretScan, seconds: float) -> dict[str, object]:
    summary = {
        "findings": len(found.findings),
        "secrets": found.secrets,  # different ones
        "by_kind": dict(Counter(one.kind for one in found.findings).most_common()),
        "files": found.files,
        "bytes": found.bytes,
        "seconds": round(seconds, 3),
        "ignored": found.ignored,
        "unreadable": len(found.problems),
    }
    return {
        "secrets": by_secret(found.findings),
        "findings": found.findings,
        "summary": summary,
        "problems": _unread(found.problems),
    }


def _of_other_agents(home: Homes, found: SecretScan) -> Iterator[str]:
    """What was found in our copy of another agent's home is in that home too, which no command of ours changes."""
    for one in home.homes:
        said = kept_by_its_client(one)
        if said and any(Path(finding.path).is_relative_to(one.root) for finding in found.findings):
            yield visible(f"{one.root}: {said}, and have these secrets too")


def _tell_scan(options: Namespace, found: SecretScan, seconds: float) -> None:
    secrets = by_secret(found.findings)
    shown = len(_tell_places(options, found) if options.verbose else _tell_secrets(options, secrets))
    rest = len(found.findings if options.verbose else secrets) - shown
    if rest:
        output.say(f"… and {rest:,} more: --limit 0 shows all", "dim")
    rate = found.bytes / max(seconds, 1e-9)
    looked = f"{counted(found.files, 'file')}, {size(found.bytes)}, {size(int(rate))}/s"
    ignored = f"; {found.ignored:,} on the allow list" if found.ignored else ""
    if found.problems:
        unread = counted(len(found.problems), "path")
        output.say(f"Incomplete: {unread} could not be read", "red")
    if not secrets:
        read = " in what could be read" if found.problems else ""
        output.say(f"No secrets found{read} ({looked}){ignored}")
        return
    many = f"{counted(len(secrets), 'secret')} in {counted(len(found.findings), 'place')}"
    output.say(output.styled(many, "red") + f" ({looked}){ignored}")
    output.say(
        f"Remove one everywhere with: {command(options, 'secrets', 'remove', secrets[0].fingerprint)}"
        " (or --all; -v lists each place)"
    )
    output.say("Also revoke them at the service that issued them: they were stored on disk in clear text.")


def _first(options: Namespace, count: int) -> int:
    return _SHOWN if options.limit is None else options.limit or count


def _tell_secrets(options: Namespace, secrets: Sequence[FoundSecret]) -> Sequence[FoundSecret]:
    shown = secrets[: _first(options, len(secrets))]
    for one in shown:
        output.say(_secret_row(one))
    return shown


def _secret_row(one: FoundSecret) -> str:
    names = ", ".join(short_id(name) for name in one.sessions[:3])
    names += ", …" if len(one.sessions) > 3 else ""
    places = [f"{counted(len(one.sessions), 'session')} ({names})"] if one.sessions else []
    places += [name if count == 1 else f"{name} ({count:,})" for name, count in one.places.items()]
    return f"{output.styled(padded(one.kind, 24), 'yellow')} {one.fingerprint}  {visible(', '.join(places))}"


def _tell_places(options: Namespace, found: SecretScan) -> Sequence[SecretFinding]:
    shown = found.findings[: _first(options, len(found.findings))]
    for path, rows in groupby(shown, key=lambda one: one.path):
        output.say(visible(path), "bold")
        for one in rows:
            output.say(f"  {_row(one)}")
    return shown


def _row(one: SecretFinding) -> str:
    kind = output.styled(padded(one.kind, 24), "yellow")
    whose = f"{short_id(one.session)} " if one.session and one.role in ("history", "paste") else ""
    place = f"{whose}line {one.line:,}, byte {one.offset:,}"
    return f"{kind} {one.fingerprint}  {visible(place)}" + (f"  {visible(one.field)}" if one.field else "")


def add_redact_options(parser: ArgumentParser) -> None:
    about = "fingerprint of a secret, or one session"
    parser.add_argument("names", metavar="FINGERPRINT", nargs="*", help=about)
    flag(parser, "--all", "every secret")
    flag(parser, "--everywhere", "of a session: also clean archive, trash, undo and quarantine, for good")
    add_apply(parser)


def run_redact(options: Namespace) -> int:
    if bool(options.names) == options.all:
        raise UsageError(
            "secrets remove: --all takes no other name"
            if options.all
            else "secrets remove: nothing was named",
            hint="`recollect secrets` lists them; for example: recollect secrets remove 30877f57",
        )
    data = own_data(options)
    if options.apply:
        undo.recovered(data)  # a killed redaction has put marks into some files, and takes them out again
    home = open_home(options.homes)
    session = _named_session(home, options.names)
    if session is None:
        return _by_secret(options, home, data)
    if options.everywhere:
        return _everywhere(options, session, data)
    applied: Change | None = None
    if options.apply:
        plan, applied = redact_service.redact(session, data)
    else:
        plan = redact_service.planned_redaction(session, data)
    if options.json:
        output.print_json(_document(options, plan, applied))
    else:
        _tell_redact(options, plan, applied, command_name(session.id, session.path))
    for note in plan.notes:
        output.note(visible(note))
    return _status(plan.unread, plan.left if options.apply else ())


_FINGERPRINT = re.compile(r"(?:[a-z0-9-]+:)?([0-9a-f]{8})")


def _named_session(home: Homes, names: Sequence[str]) -> Session | None:
    """The session that is named; None where secrets are. A word that may be both is the session whose id begins so."""
    are_secrets = [_FINGERPRINT.fullmatch(name) is not None for name in names]
    if len(names) != 1:
        if not all(are_secrets):
            wrong = names[are_secrets.index(False)]
            raise UsageError(
                f"secrets remove {shell_word(wrong)}: not a fingerprint",
                hint="name several secrets, or one session",
            )
        return None
    if not are_secrets[0]:
        return home.own_session(names[0])
    try:
        session = home.own_session(names[0])
    except NotFound:
        return None
    return session if session.id.startswith(names[0]) else None


def _by_secret(options: Namespace, home: Homes, data: Path) -> int:
    matches = (_FINGERPRINT.fullmatch(name) for name in options.names)
    chosen = frozenset(matched[1] for matched in matches if matched is not None)
    if options.apply:
        plan = redact_service.remove_secrets(home, chosen, data, own_cache(options))
    else:
        plan = redact_service.planned_secrets(home, chosen, data)
    changed = [*plan.findings, *(one for copy in plan.copies for one in copy.findings)]
    secrets = by_secret((*changed, *plan.left))
    if missing := chosen - {one.fingerprint for one in secrets}:
        _status(plan.unread, ())
        raise NotFound(
            f"secret {', '.join(sorted(missing))}: not found in any session or copy",
            hint="`recollect secrets` lists what there is",
        )
    if options.json:
        document = _document(options, plan, None)
        output.print_json(
            {
                **document,
                "applied": options.apply,
                "copies": _counted(plan.copies),
                "secrets": secrets,
            }
        )
    else:
        _tell_by_secret(options, plan, by_secret(changed), data)
    for note in plan.notes:
        output.note(visible(note))
    return _status(plan.unread, plan.left if options.apply else ())


def _tell_by_secret(
    options: Namespace, plan: RedactionPlan, secrets: Sequence[FoundSecret], data: Path
) -> None:
    read = " in what could be read" if plan.unread else ""
    if not secrets and not plan.left:
        output.say(f"No secrets found{read}: nothing to do")
        return
    files = [*plan.files, *plan.copies]
    if files:
        verb = "Removed" if options.apply else "Would remove"
        output.say(f"{verb} {counted(len(secrets), 'secret')} from {counted(len(files), 'file')}, for good:")
        for one in secrets:
            output.say(f"  {_secret_row(one)}")
    _tell_left(options, plan.left)
    if not files:
        return
    if not options.apply:
        undo_root = data / "undo"
        changes = {one.path.relative_to(undo_root).parts[0] for one in plan.copies if one.role == "undo"}
        others = f", nor can {', '.join(map(visible, sorted(changes)))}: their originals hold it"
        output.say(f"This cannot be undone{others if changes else ''}.")
        words = ["--all"] if options.all else options.names
        say_end(options, command(options, "secrets", "remove", *words, "--apply"), "")
    elif not plan.left:
        output.say(
            f"Searched everything again: none is left{read}. The next question builds the index again."
        )


def _everywhere(options: Namespace, session: Session, data: Path) -> int:
    if options.apply:
        plan = redact_service.redact_everywhere(session, data, own_cache(options))
    else:
        plan = redact_service.planned_everywhere(session, data)
    if options.json:
        document = _document(options, plan, None)
        output.print_json({**document, "applied": options.apply, "copies": _counted(plan.copies)})
    else:
        _tell_everywhere(options, plan, command_name(session.id, session.path))
    for note in plan.notes:
        output.note(visible(note))
    return _status(plan.unread, plan.left if options.apply else ())


def _status(unread: Sequence[tuple[str, str]], left: Sequence[SecretFinding]) -> int:
    """Name what could not be searched; the exit status."""
    for path, reason in unread:
        output.note(visible(f"could not be read: {path}: {reason}"))
    if unread:
        output.note("Incomplete: secrets in these files, if any, are still there")
    return 4 if unread or left else 0  # as for scan and check


def _tell_everywhere(options: Namespace, plan: RedactionPlan, session: str) -> None:
    verb = "Removed" if options.apply else "Would remove"
    name = output.styled(visible(short_id(plan.session or "")), "cyan")
    read = " that could be read" if plan.unread else ""
    if not plan.files and not plan.copies and not plan.left:
        output.say(f"No secrets found in {name} or in copies of it{read}: nothing to do")
        return
    _tell_left(options, plan.left)
    if not plan.files and not plan.copies:
        return
    output.say(f"{verb} the secrets of {name} from:")
    for file in plan.files:
        output.say(f"  {visible(str(file.path))} ({file.role}, {len(file.findings):,})")
    for copy in plan.copies:
        output.say(f"  {visible(str(copy.path))} ({copy.role}, {len(copy.findings):,})")
    if not options.apply:
        output.say("This cannot be undone, nor can the changes whose originals are listed as undo.")
        say_end(options, with_apply(options, "secrets remove", session, "--everywhere"), "")
    elif not plan.left:
        output.say(
            f"Searched again: none is left{' in what' + read if read else ''}. The next question builds the index again."
        )


def _tell_left(options: Namespace, left: Sequence[SecretFinding]) -> None:
    if left:
        verb = "Not removed" if options.apply else "Would stay"
        output.say(f"{verb}: {counted(len(left), 'secret')}", "red")
    for one in left:
        output.say(f"  {visible(one.path)} ({one.role}, {one.kind})")


def _document(options: Namespace, plan: RedactionPlan, applied: Change | None) -> dict[str, object]:
    """``forget`` deletes the originals; ``left`` are secrets that stay."""
    again = ["undo", applied.id] if applied is not None else []
    return {
        "session": plan.session,
        "findings": plan.findings,
        "files": _counted(plan.files),
        "open_in": plan.open_in,
        "unread": _unread(plan.unread),
        "left": plan.left,
        "applied": applied is not None,
        "change": None if applied is None else applied.id,
        "undo": command(options, *again, "--apply") if again else None,
        "forget": command(options, *again, "--forget", "--apply") if again else None,
    }


def _counted(files: Sequence[RedactedFile]) -> list[dict[str, object]]:
    return [{"path": one.path, "role": one.role, "secrets": len(one.findings)} for one in files]


def _unread(unread: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"path": path, "reason": reason} for path, reason in unread]


def _tell_redact(options: Namespace, plan: RedactionPlan, applied: Change | None, session: str) -> None:
    name = output.styled(visible(short_id(plan.session or "")), "cyan")
    if not plan.files and not plan.left:
        read = " in what could be read of" if plan.unread else " in"
        output.say(f"No secrets found{read} {name}: nothing to do")
        return
    _tell_left(options, plan.left)
    if not plan.files:
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
        output.say(f"  A client has it open (process {plan.open_in}): refused until it is closed", "red")
    if applied is None:
        say_end(options, with_apply(options, "secrets remove", session), "")
        return
    say_end(options, "", command(options, "undo", applied.id, "--apply"))
    forget = command(options, "undo", applied.id, "--forget", "--apply")
    output.say(f"The undo copy still holds the secrets. Delete it with: {forget}")
