"""T7: attack texts of a generator, decided by the engine and then really run in a jail to see what they do.

Daily every text is decided and a few dozen are run; ``RECOLLECT_TORTURE=1`` runs them all.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.model.settings.decision import Verdict
from tests.attack.generated import Attack, attacks
from tests.attack.jail import CANARY, Jail
from tests.attack.measured import decided, measure, sample

SEED = 20_261_117
_COUNT = 1_000_000 if os.environ.get("RECOLLECT_TORTURE") else 36
KINDS = sorted({attack.kind for attack in attacks(SEED)})


@pytest.fixture(scope="module")
def jail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jail]:
    made = Jail(tmp_path_factory.mktemp("jail"))
    yield made
    shutil.rmtree(made.root, ignore_errors=True)


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_of_the_generator_is_answered_too_weakly(kind: str, jail: Jail) -> None:
    """B14 to B17, C11, C12: a deny stays a deny where its words are in the text; nothing else is allowed."""
    found = [attack for attack in attacks(SEED) if attack.kind == kind]
    weak = [attack for attack in found if _weak(attack, jail)]
    assert (len(found) > 10, weak) == (True, [])


def _weak(attack: Attack, jail: Jail) -> bool:
    return Verdict(decided(attack, jail)).strictness < Verdict(attack.floor).strictness


@pytest.mark.bubblewrap
def test_no_text_that_works_in_the_jail_is_allowed(jail: Jail) -> None:
    """T7: of the texts that start a denied program, change a protected file or show a denied one, none is allowed."""
    report = measure(sample(SEED, _COUNT), jail)
    print(report)
    assert (report.allowed, report.weakened) == ([], [])
    assert report.worked.total() >= 0.6 * report.tried.total()
    assert report.tried.total() >= min(_COUNT, 1_500)


@pytest.mark.bubblewrap
def test_the_jail_sees_what_a_text_does(jail: Jail) -> None:
    """Without this the measurement could pass by seeing nothing."""
    text = "rm victim; unlink victim; cp sub/.mcp.json .; cat secret; kubectl -n x delete p"
    outcome = jail.run(text)
    assert outcome.started == (("rm", "victim"), ("kubectl", "-n", "x", "delete", "p"))
    assert (sorted(outcome.changed), outcome.removed_victim, CANARY in outcome.printed) == (
        [".mcp.json"],
        True,
        True,
    )
    harmless = jail.run("ls; cat a.txt; cp a.txt d")
    assert (harmless.started, harmless.changed, CANARY in harmless.printed) == ((), frozenset(), False)


@pytest.mark.bubblewrap
def test_the_jail_holds(jail: Jail, tmp_path: Path) -> None:
    """No network, no capabilities, nothing of this machine but its programs."""
    mark = tmp_path / "mark"
    text = f"echo x > {mark}; cat /proc/net/route; grep CapEff /proc/self/status; ls /root /home"
    printed = jail.run(text).printed
    assert "CapEff:\t0000000000000000" in printed
    assert not mark.exists()
    assert "cannot access '/root'" in printed
    assert len([line for line in printed.splitlines() if line.startswith(("eth", "en", "wl"))]) == 0
