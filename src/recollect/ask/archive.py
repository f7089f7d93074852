"""Archive sessions, restore them, and find those that the client is about to delete.

All files of a session are archived: its log, sub-agents in both layouts, tool output, file backups, tasks,
todos, the shell's environment, the plans its entries name, its prompts in ``history.jsonl`` and their pastes. For an unchanged session only file metadata is read; for one that grew only
the new bytes. A session that a client has open is archived as it is at that moment; the next addition adds
the rest.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType

from recollect.agents.homes import agent_named_in, is_claude_home, refusal
from recollect.ask.sessions.home_guard import planned_removal, refuse_agent_home
from recollect.ask.sessions.session import Session
from recollect.errors import NotFound, RecollectError, StorageError, UsageError
from recollect.model.lines.ids import EntryId
from recollect.store.archive.archive import Archive, ArchiveResult
from recollect.store.archive.manifest import Manifest, time_text
from recollect.store.archive.restore import put_back
from recollect.store.changes.journal import Change
from recollect.store.home import ClaudeHome
from recollect.store.prompt_history import by_session
from recollect.store.session_files import hold_logs
from recollect.store.trash import TrashBatch
from recollect.system.locations import agent_of, client_home
from recollect.system.paths import CLAUDE
from recollect.system.peek import open_regular
from recollect.system.pool import ProgressCallback

_SLUG = re.compile(rb'"slug"[ \t]*:[ \t]*"([a-z0-9-]{1,120})"')
_LONGEST_SLUG = 256
_HASH = re.compile(r"[0-9a-f]{1,64}")


class RestorePlaces(Struct, frozen=True):
    """Where sessions are restored to; ``left`` are those of other agents that would go into a Claude home, with the agent."""

    places: list[tuple[Manifest, Path]]
    left: list[tuple[Manifest, str]]


class ArchiveFailure(Struct, frozen=True):
    """A session that could not be archived, and why."""

    session: str
    reason: str  # with what to do


def failure_of(session: str, problem: RecollectError) -> ArchiveFailure:
    return ArchiveFailure(session, f"{problem.message}; {problem.hint}")


def archive_at(data: Path) -> Archive:
    return Archive(data / "archive")


def add(archive: Archive, session: Session, now: dt.datetime) -> ArchiveResult:
    """Archive one session as it is; the caller must hold ``archive.adding()``."""
    seen = session.glance
    described = Manifest(
        session.id,
        session.path.parent.name,
        str(session.home.root),
        session.cwd,
        session.title,
        time_text(seen.first_at),
        time_text(seen.last_at),
        now.isoformat(),
        (),
    )
    lines, hashes = prompts_of(session)
    pastes = [session.home.paste_file(EntryId(name)) for name in hashes if _HASH.fullmatch(name)]
    files = [*session_files(session), *(path for path in pastes if path.is_file() and not path.is_symlink())]
    return archive.add(described, files, lines)


def prompts_of(session: Session) -> tuple[bytes, tuple[str, ...]]:
    """What was typed into a session, from the home's ``history.jsonl``, and the hashes of its pastes."""
    try:
        seen = session.home.history_file.stat()
    except OSError:
        return b"", ()
    return _prompts_at(session.home.root, seen.st_mtime_ns, seen.st_size).get(session.id, (b"", ()))


@functools.lru_cache(maxsize=1)
def _prompts_at(root: Path, mtime_ns: int, size: int) -> dict[str, tuple[bytes, tuple[str, ...]]]:
    """The same for every session of a home, read once for many; time and size tell when to read it again."""
    return by_session(ClaudeHome(root))


def add_all(
    archive: Archive, sessions: Sequence[Session], now: dt.datetime, progress: ProgressCallback | None = None
) -> tuple[list[ArchiveResult], list[ArchiveFailure]]:
    """Archive many; one that cannot be read does not stop the others."""
    added, failed = [], []
    total, done = sum(session.file.size for session in sessions), 0
    with archive.adding():
        for session in sessions:
            try:
                added.append(add(archive, session, now))
            except RecollectError as problem:
                failed.append(failure_of(session.id, problem))
            done += session.file.size
            if progress is not None:
                progress(done, total)
    return added, failed


def session_files(session: Session) -> Iterator[Path]:
    """Every regular file that belongs to a session, its log first."""
    for item in planned_removal(session).items:
        yield from _regular_files(item)
    yield from plan_files(session)


def _regular_files(item: Path) -> Iterator[Path]:
    if item.is_symlink():
        return
    if item.is_dir():
        for inner in sorted(item.iterdir()):
            yield from _regular_files(inner)
    elif item.is_file():
        yield item


def plan_files(session: Session) -> Iterator[Path]:
    """The plan documents that a session's entries name, as far as they exist."""
    slugs: dict[bytes, None] = {}
    with open_regular(session.path) as log:
        end = b""
        while block := log.read(1 << 20):
            # A name may span two blocks. Most logs hold none, and this test is the fastest.
            text = end + block
            if b'"slug"' in text:
                slugs.update(dict.fromkeys(_SLUG.findall(text)))
            end = text[-_LONGEST_SLUG:]
    for slug in slugs:
        plan = session.home.plan_file(EntryId(slug.decode()))
        if plan.is_file() and not plan.is_symlink():
            yield plan


def holds(archive: Archive, batch: TrashBatch) -> bool:
    """Whether the archive has every file of a trashed session, compared by hash."""
    kept = {
        stored.sha256
        for one in archive.manifests()
        if one.session == batch.session
        for stored in one.objects().values()
    }
    return bool(kept) and all(file.sha256 in kept for file in batch.files if file.kind == "file")


