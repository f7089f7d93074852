"""Protect homes: an hourly run that archives every session before the client deletes it.

``services/archive/protection.py`` keeps the outcome of every run, also of one that fails.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from recollect.errors import NotFound, RecollectError
from recollect.services.archive.archive import add_all, archive_at
from recollect.services.archive.protection import ProtectRun, record
from recollect.services.homes import Home
from recollect.system.progress import ProgressCallback
from recollect.system.scheduler import ScheduledJob, job_words


def job(homes: Sequence[Path], data: Path) -> ScheduledJob:
    """The hourly job for these homes and this directory of ours."""
    words = job_words(homes, data, "protect", "--run")
    return ScheduledJob(job_name(data), words, "Archive coding-agent sessions with recollect")


def job_name(data: Path) -> str:
    """One job for each directory of ours, so that two of them do not replace each other."""
    return f"recollect-protect-{hashlib.sha256(bytes(data.resolve())).hexdigest()[:8]}"


# ---- a run -----------------------------------------------------------------------------------------------


def run(homes: Sequence[Path], data: Path, progress: ProgressCallback | None = None) -> ProtectRun:
    """Archive every session of these homes, and record how it went, also where it fails."""
    now = dt.datetime.now(dt.UTC)
    try:
        done = _archived(homes, data, now, progress)
    except (RecollectError, OSError) as problem:
        reason = problem.message if isinstance(problem, RecollectError) else str(problem)
        record(data, ProtectRun(now, reason=reason, is_complete=False))
        raise
    record(data, done)
    return done


def _archived(
    homes: Sequence[Path], data: Path, now: dt.datetime, progress: ProgressCallback | None
) -> ProtectRun:
    missing = [home for home in homes if not home.is_dir()]
    if missing or not homes:
        where = str(missing[0]) if missing else "this machine"
        raise NotFound(f"protect: no Claude home at {where}", hint="set it up again with --home DIR")
    every = list(Home(*homes, data=data).sessions())
    added, failed = add_all(
        archive_at(data), [one for one in every if one.session_id is not None], now, progress
    )
    reason = ""
    if failed:
        reason = f"{len(failed):,} not archived; the first, {failed[0].session}: {failed[0].reason}"
    elif not every:
        reason = f"no session was found in {', '.join(map(str, homes))}"
    new = sum(one.new_bytes for one in added)
    return ProtectRun(now, len(every), len(added), new, reason, is_complete=not reason)


def rehearsal(words: Sequence[str]) -> str:
    """Run the job as a scheduler would, in an empty environment; why it failed, or nothing."""
    done = subprocess.run(
        words, env={}, cwd="/", capture_output=True, text=True, errors="replace", check=False
    )
    return (done.stderr.strip() or f"exit status {done.returncode}") if done.returncode else ""
