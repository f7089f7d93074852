"""What is wrong with a session, for a page: found here where the log is short, else in a process of its own.

A check of 50 MB takes seconds of work, in which whoever scrolls would wait for every message. The process is given
the place of one log, writes the document and ends. Where none can be started the check is made right here.

As a process: ``python -m recollect.services.page.findings``, the request on stdin, the document on stdout.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.errors import Busy, RecollectError
from recollect.model.checks import CODES
from recollect.services.check.check import check
from recollect.services.documents.encoding import encoded
from recollect.services.documents.findings import (
    FindingsDocument,
    PageRepairPlanDocument,
    page_repair_members,
)
from recollect.services.homes import Home
from recollect.services.indexing.workers import without_interrupts
from recollect.services.repair.repair import planned_repair
from recollect.services.session import Session

_FINDINGS = 500
# Below this a process takes longer to start than the check.
_WORTH_A_PROCESS = 8 << 20
_LONGEST_SECONDS = 600.0
_one_at_a_time = threading.Lock()


class _FindingsRequest(Struct, frozen=True):
    home: str
    data: str
    log: str


def found(home: Home, session: Session, data: Path) -> FindingsDocument:
    """Findings, and the plan of a repair where there are some."""
    size = session.file.size + sum(agent.size for agent in session.agents())
    if size >= _WORTH_A_PROCESS and any(session.home.root == one.root for one in home.homes):
        with _one_at_a_time:
            document = _elsewhere(_FindingsRequest(str(session.home.root), str(data), str(session.path)))
        if document is not None:
            return document
    return _document(home, session, data)


def _elsewhere(request: _FindingsRequest) -> FindingsDocument | None:
    """Made by a process; None where that failed for whatever reason."""
    # -P: nothing that lies in the working directory may be taken for a module of ours.
    command = [sys.executable, "-P", "-m", "recollect.services.page.findings"]
    try:
        with without_interrupts():
            done = subprocess.run(
                command,
                input=msgspec.json.encode(request),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_LONGEST_SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired as cause:
        raise Busy(
            "the check takes too long", hint="`recollect check` in a terminal takes the time it needs"
        ) from cause
    except (OSError, UnicodeError):
        return None
    try:
        return msgspec.json.decode(done.stdout, type=FindingsDocument) if done.returncode == 0 else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _document(home: Home, session: Session, data: Path) -> FindingsDocument:
    checked = check(home, [session], data=data, with_secrets=False)
    # Without a broken rule that a repair may mend there is no plan: the log need not be read again.
    is_mendable = any(CODES[code].is_mendable for code in checked.summary.by_code)
    plan = _repair(session) if is_mendable else None
    return FindingsDocument(checked.findings[:_FINDINGS], len(checked.findings), checked.summary, plan)


def _repair(session: Session) -> PageRepairPlanDocument | None:
    """The plan; None where none can be made."""
    try:
        with planned_repair(session) as plan:
            return PageRepairPlanDocument(**page_repair_members(plan))
    except RecollectError:
        return None


def main() -> int:
    """One request, one document."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=_FindingsRequest)
    home = Home(request.home, data=request.data)
    session = next((one for one in home.sessions() if str(one.path) == request.log), None)
    if session is None:
        return 1
    document = _document(home, session, Path(request.data))
    sys.stdout.buffer.write(encoded(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
