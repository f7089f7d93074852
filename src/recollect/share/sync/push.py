"""Send new parts of every session to a remote.

One directory walk finds what changed since the last time; if nothing did, no connection is made. Of a log
only the lines after the last sent position are read. The remote decides: it accepts lines at the position we
name, or answers with its own. Then the local log is searched for that position. If it is in our log, we
continue from there; if ours is in the remote's log, another machine continued, and there is nothing to send.
Otherwise two machines diverged: ours becomes a session of its own there, with every line, under an id that is
the same at every attempt. Nothing is overwritten.

After any failure the next push continues where this one ended. An unfinished last line waits for its newline.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path

from msgspec import Struct

from recollect.ask.sessions.projects import RepositoryIdentities
from recollect.errors import Busy, NotFound, RecollectError, StorageError
from recollect.model.lines.damage import NEWLINE, last_seam
from recollect.share.sync.http_remote import HttpRemote
from recollect.share.sync.lines import OutgoingLines, OutgoingSecrets, renaming
from recollect.share.sync.selection import OutgoingFile, PushScan, is_session_name
from recollect.share.sync.sync import SyncClient
from recollect.share.sync.wire import (
    START,
    Position,
    PositionConflict,
    SessionDescription,
    SessionGone,
    SideFileChanged,
    lines_of,
    made_name,
)
from recollect.store.home import first_text
from recollect.store.logs.reader import OpenLog
from recollect.store.own_settings import SyncProjects, projects_to_send
from recollect.store.sync_state import KnownFile, KnownLog, SyncState, SyncTarget, ValueMapping
from recollect.system.pool import ProgressCallback

_BATCH = 4 << 20
_TAIL = 1_024
_SAVE_EVERY = 5.0
_MOST_BRANCHES = 64
_MOST_TURNS = 16
_REST = b"rest of the line before: "


class PushResult(Struct):
    """The result of a push.

    ``branches`` are sessions that diverged elsewhere, and the names of ours there; ``ahead`` those that another machine
    continued; ``denied`` were excluded by the lists.
    """

    sessions: int = 0
    lines: int = 0
    bytes: int = 0
    files: int = 0
    replaced: int = 0
    denied: int = 0
    branches: list[tuple[str, str]] = []
    ahead: list[str] = []
    gone: list[str] = []
    problems: list[tuple[str, str]] = []
    notes: list[str] = []


class _Diverged(Exception):
    """The local log and the remote's have different lines at one position."""


