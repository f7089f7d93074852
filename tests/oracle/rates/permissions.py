"""Permission decisions compared with the client's: never laxer, and how often the same."""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from recollect.policy.decision import Verdict
from tests.oracle.permission_world import Case, PermissionWorld, decided
from tests.oracle.rates.rate import Rate

SHARED = Path(__file__).resolve().parents[4] / "shared" / "oracle"
_MOST_SHOWN = 400

Build = Callable[[Path, Case], dict[str, Any]]


def measure() -> Iterator[Rate]:
    """The rates of the shared cases, where they are, and of those recorded in `tests/data`."""
    if (SHARED / "cases" / "permissions.jsonl").exists():
        lines = (SHARED / "cases" / "permissions.jsonl").read_text(encoding="utf-8").splitlines()
        yield from rates("permissions, shared cases", map(json.loads, lines), shared_build())


def rates(name: str, cases: Iterable[Case], build: Build) -> Iterator[Rate]:
    """Two rates over the cases: never laxer than the client, and the same as the client."""
    laxer: list[str] = []
    stricter: list[str] = []
    total = 0
    for case, ours in verdicts(cases, build):
        total += 1
        gap = Verdict(ours).strictness - Verdict(case["client"]).strictness
        if gap:
            (laxer if gap < 0 else stricter).append(shown(case, ours))
    yield Rate(f"{name}: never laxer", total - len(laxer), total, 1.0, tuple(laxer[:_MOST_SHOWN]))
    same = total - len(laxer) - len(stricter)
    yield Rate(f"{name}: same", same, total, 0.97, tuple(stricter[:_MOST_SHOWN]))


def verdicts(cases: Iterable[Case], build: Build) -> Iterator[tuple[Case, str]]:
    """Every case with our verdict, each in a world of its own."""
    for case in cases:
        with tempfile.TemporaryDirectory() as directory:
            made = build(Path(directory).resolve(), case)
            yield case, decided(made["home"], made["cwd"], made).verdict.value


def own_build(root: Path, case: Case) -> dict[str, Any]:
    """The case in our own world."""
    world = PermissionWorld(root)
    world.build()
    world.settle(case["layers"], trusted=case["trusted"])
    tool, arguments = world.call(case)
    return {**case, "tool": tool, "input": arguments, "home": world.home, "cwd": world.cwd}


def shared_build() -> Build:
    """The builder that stands beside the shared cases."""
    spec = importlib.util.spec_from_file_location("perm_world", SHARED / "perm_world.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build: Build = module.build
    return build


def shown(case: Case, ours: str) -> str:
    """One line about a case that differs."""
    given = {
        name: value
        for name, value in case["input"].items()
        if name not in ("description", "content", "prompt")
    }
    mode = "" if case["mode"] == "default" else f" {case['mode']}"
    return f"{case['client']} -> {ours}{mode}: {case['tool']} {json.dumps(given)} {json.dumps(case['layers'])[:150]}"
