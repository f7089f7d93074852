"""The steps that take a finished change back, and why they might not be wanted.

An undo is a change like any other, in the opposite order: what was replaced or removed comes out of the
journal's keeping, what was made is taken into it, what was moved moves back.

A file that is no longer what the change made of it has a life of its own by now. Then the undo is refused,
unless it is forced; the present bytes are kept by the undo like those of any other change.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recollect.errors import DamagedData, UsageError
from recollect.storage.changes.plan import FileState, JournalFile, PlannedStep, is_there, seen_or_none
from recollect.storage.changes.steps import ChangeSteps, moved_state
from recollect.system.whole_files import digest_at


def undo_steps(change: ChangeSteps, *, force: bool) -> list[PlannedStep]:
    """What takes this change back; refused where files have changed since, unless forced."""
    changed = list(_changed_since(change))
    if changed and not force:
        more = f", and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise UsageError(
            f"undo {change.record.id}: {changed[0]}{more}; nothing was changed",
            hint="with --force the earlier bytes come back, and the present ones are kept with the undo",
        )
    numbers = reversed(range(len(change.record.steps)))
    return [planned for number in numbers for planned in _reversed(change, number)]


def _changed_since(change: ChangeSteps) -> Iterator[str]:
    for number, step in enumerate(change.record.steps):
        path = change.target(number) if step.kind == "move" else change.path(number)
        if step.kind == "move" and is_there(change.path(number)):
            yield f"{change.path(number)} is there again"
        found = _found(change, number)
        if step.kind == "remove" and found is not None:
            yield f"{path} is there again"
        elif step.kind != "remove":
            difference = _difference(path, step.after, found)
            if difference:
                yield f"{path} {difference}"


def _found(change: ChangeSteps, number: int) -> FileState | None:
    """What stands where a step left something, or nothing; what a later move has brought there does not count."""
    step, later = change.record.steps[number], change.record.steps[number + 1 :]
    if any(one.target == step.path for one in later):
        return None
    return seen_or_none(change.target(number) if step.kind == "move" else change.path(number))


def _difference(path: Path, after: FileState | None, found: FileState | None) -> str | None:
    """How a file differs from what the change left, in words."""
    if found is None or after is None:
        return "is gone"
    if after.is_directory:
        is_same = found.is_directory and moved_state(path).sha256 == after.sha256
        return None if is_same else "holds other files, or files that were written to, since"
    if not found.is_file:
        return "is no file any more"
    if found.size != after.size:
        return f"has {found.size} bytes, and the change left {after.size}"
    if after.sha256 and digest_at(path, found.size) != after.sha256:
        return "has other bytes than the change left, as many as before"
    if not after.sha256 and found.mtime_ns != after.mtime_ns:
        return "was written to since"
    return None


def _reversed(change: ChangeSteps, number: int) -> Iterator[PlannedStep]:
    """The opposite of one step; paths are those of the step itself, for the later ones are undone by then."""
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
            f"undo {change.record.id}: what was kept of {path} is gone",
            hint=f"look into {change.directory}; nothing was changed",
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
            hint="a move keeps no copy: bring it back first",
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
