"""One step of a change: staged, carried out, reverted.

A new file is written under a hidden name in its own directory and then swapped with the existing one in one
rename. The swapped-out file is examined before its last name is removed: if it is not the file that was kept,
another program was faster, and everything is rolled back. So no byte is lost even to a program that replaces
the file at the same moment. On systems without a swap (all but Linux) the file is examined just before the
rename.

The original is kept as a hard link where possible: a program that still has it open writes into what we keep.
Otherwise it is a copy, synced and compared.

Reverting relies on the disk only: it may run after a crash, after a crash of itself, and beside a client that
continued meanwhile. It finds one of four things: the original (nothing to do), our file (the original
returns, and ours is set aside: a client may have it open), nothing (the original returns), or a foreign file,
which stays, and the original stays in the journal.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path

from recollect.errors import Busy, DamagedData, UsageError
from recollect.store.changes.plan import FileState, JournalFile, PlannedStep, is_there, seen_or_none
from recollect.store.changes.record import ChangeFiles, RecordedStep
from recollect.system import fsops
from recollect.system.whole_files import (
    copy_tree,
    copy_verified,
    digest,
    digest_at,
    is_same_tree,
    tree_digest,
    write_new,
)


class ChangeSteps(ChangeFiles):
    """The steps of one change, by their number."""

    # --- before -------------------------------------------------------------------------------

    def check(self, number: int) -> None:
        """Refuse a step that no longer matches the files; nothing has been touched yet."""
        step, path = self.record.steps[number], self.path(number)
        new = {"create": step.path, "move": step.target}.get(step.kind)
        place = self.target(number) if step.kind == "move" else path
        vacated = {one.path for one in self.record.steps[:number] if one.kind in {"remove", "move"}}
        if step.kind != "create":
            self._require(path, step.before, read=True)
        if new is not None and new not in vacated and is_there(place):
            raise Busy(f"{place}: the path is taken now; nothing was changed", hint="plan it again")
        for one in (path, place):
            if os.path.realpath(one.parent) != str(one.parent):
                raise UsageError(
                    f"{one}: there is a link in its path now", hint="nothing was changed; plan it again"
                )

    def missing_directories(self, number: int) -> list[Path]:
        """Directories that a step needs, outermost first."""
        step = self.record.steps[number]
        if step.kind not in {"create", "move"}:
            return []
        place = self.target(number) if step.kind == "move" else self.path(number)
        missing = [above for above in place.parents if not is_there(above)]
        return missing[::-1]

    def stage(self, number: int, planned: PlannedStep) -> None:
        """Write the new file under its hidden name."""
        if planned.is_copied:
            self._stage_copy(number)
        if planned.kind not in {"create", "replace"}:
            return
        hidden, before = self._hidden(number), planned.before
        if isinstance(planned.content, JournalFile):
            sha = self._stage_kept(planned.content, hidden)
        else:
            sha = write_new(
                hidden,
                planned.content,
                mode=planned.mode,
                mtime_ns=planned.mtime_ns,
                owner=(before.user, before.group) if before else None,
            )
        self.note(number, after=FileState.of(hidden.lstat(), sha))

    def _stage_copy(self, number: int) -> None:
        """Copy what will move to another file system, and compare."""
        source, copy, seal = self.path(number), self._staged_copy(number), tree_digest(self.path(number))
        copy_tree(source, copy)
        if not is_same_tree(source, copy):
            raise Busy(f"{source}: it changed while it was copied; nothing was changed", hint="try again")
        self.note(number, after=FileState.of(copy.lstat()), seal=seal)

    def _stage_kept(self, kept: JournalFile, hidden: Path) -> str:
        sha = _hash_of_kept(kept)
        if fsops.link(kept.path, hidden):
            return sha
        seen = kept.seen
        return copy_verified(
            kept.path, hidden, mode=seen.mode, owner=(seen.user, seen.group), mtime_ns=seen.mtime_ns
        )

    def keep(self, number: int) -> None:
        """Store the original in the journal, hashed and synced, while it is still in its place."""
        step, path, kept = self.record.steps[number], self.path(number), self.kept(number)
        if step.kind not in {"replace", "remove"} or step.before is None:
            return
        self._require(path, step.before)
        if fsops.link(path, kept):
            with fsops.reading(kept) as fd:
                fsops.sync_file(fd)
                sha = digest(fd, step.before.size)
            self._require(kept, step.before)
        else:
            sha = copy_verified(path, kept)
            self._require(path, step.before)
        found = FileState.of(path.lstat(), sha)
        self._require(path, step.before, found)
        self.note(number, before=found)

    # --- doing --------------------------------------------------------------------------------

    def carry_out(self, number: int) -> None:
        """Carry out the step durably; ``Busy`` if another program interfered."""
        step, path = self.record.steps[number], self.path(number)
        try:
            if step.kind == "move":
                self._carry_out_move(number, path, self.target(number))
            elif step.kind == "create":
                fsops.rename_new(self._hidden(number), path)
            elif step.kind == "remove":
                fsops.rename_new(path, self._hidden(number))
                self._let_go(number)
            elif fsops.exchange(self._hidden(number), path):
                self._let_go(number)
            else:
                self._rename_over(number, path)
        except FileExistsError as cause:
            raise Busy(
                f"{cause.filename2 or cause.filename}: another program created it meanwhile; nothing was changed",
                hint="plan it again",
            ) from cause
        except FileNotFoundError:
            self._require(path, step.before)
            raise
        fsops.sync_dir(path.parent)

    def _let_go(self, number: int, suffix: str = "") -> None:
        """Remove the last name in the home of a kept file, if it is that file."""
        hidden = self._hidden(number, suffix)
        self._require(hidden, self.record.steps[number].before, of=self.path(number))
        fsops.unlink(hidden)

    def _rename_over(self, number: int, path: Path) -> None:
        """The fallback way to replace a file: it could change between the check and the rename."""
        has_second_name = fsops.link(path, self._hidden(number, "b"))
        self._require(path, self.record.steps[number].before)
        fsops.rename_over(self._hidden(number), path)
        if has_second_name:
            self._let_go(number, "b")

    def _carry_out_move(self, number: int, source: Path, target: Path) -> None:
        if self.record.steps[number].is_copied:
            # The client opens a log by its path for every write: after a rename it adds nothing more.
            fsops.rename_new(source, self._hidden(number))
            self.require_untouched(number)
            fsops.rename_new(self._staged_copy(number), target)
        else:
            fsops.rename_new(source, target)
            self._require(target, self.record.steps[number].before, of=source)
        fsops.sync_dir(target.parent)

    def require_untouched(self, number: int) -> None:
        """``Busy`` if bytes reached an original after it was kept, through an open descriptor."""
        step = self.record.steps[number]
        if step.is_copied and not self._is_as_copied(number):
            raise Busy(
                f"{self.path(number)}: it changed while it was copied; nothing was changed", hint="try again"
            )
        if step.kind in {"replace", "remove"} and step.before is not None:
            found = seen_or_none(self.kept(number))
            if step.before.is_same_file(found):
                self._require(self.kept(number), step.before, of=self.path(number))

    def is_carried_out(self, number: int) -> bool:
        """Whether a step is complete according to the disk; False if in doubt."""
        step = self.record.steps[number]
        path = self.path(number)
        if step.kind == "move":
            found, moved = seen_or_none(self.target(number)), step.after if step.is_copied else step.before
            return moved is not None and moved.is_same_file(found)
        if is_there(self._hidden(number)) or is_there(self._hidden(number, "b")):
            return False
        return not is_there(path) if step.kind == "remove" else self._is_our_file(number, path)

    def note_result(self, number: int) -> None:
        """Record the result of a move, so that an undo can detect later changes."""
        if self.record.steps[number].kind == "move":
            self.note(number, after=moved_state(self.target(number)))

    def _is_as_copied(self, number: int) -> bool:
        """Whether the original of a copy, under its hidden name, is still what was copied."""
        hidden = self._hidden(number)
        return is_there(hidden) and tree_digest(hidden) == self.record.steps[number].seal

    def dissolve(self) -> None:
        """Delete the originals of completed copies, then the record. An original that was written to since it was
        copied stays, under its hidden name.
        """
        for number, step in enumerate(self.record.steps):
            if step.is_copied and self.record.state == "done":
                # Under a name of its own, a tree that a crash left half deleted is not taken for one that changed.
                if self._is_as_copied(number):
                    fsops.rename_new(self._hidden(number), self._hidden(number, "d"))
                discard_tree(self._hidden(number, "d"))
        super().dissolve()

    def _require(
        self,
        path: Path,
        before: FileState | None,
        found: FileState | None = None,
        *,
        of: Path | None = None,
        read: bool = False,
    ) -> None:
        """``Busy`` unless this is the planned file."""
        if before is None:
            return
        found = found or seen_or_none(path)
        if read and before.sha256 and found is not None and found.is_file:
            found = FileState.at(path, with_hash=True)
        difference = before.difference(found)
        if difference:
            raise Busy(
                f"{of or path}: {difference} since the change was planned; nothing was changed",
                hint="plan it again",
            )

    # --- taking back --------------------------------------------------------------------------

    def unstage(self, number: int) -> None:
        """Remove the staged file of a change that had not begun."""
        if self.record.steps[number].is_copied:
            discard_tree(self._staged_copy(number))
        for suffix in ("", "b", "p"):
            hidden = self._hidden(number, suffix)
            if is_there(hidden):
                fsops.unlink(hidden)
                fsops.sync_dir(hidden.parent)

    def take_back(self, number: int) -> None:
        """Restore the state before the step, whether it was carried out, begun, or neither."""
        step = self.record.steps[number]
        if step.kind == "move":
            self._move_back(number)
            return
        path, hidden = self.path(number), self._hidden(number)
        if not is_there(path.parent):
            if step.kind == "create":
                return
            fsops.make_directories(path.parent)
        back, part = self._hidden(number, "b"), self._hidden(number, "p")
        if is_there(part):
            fsops.unlink(part)
        if step.kind == "create":
            if self._is_our_file(number, path) and not is_there(hidden):
                self._set_aside(number, path)
                fsops.rename_new(path, hidden)
        elif not self._is_staged(number, hidden) and self._is_vacant(number, path):
            found = [one for one in (hidden, back) if is_there(one) and not self._is_our_file(number, one)]
            self._return(number, found[0] if found else self._restaged(number))
        self._discard(number, hidden)
        self._discard(number, back)
        fsops.sync_dir(path.parent)

    def _is_vacant(self, number: int, path: Path) -> bool:
        """Whether the original may return: nothing is there, or our own file. A foreign file stays."""
        return not is_there(path) or self._is_our_file(number, path)

    def _return(self, number: int, original: Path) -> None:
        """Put a file back under its own name; our file there is set aside, not deleted."""
        path = self.path(number)
        if not is_there(path):
            fsops.rename_new(original, path)
            return
        self._set_aside(number, path)
        if not fsops.exchange(original, path):
            fsops.rename_over(original, path)

    def _restaged(self, number: int) -> Path:
        """The kept original under a hidden name in its own directory."""
        before, kept = self.record.steps[number].before, self.kept(number)
        back, part = self._hidden(number, "b"), self._hidden(number, "p")
        if before is None or not is_there(kept):
            raise FileNotFoundError(errno.ENOENT, "the kept original is missing", str(kept))
        _hash_of_kept(JournalFile(kept, before))
        if not fsops.link(kept, back):
            owner = (before.user, before.group)
            copy_verified(kept, part, mode=before.mode, owner=owner, mtime_ns=before.mtime_ns)
            fsops.rename_new(part, back)
        return back

    def _move_back(self, number: int) -> None:
        source, target = self.path(number), self.target(number)
        if self.record.steps[number].is_copied:
            if is_there(self._hidden(number)):
                self._return_moved(number, self._hidden(number), source)
            self._withdraw_copy(number, source, target)
        elif self._is_moved(number):
            self._return_moved(number, target, source)

    def _withdraw_copy(self, number: int, source: Path, target: Path) -> None:
        """Remove the copy, once the original is back; a copy that others have written to stays."""
        before, copy = self.record.steps[number].before, self._staged_copy(number)
        if before is None or not before.is_same_file(seen_or_none(source)):
            return
        if self._is_staged(number, target) and is_same_tree(target, source):
            fsops.rename_new(target, copy)
        discard_tree(copy)
        if is_there(target.parent):
            fsops.sync_dir(target.parent)

    def _return_moved(self, number: int, moved: Path, source: Path) -> None:
        fsops.make_directories(source.parent)
        if is_there(source) and not fsops.remove_directory(source):
            if not source.is_file() or source.is_symlink():
                raise FileExistsError(
                    errno.EEXIST, "another file is in its place: move that away", str(source)
                )
            self._set_aside(number, source)
            fsops.unlink(source)
        fsops.rename_new(moved, source)
        fsops.sync_dir(source.parent)
        fsops.sync_dir(moved.parent)

    def _is_staged(self, number: int, path: Path) -> bool:
        """Whether this is the staged file."""
        after = self.record.steps[number].after
        return after is not None and after.is_same_file(seen_or_none(path))

    def _is_our_file(self, number: int, path: Path) -> bool:
        """Whether it is the file that this step created, perhaps with bytes that others added."""
        after, found = self.record.steps[number].after, seen_or_none(path)
        if after is None or found is None or not found.is_file:
            return False
        return after.is_same_file(found) or (
            after.size == found.size and after.sha256 == digest_at(path, found.size)
        )

    def _discard(self, number: int, path: Path) -> None:
        """Remove a hidden file whose bytes are ours or kept; otherwise set it aside."""
        found = seen_or_none(path)
        if found is None:
            return
        in_place = seen_or_none(self.path(number))
        if not found.is_same_file(in_place) and not self._is_known(number, path, found):
            self._set_aside(number, path)
        fsops.unlink(path)

    def _set_aside(self, number: int, path: Path) -> None:
        """Keep a file that was visible in the home: another program may have it open and write to it later
        (S6).
        """
        found, asides = FileState.at(path), self.asides()
        if any(found.is_same_file(seen_or_none(one)) for one in asides):
            return
        fsops.make_directories(self.aside_directory)
        place = self.aside_directory / f"{number}-{os.urandom(4).hex()}"
        if not fsops.link(path, place):
            # A copy cannot receive later writes, and these bytes are already stored.
            if self._is_known(number, path, found):
                return
            copy_verified(path, place)
        fsops.sync_dir(self.aside_directory)

    def _is_known(self, number: int, path: Path, found: FileState) -> bool:
        """Whether all bytes of a file are ours, or kept."""
        step, kept = self.record.steps[number], seen_or_none(self.kept(number))
        known = [step.after, step.before if kept is not None else None]
        hashes = [one.sha256 for one in known if one is not None and one.size == found.size]
        return found.is_same_file(kept) or (bool(hashes) and digest_at(path, found.size) in hashes)

    def superfluous(self) -> list[Path]:
        """Kept originals whose bytes are all back in the home."""
        return [
            self.kept(number)
            for number, step in enumerate(self.record.steps)
            if step.before is not None
            and is_there(self.kept(number))
            and (self.record.state == "preparing" or self._is_original(number, step))
        ]

    def _is_original(self, number: int, step: RecordedStep) -> bool:
        found, kept, before = seen_or_none(self.path(number)), FileState.at(self.kept(number)), step.before
        if kept.is_same_file(found):
            return True
        if found is None or before is None or not found.is_file or kept.size != before.size:
            return False
        return found.size >= before.size and digest_at(self.path(number), before.size) == before.sha256


def moved_state(path: Path) -> FileState:
    """The state of a moved file or directory; for a directory, with a hash of its contents."""
    found = path.lstat()
    return FileState.of(found, tree_digest(path) if stat.S_ISDIR(found.st_mode) else "")


def _hash_of_kept(kept: JournalFile) -> str:
    """The hash of a kept file, which must begin with the bytes that were stored."""
    try:
        fd = fsops.open_nofollow(kept.path)
    except FileNotFoundError as cause:
        raise _damaged(kept) from cause
    try:
        size = fsops.size_of(fd)
        # A client that had it open may have added lines since: they are restored too.
        if size < kept.seen.size or digest(fd, kept.seen.size) != kept.seen.sha256:
            raise _damaged(kept)
        return kept.seen.sha256 if size == kept.seen.size else digest(fd, size)
    finally:
        fsops.close_quietly(fd)


def _damaged(kept: JournalFile) -> DamagedData:
    return DamagedData(
        f"{kept.path}: the kept original is missing or was changed",
        hint="look at that directory",
    )


def discard_tree(path: Path) -> None:
    """Delete it for good, if it is there: a copy, or an original whose copy was compared."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
