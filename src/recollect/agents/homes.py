"""The homes of all agents of this machine: Claude's as they are, the others through their mirrors.

Looking for the homes of other agents costs a few ``stat`` calls.

A session of another agent never goes into a Claude home: Claude would load it, and does not know its lines. All that
bring sessions there (``team pull --into-home``, ``protect restore``, ``import``, ``resume``) ask ``agent_named_in``.
A session whose client wrote down no usage has an unknown cost, which is not 0.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import zstandard
from msgspec import structs

from recollect.agents.mirror_files import facts_of_mirror, problems_of_mirror
from recollect.errors import RecollectError, StorageError, UsageError
from recollect.model.views.facts import facts_of
from recollect.store.home_walk import scan_logs
from recollect.store.logs.reader import read_lines
from recollect.system import paths
from recollect.system.locations import (
    HomeRoot,
    agent_of,
    claude_homes,
    data_dir,
    home_at,
    mirrored_agent,
)
from recollect.system.paths import AGENTS, CLAUDE, client_homes
from recollect.system.peek import first_bytes, open_regular

if TYPE_CHECKING:
    from recollect.agents.mirror import AgentMirror

# How the log of a mirror begins, wherever it was brought to since (agents/lines.py).
_START, _FOREIGN = 64, b'{"type":"foreign-'
_AGENT = re.compile(rb'\{"type":"foreign-source","agent":"([a-z-]+)"')
_ANSWER = b'{"type":"assistant"'  # of a mirrored log
_COMPRESSED = b"\x28\xb5\x2f\xfd"  # how a log in the archive begins
UNKNOWN_AGENT = "unknown"
UNKNOWN_COST = "no usage recorded: cost unknown"


def copied_only(logs: Iterable[str]) -> bool:
    """Whether the logs of a session have answers, and all of them are copies of another session's. Reads them."""
    is_copied = False
    with contextlib.suppress(RecollectError):
        for log in logs:
            for line in read_lines(Path(log)):
                facts = facts_of(line.data) if line.data.startswith(_ANSWER) else None
                if facts is not None and not facts.is_forked:
                    return False
                is_copied |= facts is not None
    return is_copied


def agent_of_log(home: str, log: str) -> str:
    """The agent of a home; of a log that was pulled, restored, imported or archived the one that it names itself."""
    agent = agent_of(home)
    return agent if agent != CLAUDE else agent_named_in(log)


def agent_named_in(log: str) -> str:
    """The agent that a log names itself, wherever it lies, compressed or not; Claude where it names none."""
    try:
        start = first_bytes(log, _START)
        if start.startswith(_COMPRESSED):
            start = _unpacked_start(log)
    except OSError:
        return CLAUDE
    named = _AGENT.match(start)
    if named is not None and named[1].decode() in AGENTS:
        return named[1].decode()
    return UNKNOWN_AGENT if start.startswith(_FOREIGN) else CLAUDE


def _unpacked_start(log: str) -> bytes:
    """Only the start is unpacked: a list asks this of many logs."""
    with open_regular(Path(log)) as file, contextlib.suppress(zstandard.ZstdError):
        return zstandard.ZstdDecompressor().stream_reader(file).read(_START)
    return b""


def sessions_of(agents: Iterable[str]) -> str:
    """How many sessions there are of which agents, from the agent of each: "2 sessions of codex"."""
    counts = Counter(agents)
    total = counts.total()
    what = "a session" if total == 1 else f"{total:,} sessions"
    if len(counts) == 1:
        return f"{what} of {next(iter(counts))}"
    most = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    shares = ", ".join(f"{count:,} of {name}" for name, count in most)
    return f"{what} of other agents ({shares})"


def kept_out(agents: Iterable[str], instead: str) -> str:
    """The line for sessions that a plan leaves out, with what to do about them."""
    return f"left out: {sessions_of(agents)}, since a Claude home takes only Claude's; {instead}"


