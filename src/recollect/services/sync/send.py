"""Send logs, session by session, to their places on the remote.

Separate from ``push``, which mostly finds nothing to do and should not load all this.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from recollect.errors import Busy, NotFound, RecollectError, StorageError
from recollect.model.line_split import NEWLINE, last_seam
from recollect.services.sync.lines import OutgoingLines, renaming
from recollect.services.sync.push import BranchedSession, PushOptions, PushResult
from recollect.services.sync.repositories import RepositoryIdentities
from recollect.services.sync.selection import OutgoingFile, PushScan, is_session_name
from recollect.storage.home import first_text
from recollect.storage.logs.reader import OpenLog
from recollect.storage.sync_state import (
    KnownFile,
    KnownLog,
    StateFile,
    SyncState,
    SyncTarget,
    ValueMapping,
)
from recollect.sync.remote import (
    PositionConflict,
    Remote,
    SessionDescription,
    SessionGone,
    SideFileChanged,
    lines_of,
)
from recollect.sync.wire import START, Position
from recollect.system.progress import ProgressCallback

_BATCH = 4 << 20
_TAIL = 1_024
_SAVE_EVERY = 5.0
_MOST_BRANCHES = 64
_MOST_TURNS = 16
_REST = b"rest of the line before: "


class _Diverged(Exception):
    """The local log and the remote's have different lines at one position."""


