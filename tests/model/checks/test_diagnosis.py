"""`model.repair.plan`: what a check says a repair mends, the repair mends; nothing else is recommended."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recollect.model.checks.rules import CODES, REPAIR, Finding, Severity
from recollect.model.repair.plan import Diagnosis
from tests.model.repair.damaged import damaged_log
from tests.model.repair.mended_bytes import diagnosis_of, output
from tests.model.repair.wild import wild_log
from tests.talk import assistant, encoded, link, mark, user

LOGS = 5_000 if os.environ.get("RECOLLECT_TORTURE") else 200
GROUPS = 5


def key(finding: Finding) -> tuple[str, str]:
    """What makes a finding the same before and after: an entry keeps its id, not its place.

    That a sub-agent has the last word is said of the whole log, at the last entry that is not its own.
    """
    is_of_all = "belongs to a sub-agent" in finding.what
    return finding.code, "" if is_of_all else finding.uuid or ""


def agree(data: bytes, name: object, session: str = "s") -> Diagnosis:
    """Whether the diagnosis of a log comes true; gives it back."""
    diagnosis = diagnosis_of(data, session)
    marked = [one for one in diagnosis.findings if REPAIR.split(" {")[0] in one.fix]

    assert marked == list(diagnosis.mended), name
    if diagnosis.repair is None:
        assert marked == [], name
        return diagnosis
    after = diagnosis_of(output(diagnosis.repair), session)
    before, left = Counter(map(key, diagnosis.findings)), Counter(map(key, after.findings))
    mended = Counter(map(key, marked))
    errors = Counter(key(one) for one in after.findings if one.severity is Severity.ERROR)
    proof = diagnosis.repair.proof

    # Only errors are marked; what is marked is gone, and something of it is what repairs are for.
    assert {one.severity for one in marked} == {Severity.ERROR}, name
    assert {one: left[one] for one in mended} == {one: before[one] - mended[one] for one in mended}, name
    assert any(CODES[one.code].is_mendable for one in marked), name
    named = {one.line for one in diagnosis.findings if one.severity is Severity.ERROR}
    kept = iter(output(diagnosis.repair).split(b"\n"))
    lines = enumerate(data.split(b"\n"), 1)
    assert [number for number, line in lines if number not in named and line not in kept] == [], name
    # No error is new, and a second repair has nothing to do.
    assert not {one: count for one, count in errors.items() if not before[one]}, name
    assert after.repair is None, name
    # The numbers that were said are those that are measured.
    now, then = diagnosis.scan.resumed, after.scan.resumed
    assert (len(now.messages), len(now.history)) == (proof.messages_before, proof.history_before), name
    assert (len(then.messages), len(then.history)) == (proof.messages_sent, proof.history_after), name
    return diagnosis


@pytest.mark.parametrize("made", [damaged_log, wild_log])
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_diagnosis_comes_true(made: Callable[[int], bytes], group: int) -> None:
    """On generated logs with several kinds of damage at once; most of them can be repaired."""
    seeds = range(group * LOGS // GROUPS, (group + 1) * LOGS // GROUPS)
    found = [agree(made(seed), seed) for seed in seeds]

    assert sum(one.repair is not None for one in found) > len(found) / 3
    assert sum(bool(one.refusal) for one in found) <= len(found) / 20


def logs_of(transcripts: Path) -> Iterator[Path]:
    for place in ("samples", "corpus"):
        yield from sorted((transcripts / place).rglob("*.jsonl"))


def test_a_diagnosis_comes_true_on_real_logs(log_homes: Path) -> None:
    """Every log of the samples and of the corpus."""
    checked = 0
    for path in logs_of(log_homes):
        agree(path.read_bytes(), path, path.stem)
        checked += 1

    assert checked > 0


# ---- the words -------------------------------------------------------------------------------------------


TALK = [user("q1", None, 0, "Q1"), assistant("a1", "q1", 1, "A1")]
LATE = [user("q2", "p", 600, "Q2"), assistant("a2", "q2", 601, "A2")]


def test_a_lost_parent_behind_a_line_that_is_no_link_is_no_circle() -> None:
    """Check and repair name the same reason, and the same numbers."""
    progress = link("p", "gone", 590, type="progress", data={})
    diagnosis = agree(encoded([*TALK, progress, *LATE]), "progress")
    (cut,) = diagnosis.mended[:1]
    assert diagnosis.repair is not None
    (action,) = diagnosis.repair.actions

    assert "history-cut" == cut.code
    assert cut.what.startswith("its parent 'gone' is not in the log")
    assert cut.what.endswith("the history has 2 messages now, 4 after a repair")
    assert "its parent 'gone' is not in the log; now follows a1" == action.why
    assert "link the entry to one that is in the log" == cut.repair


def test_every_entry_that_gets_a_time_is_named() -> None:
    """Once the last entry has a time, another one without is the last."""
    later = [{**one, "timestamp": time} for one, time in zip(LATE, ("yesterday", "tomorrow"), strict=True)]
    diagnosis = agree(encoded([TALK[0], later[1], TALK[1], {**later[0], "parentUuid": "a1"}]), "times")

    named = [one.uuid for one in diagnosis.mended if one.code == "session-not-found"]
    assert named == ["q2", "a2"]


def test_no_entry_gets_a_time_where_a_sub_agent_has_the_last_word() -> None:
    """It would not help: only what can be recovered is."""
    first, last = ({**one, "isSidechain": True} for one in (TALK[1], LATE[1]))
    glued = encoded([first])[:-1] + encoded([{**LATE[0], "parentUuid": "a1"}])
    diagnosis = agree(encoded(TALK[:1]) + glued + encoded([last, mark("a2")]), "sub-agent")
    assert diagnosis.repair is not None

    assert ["glued-split"] == [one.code for one in diagnosis.repair.actions]


def test_nothing_is_recommended_for_a_branch_that_is_left() -> None:
    """An orphan beside the conversation stays as it is: no repair touches it."""
    lost = [user("x1", "gone", 300, "X"), assistant("x2", "x1", 301, "Y")]
    on = [user("q2", "a1", 600, "Q2"), assistant("a2", "q2", 601, "A2")]
    diagnosis = agree(encoded([*TALK, *lost, *on]), "branch")

    assert [("missing-parent", "nothing to do", None)] == [
        (one.code, one.fix, one.repair) for one in diagnosis.findings if one.code == "missing-parent"
    ]


def test_an_agents_log_is_not_repaired() -> None:
    """No client resumes it by itself."""
    from msgspec import structs

    from recollect.model.checks.scan import LogIdentity
    from recollect.model.repair.plan import diagnosed
    from tests.model.repair.mended_bytes import source_of

    source = structs.replace(source_of(encoded(TALK) + b"{\n"), log=LogIdentity("s", "x", "a1", "agent"))
    (finding,) = [one for one in diagnosed(source).findings if one.severity is not Severity.INFO]

    assert ("skipped-bytes", None, "nothing to do") == (finding.code, finding.repair, finding.fix)