class Push:
    """One push of some homes to the server of a client. ``redact``: without the secrets in them."""

    def __init__(
        self,
        client: SyncClient,
        homes: Sequence[Path],
        *,
        redact: bool = False,
        encrypt: bool = False,
        projects: SyncProjects | None = None,
    ) -> None:
        self._client, self._homes = client, homes
        self._projects = projects_to_send() if projects is None else projects
        self._is_redacting, self._sealer = redact, client.sealer(make=True) if encrypt else None
        self._secrets: OutgoingSecrets | None = None
        self._repositories = RepositoryIdentities()
        self._remote: HttpRemote | None = None
        self._saved_at = time.monotonic()
        self._is_changed = False
        self.state = SyncState()
        self.done = PushResult()
        # The last session whose own log the remote did not have.
        self.absent: str | None = None

    def run(self, only: Iterable[str] | None = None, progress: ProgressCallback | None = None) -> PushResult:
        """Send what is new, of some sessions or of all."""
        with self._client.kept.locked():
            self.state = self._client.kept.load()
            changed = self._changed()
            if changed:
                if self._is_redacting:
                    self._secrets = OutgoingSecrets(self._client.data)
                self._send_groups(self._groups(changed, None if only is None else set(only)), progress)
        return self.done

    def waiting(self) -> dict[str, int]:
        """Sessions that may be sent, and how many of their bytes are not yet; nothing is sent."""
        self.state = self._client.kept.load()
        groups = self._groups(self._changed(), None)
        return {
            group[0].session: sum(file.size - self._sent(file) for file in group)
            for group in groups
            if self._description(group[0].owner) is not None
        }

    def _changed(self) -> list[OutgoingFile]:
        """Files that changed since they were sent."""
        changed: list[OutgoingFile] = []
        for home in self._homes:
            scan = PushScan(home)
            for file in scan.files():
                sent = (self.state.logs if file.is_log else self.state.files).get(file.path)
                if sent is None or (sent.size, sent.mtime_ns, sent.inode) != file[-3:]:
                    changed.append(file)
            self.done.problems += scan.problems
        return changed

    def _send_groups(self, groups: list[list[OutgoingFile]], progress: ProgressCallback | None) -> None:
        total, sent = sum(file.size for group in groups for file in group), 0
        try:
            for group in groups:
                self._session(group)
                sent += sum(file.size for file in group)
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

    def _groups(self, changed: Iterable[OutgoingFile], only: set[str] | None) -> list[list[OutgoingFile]]:
        """Files by session, the newest first; logs before side files."""
        groups: dict[str, list[OutgoingFile]] = {}
        for file in changed:
            owned = file if file.owner else self._owned(file)
            if owned is not None and (only is None or owned.session in only):
                groups.setdefault(owned.owner, []).append(owned)
        for group in groups.values():
            group.sort(key=lambda file: (not file.is_log, file.key))
        return sorted(groups.values(), key=lambda group: max(file.mtime_ns for file in group), reverse=True)

    def _owned(self, file: OutgoingFile) -> OutgoingFile | None:
        """A flat sub-agent's file with the session its lines name; None where they name none."""
        log = file.path if file.is_log else file.path.removesuffix(".meta.json") + ".jsonl"
        session = self.state.owners.get(log)
        if session is None:
            session = first_text(Path(log), "session_id")
            if session is None or not is_session_name(session):
                return None
            self.state.owners[log] = session
            self._is_changed = True
        return file._replace(owner=str(Path(file.path).with_name(session)), session=session)

    def _sent(self, file: OutgoingFile) -> int:
        known = self.state.logs.get(file.path)
        return min(known.sent, file.size) if known is not None else 0

    def _description(self, owner: str) -> SessionDescription | None:
        """The description of a session; None where the lists exclude it."""
        directories = self.state.directories
        if owner not in directories:
            directories[owner] = first_text(Path(owner + ".jsonl"), "cwd") or ""
            self._is_changed = True
        directory = directories[owner]
        if not self._projects.allows(directory):
            return None
        if self._sealer is not None:
            # Project names are private too.
            return SessionDescription(machine=self._client.login.machine or None, encrypted=True)
        root, identity = self._repositories.of(directory)
        project = root or directory
        target = self.state.targets.get(owner)
        for mapping in renaming(target.renamed, outward=True) if target is not None else ():
            project = mapping.moved(project) or project  # the remote knows it by its original path
        return SessionDescription(project or None, identity, self._client.login.machine or None)

    # --- one session ----------------------------------------------------------------------------

    def _session(self, group: list[OutgoingFile]) -> None:
        owner, session = group[0].owner, group[0].session
        description = self._description(owner)
        if description is None:
            self.done.denied += 1
            return
        target = self.state.targets.get(owner) or SyncTarget(session)
        if not target.session:
            return
        before = (self.done.lines, self.done.files)
        try:
            self._send_session(group, target, description)
        except SessionGone:
            self.state.targets[owner] = SyncTarget("")
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
                for file in group:
                    self._send(file, target, description)
                return
            except _Diverged:
                target = self._branch(owner, session, target, number)
                self.state.targets[owner] = target
                self._is_changed = True
                self.done.branches.append((session, target.session))
                # Every log of the session is sent, including those without news.
                group = self._all_of(owner)

    def _branch(self, owner: str, session: str, target: SyncTarget, number: int) -> SyncTarget:
        """The same name at every attempt, and another for every machine, home and branch."""
        name = made_name("recollect branch", target.session, self._client.machine_id, owner, str(number))
        paths = tuple(each for each in target.renamed if "sessionId" not in each.fields)
        return SyncTarget(name, (*paths, ValueMapping(name, session, ("sessionId",))))

    def _all_of(self, owner: str) -> list[OutgoingFile]:
        files = [file for home in self._homes for file in PushScan(home).files()]
        return next((group for group in self._groups(files, None) if group[0].owner == owner), [])

    def _send(self, file: OutgoingFile, target: SyncTarget, description: SessionDescription) -> None:
        try:
            if file.is_log:
                _LogPush(self, file, target, description).run()
            else:
                self._send_file(file, target)
        except NotFound:
            return  # it was removed meanwhile

    def _send_file(self, file: OutgoingFile, target: SyncTarget) -> None:
        remote = self.remote
        with OpenLog(Path(file.path)) as opened:
            data = opened.read_all(file.size, 0)
        data = self.outgoing(file, target).file(Path(file.path).name, data)
        if len(data) > remote.limits()["body_bytes"]:
            self.done.problems.append((file.path, "larger than the remote accepts"))
            self.state.files[file.path] = _known_file(file, "", target)
            return
        known = self.state.files.get(file.path)
        there = known.sha256 or None if known is not None and known.session == target.session else None
        key = self._kept_under(target.session, file.key, data, there)
        self.state.files[file.path] = _known_file(file, sha256(data).hexdigest(), target, key)
        self.done.files += 1
        self.done.bytes += file.size
        self._is_changed = True

    def _kept_under(self, session: str, key: str, data: bytes, known: str | None) -> str:
        """Store a side file; if another machine stored its own, ours goes beside it."""
        try:
            self.remote.put_file(session, key, data, known)
            return key
        except SideFileChanged:
            own = f"{key}.of-{self._client.machine_id[:8]}"
        try:
            self.remote.put_file(session, own, data, None)
        except SideFileChanged:
            there = self.remote.file(session, own)
            self.remote.put_file(session, own, data, sha256(there).hexdigest() if there is not None else None)
        return own

    # --- for one log ----------------------------------------------------------------------------

    @property
    def remote(self) -> HttpRemote:
        """Connected when the first item is sent."""
        if self._remote is None:
            self._remote = self._client.connected()
        return self._remote

    def outgoing(self, file: OutgoingFile, target: SyncTarget) -> OutgoingLines:
        return OutgoingLines(target.session, file.key, target.renamed, self._secrets, self._sealer)

    def remember(self, path: str, known: KnownLog) -> None:
        """Record that a log was sent up to here."""
        self.state.logs[path] = known
        self._is_changed = True
        self._save(at_once=False)

    def _save(self, *, at_once: bool) -> None:
        if self._is_changed and (at_once or time.monotonic() - self._saved_at > _SAVE_EVERY):
            self._client.kept.save(self.state)
            self._saved_at, self._is_changed = time.monotonic(), False


