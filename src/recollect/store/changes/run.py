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

from recollect.errors import DamagedData, RecollectError, StorageError, UsageError
from recollect.store.changes.plan import FileState, JournalFile, PlannedStep, is_there, seen_or_none
from recollect.store.changes.record import State, is_without_record, remove_unbegun
from recollect.store.changes.steps import ChangeSteps, moved_state
from recollect.system import fsops
from recollect.system.whole_files import digest_at


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


def undo_steps(change: ChangeSteps, *, force: bool) -> list[PlannedStep]:
    """The steps that revert this change; refused where files have changed since, unless forced."""
    changed = list(_changed_since(change))
    if changed and not force:
        more = f", and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise UsageError(
            f"undo {change.record.id}: {changed[0]}{more}; nothing was changed",
            hint="with --force the earlier bytes are restored, and the present ones are kept with the undo",
        )
    numbers = reversed(range(len(change.record.steps)))
    return [planned for number in numbers for planned in _reversed(change, number)]


def _changed_since(change: ChangeSteps) -> Iterator[str]:
    for number, step in enumerate(change.record.steps):
        path = change.target(number) if step.kind == "move" else change.path(number)
        if step.kind == "move" and is_there(change.path(number)):
            yield f"{change.path(number)} exists again"
        found = _found(change, number)
        if step.kind == "remove" and found is not None:
            yield f"{path} exists again"
        elif step.kind != "remove":
            difference = _difference(path, step.after, found)
            if difference:
                yield f"{path} {difference}"


def _found(change: ChangeSteps, number: int) -> FileState | None:
    """The state at the result of a step; a file brought there by a later move does not count."""
    step, later = change.record.steps[number], change.record.steps[number + 1 :]
    if any(one.target == step.path for one in later):
        return None
    return seen_or_none(change.target(number) if step.kind == "move" else change.path(number))


def _difference(path: Path, after: FileState | None, found: FileState | None) -> str | None:
    """How a file differs from the result of the change, as text."""
    if found is None or after is None:
        return "is gone"
    if after.is_directory:
        is_same = found.is_directory and moved_state(path).sha256 == after.sha256
        return None if is_same else "holds other or changed files"
    if not found.is_file:
        return "is no longer a file"
    if found.size != after.size:
        return f"has {found.size} bytes; after the change it had {after.size}"
    if after.sha256 and digest_at(path, found.size) != after.sha256:
        return "has other bytes of the same length"
    if not after.sha256 and found.mtime_ns != after.mtime_ns:
        return "was written to since"
    return None


def _reversed(change: ChangeSteps, number: int) -> Iterator[PlannedStep]:
    """The opposite of one step; its own paths apply, because later steps are already undone."""
    step = change.record.steps[number]
    if step.kind == "move":
        yield from _moved_back(change, number)
        return
    path, found = change.inside(step.path), _found(change, number)
    if found is not None and not found.is_file:
        raise _in_the_way(change, change.path(number))
    if step.kind == "create":
        if found is not None:
            yield PlannedStep("remove", path, before=found)
        return
    if step.before is None or not is_there(change.kept(number)):
        raise DamagedData(
            f"undo {change.record.id}: the kept original of {path} is missing",
            hint=f"look at {change.directory}; nothing was changed",
        )
    kept = JournalFile(change.kept(number), step.before)
    yield PlannedStep("create" if found is None else "replace", path, before=found, content=kept)


def _moved_back(change: ChangeSteps, number: int) -> Iterator[PlannedStep]:
    step = change.record.steps[number]
    source, target = change.inside(step.path), change.inside(step.target or "")
    found, obstacle = _found(change, number), seen_or_none(change.path(number))
    if found is None:
        raise UsageError(
            f"undo {change.record.id}: {change.target(number)} is gone; nothing was changed",
            hint="a move keeps no copy: put it back first",
        )
    if obstacle is not None:
        if not obstacle.is_file:
            raise _in_the_way(change, change.path(number))
        yield PlannedStep("remove", source, before=obstacle)
    yield PlannedStep("move", target, source, before=found)


def _in_the_way(change: ChangeSteps, path: Path) -> UsageError:
    return UsageError(
        f"undo {change.record.id}: {path} is not a file, and it is in the way; nothing was changed",
        hint="move it away first",
    )