def refusal(what: str, agents: Iterable[str], instead: str) -> UsageError:
    """The error for a command that names nothing else."""
    return UsageError(f"{what}: {sessions_of(agents)}, and a Claude home takes only Claude's", hint=instead)


def is_claude_home(directory: Path) -> bool:
    """Whether a directory is, or lies in, what Claude's client takes for its home."""
    if agent_of(str(directory)) != CLAUDE:
        return False  # a mirror, wherever our data lies
    real = directory.expanduser().resolve()
    homes = (Path(path).resolve() for agent, path in client_homes(os.environ) if agent == CLAUDE)
    return any(real.is_relative_to(home) for home in homes)


# A command asks several times which homes there are; within this time the answer is the same.
_AGAIN_SECONDS = 0.5
_looked_at: dict[str, float] = {}


def machine_homes(data: Path | None = None, environ: Mapping[str, str] | None = None) -> list[HomeRoot]:
    """The homes of this user. ``data`` is our own directory, where mirrors are kept."""
    env = os.environ if environ is None else environ
    ours = data or data_dir(env)
    others = (_agent_home(agent, Path(path), origin, ours) for agent, path, origin in paths.agent_homes(env))
    return [*claude_homes(env), *(root for root in others if root is not None)]


def home_of(directory: str | Path, data: Path | None = None) -> HomeRoot:
    """The home of ``--home``, of any agent."""
    root = home_at(directory)
    agent = paths.agent_at(str(root.path)) if root.exists and root.agent == paths.CLAUDE else paths.CLAUDE
    if agent != paths.CLAUDE:
        return _mirrored(agent, root.path, root.origin, data or data_dir())
    if root.agent != paths.CLAUDE:
        refresh_mirror(root.path)
        return root
    if os.path.exists(root.path / "projects"):  # noqa: PTH110 - never raises
        return root
    left = (_left_of(one, root.path, root.origin, data or data_dir()) for one in paths.AGENTS)
    return next((one for one in left if one is not None), root)


def refresh_mirror(root: Path) -> None:
    """Bring a mirror up to date, if the directory is one and the home it mirrors is still there."""
    agent = mirrored_agent(root)
    if agent is None or time.monotonic() - _looked_at.get(str(root), -_AGAIN_SECONDS) < _AGAIN_SECONDS:
        return
    facts = facts_of_mirror(root)
    if facts is not None and os.path.isdir(facts.source):  # noqa: PTH112 - never raises
        mirror = _mirror_of(agent, Path(facts.source), root.parent.parent)
        if mirror.root == root:
            _refresh(mirror)


def lost_beginnings(root: Path) -> dict[str, str]:
    """Sessions of a mirror that lack their beginning, by their logs, and which session has it: for lists, without reading a log.

    ``ask/sessions/originals.py`` goes by this too; of a log that lies elsewhere its own records tell.
    """
    facts = facts_of_mirror(root)
    return {} if facts is None else {str(root / log): session for log, session in facts.lost.items()}


def unread_files(roots: Sequence[HomeRoot]) -> list[str]:
    """What could not be read of homes of other agents: which file, why, and what to do next."""
    result = []
    for root in roots:
        for problem in problems_of_mirror(root.path):
            if not problem.is_unknown:
                variable = _variable_of(root.path, problem.path)
                where = f"{problem.path} (${variable})" if variable else problem.path
                result.append(
                    f"could not be read: {where}: {problem.reason}; shown is what was read of it before."
                    f" To have all of it: {_step(variable)}, then run the command again"
                )
    return result


def unread_step(root: Path, path: str) -> str:
    """What to do about a file that a mirror lacks because it could not be read."""
    variable = _variable_of(root, path)
    return f"{path} is what ${variable} names: {_step(variable)}" if variable else _step(None)


def _step(variable: str | None) -> str:
    return "correct the variable or unset it" if variable else "mend the file or put it aside"


