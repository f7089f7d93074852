"""Find a session by whatever one remembers of it, and say how the client goes on with it.

The client looks for a session only below the directory it is started in (rank 15 of
what people miss). So a resumption is a directory and a command: the directory is
the one whose project directory holds the log, not the one the session happened to
end in. Where that directory is gone, or the log lies where the client would
not look, the command names the log by its path, which the client takes from anywhere.

Words are looked for in titles and in what the user typed; all of them must occur.
More than one session that fits is an error with the candidates, never a guess.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path, PureWindowsPath

from msgspec import Struct
from msgspec.structs import force_setattr

from recollect.agents.homes import agent_of_log
from recollect.agents.mirror import native_file, warning_of
from recollect.agents.mirror_files import facts_of_mirror, native_name
from recollect.ask.homes import Homes
from recollect.ask.sessions.home_guard import in_short
from recollect.ask.sessions.originals import refused_fork
from recollect.ask.sessions.session import Session
from recollect.errors import Ambiguous, NotFound, StorageError, UsageError
from recollect.index import catalogue
from recollect.index.access import OpenIndex, open_index
from recollect.model.lines.codec import decode
from recollect.model.lines.damage import Damage, Line
from recollect.model.lines.ids import command_name
from recollect.model.project_key import project_key, same_long_prefix
from recollect.model.session import SessionSummary
from recollect.model.text.titles import typed_texts
from recollect.model.views.fact_line import fact_line
from recollect.store.logs.reader import read_lines
from recollect.system.locations import agent_of, is_clients_home, is_known_id
from recollect.system.paths import AGENTS, CLAUDE, agent_homes
from recollect.system.pool import ProgressCallback

_CANDIDATES = 20


class Resumption(Struct, frozen=True):
    """How to go on with a session. ``cwd`` is "" where the log names no directory.

    ``notes``: why the client may refuse it, or what it does to it. ``restore``: the command that brings it back from the
    archive first. ``command`` is what one would type in ``cwd``; ``line`` is for a shell, and leaves out a directory that is not
    there: the client takes a log by its path from anywhere.
    """

    session: str
    title: str
    cwd: str
    cwd_exists: bool
    argv: tuple[str, ...]
    nearby: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    restore: str | None = None
    command: str = ""
    line: str = ""

    def __post_init__(self) -> None:
        if not self.command:
            force_setattr(self, "command", shlex.join(self.argv))
        if not self.line:
            place = f"cd {shlex.quote(self.cwd)}" if self.cwd_exists else None
            force_setattr(self, "line", " && ".join(filter(None, (self.restore, place, self.command))))

    @property
    def client(self) -> str:
        """The client's program; before it may stand what sets its home."""
        return next(word for word in self.argv if word != "env" and "=" not in word)


def found_session(
    home: Homes, query: str, *, newest: bool = False, progress: ProgressCallback | None = None
) -> Session:
    """The session ``query`` names, or the only one (with ``newest`` the newest) that has all its words.

    ``progress`` is told (done, total) in bytes while an index is brought up to date, or logs are read.
    """
    words = [word.casefold() for word in query.split()]
    found: list[SessionSummary] = []
    with open_index(
        [one.root for one in home.homes],
        cache=home.index_cache,
        is_temporary=not home.has_index,
        progress=progress,
    ) as opened:
        sessions = home.listed(opened) if words else []
        if words and not newest:
            try:
                return home.session(query.strip(), _among=sessions)
            except Ambiguous:
                raise
            except NotFound:
                pass
        fitting = _fitting(sessions, words, opened, progress)
        found += itertools.islice(fitting, 1 if newest else _CANDIDATES + 1)
    if not found:
        raise NotFound(
            f"no session has the id, title, path or words {query!r}",
            hint="`recollect list` shows what there is",
        )
    if len(found) > 1:
        raise Ambiguous("session", query, tuple(in_short(home.at(one)) for one in found))
    return home.at(found[0])


def _fitting(
    sessions: Sequence[SessionSummary],
    words: Sequence[str],
    opened: OpenIndex,
    progress: ProgressCallback | None,
) -> Iterator[SessionSummary]:
    """Sessions in which each word, in lower case, occurs in the title or in something the user typed.

    The index knows prompts by words of three letters; shorter ones are looked for in the logs.
    """
    known = [word for word in words if len(word) >= catalogue.SHORTEST_WORD]
    typed = {word: catalogue.typed(opened.database, word) for word in known}
    done, total = 0, sum(one.bytes for one in sessions)
    for one in sessions:
        done += one.bytes
        if progress is not None:
            progress(done, total)
        title = one.title.casefold()
        missing = [word for word in words if word not in title]
        if any(word in typed and one.path not in typed[word] for word in missing):
            continue
        if has_prompts(Path(one.path), {word for word in missing if word not in typed}):
            yield one


def has_prompts(log: Path, words: set[str]) -> bool:
    """Whether each word, in lower case, occurs in something the user typed."""
    missing = set(words)
    if missing:
        with contextlib.suppress(NotFound, StorageError):
            for text in _prompts(log, words):
                missing -= {word for word in missing if word in text}
                if not missing:
                    break
    return not missing


