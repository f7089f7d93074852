"""Problems of a home as a whole, now or soon: settings, modes, orphans, deletion, our own journal.

Read only. Settings of a project are read only in the directories its sessions ran in.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from recollect.agents.homes import unread_step
from recollect.agents.mirror_files import problems_of_mirror
from recollect.ask.protection import ExpirySummary, expiring
from recollect.errors import RecollectError
from recollect.model.checks.rules import CODES, Finding
from recollect.model.lines.ids import SessionId, hint_name, short_id
from recollect.model.project_key import project_key
from recollect.store.home import AgentFile, ClaudeHome, ProjectDir, SessionFile
from recollect.system.peek import open_regular

# By project directory.
OwnedAgents = Mapping[Path, Sequence[tuple[AgentFile, SessionId | None]]]

WITHIN_DAYS = 7
_LARGEST = 16 << 20
_HEAD = 16 << 10
_VERSION = re.compile(rb'"version"\s*:\s*"([0-9.]+)')
_WARMUP = re.compile(rb'"content"\s*:\s*"Warmup"')


def quick_findings(
    homes: Sequence[ClaudeHome],
    data: Path,
    now: dt.datetime,
) -> Iterator[Finding]:
    """Everything about the homes and about our own directory, except for secrets, which take most of the time."""
    owned = owned_agents(homes)
    for one in homes:
        yield from _of_home(one, {project: list(one.sessions(project)) for project in one.projects()}, owned)
    yield from _expiring(homes, data, now)
    yield from _journal(data)


def home_finding(code: str, what: str, path: Path | str, session: str | None = None) -> Finding:
    rule = CODES[code]
    fix = rule.fix.format(session=hint_name(session or "", path), path=shlex.quote(str(path)))
    return Finding(code, rule.severity, what, fix, str(path), session)


def owned_agents(homes: Sequence[ClaudeHome]) -> OwnedAgents:
    """The sub-agents of each project directory with the sessions they worked for."""
    return {
        project.path: [(agent, agent.owner()) for agent in home.project_agents(project)]
        for home in homes
        for project in home.projects()
    }


def _of_home(
    home: ClaudeHome, logs: Mapping[ProjectDir, list[SessionFile]], agents: OwnedAgents
) -> Iterator[Finding]:
    known = {str(log.id) for found in logs.values() for log in found}
    cwds: dict[str, None] = {}
    for project, found in logs.items():
        own = _cwds(found)
        cwds.update(own)
        yield from _collision(project, own)
        yield from _continued(home, project, own, found)
        yield from _agents(agents.get(project.path, ()), known)
    yield from _strays(home, known)
    yield from _settings(home, cwds)
    yield from _modes(home, logs)
    for problem in home.problems:
        yield home_finding("unreadable", f"left out: {problem.reason}", problem.path)
    for one in problems_of_mirror(home.root):
        if one.is_unknown:
            yield home_finding("unknown-type", one.reason, one.path)
        else:
            left_out = home_finding("unreadable", f"left out: {one.reason}", one.path)
            yield structs.replace(left_out, fix=unread_step(home.root, one.path))


def _cwds(logs: list[SessionFile]) -> dict[str, None]:
    return {cwd: None for log in logs if (cwd := log.first_cwd()) is not None}


def _collision(project: ProjectDir, cwds: dict[str, None]) -> Iterator[Finding]:
    """Several directories whose paths give the same key. A directory with another key was moved here."""
    same = [cwd for cwd in cwds if project_key(cwd) == project.name]
    if len(same) > 1:
        yield home_finding(
            "path-collision", f"it holds sessions of {' and '.join(sorted(same))}", project.path
        )


def _continued(
    home: ClaudeHome, project: ProjectDir, cwds: dict[str, None], logs: list[SessionFile]
) -> Iterator[Finding]:
    """The newest log, if ``--continue`` would use it although it is empty and others are not."""
    cwd = next((cwd for cwd in cwds if project_key(cwd) == project.name), None)
    latest = home.latest_session(cwd, {project.path: logs}) if cwd is not None else None
    if latest is None or not latest.empty or latest.file.path.parent != project.path:
        return
    others = [log for log in logs if log.path != latest.file.path and log.size > 0]
    if others and not _is_of_an_old_client(max(others, key=lambda log: log.mtime_ns)):
        what = f"{latest.content.value}, and the newest log here: `claude --continue` starts with no history"
        yield home_finding("captures-continue", what, latest.file.path, str(latest.file.id))


def _is_of_an_old_client(log: SessionFile) -> bool:
    """Whether the client that wrote it goes by the times in the logs: 2.0.76 leaves empty files and skips them."""
    version = _VERSION.search(_head(log.path))
    return version is not None and version.group(1).startswith((b"0.", b"1.", b"2.0."))


def _agents(agents: Sequence[tuple[AgentFile, SessionId | None]], known: set[str]) -> Iterator[Finding]:
    for agent, owner in agents:
        if (owner is None or str(owner) not in known) and not _is_warmup(agent):
            yield _stray_agent(agent, owner)


def _is_warmup(agent: AgentFile) -> bool:
    """Whether client 2.0 made it to warm up its cache; it does so before a session has a log."""
    first = _head(agent.path).partition(b"\n")[0]
    return _WARMUP.search(first) is not None


def _stray_agent(agent: AgentFile, owner: str | None) -> Finding:
    whose = f"session {owner} is gone" if owner else "no line says whose it is"
    return home_finding("orphan-agent", whose, agent.path)


def _strays(home: ClaudeHome, known: set[str]) -> Iterator[Finding]:
    todos = [todo for todo in home.todos() if str(todo.session) not in known]
    if todos:
        yield home_finding(
            "orphan-todos", f"{len(todos)} todo lists of sessions that are gone", home.todos_dir
        )
    for session in home.task_lists():
        tasks = home.tasks(session) if str(session) not in known else []
        if tasks:
            yield home_finding(
                "orphan-tasks", f"{len(tasks)} tasks of session {session}", home.tasks_dir(session)
            )


# ---- settings --------------------------------------------------------------------------------------------


def _settings(home: ClaudeHome, cwds: dict[str, None]) -> Iterator[Finding]:
    places = [home.root, *(Path(cwd) / ".claude" for cwd in cwds if Path(cwd).is_absolute())]
    files = dict.fromkeys(
        place / name for place in places for name in ("settings.json", "settings.local.json")
    )
    for file in files:
        data = _content(file)
        if isinstance(data, OSError):
            yield home_finding("ignored-settings", f"it cannot be read: {data.strerror}", file)
        elif data is not None:
            from recollect.model.checks.chain import settings_fault  # loads the schema of settings

            fault = settings_fault(data)
            if fault is not None:
                yield home_finding(fault.code, fault.what, file)
    config = _content(home.config_file) if home.config_file is not None else None
    if home.config_file is not None and isinstance(config, bytes) and not _is_object(config):
        what = "it is not a JSON object: the client starts as if it were new"
        yield home_finding("unreadable-config", what, home.config_file)


def _content(file: Path) -> bytes | OSError | None:
    """The bytes of a file; None where there is none."""
    try:
        with open_regular(file) as opened:
            return opened.read(_LARGEST)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as cause:
        return cause


def _head(file: Path) -> bytes:
    """The beginning of a log; empty where it cannot be read."""
    try:
        with open_regular(file) as opened:
            return opened.read(_HEAD)
    except (OSError, ValueError):
        return b""


def _is_object(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except (ValueError, RecursionError):
        return False


# ---- modes -----------------------------------------------------------------------------------------------


def _modes(home: ClaudeHome, logs: Mapping[ProjectDir, list[SessionFile]]) -> Iterator[Finding]:
    """What other users may read. A closed directory protects everything below it."""
    if os.name != "posix" or not _is_open(home.root):
        return
    single = [path for path in (home.settings_file, home.history_file, home.config_file) if path is not None]
    for path in single:
        if _is_open(path):
            yield home_finding("open-mode", "other users may read it", path)
    if not _is_open(home.projects_dir):
        return
    found = [
        log.path
        for project, own in logs.items()
        if _is_open(project.path)
        for log in own
        if _is_open(log.path)
    ]
    if found:
        what = f"other users may read {len(found)} of its logs, {found[0].name} for one"
        yield home_finding("open-mode", what, home.projects_dir)


def _is_open(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return bool(mode & (stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH))


# ---- upcoming deletion, credentials, unfinished changes
# --------------------------------------------------------


def _expiring(homes: Sequence[ClaudeHome], data: Path, now: dt.datetime) -> Iterator[Finding]:
    soon = expiring(homes, data, now, WITHIN_DAYS)
    lost = [one for one in soon if not one.is_archived]
    if not soon:
        return
    overdue = sum(one.expires_at <= now for one in soon)
    what = str(ExpirySummary(WITHIN_DAYS, len(soon), len(lost), overdue=overdue))
    first = (lost or soon)[0]
    code = "expiring" if lost else "expiring-archived"
    yield home_finding(
        code, f"{what}; the first is {short_id(first.session)} on {first.expires_at:%Y-%m-%d}", first.path
    )


def _journal(data: Path) -> Iterator[Finding]:
    if not (data / "undo").is_dir():
        return

    from recollect.store.changes.journal import ChangeJournal

    journal = ChangeJournal(data / "undo")
    try:
        changes = journal.changes()
    except RecollectError as problem:
        yield home_finding("unreadable", problem.message, journal.root)
        return
    for change in changes:
        if change.state == "unfinished":
            what = f"{change.what} of {change.subject} on {change.at:%Y-%m-%d %H:%M} was not finished"
            yield home_finding("unfinished-change", what, journal.root / change.id)
        elif change.state == "damaged":
            yield home_finding("damaged-change", "its record cannot be read", journal.root / change.id)
