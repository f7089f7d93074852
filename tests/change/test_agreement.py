"""`doctor` and `doctor --fix` on files: what the one says, the other does; in place and as a copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.ask.doctor.check import check
from recollect.ask.library import Home
from recollect.change import repair
from recollect.change.repair import planned_repair
from recollect.model.checks.rules import Finding, Severity
from tests.model.repair.wild import wild_log
from tests.small_home import ONE, put

SEEDS = range(1000, 1012)


def findings_of(home: Home, session: str, data: Path) -> list[Finding]:
    return check(home, [home.session(session)], data=data, with_secrets=False).findings


def kinds(findings: list[Finding], *, errors: bool = False) -> set[tuple[str, str | None]]:
    return {(one.code, one.uuid) for one in findings if not errors or one.severity is Severity.ERROR}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("in_place", [True, False])
def test_what_check_recommends_is_what_repair_does(seed: int, in_place: bool, tmp_path: Path) -> None:
    """The same findings, the same numbers; afterwards they are gone, and no error is new."""
    data = tmp_path / "data"
    put(tmp_path / "home", ONE, []).write_bytes(wild_log(seed))
    home = Home(tmp_path / "home", data=data)
    before = findings_of(home, ONE, data)
    recommended = [one for one in before if " --fix" in one.fix]
    with planned_repair(home.session(ONE)) as plan:
        mended = kinds(list(plan.diagnosis.mended))
        assert (bool(recommended), kinds(recommended) <= mended) == (plan.is_needed, True)
        if not plan.is_needed:
            return
        proof = plan.mending.proof
        done = repair.apply_in_place(plan, data) if in_place else repair.apply_as_copy(plan, data)
    left = findings_of(home, (done.new or ONE), data)
    with planned_repair(home.session(done.new or ONE)) as again:
        now = again.diagnosis.scan.resumed

    assert not any(one.repair for one in left)
    assert kinds(left, errors=True) <= kinds(before, errors=True) - mended
    assert (proof.messages_sent, proof.history_after) == (len(now.messages), len(now.history))
