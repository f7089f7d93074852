"""The attack list: every case of ``tests/attack/*.toml`` is held back at least as far as it says (T1).

A case that may be asked about must not be allowed; a case that must be denied must be denied.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from recollect.guard.permissions.engine import FileWorld
from recollect.guard.policy.engine import PolicyEngine, RuleSet, combine_hook
from recollect.guard.policy.paths import Workspace
from recollect.guard.policy.rules import Rule, parse_rule
from recollect.guard.policy.terms import Mode
from recollect.model.settings.decision import RuleSource, Scope, Verdict

DATA = Path(__file__).parents[2] / "attack"


CASES: dict[str, list[dict[str, Any]]] = {
    path.stem: tomllib.loads(path.read_text("utf-8")).get("case", []) for path in sorted(DATA.glob("*.toml"))
}


def placed(value: Any, places: dict[str, str]) -> Any:
    """The value with $CWD, $OUT and $HOME filled in. ``${HOME}`` stays for the shell."""
    if isinstance(value, str):
        for name, place in places.items():
            value = value.replace(name, place)
        return value
    if isinstance(value, list):
        return [placed(each, places) for each in value]
    if isinstance(value, dict):
        return {placed(key, places): placed(each, places) for key, each in value.items()}
    return value


def prepared(case: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    root = tmp_path.resolve()
    places = {"$CWD": str(root / "repo"), "$OUT": str(root / "outside"), "$HOME": str(root / "home")}
    for directory in (*places.values(), str(root / "repo" / "sub")):
        os.makedirs(directory, exist_ok=True)
    if "tool" not in case:
        command = case.get("prefix", "") * case.get("times", 0) + case["command"]
        return {**case, "tool": "Bash", "arguments": {"command": command}, "places": places}
    filled: dict[str, Any] = {key: placed(value, places) for key, value in case.items()}
    for name in filled.get("files", []):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("x")
    for name in filled.get("fifos", []):
        os.mkfifo(name)
    for name, target in filled.get("links", {}).items():
        Path(name).symlink_to(target)
    return {"arguments": {}, **filled, "places": places}


def engine_for(case: dict[str, Any]) -> PolicyEngine:
    source = RuleSource(Scope(case.get("scope", "user")), anchor=case.get("anchor"))
    rules = case.get("rules", case)
    parsed = [
        parse_rule(text, verdict, source) for verdict in Verdict for text in rules.get(verdict.value, [])
    ]
    places = case["places"]
    # What a project adds to its own workspace counts only after trust; the caller leaves it out.
    extra = () if case.get("extra_from_project") else tuple(case.get("directories", ()))
    workspace = Workspace(places["$CWD"], extra, places["$HOME"], case.get("trusted", True))
    found = RuleSet(tuple(rule for rule in parsed if isinstance(rule, Rule)), ())
    return PolicyEngine(found, workspace, Mode(case.get("mode", "default")), FileWorld())


@pytest.mark.parametrize("kind", CASES)
def test_every_attack_is_held_back(kind: str, tmp_path: Path) -> None:
    """The verdict is at least as strict as the case demands."""
    passed = []
    for number, case in enumerate(CASES[kind]):
        ready = prepared(case, tmp_path / str(number))
        decision = engine_for(ready).decide(ready["tool"], ready["arguments"])
        if "hook" in ready:
            decision = combine_hook(decision, Verdict(ready["hook"]))
        if decision.verdict.strictness < Verdict(ready["expected"]).strictness:
            passed.append((case["id"], decision))
    assert [] == passed


def test_there_are_enough_cases() -> None:
    """At least 300 attacks, each with an id of its own and a source."""
    ids = [f"{kind}-{case['id']}" for kind, cases in CASES.items() for case in cases]
    assert (True, len(ids)) == (len(ids) >= 300, len(set(ids)))
    assert all(case["source"] for cases in CASES.values() for case in cases)