def agent_of_archived(archive: Archive, manifest: Manifest) -> str:
    """Whose an archived session is, by its log: the home that it was archived from may be on another machine."""
    return agent_named_in(str(archive.log_path(manifest)))


def restore_places(
    archive: Archive,
    chosen: Sequence[Manifest],
    homes: Sequence[Path],
    *,
    are_named: bool,
    to: Path | None = None,
) -> RestorePlaces:
    """``to``, or the home of each session; refused where all of them would be left out."""
    found = RestorePlaces([], [])
    for one in chosen:
        agent = agent_of_archived(archive, one)
        if agent == CLAUDE:
            found.places.append((one, to or restore_home(one, homes, are_named=are_named)))
        elif (place := to or _own_mirror(one, homes, are_named=are_named)) and not is_claude_home(place):
            found.places.append((one, place))
        else:
            found.left.append((one, agent))
    if found.left and not found.places:
        raise _refusal(found.left)
    _refuse_twice(found.places)
    return found


def _refuse_twice(places: Sequence[tuple[Manifest, Path]]) -> None:
    """One file cannot be two: sessions of one id that came from two homes go to one directory only one by one."""
    taken: dict[Path, Manifest] = {}
    for one, place in places:
        other = taken.setdefault(place / one.log.path, one)
        if other is not one:
            raise UsageError(
                f"restore {one.session}: {client_home(other.home)} and {client_home(one.home)} both had one,"
                f" and {place} takes one of them",
                hint="name the home of the one you mean with --home DIR",
            )


def restored_instead(session: str = "S") -> str:
    """What to do with a session of another agent that is in the archive."""
    return (
        f"`recollect show {session}` reads it where it is, --to DIR restores it to another directory,"
        f" and `recollect export {session} --to claude` hands it over"
    )


def _refusal(left: Sequence[tuple[Manifest, str]]) -> UsageError:
    agents = [agent for _, agent in left]
    if len(left) > 1:
        return refusal("restore", agents, restored_instead())
    session = left[0][0].session
    return refusal(f"restore {session}", agents, restored_instead(session))


def _own_mirror(manifest: Manifest, homes: Sequence[Path], *, are_named: bool) -> Path | None:
    """The mirror that this machine archived a session from, if it is there and the command means it."""
    mirror = Path(manifest.home)
    is_meant = not are_named or any(home.resolve() == mirror.resolve() for home in homes)
    return mirror if manifest.is_own and is_meant and agent_of(str(mirror)) != CLAUDE else None


def restore_home(manifest: Manifest, homes: Sequence[Path], *, are_named: bool) -> Path:
    """The home that a session of Claude is restored to. ``homes`` are the user's; ``are_named``: the command named them.

    A bundle does not choose it. Only for a session that this machine archived, the home it came from counts.
    """
    recorded = Path(manifest.home)
    homes = [home for home in homes if agent_of(str(home)) == CLAUDE]
    same = [home for home in homes if home.resolve() == recorded.resolve()]
    chosen = same if same and manifest.is_own else [recorded] if manifest.is_own and not are_named else homes
    if len(chosen) != 1:
        raise UsageError(
            f"restore {manifest.session}: {len(homes)} homes, and it was archived elsewhere",
            hint="name one with --home DIR, or another directory with --to DIR",
        )
    if not chosen[0].is_dir():
        raise NotFound(
            f"restore {manifest.session}: its home {chosen[0]} does not exist",
            hint="name a directory with --to DIR",
        )
    return chosen[0]


def restore(archive: Archive, manifest: Manifest, home: Path) -> Change:
    """Restore a session into a home, or below another directory with the same layout. It can be undone."""
    refuse_agent_home(home, "--to DIR")
    agent = agent_of_archived(archive, manifest)
    if agent != CLAUDE and is_claude_home(home):
        raise _refusal([(manifest, agent)])
    log = home / manifest.log.path
    try:
        with hold_logs([log], archive.root.parent):
            return put_back(archive, manifest, home)
    except OSError as cause:
        raise StorageError("restore", home, cause, hint="nothing was restored") from cause


class ArchivedSessionDocument(Struct, frozen=True, kw_only=True):
    """A session in the archive. ``changed`` comes with ``add``; ``to`` and what follows with ``restore``."""

    id: str
    title: str
    cwd: str
    home: str
    last_at: str | None
    archived_at: str
    files: int
    raw_bytes: int
    stored_bytes: int
    earlier: int
    changed: bool | UnsetType = UNSET
    to: str | UnsetType = UNSET
    paths: list[str] | UnsetType = UNSET
    left_out: list[str] | UnsetType = UNSET
    there: Sequence[Path] | UnsetType = UNSET
    obstacles: Sequence[Path] | UnsetType = UNSET


class ArchiveListDocument(Struct, frozen=True):
    """What is in the archive, and what of it cannot be read."""

    sessions: list[ArchivedSessionDocument]
    raw_bytes: int
    stored_bytes: int
    problems: Sequence[ArchiveFailure]


def archived_session(one: Manifest) -> ArchivedSessionDocument:
    return ArchivedSessionDocument(
        id=one.session,
        title=one.title,
        cwd=one.cwd,
        home=one.home,
        last_at=one.last_at,
        archived_at=one.archived_at,
        files=len(one.files),
        raw_bytes=one.raw_bytes,
        stored_bytes=one.stored_bytes,
        earlier=len(one.earlier),
    )


def archive_list_document(
    manifests: Sequence[Manifest], problems: Sequence[ArchiveFailure]
) -> ArchiveListDocument:
    return ArchiveListDocument(
        [archived_session(one) for one in manifests],
        sum(one.raw_bytes for one in manifests),
        sum(one.stored_bytes for one in manifests),
        problems,
    )
