"""Install pulled sessions into a Claude home, so that ``claude --resume`` continues them there.

The directory is that of the same repository on this machine, found among the directories this home knows.
Lines get this path instead of the remote one; when pushed again, they get the remote one back, byte for byte.
A session this home already has is extended if its file is exactly what was sent or pulled; otherwise both
continued, and the remote one is stored beside it as a session of its own. Nothing is overwritten, sessions
that clients have open are not changed, and all of it is one change in the journal.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from msgspec import Struct, structs

from recollect.agents.homes import agent_named_in, refusal
from recollect.ask.sessions.projects import RepositoryIdentities
from recollect.errors import Ambiguous, InvalidId, NotFound
from recollect.model.lines.ids import is_uuid
from recollect.model.project_key import PathMapping, project_key
from recollect.share.sync.http_remote import HttpRemote
from recollect.share.sync.lines import edited, renaming
from recollect.share.sync.selection import FLAT, place_of
from recollect.share.sync.sync import SyncClient
from recollect.share.sync.wire import Position, made_name
from recollect.store.changes.journal import Change, ChangeJournal, ChangePlan, FileState
from recollect.store.home import ClaudeHome, first_text
from recollect.store.live import live_sessions
from recollect.store.session_files import META, HomeBorder
from recollect.store.sync_state import (
    KnownFile,
    KnownLog,
    PulledLog,
    SyncState,
    SyncTarget,
    ValueMapping,
)
from recollect.system.paths import CLAUDE
from recollect.system.peek import open_regular, peek_lines

_TAIL = 1_024
_HEAD = 1 << 20


class InstalledSession(Struct, frozen=True):
    """A session to install. ``how`` is new, longer, or branch: the home's own session diverged."""

    session: str
    name: str
    path: Path
    directory: str
    how: str


class _InstalledFile(Struct, frozen=True):
    """A file of the plan, and what is recorded once it is written."""

    place: Path
    session: str
    key: str
    lines: int = -1
    hash: bytes = b""
    digest: str = ""


class InstallPlan(Struct):
    """What would be installed; ``left`` are sessions that cannot be, and why, ``foreign`` those of them that are of other
    agents."""

    plan: ChangePlan
    sessions: list[InstalledSession] = []
    left: list[tuple[str, str]] = []
    foreign: dict[str, str] = {}
    written: list[_InstalledFile] = []
    targets: dict[str, SyncTarget] = {}


class _SessionLeftOut(Exception):
    """A session that is not installed, and why."""


def installed_instead(store: Path) -> str:
    """What to do with sessions of other agents: they were fetched, and stay in the store."""
    place = shlex.quote(str(store))
    return f"--home {place} reads what was fetched; to hand one over: recollect --home {place} export S --to claude"


