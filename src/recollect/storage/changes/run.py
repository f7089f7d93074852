"""One change from its first record to its last: the order that makes a crash harmless.

1. Write the record (*preparing*).
2. Stage new files under hidden names, store originals in the journal, sync everything.
3. Update the record (*ready*).
4. Carry out the steps one by one, each durable before the next.
5. Update the record (*done*).

Before 3 nothing visible has changed, and hidden files are removed. After it every step can be reverted, in
reverse order and repeatedly. If 4 was complete and only 5 is missing, the change is done. The disk alone
shows which of these applies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from recollect.errors import RecollectError, StorageError
from recollect.storage.changes.plan import PlannedStep
from recollect.storage.changes.record import State, is_without_record, remove_unbegun
from recollect.storage.changes.steps import ChangeSteps
from recollect.system import fsops


def run(change: ChangeSteps, planned: list[PlannedStep]) -> None:
    """Carry out a change that exists only in memory; after a failure everything is as before."""
    numbers = range(len(planned))
    with as_storage_error(change, "nothing was changed"):
        for number in numbers:
            change.check(number)
    try:
        _prepare(change, planned)
        for number in numbers:
            change.carry_out(number)
        for number in numbers:
            change.require_untouched(number)
        _finish(change)
    except BaseException as error:
        _give_up(change, error)
        with as_storage_error(change, "everything is as it was before"):
            raise


def bring_to_an_end(change: ChangeSteps) -> None:
    """Finish an interrupted change: done if every step was, else rolled back."""
    numbers = range(len(change.record.steps))
    with as_storage_error(change, f"change {change.record.id} is still unfinished, and no byte is lost"):
        change.clear_left_overs()
        if change.record.state == "ready" and all(map(change.is_carried_out, numbers)):
            _finish(change)
        else:
            _roll_back(change)


@contextlib.contextmanager
def as_storage_error(change: ChangeSteps, outcome: str) -> Iterator[None]:
    """Translate file system errors, adding the resulting state."""
    try:
        yield
    except OSError as cause:
        operation = f"{change.record.what} {change.record.subject}: change"
        hint = f"{outcome}; {fsops.next_step(cause, 'run it again')}"
        raise StorageError(operation, _place(change, cause), cause, hint=hint) from cause


def _prepare(change: ChangeSteps, planned: list[PlannedStep]) -> None:
    numbers = range(len(planned))
    missing = dict.fromkeys(path for number in numbers for path in change.missing_directories(number))
    fsops.make_directories(change.kept_directory)
    change.write(directories=tuple(path.relative_to(change.base).as_posix() for path in missing))
    for path in missing:
        fsops.make_directories(path)
    for number in numbers:
        change.stage(number, planned[number])
    for parent in {change.path(number).parent for number in numbers if planned[number].kind != "move"}:
        fsops.sync_dir(parent)
    for number in numbers:
        change.keep(number)
    fsops.sync_dir(change.kept_directory)
    change.write(state="ready")


def _finish(change: ChangeSteps) -> None:
    for number in range(len(change.record.steps)):
        change.note_result(number)
    _remove_empty(change, change.record.prunes)
    _conclude(change, "done")


def _give_up(change: ChangeSteps, error: BaseException) -> None:
    """Roll back; if that fails too, report the change as unfinished."""
    try:
        _roll_back(change)
    except (OSError, RecollectError) as second:
        raise StorageError(
            f"{change.record.what} {change.record.subject} failed ({_reason(error)}), and so did taking it back"
            f" ({_reason(second)}): change",
            _place(change, second),
            second if isinstance(second, OSError) else None,
            hint=f"no byte is lost, but change {change.record.id} is unfinished: once the cause is gone, the next "
            "command that changes files puts everything back first",
        ) from error


def _roll_back(change: ChangeSteps) -> None:
    """Undo in reverse order what was done of a change; safe to repeat after any interruption."""
    if is_without_record(change.directory):
        remove_unbegun(change.directory)
        return
    numbers = range(len(change.record.steps))
    if change.record.state == "preparing":
        for number in numbers:
            change.unstage(number)
    else:
        for number in reversed(numbers):
            change.take_back(number)
    _remove_empty(change, change.record.directories)
    change.drop(change.superfluous())
    change.clear_left_overs()
    _conclude(change, "rolled-back")


def _conclude(change: ChangeSteps, state: State) -> None:
    """Write the last state. A failed sync is harmless: the files show the state too."""
    try:
        change.write(state=state)
    except OSError:
        written = ChangeSteps.read(change.directory)
        if written is None or written.record.state != state:
            raise
        change.record = written.record


def _remove_empty(change: ChangeSteps, names: tuple[str, ...]) -> None:
    for name in reversed(names):
        path = change.inside(name)
        if fsops.remove_directory(path):
            fsops.sync_dir(path.parent)


def _place(change: ChangeSteps, cause: BaseException) -> Path:
    name = getattr(cause, "filename", None)
    return Path(name) if isinstance(name, str) else change.home


def _reason(error: BaseException) -> str:
    return error.message if isinstance(error, RecollectError) else str(error) or type(error).__name__
