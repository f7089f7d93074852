"""Plan the repair of a log that is only bytes in memory."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterator

from recollect.model.checks.scan import LogIdentity, LogSource
from recollect.model.lines.damage import Line
from recollect.model.repair.plan import Diagnosis, LogRepair, diagnosed, mended
from tests.talk import Fields

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def source_of(data: bytes, session: str = "s") -> LogSource:
    """These bytes as the log of a session."""
    end = data.rfind(b"\n") + 1

    def lines() -> Iterator[Line]:
        offset = 0
        for line in data[:end].split(b"\n")[:-1]:
            yield Line(line, offset)
            offset += len(line) + 1

    return LogSource(
        LogIdentity(session),
        lines,
        lambda offset, length: data[offset : offset + length],
        len(data),
        end,
        NOW,
    )


def diagnosis_of(data: bytes, session: str = "s") -> Diagnosis:
    """What is wrong with these bytes, and what a repair mends."""
    return diagnosed(source_of(data, session))


def planned(data: bytes) -> LogRepair:
    """The plan for these bytes."""
    source = source_of(data)
    return mended(source, source.scan())


def output(plan: LogRepair) -> bytes:
    """The bytes of the result."""
    return b"".join(plan.draft.output())


def codes(plan: LogRepair) -> Counter[str]:
    """How often which action is planned."""
    return Counter(action.code for action in plan.actions)


def entries(plan: LogRepair) -> list[Fields]:
    """The lines of the result."""
    return [json.loads(line) for line in output(plan).splitlines() if line.strip()]


def rebuilt(plan: LogRepair, data: bytes) -> bytes:
    """The original, put together from what was kept and what was set aside."""
    spans = [(row.offset, row.length) for row in plan.draft.kept()]
    spans += [(span.offset, span.length) for span in plan.set_aside]
    return b"".join(data[offset : offset + length] for offset, length in sorted(spans))
