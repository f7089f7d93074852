"""A repair in place that is killed leaves the old log or the new one, and undo brings the old one back (G11, G12)."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from recollect.services import undo
from recollect.services.homes import Home
from recollect.services.repair import repair
from recollect.storage.changes.journal import ChangeJournal
from tests.crash.change_loop import Calls, end_process, never_returning
from tests.model.repair.damaged import damaged_log
from tests.small_home import ONE, put

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
SEED = 9  # several kinds of damage that are errors; none is mended with the present time

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")]


class Place:
    """One damaged session, and our own directory beside it."""

    def __init__(self, root: Path, number: int) -> None:
        self.home, self.data = root / f"home{number}", root / f"data{number}"
        self.log = put(self.home, ONE, [])
        self.log.write_bytes(damaged_log(SEED))
        self.old = self.log.read_bytes()

    def repair(self) -> str:
        """Mend it in place; says the id of the change."""
        with repair.planned_repair(Home(self.home).session(ONE)) as plan:
            return repair.apply_in_place(plan, self.data).change.id


def killed_at(place: Place, nth: int, how: str) -> tuple[int, int]:
    """Repair in a child that ends at its nth call that changes anything; how it ended, and the calls it made."""
    counted, told = os.pipe()
    child = os.fork()
    if child == 0:
        with never_returning():
            calls = Calls(end_process)
            calls.watch(setattr)
            with repair.planned_repair(Home(place.home).session(ONE)) as plan:
                calls.arm(nth, how)
                repair.apply_in_place(plan, place.data)
            calls.disarm()
            os.write(told, b"%d" % len(calls.names))
    os.close(told)
    _, status = os.waitpid(child, 0)
    made = os.read(counted, 100)
    os.close(counted)
    return os.waitstatus_to_exitcode(status), int(made or b"0")


@pytest.mark.parametrize("how", ["killed before", "killed after"])
def test_killed_at_any_call_it_is_old_or_new(tmp_path: Path, how: str) -> None:
    """After recovery the log is one of the two; it can then be repaired, and the repair undone.

    With RECOLLECT_TORTURE at every call, else at every ninth.
    """
    whole = Place(tmp_path, 0)
    _, calls = killed_at(whole, 0, how)
    new = whole.log.read_bytes()
    ends = Counter[str]()
    places = range(1, calls + 1, 1 if TORTURE else 9)
    for nth in places:
        place = Place(tmp_path, nth)
        code, _ = killed_at(place, nth, how)
        journal = ChangeJournal(place.data / "undo")
        journal.recover()
        found = place.log.read_bytes()
        ends["killed"] += code == -signal.SIGKILL
        ends["old" if found == place.old else "new" if found == new else "broken"] += 1
        change = place.repair() if found == place.old else journal.changes()[0].id
        undo.undo(place.data, undo.found_change(place.data, change))
        ends["undone"] += place.log.read_bytes() == place.old

    print(f"\nrepair {how} {len(places)} of {calls} calls: {dict(ends)}")
    assert (0, len(places)) == (ends["broken"], ends["undone"])
    # After a call that finds nothing (a file is looked for) nobody is killed: the repair goes on.
    assert (True, True, True) == (
        new != whole.old,
        ends["old"] > 0 < ends["new"],
        ends["killed"] * 2 > len(places),
    )
