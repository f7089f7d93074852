"""Findings of a session for a page. A long log is checked in a separate process.

Checking 50 MB takes seconds, during which the page could not answer. If no process can be started, the
check runs in this one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from recollect.errors import Busy, RecollectError
from recollect.services.check.check import check
from recollect.services.documents.encoding import encoded
from recollect.services.documents.findings import (
    FindingsDocument,
    PageRepairPlanDocument,
    page_repair_members,
)
from recollect.services.homes import Home
from recollect.services.repair.repair import planned_repair
from recollect.services.session import Session
from recollect.system.pool import DeadlinePassed, Run, TaskPiece, WorkerPool

_FINDINGS = 500
# Below this size, starting a process takes longer than the check.
_WORTH_A_PROCESS = 8 << 20
_LONGEST_SECONDS = 600.0
_one_at_a_time = threading.Lock()


def found(home: Home, session: Session, data: Path) -> FindingsDocument:
    """The findings, and the plan of a repair if it would fix some."""
    size = session.file.size + sum(agent.size for agent in session.agents())
    if size >= _WORTH_A_PROCESS and any(session.home.root == one.root for one in home.homes):
        with _one_at_a_time:
            document = _elsewhere((str(session.home.root), str(data), str(session.path)))
        if document is not None:
            return document
    return _document(home, session, data)


def _elsewhere(request: tuple[str, str, str]) -> FindingsDocument | None:
    """The document from a separate process; None if that failed."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    pool = WorkerPool(findings_job, processes=1, deadline=deadline, is_isolated=True)
    try:
        pieces = [event.value for event in pool.events([request]) if isinstance(event, TaskPiece)]
    except DeadlinePassed as cause:
        raise Busy("the check takes too long", hint="run `recollect check` in a terminal") from cause
    except Busy:
        return None
    return msgspec.json.decode(pieces[0], type=FindingsDocument) if pieces else None


def findings_job(_: None) -> Run:
    """A job of ``system.pool``: the document for a home, our data directory and a log, if the log exists."""
    return _encoded_document


def _encoded_document(request: tuple[str, str, str]) -> Iterator[bytes]:
    root, data, log = request
    home = Home(root, data=data)
    session = next((one for one in home.sessions() if str(one.path) == log), None)
    if session is not None:
        yield encoded(_document(home, session, Path(data)))


def _document(home: Home, session: Session, data: Path) -> FindingsDocument:
    """The log is diagnosed once: for the plan of its repair, and for the findings."""
    try:
        with planned_repair(session) as plan:
            diagnosis = plan.diagnosis
            repair = PageRepairPlanDocument(**page_repair_members(plan))
    except RecollectError:
        checked = check(home, [session], data=data, with_secrets=False)
        return FindingsDocument(checked.findings[:_FINDINGS], len(checked.findings), checked.summary, None)
    checked = check(home, [session], data=data, with_secrets=False, known={session.path: diagnosis})
    is_planned = plan.is_needed or bool(diagnosis.refusal)
    return FindingsDocument(
        checked.findings[:_FINDINGS],
        len(checked.findings),
        checked.summary,
        repair if is_planned else None,
    )