def resumption(session: Session, cwd: str | None = None) -> Resumption:
    """Where and how the client goes on with a session; ``cwd`` names another directory to go on in."""
    directory, at_home = _directory(session)
    agent = agent_of_log(str(session.home.root), str(session.path))
    if agent != CLAUDE and agent_of(str(session.home.root)) == CLAUDE:
        raise UsageError(
            f"session {session.id}: a copy of a session of {agent}, whose client does not have it here",
            hint=f"hand it over to one that is here: recollect export {shlex.quote(command_name(session.id, session.path))} --to claude",
        )
    if agent != CLAUDE:
        return _other_resumption(session, agent, directory if cwd is None else _absolute(cwd))
    if cwd is not None:
        directory = _absolute(cwd)
        at_home = _is_project_of(directory, session)
    exists = bool(directory) and Path(directory).is_dir()
    by_id = at_home and exists and is_known_id(CLAUDE, session.id) and is_clients_home(session.home.root)
    name = session.id if by_id else str(session.place.absolute())
    nearby = () if exists or not directory else tuple(_moved_to(session, Path(directory).name))
    return Resumption(session.id, session.title, directory, exists, ("claude", "--resume", name), nearby)


def _other_resumption(session: Session, agent: str, directory: str) -> Resumption:
    """How the client of another agent goes on, if it still has the session."""
    root = session.home.root
    source, facts = native_file(root, session.path), facts_of_mirror(root)
    if source is None or facts is None:
        raise UsageError(
            f"session {session.id}: {agent} no longer has it (its client deleted it, or its file is gone);"
            " recollect's mirror has it",
            hint="write its files, or its rows, out with: recollect export"
            f" {session.id} --format original --no-redact --output DIR"
            ", and put files back below its home"
            f"; or hand it over: recollect export {session.id} --to claude",
        )
    name = native_name(root, session.id)
    if not AGENTS[agent].resume:
        raise UsageError(
            f"session {session.id}: no command of {agent} goes on with a session",
            hint=f"hand it over to Claude: recollect export {session.id} --to claude",
        )
    if not is_known_id(agent, name):
        raise UsageError(
            f"session {session.id}: {agent} gives no session such an id as {name[:60]!a}; its client is not given that",
            hint=f"hand it over to Claude: recollect export {session.id} --to claude",
        )
    told = warning_of(agent, "resume", Path(facts.source), source, session.glance.version)
    told = told or refused_fork(session)
    argv = (*_at_home(agent, facts.source), *AGENTS[agent].resume, name)
    exists = bool(directory) and Path(directory).is_dir()
    notes = () if told is None else (told,)
    return Resumption(session.id, session.title, directory, exists, argv, notes=notes)


def _at_home(agent: str, home: str) -> tuple[str, ...]:
    """What goes before the client's command, so that it looks into this home; nothing where it does so by itself."""
    usual, *more = (path for name, path, _ in agent_homes(os.environ) if name == agent)
    if AGENTS[agent].registry or os.path.realpath(home) in map(os.path.realpath, (usual, *more)):
        return ()
    variable, below = AGENTS[agent].place
    names = Path(home).parts
    if not variable or names[len(names) - len(below) :] != below:
        raise UsageError(
            f"{home}: the client of {agent} looks for its sessions only in {usual}",
            hint="copy the session's files there, and resume it then",
        )
    return "env", f"{variable}={Path(*names[: len(names) - len(below)])}"


def _absolute(cwd: str) -> str:
    return str(Path(cwd).expanduser().absolute())


def _directory(session: Session) -> tuple[str, bool]:
    """The directory whose key is the log's project directory, else the last one the entries name."""
    named = _directories(session.path)
    for one in reversed(named):
        if _is_project_of(one, session):
            return one, True
    return (named[-1] if named else ""), False


def _directories(log: Path) -> list[str]:
    """The working directories of the main conversation, in the order of their last mention."""
    seen: dict[str, None] = {}
    for line in read_lines(log):
        if isinstance(line, Line) and b'"cwd"' in line.data:
            envelope = fact_line(line.data)
            if envelope is None or envelope.is_sidechain:
                continue
            cwd = envelope.cwd or ""
            if cwd in seen or (
                (Path(cwd).is_absolute() or PureWindowsPath(cwd).is_absolute()) and "\x00" not in cwd
            ):  # nearly every line names the same one
                seen.pop(cwd, None)
                seen[cwd] = None
    return list(seen)


def _is_project_of(directory: str, session: Session) -> bool:
    key, name = project_key(os.path.realpath(directory)), session.place.parent.name
    return key == name or same_long_prefix(name, key)


def _moved_to(session: Session, name: str) -> Iterator[str]:
    """Directories of the same name that other sessions of this home worked in and that are there."""
    others = dict.fromkeys(log.first_cwd() or "" for log in session.home.sessions())
    return (one for one in others if one and Path(one).name == name and Path(one).is_dir())


# ---- words -----------------------------------------------------------------------------------------------


def _prompts(log: Path, words: set[str]) -> Iterator[str]:
    """What the user typed, in lower case, in those lines that may hold one of the words."""
    patterns = [_pattern(word) for word in words]
    for line in read_lines(log):
        if not isinstance(line, Line) or b'"user"' not in line.data:
            continue
        if any(pattern is None or pattern.search(line.data) for pattern in patterns):
            item = decode(line)
            entry = item.readable if isinstance(item, Damage) else item
            if entry is not None:
                yield from (text.casefold() for text in typed_texts(entry))


def _pattern(word: str) -> re.Pattern[bytes] | None:
    """A quick look at bytes; None for words that JSON may write in more than one way."""
    plain = word.isascii() and word.isprintable() and not set(word) & set('"\\/<>&')
    return re.compile(re.escape(word.encode()), re.IGNORECASE) if plain else None
