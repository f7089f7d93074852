"""Whose a log is, wherever it was brought to; and sessions whose client wrote down no usage: their cost is unknown, not 0.

A fork that made no call of its own cost nothing, and that is known: its calls, or at least its answers, are copies, and what they
cost is counted for the session they were made in.

A session of another agent never goes into a Claude home: Claude would load it, and does not know its lines. All that
bring sessions there (``sync pull --into-home``, ``archive restore``, ``import``, ``resume``) ask ``agent_named_in``.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.errors import RecollectError, UsageError
from recollect.system.locations import agent_of
from recollect.system.paths import AGENTS, CLAUDE, client_homes
from recollect.system.peek import first_bytes, open_regular

if TYPE_CHECKING:
    from recollect.index.cost_queries import UnusedLog

# How the log of a mirror begins, wherever it was brought to since (storage/foreign/lines.py).
_START, _FOREIGN = 64, b'{"type":"foreign-'
_AGENT = re.compile(rb'\{"type":"foreign-source","agent":"([a-z]+)"')
# Mirrors did not always begin with whose they are: with a record, or with history copied into a fork. No client of Claude
# begins a line like this, so that its own logs are not read any further.
_UNNAMED = re.compile(rb'\{"type":"(?:foreign-|[a-z]+:|(?:user|assistant|system)","uuid":)')
_ROW, _ROWS_OF = b'"whole":true', "opencode"  # records that are rows of a store: only one agent has them
_ANSWER = b'{"type":"assistant"'  # of a mirrored log
_COMPRESSED = b"\x28\xb5\x2f\xfd"  # how a log in the archive begins
UNKNOWN_AGENT = "unknown"
UNKNOWN_COST = "no usage recorded: cost unknown"


def unrecorded(unused: Iterable[UnusedLog]) -> list[UnusedLog]:
    """The logs without usage, copies included, whose cost is unknown and not 0: those of other agents, one of each session."""
    found: dict[str, list[UnusedLog]] = {}
    for log in unused:
        if agent_of_log(log.home, log.path) != CLAUDE:
            found.setdefault(log.session, []).append(log)
    return [logs[0] for logs in found.values() if not _are_copied(logs)]


def _are_copied(logs: Sequence[UnusedLog]) -> bool:
    told = [log.is_copied for log in logs]
    return copied_only(log.path for log in logs) if None in told else all(told)


def copied_only(logs: Iterable[str]) -> bool:
    """Whether the logs of a session have answers, and all of them are copies of another session's. Reads them."""
    from recollect.model.line_views.facts import facts_of
    from recollect.storage.logs.reader import read_lines

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
            return _named_in_compressed(log)
        if _UNNAMED.match(start) is None:
            return CLAUDE
        with open_regular(Path(log)) as file:
            return _named_in(file)
    except OSError:
        return CLAUDE


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


def _named_in_compressed(log: str) -> str:
    """Only the start is unpacked, as far as it takes: a list asks this of many logs."""
    import zstandard  # only an archived log needs it

    with open_regular(Path(log)) as file, contextlib.suppress(zstandard.ZstdError):
        unpacked = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        lines = io.BufferedReader(unpacked)
        return CLAUDE if _UNNAMED.match(lines.peek(_START)) is None else _named_in(lines)
    return CLAUDE


def _named_in(lines: Iterable[bytes]) -> str:
    """The agent that the first line with one names."""
    is_mirrored = False
    for line in lines:
        named = _AGENT.match(line)
        if named is not None:
            name = named[1].decode()
            return name if name in AGENTS else UNKNOWN_AGENT
        is_mirrored |= line.startswith(_FOREIGN)
        if is_mirrored and _ROW in line:
            return _ROWS_OF
    return UNKNOWN_AGENT if is_mirrored else CLAUDE