class Sender:
    """Sends changed files, and records the results in the state."""

    def __init__(
        self,
        homes: Sequence[Path],
        kept: StateFile,
        state: SyncState,
        options: PushOptions,
        *,
        connect: Callable[[], Remote],
        done: PushResult,
    ) -> None:
        self._homes, self._kept, self._options, self._connect = homes, kept, options, connect
        self._state, self.done = state, done
        self._secrets = options.secrets() if options.secrets is not None else None
        self._repositories = RepositoryIdentities()
        self._remote: Remote | None = None
        self._saved_at = time.monotonic()
        self._is_changed = False
        # The last session whose own log the remote did not have.
        self.absent: str | None = None

    def run(
        self, changed: Iterable[OutgoingFile], only: set[str] | None, progress: ProgressCallback | None
    ) -> None:
        """Send them, of some sessions or of all."""
        groups = self._groups(changed, only)
        total, sent = sum(one.size for group in groups for one in group), 0
        try:
            for group in groups:
                self._session(group)
                sent += sum(one.size for one in group)
                if progress is not None:
                    progress(sent, total)
                self._save(at_once=False)
        finally:
            self._save(at_once=True)
            if self._remote is not None:
                self._remote.close()
        if self._secrets is not None:
            self.done.replaced = self._secrets.replaced
            self.done.notes += self._secrets.notes

    def waiting(self, changed: Iterable[OutgoingFile]) -> list[tuple[str, int]]:
        """Sessions that may be sent, and how many of their bytes are not yet."""
        groups = [
            group for group in self._groups(changed, None) if self._description(group[0].owner) is not None
        ]
        return [(group[0].session, sum(one.size - self._sent(one) for one in group)) for group in groups]

    def _groups(self, changed: Iterable[OutgoingFile], only: set[str] | None) -> list[list[OutgoingFile]]:
        """Files by session, the newest first; logs before side files."""
        groups: dict[str, list[OutgoingFile]] = {}
        for one in changed:
            owned = one if one.owner else self._owned(one)
            if owned is not None and (only is None or owned.session in only):
                groups.setdefault(owned.owner, []).append(owned)
        for group in groups.values():
            group.sort(key=lambda one: (not one.is_log, one.key))
        return sorted(groups.values(), key=lambda group: max(one.mtime_ns for one in group), reverse=True)

    def _owned(self, one: OutgoingFile) -> OutgoingFile | None:
        """A flat sub-agent's file with the session its lines name; None where they name none."""
        log = one.path if one.is_log else one.path.removesuffix(".meta.json") + ".jsonl"
        session = self._state.owners.get(log)
        if session is None:
            session = first_text(Path(log), "session_id")
            if session is None or not is_session_name(session):
                return None
            self._state.owners[log] = session
            self._is_changed = True
        return one._replace(owner=str(Path(one.path).with_name(session)), session=session)

    def _sent(self, one: OutgoingFile) -> int:
        known = self._state.logs.get(one.path)
        return min(known.sent, one.size) if known is not None else 0

    def _description(self, owner: str) -> SessionDescription | None:
        """The description of a session; None where the lists exclude it."""
        options, directories = self._options, self._state.directories
        if owner not in directories:
            directories[owner] = first_text(Path(owner + ".jsonl"), "cwd") or ""
            self._is_changed = True
        directory = directories[owner]
        if not options.projects.allows(directory):
            return None
        if options.sealer is not None:
            # Project names are private too.
            return SessionDescription(machine=options.machine or None, encrypted=True)
        root, identity = self._repositories.of(directory)
        project = root or directory
        target = self._state.targets.get(owner)
        for mapping in renaming(target.renamed, outward=True) if target is not None else ():
            project = mapping.moved(project) or project  # the remote knows it by its original path
        return SessionDescription(project or None, identity, options.machine or None)

    # --- one session ----------------------------------------------------------------------------

    def _session(self, group: list[OutgoingFile]) -> None:
        owner, session = group[0].owner, group[0].session
        description = self._description(owner)
        if description is None:
            self.done.denied += 1
            return
        target = self._state.targets.get(owner) or SyncTarget(session)
        if not target.session:
            return
        before = (self.done.lines, self.done.files)
        try:
            self._send_session(group, target, description)
        except SessionGone:
            self._state.targets[owner] = SyncTarget("")
            self._is_changed = True
            self.done.gone.append(session)
        except Busy:
            raise
        except (RecollectError, OSError) as problem:
            if isinstance(problem, OSError):
                problem = StorageError("read", Path(group[0].path), problem, hint="try again")
            self.done.problems.append((group[0].path, problem.message))
        # Files that a deleted session left behind are sent, and are no session.
        is_whole = Path(f"{owner}.jsonl").exists()
        self.done.sessions += is_whole and before != (self.done.lines, self.done.files)

    def _send_session(
        self, group: list[OutgoingFile], target: SyncTarget, description: SessionDescription
    ) -> None:
        owner, session = group[0].owner, group[0].session
        for number in range(_MOST_BRANCHES):
            try:
                for one in group:
                    self._send(one, target, description)
                return
            except _Diverged:
                target = self._branch(owner, session, target, number)
                self._state.targets[owner] = target
                self._is_changed = True
                self.done.branches.append(BranchedSession(session, target.session))
                # Every log of the session is sent, including those without news.
                group = self._all_of(owner)

    def _branch(self, owner: str, session: str, target: SyncTarget, number: int) -> SyncTarget:
        """The same name at every attempt, and another for every machine, home and branch."""
        text = "\0".join(("recollect branch", target.session, self._options.machine_id, owner, str(number)))
        name = str(uuid.UUID(bytes=sha256(text.encode("utf-8", "surrogateescape")).digest()[:16], version=4))
        kept = tuple(one for one in target.renamed if "sessionId" not in one.fields)
        return SyncTarget(name, (*kept, ValueMapping(name, session, ("sessionId",))))

    def _all_of(self, owner: str) -> list[OutgoingFile]:
        found = []
        for home in self._homes:
            for one in PushScan(home).files():
                owned = one if one.owner else self._owned(one)
                if owned is not None and owned.owner == owner:
                    found.append(owned)
        return sorted(found, key=lambda one: (not one.is_log, one.key))

    def _send(self, one: OutgoingFile, target: SyncTarget, description: SessionDescription) -> None:
        try:
            if one.is_log:
                _LogPush(self, one, target, description).run()
            else:
                self._send_file(one, target)
        except NotFound:
            return  # it was removed meanwhile

    def _send_file(self, one: OutgoingFile, target: SyncTarget) -> None:
        remote = self.remote
        with OpenLog(Path(one.path)) as opened:
            data = opened.read_all(one.size, 0)
        data = self.outgoing(one, target).file(Path(one.path).name, data)
        if len(data) > remote.limits().body_bytes:
            self.done.problems.append((one.path, "larger than the remote accepts"))
            self._state.files[one.path] = _known_file(one, "", target)
            return
        known = self._state.files.get(one.path)
        there = known.sha256 or None if known is not None and known.session == target.session else None
        key = self._kept_under(target.session, one.key, data, there)
        self._state.files[one.path] = _known_file(one, sha256(data).hexdigest(), target, key)
        self.done.files += 1
        self.done.bytes += one.size
        self._is_changed = True

    def _kept_under(self, session: str, key: str, data: bytes, known: str | None) -> str:
        """Store a side file; if another machine stored its own, ours goes beside it."""
        try:
            self.remote.put_file(session, key, data, known)
            return key
        except SideFileChanged:
            own = f"{key}.of-{self._options.machine_id[:8]}"
        try:
            self.remote.put_file(session, own, data, None)
        except SideFileChanged:
            there = self.remote.file(session, own)
            self.remote.put_file(session, own, data, sha256(there).hexdigest() if there is not None else None)
        return own

    # --- for one log ----------------------------------------------------------------------------

    @property
    def remote(self) -> Remote:
        """Connected when the first item is sent."""
        if self._remote is None:
            self._remote = self._connect()
        return self._remote

    @property
    def state(self) -> SyncState:
        return self._state

    def outgoing(self, one: OutgoingFile, target: SyncTarget) -> OutgoingLines:
        return OutgoingLines(target.session, one.key, target.renamed, self._secrets, self._options.sealer)

    def remember(self, path: str, known: KnownLog) -> None:
        """Record that a log was sent up to here."""
        self._state.logs[path] = known
        self._is_changed = True
        self._save(at_once=False)

    def _save(self, *, at_once: bool) -> None:
        if self._is_changed and (at_once or time.monotonic() - self._saved_at > _SAVE_EVERY):
            self._kept.save(self._state)
            self._saved_at, self._is_changed = time.monotonic(), False


