"""The steps that revert a finished change, and the reasons to refuse.

An undo is a change like any other, in the opposite order: what was replaced or removed returns from the
journal, what was created is moved into it, what was moved moves back.

If a file has changed since, the undo is refused unless it is forced; then the present bytes are stored with
the undo, as for any other change.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recollect.errors import DamagedData, UsageError
from recollect.storage.changes.plan import FileState, JournalFile, PlannedStep, is_there, seen_or_none
from recollect.storage.changes.steps import ChangeSteps, moved_state
from recollect.system.whole_files import digest_at


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
