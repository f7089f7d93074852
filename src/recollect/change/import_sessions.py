"""Import sessions from elsewhere into a home or into the archive: another home, a directory of logs, a bundle, one log.

Everything is taken into an archive of its own first, below our data directory, and removed afterwards. There each
session is what a bundle holds: only its own files (``store/session_files.py``), checked by their hashes. A restore
from there puts them into the home that the user names, mode 0600, with the present time, as a change that can be
undone. Nothing that is there is overwritten: a session that the home has, in this state or a later one, stays.

A log in another dialect becomes a session that the client resumes; the plan lists what is lost.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import secrets
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from recollect.ask import archive as archive_service
from recollect.ask.homes import Homes
from recollect.change.migration import spoken_entries
from recollect.errors import NotFound, RecollectError, UsageError
from recollect.model.convert import flat_to_claude
from recollect.model.lines.entry import Dialect, Entry
from recollect.model.lines.ids import SessionId, derived_uuid, is_uuid
from recollect.model.project_key import project_key
from recollect.store.archive.archive import Archive
from recollect.store.archive.bundle import export_bundle, import_bundle
from recollect.store.archive.manifest import Manifest
from recollect.store.archive.restore import plan_restore
from recollect.store.changes.steps import discard_tree
from recollect.store.home_walk import AGENT, LOG
from recollect.store.logs.reader import LogReader
from recollect.system import fsops
from recollect.system.lock import FileLock
from recollect.system.paths import CLAUDE
from recollect.system.pool import ProgressCallback
from recollect.system.whole_files import copy_verified

ImportState = Literal["new", "there", "differs", "foreign"]
_MOST_LOGS = 100_000
# Seconds to wait for another import into the same directory of ours.
_LOCK_SECONDS = 30.0


class ImportCandidate(Struct, frozen=True):
    """A session that was found. ``state``: whether the target lacks it, has it, or has another one of its id; or that it is
    of another agent, which a Claude home does not take."""

    session: str
    title: str
    cwd: str
    bytes: int
    files: tuple[str, ...]
    state: ImportState
    reason: str = ""


class SkippedSource(Struct, frozen=True):
    """A file that is no session, or cannot become one, and why."""

    path: str
    reason: str


class ImportStage(Struct):
    """What was found in a source, in an archive of its own. ``agents``: whose those logs are that are not Claude's."""

    archive: Archive
    kind: str
    manifests: list[Manifest]
    skipped: list[SkippedSource]
    losses: dict[str, list[str]]
    agents: dict[str, str] = {}


@contextlib.contextmanager
def staged(
    source: Path, data: Path, *, cwd: str | None = None, progress: ProgressCallback | None = None
) -> Iterator[ImportStage]:
    """Take in everything that a source holds; what was taken in is gone at the end.

    One import at a time, so what is found there was left by a killed one, and is deleted first.
    """
    if not source.exists():
        raise NotFound(
            f"import {source}: there is no such file", hint="name a home, a directory, a bundle or a log"
        )
    fsops.make_directories(data)
    with contextlib.closing(FileLock(data / "import.lock", timeout=_LOCK_SECONDS, guards=data)) as lock, lock:
        for left_over in data.glob("import-*"):
            _discard(left_over)
        root = data / f"import-{secrets.token_hex(6)}"
        stage = ImportStage(Archive(root), "", [], [], {})
        try:
            fsops.make_directories(root)
            with stage.archive.adding():
                _take_in(stage, source, root / "home", cwd, progress)
            # Whatever a manifest says, it comes from elsewhere.
            stage.manifests = [structs.replace(one, is_own=False, prompts=None) for one in stage.manifests]
            whose = ((one, archive_service.agent_of_archived(stage.archive, one)) for one in stage.manifests)
            stage.agents = {one.log.path: agent for one, agent in whose if agent != CLAUDE}
            yield stage
        finally:
            _discard(root)


def _discard(root: Path) -> None:
    with contextlib.suppress(OSError):
        discard_tree(root)


def _take_in(
    stage: ImportStage, source: Path, place: Path, cwd: str | None, progress: ProgressCallback | None
) -> None:
    if source.is_file() and tarfile.is_tarfile(source):
        stage.kind = "bundle"
        stage.manifests = import_bundle(stage.archive, source.absolute())
        return
    if (source / "projects").is_dir():
        stage.kind = "home"
        _add_home(stage, source.absolute(), progress)
        return
    stage.kind = "log" if source.is_file() else "directory of logs"
    logs = [source] if source.is_file() else _logs_below(source)
    for log in logs:
        try:
            _place_log(stage, log, place, cwd)
        except (RecollectError, OSError) as problem:
            reason = problem.message if isinstance(problem, RecollectError) else str(problem)
            stage.skipped.append(SkippedSource(str(log), reason))
    if place.is_dir():
        _add_home(stage, place, progress)


def _add_home(stage: ImportStage, root: Path, progress: ProgressCallback | None) -> None:
    sessions = list(Homes(root).sessions())
    named = [one for one in sessions if one.session_id is not None]
    stage.skipped += [
        SkippedSource(str(one.path), "its name is not one that a client gives")
        for one in sessions
        if one not in named
    ]
    now, total, done = dt.datetime.now(dt.UTC), sum(one.file.size for one in named), 0
    for one in named:
        try:
            stage.manifests.append(archive_service.add(stage.archive, one, now).manifest)
        except RecollectError as problem:
            stage.skipped.append(SkippedSource(str(one.path), problem.message))
        done += one.file.size
        if progress is not None:
            progress(done, total)