class _OutgoingBatch(NamedTuple):
    """Lines to send, and the length of what they were in the log."""

    lines: bytes
    length: int


class _LogPush:
    """One log, from the last sent position to its last whole line."""

    def __init__(
        self, push: Sender, one: OutgoingFile, target: SyncTarget, description: SessionDescription
    ) -> None:
        self._push, self._one, self._target, self._description = push, one, target, description
        self._outgoing = push.outgoing(one, target)

    def run(self) -> None:
        with OpenLog(Path(self._one.path)) as log:
            self._size = min(log.size(), self._one.size)
            self._end = log.committed_end(self._size)
            self._log = log
            offset, at = self._begin()
            for _ in range(_MOST_TURNS):
                try:
                    offset, at = self._send_from(offset, at)
                    break
                except PositionConflict as other:
                    offset, at = self._met(other.head.position)
            else:
                raise Busy(f"{self._one.path}: other machines keep writing to it", hint="try again")
            self._remember(offset, at, self._one.size)

    def _begin(self) -> tuple[int, Position]:
        """Where to continue: the last sent position, if the bytes before are unchanged; else the remote's."""
        known = self._push.state.logs.get(self._one.path)
        if (
            known is not None
            and (known.session, known.key) == (self._target.session, self._one.key)
            and known.inode == self._one.inode
            and known.sent <= self._size
            and known.tail == self._tail(known.sent)
        ):
            return known.sent, Position(known.lines, known.hash)
        session, key = self._target.session, self._one.key
        # Nor has the remote other logs of a session whose own it does not have. If it has one after all, it refuses to
        # append at the start, and says where that log ends.
        if key and session == self._push.absent:
            return 0, START
        head = self._push.remote.head(session, key)
        if head is None and not key:
            self._push.absent = session
        return (0, START) if head is None else self._met(head)

    def _send_from(self, offset: int, at: Position) -> tuple[int, Position]:
        remote = self._push.remote
        limits = remote.limits()
        while True:
            batch = self._batch(offset, limits.body_bytes, limits.lines)
            if not batch.length:
                return offset, at
            if not batch.lines:
                offset += batch.length
                continue
            data = self._outgoing.lines(batch.lines, at.lines)
            after = at.after(lines_of(data))
            there = remote.append(self._target.session, self._one.key, at, data, self._description)
            if there != after:
                raise Busy(
                    f"{self._one.path}: the remote's position does not match its lines",
                    hint="try again; if it persists, the remote is not a recollect server",
                )
            self._push.done.lines += after.lines - at.lines
            self._push.done.bytes += batch.length
            offset, at = offset + batch.length, after
            # The recorded size is only the part sent: until all of it is sent, it must look new.
            self._remember(offset, at, offset)

    def _batch(self, offset: int, most: int, most_lines: int) -> _OutgoingBatch:
        """Whole lines from here on, at most what the remote accepts at once.

        An entry at the end of the log is sent with the newline it lacks. When that comes, it is passed over.
        """
        if offset >= self._size:
            return _OutgoingBatch(b"", 0)
        if offset >= self._end or (offset and self._log.read(1, offset - 1) != NEWLINE):
            line = next(self._log.lines(offset, self._size), None)
            if line is None or line.offset != offset:
                return _OutgoingBatch(b"", 0)
            data = self._log.read_all(line.length, offset).removesuffix(NEWLINE)
            if offset < self._end and data.lstrip()[:1] in (b"{", b"["):
                data = _REST + data  # the rest of a line is no entry, and must not be one there
            return _OutgoingBatch(data + NEWLINE if data.strip() else b"", line.length)
        block = self._block(offset, most, most_lines)
        return _OutgoingBatch(block, len(block))

    def _block(self, offset: int, most: int, most_lines: int) -> bytes:
        wanted, room = min(_BATCH, most), self._end - offset
        while True:
            data = self._log.read_all(min(wanted, room), offset)
            # The remote reads each batch for itself, so a value over several lines stays in one if it can.
            cut = len(data) if len(data) == room else last_seam(data)
            if cut <= 0 and wanted >= most:
                cut = data.rfind(NEWLINE) + 1
            if cut > 0 or len(data) < min(wanted, room):
                break
            if wanted >= most:
                raise StorageError(
                    "send",
                    Path(self._one.path),
                    None,
                    hint="it has a line that is longer than the remote accepts",
                )
            wanted = min(wanted * 4, most)
        block = data[: max(0, cut)]
        length = _end_of_lines(block, most_lines)
        if length < len(block):
            block = block[: max(last_seam(block[: length + 1]), 0) or length]
        return block

    def _met(self, head: Position) -> tuple[int, Position]:
        """Find the remote's position in our log. ``_Diverged`` if it is not there."""
        offset, at = 0, START
        limits = self._push.remote.limits()
        while at.lines < head.lines:
            batch = self._batch(offset, limits.body_bytes, limits.lines)
            if not batch.length:
                break
            data, length = self._outgoing.lines(batch.lines, at.lines), batch.length
            if at.lines + data.count(NEWLINE) > head.lines:
                keep = head.lines - at.lines
                own = [line for _, line in zip(range(keep), lines_of(batch.lines), strict=False)]
                sent = [line for _, line in zip(range(keep), lines_of(data), strict=False)]
                length, data = sum(map(len, own)), b"".join(sent)
            at = at.after(lines_of(data))
            offset += length
        if at == head:
            return offset, at
        if at.lines < head.lines and self._push.remote.is_at(self._target.session, self._one.key, at):
            self._push.done.ahead.append(self._one.session)
            # The rest of our log is at most an unfinished line.
            self._size = offset
            return offset, at
        raise _Diverged

    def _tail(self, offset: int) -> bytes:
        start = max(0, offset - _TAIL)
        return sha256(self._log.read_all(offset - start, start)).digest()[:16]

    def _remember(self, sent: int, at: Position, size: int) -> None:
        one, target = self._one, self._target
        tail = self._tail(sent)
        known = KnownLog(
            size, one.mtime_ns, one.inode, sent, at.lines, at.hash, tail, target.session, one.key
        )
        self._push.remember(one.path, known)


def _end_of_lines(block: bytes, most: int) -> int:
    """Where so many lines end, or the block does: a fraction of the time that it takes to count all of them."""
    end = 0
    for _ in range(most):
        end = block.find(NEWLINE, end) + 1
        if not end:
            return len(block)
    return end


def _known_file(one: OutgoingFile, digest: str, target: SyncTarget, key: str = "") -> KnownFile:
    return KnownFile(one.size, one.mtime_ns, one.inode, digest, target.session, key or one.key)