class _LogPush:
    """One log, from the last sent position to its last whole line."""

    def __init__(
        self, push: Push, file: OutgoingFile, target: SyncTarget, description: SessionDescription
    ) -> None:
        self._push, self._file, self._target, self._description = push, file, target, description
        self._outgoing = push.outgoing(file, target)

    def run(self) -> None:
        with OpenLog(Path(self._file.path)) as log:
            self._size = min(log.size(), self._file.size)
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
                raise Busy(f"{self._file.path}: other machines keep writing to it", hint="try again")
            self._remember(offset, at, self._file.size)

    def _begin(self) -> tuple[int, Position]:
        """Where to continue: the last sent position, if the bytes before are unchanged; else the remote's."""
        known = self._push.state.logs.get(self._file.path)
        if (
            known is not None
            and (known.session, known.key) == (self._target.session, self._file.key)
            and known.inode == self._file.inode
            and known.sent <= self._size
            and known.tail == self._tail(known.sent)
        ):
            return known.sent, Position(known.lines, known.hash)
        session, key = self._target.session, self._file.key
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
            lines, length = self._batch(offset, limits["body_bytes"], limits["lines"])
            if not length:
                return offset, at
            if not lines:
                offset += length
                continue
            data = self._outgoing.lines(lines, at.lines)
            after = at.after(lines_of(data))
            there = remote.append(self._target.session, self._file.key, at, data, self._description)
            if there != after:
                raise Busy(
                    f"{self._file.path}: the remote's position does not match its lines",
                    hint="try again; if it persists, the remote is not a recollect server",
                )
            self._push.done.lines += after.lines - at.lines
            self._push.done.bytes += length
            offset, at = offset + length, after
            # The recorded size is only the part sent: until all of it is sent, it must look new.
            self._remember(offset, at, offset)

    def _batch(self, offset: int, most: int, most_lines: int) -> tuple[bytes, int]:
        """Whole lines from here on, at most what the remote accepts at once, and the length of what they were in the log.

        An entry at the end of the log is sent with the newline it lacks. When that comes, it is passed over.
        """
        if offset >= self._size:
            return b"", 0
        if offset >= self._end or (offset and self._log.read(1, offset - 1) != NEWLINE):
            line = next(self._log.lines(offset, self._size), None)
            if line is None or line.offset != offset:
                return b"", 0
            data = self._log.read_all(line.length, offset).removesuffix(NEWLINE)
            if offset < self._end and data.lstrip()[:1] in (b"{", b"["):
                data = _REST + data  # the rest of a line is no entry, and must not be one there
            return (data + NEWLINE if data.strip() else b""), line.length
        block = self._block(offset, most, most_lines)
        return block, len(block)

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
                    Path(self._file.path),
                    None,
                    hint="it has a line that is longer than the remote accepts",
                )
            wanted = min(wanted * 4, most)
        block = data[: max(0, cut)]
        length = sum(map(len, islice(lines_of(block), most_lines)))
        if length < len(block):
            block = block[: max(last_seam(block[: length + 1]), 0) or length]
        return block

    def _met(self, head: Position) -> tuple[int, Position]:
        """Find the remote's position in our log. ``_Diverged`` if it is not there."""
        offset, at = 0, START
        limits = self._push.remote.limits()
        while at.lines < head.lines:
            lines, length = self._batch(offset, limits["body_bytes"], limits["lines"])
            if not length:
                break
            data = self._outgoing.lines(lines, at.lines)
            if at.lines + data.count(NEWLINE) > head.lines:
                keep = head.lines - at.lines
                length = sum(map(len, islice(lines_of(lines), keep)))
                data = b"".join(islice(lines_of(data), keep))
            at = at.after(lines_of(data))
            offset += length
        if at == head:
            return offset, at
        if at.lines < head.lines and self._push.remote.is_at(self._target.session, self._file.key, at):
            self._push.done.ahead.append(self._file.session)
            # The rest of our log is at most an unfinished line.
            self._size = offset
            return offset, at
        raise _Diverged

    def _tail(self, offset: int) -> bytes:
        start = max(0, offset - _TAIL)
        return sha256(self._log.read_all(offset - start, start)).digest()[:16]

    def _remember(self, sent: int, at: Position, size: int) -> None:
        file, target = self._file, self._target
        tail = self._tail(sent)
        known = KnownLog(
            size, file.mtime_ns, file.inode, sent, at.lines, at.hash, tail, target.session, file.key
        )
        self._push.remember(file.path, known)


def _known_file(file: OutgoingFile, digest: str, target: SyncTarget, key: str = "") -> KnownFile:
    return KnownFile(file.size, file.mtime_ns, file.inode, digest, target.session, key or file.key)