def _logs_below(source: Path) -> list[Path]:
    """The logs of sessions, wherever they lie; agents come with the session they belong to."""
    found = []
    for path in sorted(source.rglob(f"*{LOG}")):
        if path.is_file() and not path.is_symlink() and not path.name.startswith(AGENT):
            found.append(path)
        if len(found) > _MOST_LOGS:
            raise UsageError(
                f"import {source}: more than {_MOST_LOGS:,} logs", hint="import its parts one by one"
            )
    return found


# ---- one log ---------------------------------------------------------------------------------------------


def _place_log(stage: ImportStage, log: Path, home: Path, cwd: str | None) -> None:
    """Put a log where the client would have it, in a home of the stage."""
    items = list(LogReader(log))
    spoken = spoken_entries(items)
    dialects = {one.dialect for one in spoken}
    if not spoken:
        raise UsageError(f"{log.name}: it holds no message", hint="nothing was imported")
    if len(dialects) > 1:
        raise UsageError(f"{log.name}: it holds lines of several dialects", hint="nothing was imported")
    where = cwd or next((one.chain.cwd for one in spoken if one.chain is not None and one.chain.cwd), None)
    if where is None:
        raise UsageError(
            f"{log.name}: nothing says in which directory it worked; name it with --cwd DIR", hint="--cwd DIR"
        )
    session = _session_of(log, spoken)
    folder = home / "projects" / project_key(where)
    target = folder / f"{session}{LOG}"
    if target.exists():
        raise UsageError(
            f"{log.name}: another log here is of the same session {session}", hint="import it alone"
        )
    fsops.make_directories(folder)
    if dialects == {Dialect.CLAUDE}:
        copy_verified(log, target, mode=fsops.FILE_MODE)
        _place_side_files(log, session, folder)
        return
    made = flat_to_claude(items, session_id=session, cwd=where)
    fsops.replace_file(target, b"".join(line + b"\n" for line in made.lines))
    stage.losses[session] = [f"{one.count:,} x {one.what}" for one in made.losses]


def _session_of(log: Path, spoken: Sequence[Entry]) -> str:
    """By its name, else by what its lines say, else derived from its name: twice the same."""
    if is_uuid(log.stem):
        return log.stem
    named = Counter(str(one.session_id) for one in spoken if one.session_id)
    first = next((name for name, _ in named.most_common() if is_uuid(name)), None)
    return first or derived_uuid(log.stem, 0)


def _place_side_files(log: Path, session: str, folder: Path) -> None:
    """Sub-agents and tool results that lie beside a log, in both layouts; the archive takes only what is its own."""
    side = log.with_suffix("")
    beside = (
        [path for path in side.rglob("*") if path.is_file() and not path.is_symlink()]
        if side.is_dir()
        else []
    )
    for path in beside:
        target = folder / session / path.relative_to(side)
        fsops.make_directories(target.parent)
        copy_verified(path, target, mode=fsops.FILE_MODE)
    for agent in sorted(log.parent.glob(f"{AGENT}*")):
        if agent.is_file() and not agent.is_symlink() and not (folder / agent.name).exists():
            copy_verified(agent, folder / agent.name, mode=fsops.FILE_MODE)


# ---- into a home, into the archive -----------------------------------------------------------------------


def candidates(stage: ImportStage, home: Path | None) -> list[ImportCandidate]:
    """What an import into a home, or into the archive, would do with each session."""
    if home is None:
        return [_candidate(stage.archive, one, stage.archive.root / "none") for one in stage.manifests]
    found: list[ImportCandidate] = []
    for one in stage.manifests:
        if one.log.path in stage.agents:
            found.append(_foreign(one, stage.agents[one.log.path]))
            continue
        candidate = _candidate(stage.archive, one, home)
        if candidate.state == "new" and any(one.session == other.session for other in found):
            reason = f"another one of its id comes with it; this one is of {one.home}"
            candidate = structs.replace(candidate, state="differs", reason=reason, files=())
        found.append(candidate)
    return found


def _foreign(manifest: Manifest, agent: str) -> ImportCandidate:
    return ImportCandidate(
        manifest.session,
        manifest.title,
        manifest.cwd,
        manifest.raw_bytes,
        (),
        "foreign",
        f"a session of {agent}, and a Claude home takes only Claude's",
    )


def _candidate(archive: Archive, manifest: Manifest, home: Path) -> ImportCandidate:
    plan = plan_restore(archive, manifest, home)
    log = home / manifest.log.path
    others = [
        path
        for path in home.glob(f"projects/*/{SessionId.parse(manifest.session) or ''}{LOG}")
        if path != log
    ]
    state: ImportState = "new"
    reason = ""
    if log in plan.obstacles and archive.is_in(manifest.log, log):
        state, reason = "there", "the home has it, in this state or a later one"
    elif others:
        state, reason = "differs", f"the home has it in {others[0].parent.name}"
    elif plan.obstacles:
        state, reason = "differs", f"{plan.obstacles[0]} is another file"
    files = tuple(str(home / file.path) for file in plan.files) if state == "new" else ()
    return ImportCandidate(
        manifest.session, manifest.title, manifest.cwd, manifest.raw_bytes, files, state, reason
    )


def import_into_home(stage: ImportStage, home: Path, chosen: Sequence[ImportCandidate]) -> list[str]:
    """Put the new sessions into a home; gives the ids of the changes."""
    return [
        archive_service.restore(stage.archive, one, home).id
        for one, candidate in zip(stage.manifests, chosen, strict=True)
        if candidate.state == "new"
    ]


def import_into_archive(stage: ImportStage, archive: Archive) -> list[Manifest]:
    """Add the sessions to an archive, under the rules for a bundle: all of them, or none."""
    bundle = stage.archive.root / "bundle.tar"
    export_bundle(stage.archive, stage.manifests, bundle)
    with archive.adding():
        return import_bundle(archive, bundle)