def _variable_of(root: Path, path: str) -> str | None:
    """The variable that names a file which a mirror mirrors; None for a file that is simply in the home."""
    facts = facts_of_mirror(root)
    if facts is None or paths.named_store(facts.agent, facts.source, os.environ) != path:
        return None
    return AGENTS[facts.agent].store


def deletion_warnings(roots: Sequence[HomeRoot]) -> list[str]:
    """What clients of other agents are about to delete; the mirror has it."""
    others = (root for root in roots if root.source is not None)
    if not any(root.source is not None for root in roots):
        return []
    from recollect.agents.mirror import warning_of

    warnings = (warning_of(root.agent, "deletion", root.source) for root in others)
    return [warning for warning in warnings if warning is not None]


def of_agents(roots: Sequence[HomeRoot], agents: Sequence[str], data: Path) -> list[HomeRoot]:
    """Those that hold sessions of these agents.

    Refused where a home has others beside them: an answer would hold sessions that were not asked for, or lack some.
    """
    chosen = []
    for root in roots:
        held = _agents_in(root, data)
        if held <= set(agents):
            chosen.append(root)
        elif held & set(agents):
            named = " and ".join(sorted(held))
            raise UsageError(
                f"home {root.path}: holds sessions of {named}, and --agent chooses whole homes",
                hint="leave --agent out: `recollect list --json` has the agent of each session,"
                " and `recollect cost --by client` what they cost",
            )
    return chosen


def _agents_in(root: HomeRoot, data: Path) -> set[str]:
    """Whose sessions a home holds, with what only the archive has of it.

    A mirror has those of its agent, and Claude's own home only Claude's. Any other directory may have several: what was
    pulled, restored or copied says itself whose it is.
    """
    if root.agent != paths.CLAUDE or not root.exists or is_claude_home(root.path):
        return {root.agent}

    logs = [log.path for log in scan_logs(root.path, []) if log.role == "session"]
    from recollect.store.archive.archive import Archive

    archive = Archive(data / "archive")
    kept = [str(archive.log_path(one)) for one, _ in archive.only_here([root.path], logs)]
    return {agent_named_in(log) for log in (*logs, *kept)} or {paths.CLAUDE}


def _agent_home(agent: str, home: Path, origin: str, data: Path) -> HomeRoot | None:
    """The home of an agent through its mirror; the mirror alone where the home, or all in it, was deleted."""
    is_home = os.path.isdir(home) and paths.is_home_of(agent, str(home))  # noqa: PTH112 - never raises
    if is_home or paths.named_store(agent, str(home), os.environ) is not None:
        return _mirrored(agent, home, origin, data)
    return _left_of(agent, home, origin, data)


def _left_of(agent: str, home: Path, origin: str, data: Path) -> HomeRoot | None:
    """The mirror alone; None where this home of the agent was never mirrored."""
    mirror = _mirror_of(agent, home, data)
    if mirrored_agent(mirror.root) is None:
        return None
    if mirror.problems:
        _refresh(mirror)  # what could not be read is gone too
    return structs.replace(home_at(mirror.root), origin=f"{origin}, deleted", agent=agent, source=home)


def _mirrored(agent: str, home: Path, origin: str, data: Path) -> HomeRoot:
    mirror = _mirror_of(agent, home, data)
    _refresh(mirror)
    return structs.replace(home_at(mirror.root), origin=origin, agent=agent, source=home)


def _mirror_of(agent: str, home: Path, data: Path) -> AgentMirror:
    """Loads the readers of all agents, which takes longer than most answers about Claude's home."""
    from recollect.agents.mirror import AgentMirror

    return AgentMirror(agent, home, data)


def _refresh(mirror: AgentMirror) -> None:
    try:
        mirror.refresh()
    except OSError as cause:
        hint = "check its owner and mode, or name other homes with --home DIR"
        raise StorageError("read", Path(cause.filename or mirror.home), cause, hint=hint) from cause
    _looked_at[str(mirror.root)] = time.monotonic()