class Installer:
    """Installs pulled sessions into one home."""

    def __init__(
        self,
        client: SyncClient,
        home: ClaudeHome,
        remote: HttpRemote,
        directory: Path | None = None,
    ) -> None:
        self._client, self._home, self._remote, self._directory = client, home, remote, directory
        self._state = SyncState()
        self._logs: dict[str, Path] = {}
        self._roots: dict[str, str] = {}
        self._live: set[str] = set()

    def planned(self, only: Iterable[str] | None = None, among: Collection[str] | None = None) -> InstallPlan:
        """Examine what was pulled: the sessions named by ``only``, else those ``among`` the given ones; nothing is changed."""
        self._state = self._client.kept.load()
        self._look()
        found = InstallPlan(ChangePlan("sync", "pulled sessions", self._home.root))
        if only is None:
            chosen = [session for session in self._state.pulled if among is None or session in among]
        else:
            chosen = [self._named(name) for name in only]
        for session in chosen:
            try:
                self._session(found, session)
            except (_SessionLeftOut, InvalidId, NotFound) as problem:
                found.left.append((session, getattr(problem, "message", str(problem))))
        if only is not None and found.foreign and set(chosen) == set(found.foreign):
            what = f"session {chosen[0]}" if len(chosen) == 1 else "sync pull --into-home"
            store = Path(self._state.pulled[chosen[0]][""].path).parents[2]
            raise refusal(what, found.foreign.values(), installed_instead(store))
        return found

    def carry_out(self, found: InstallPlan) -> Change:
        """Carry it out, and record what was written, so that it is not sent back as new."""
        with self._client.kept.locked():
            state = self._client.kept.load()
            # Before the files exist: after a crash in between, a push still knows whose lines they are.
            state.targets.update(found.targets)
            self._client.kept.save(state)
            applied = ChangeJournal(self._client.data / "undo").apply(found.plan)
            for one in found.written:
                _remember(state, one)
            self._client.kept.save(state)
        return applied

    def _named(self, name: str) -> str:
        """A pulled session by its id, or a prefix of it."""
        matches = [session for session in self._state.pulled if session.startswith(name)]
        if name in matches:
            return name
        if len(matches) > 1:
            raise Ambiguous("session", name, tuple(matches))
        if not matches:
            raise NotFound(
                f"session {name!a}: was not pulled", hint="`recollect team pull` fetches all sessions"
            )
        return matches[0]

    def _look(self) -> None:
        repositories = RepositoryIdentities()
        self._live = {str(one.session_id) for one in live_sessions(self._home)}
        for project in self._home.projects():
            first = None
            for log in self._home.sessions(project):
                self._logs[log.path.stem] = log.path
                first = first or log.first_cwd()
            root, identity = repositories.of(first or "")
            if root is not None and identity is not None and Path(root).is_dir():
                self._roots.setdefault(identity, root)

    # --- one session ----------------------------------------------------------------------------

    def _session(self, found: InstallPlan, session: str) -> None:
        logs = self._state.pulled.get(session, {})
        main = _log_of_claude(found, session, logs)
        directory, renamed = self._mapped(session, main)
        project = self._home.project_dir(project_key(directory))
        name, how = self._placed(session, main, project)
        if how == "same":
            return
        if name != session:
            renamed = (*renamed, ValueMapping(session, name, ("sessionId",)))
        if {name, session} & self._live:
            raise _SessionLeftOut("a client has it open")
        log = self._logs.get(name) or project / f"{name}.jsonl"
        if log.is_symlink() or not HomeBorder(self._home.root).holds(log):
            raise _SessionLeftOut("its place in the home is a link")
        target = SyncTarget(session, renamed)
        self._put_log(found, target, "", main, log)
        self._require_own_agents(session, logs)
        for key, one in logs.items():
            if key:
                place = place_of(key, self._home.root, log.parent, name, is_log=True)
                self._put_log(found, target, key, one, place)
        for key, digest in self._state.pulled_files.get(session, {}).items():
            source = place_of(key, Path(main.path).parents[2], Path(main.path).parent, session, is_log=False)
            self._put_file(found, source, log, _InstalledFile(log, session, key, digest=digest))
        found.targets[str(log)[: -len(".jsonl")]] = target
        found.sessions.append(InstalledSession(session, name, log, directory, how))

    def _require_own_agents(self, session: str, logs: dict[str, PulledLog]) -> None:
        """An agent's log beside the session's belongs to the session that its lines name, and so does its note."""
        flat = f"{FLAT}/"
        notes = [key for key in self._state.pulled_files.get(session, {}) if key.startswith(flat)]
        for key in {
            *(key for key in logs if key.startswith(flat)),
            *(key.removesuffix(META) for key in notes),
        }:
            if key not in logs or first_text(Path(logs[key].path), "session_id") != session:
                raise _SessionLeftOut("has an agent that is not its own")

    def _mapped(self, session: str, main: PulledLog) -> tuple[str, tuple[ValueMapping, ...]]:
        """The directory of the session on this machine, and the values its lines must get."""
        project, repository = self._state.about.get(session, (None, None))
        cwd = _first_cwd(Path(main.path))
        if cwd is None:
            raise _SessionLeftOut("names no directory")
        there = project or cwd
        if self._directory is not None:
            here = str(self._directory)
        elif repository is not None and repository in self._roots:
            here = self._roots[repository]
        elif repository is not None:
            raise _SessionLeftOut(f"this home knows no copy of {repository}: name one with --directory")
        else:
            raise _SessionLeftOut("worked outside every repository: name a directory with --directory")
        if here == there:
            return cwd, ()
        renamed = (ValueMapping(there, here, ("cwd",)),)
        mapping = renaming(renamed, outward=False)[0]
        return mapping.moved(cwd) or here, renamed

    def _placed(self, session: str, main: PulledLog, project: Path) -> tuple[str, str]:
        """The name to install it under, and how."""
        for name in (session, made_name("recollect install", session, self._client.machine_id)):
            place = self._logs.get(name)
            if place is None:
                return name, "new" if name == session else "branch"
            state = self._standing(place, session, "", main)
            if state != "other":
                return name, state
        raise _SessionLeftOut("this home already has two diverged sessions of that name")

    def _standing(self, place: Path, session: str, key: str, log: PulledLog) -> str:
        """How a file of the home relates to a pulled log: same, longer (the pulled one is), or other."""
        known = self._state.logs.get(str(place))
        if known is None or (known.session, known.key) != (session, key):
            return "same" if is_start(Path(log.path), place) else "other"
        here = Position(known.lines, known.hash)
        if here == Position(log.lines, log.hash):
            return "same"
        seen = place.stat()
        if (seen.st_size, seen.st_mtime_ns) != (known.size, known.mtime_ns) or known.sent != known.size:
            return "other"
        goes_on = known.lines < log.lines and self._remote.is_at(session, key, here)
        return "longer" if goes_on else "other"

    # --- files ----------------------------------------------------------------------------------

    def _put_log(self, found: InstallPlan, target: SyncTarget, key: str, log: PulledLog, place: Path) -> None:
        session, renamed = target.session, target.renamed
        source = Path(log.path)
        _require_reversible(source, renamed)
        if place.exists():
            if self._standing(place, session, key, log) != "longer":
                return
            known = self._state.logs[str(place)]
            content = _longer(place, source, known.lines, renamed)
            found.plan.replace(place, content, expected=FileState.at(place))
        else:
            found.plan.create(place, _edited(source, 0, renamed))
        found.written.append(_InstalledFile(place, session, key, log.lines, log.hash))

    def _put_file(self, found: InstallPlan, source: Path, log: Path, file: _InstalledFile) -> None:
        """Add a side file for the session of this log, unless there is one."""
        try:
            place = place_of(file.key, self._home.root, log.parent, log.stem, is_log=False)
        except InvalidId:
            return
        if place.exists() or not source.exists():
            return
        with open_regular(source) as opened:
            found.plan.create(place, opened.read())
        found.written.append(structs.replace(file, place=place))


