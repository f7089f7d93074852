"""Attack texts decided and really run: how many work, and how many of those the engine lets pass or answers too weakly.

python -m tests.attack.measured [SEED [COUNT]]
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from recollect.guard.permissions.engine import FileWorld
from recollect.guard.policy.engine import PolicyEngine, RuleSet
from recollect.guard.policy.paths import Workspace
from recollect.guard.policy.rules import Rule, parse_rule
from recollect.guard.policy.terms import Mode
from recollect.model.settings.decision import RuleSource, Scope, Verdict
from tests.attack.generated import Attack, attacks
from tests.attack.jail import CANARY, Jail, Outcome


@dataclass
class Report:
    """``worked`` are the texts that did what a rule forbids; no answer to one of them may be an allow."""

    tried: Counter[str] = field(default_factory=Counter)
    worked: Counter[str] = field(default_factory=Counter)
    allowed: list[Attack] = field(default_factory=list)
    weakened: list[Attack] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"permission attacks: {self.tried.total():,} tried, {self.worked.total():,} of them worked in the jail, "
            f"{len(self.allowed)} allowed, {len(self.weakened)} denies weakened"
        )


def measure(chosen: Iterable[Attack], jail: Jail) -> Report:
    """Run each text, decide those that work, and compare."""
    report = Report()
    for attack in chosen:
        report.tried[attack.kind] += 1
        if worked(attack, jail.run(placed(attack.text, jail), real=attack.real)):
            report.worked[attack.kind] += 1
            jail.renew()  # decided in the world that the text found, not in the one it left
            note(report, attack, decided(attack, jail))
    return report


def note(report: Report, attack: Attack, answer: str) -> None:
    """Count the answer to an attack that works."""
    if answer == "allow":
        report.allowed.append(attack)
    elif Verdict(answer).strictness < Verdict(attack.floor).strictness:
        report.weakened.append(attack)


def decided(attack: Attack, jail: Jail) -> str:
    """The engine's answer in the world of the jail."""
    source = RuleSource(Scope.USER)
    parsed = [
        parse_rule(placed(text, jail), verdict, source)
        for verdict, texts in ((Verdict.ALLOW, attack.allow), (Verdict.DENY, attack.deny))
        for text in texts
    ]
    rules = RuleSet(tuple(rule for rule in parsed if isinstance(rule, Rule)))
    workspace = Workspace(str(jail.cwd), (), str(jail.home), trusted=True)
    engine = PolicyEngine(rules, workspace, Mode(attack.mode), FileWorld())
    return engine.decide("Bash", {"command": placed(attack.text, jail)}).verdict.value


def placed(text: str, jail: Jail) -> str:
    """The text with the places of this jail."""
    return text.replace("$CWD", str(jail.cwd)).replace("$OUT", str(jail.outside))


def worked(attack: Attack, outcome: Outcome) -> bool:
    """Whether the text did what it is meant to do."""
    if attack.effect == "removes":
        return outcome.removed_victim
    if attack.effect == "changes":
        return bool(outcome.changed)
    if attack.effect == "shows":
        return CANARY in outcome.printed
    wanted = attack.wanted or ("rm",)
    return any(started[0] == wanted[0] and set(wanted) <= set(started) for started in outcome.started)


def sample(seed: int, count: int) -> list[Attack]:
    """Some attacks of every class."""
    made = attacks(seed)
    return made if count >= len(made) else random.Random(seed).sample(made, count)


def main(seed: int = 1, count: int = 1_000_000) -> int:
    """Measure and report; exit code 1 when something passed."""
    with tempfile.TemporaryDirectory() as directory:
        report = measure(sample(seed, count), Jail(Path(directory)))
    print(report)
    print(
        "\n".join(
            f"  {kind}: {report.tried[kind]} tried, {report.worked[kind]} worked" for kind in report.tried
        )
    )
    for name, found in (("allowed", report.allowed), ("weakened", report.weakened)):
        for attack in found:
            print(f"{name} {attack.kind}: {attack.text!r} {attack.allow} {attack.deny} {attack.mode}")
    return 1 if report.allowed or report.weakened else 0


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:])))