def _log_of_claude(found: InstallPlan, session: str, logs: dict[str, PulledLog]) -> PulledLog:
    """The session's own log, if Claude could continue it."""
    main = logs.get("")
    if main is None:
        raise _SessionLeftOut("was not pulled")
    agent = agent_named_in(main.path)
    if agent != CLAUDE:
        found.foreign[session] = agent
        raise _SessionLeftOut(f"a session of {agent}, and a Claude home takes only Claude's")
    if not is_uuid(session):
        raise _SessionLeftOut("has a name that no client accepts")
    return main


def is_start(place: Path, whole: Path) -> bool:
    """Whether a file is missing, or has only the first bytes of another."""
    if not place.exists():
        return True
    with open_regular(place) as start, open_regular(whole) as all_of_it:
        while piece := start.read(1 << 20):
            if all_of_it.read(len(piece)) != piece:
                return False
    return True


def _first_cwd(path: Path) -> str | None:
    try:
        return next((line.cwd for line in peek_lines(path, within=_HEAD) if line.cwd), None)
    except OSError:
        return None


def _require_reversible(source: Path, renamed: tuple[ValueMapping, ...]) -> None:
    """When pushed again, every line must be identical to the remote's."""
    inward, outward = renaming(renamed, outward=False), renaming(renamed, outward=True)
    if not inward:
        return
    with open_regular(source) as lines:
        for line in lines:
            if edited(_edited_line(line, inward, outward), outward) != line:
                raise _SessionLeftOut(
                    "its lines name directories of both machines: they could not be told apart"
                )


def _edited_line(line: bytes, inward: list[PathMapping], outward: list[PathMapping]) -> bytes:
    new = edited(line, inward)
    return new if edited(new, outward) == line else line


def _edited(source: Path, after: int, renamed: tuple[ValueMapping, ...]) -> Iterator[bytes]:
    inward, outward = renaming(renamed, outward=False), renaming(renamed, outward=True)
    with open_regular(source) as lines:
        for number, line in enumerate(lines):
            if number >= after:
                yield _edited_line(line, inward, outward)


def _longer(place: Path, source: Path, after: int, renamed: tuple[ValueMapping, ...]) -> Iterator[bytes]:
    with open_regular(place) as opened:
        yield from iter(lambda: opened.read(1 << 20), b"")
    yield from _edited(source, after, renamed)


def _remember(state: SyncState, one: _InstalledFile) -> None:
    seen = one.place.stat()
    if one.lines < 0:
        state.files[str(one.place)] = KnownFile(
            seen.st_size, seen.st_mtime_ns, seen.st_ino, one.digest, one.session, one.key
        )
        return
    with open_regular(one.place) as opened:
        opened.seek(max(0, seen.st_size - _TAIL))
        tail = sha256(opened.read()).digest()[:16]
    size = seen.st_size
    state.logs[str(one.place)] = KnownLog(
        size, seen.st_mtime_ns, seen.st_ino, size, one.lines, one.hash, tail, one.session, one.key
    )
