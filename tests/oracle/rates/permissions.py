"""Permission decisions compared with the client's: never laxer, and how often the same."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import tempfile
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from recollect.model.settings.decision import Verdict
from tests.needs import TRANSCRIPTS
from tests.oracle.permission_records import our_verdicts, recorded_cases
from tests.oracle.permission_world import Case, engine_in
from tests.oracle.rates.rate import Rate

SHARED = TRANSCRIPTS / "oracle"
_MOST_SHOWN = 40
# What the builder writes for one case; all else is the same in every world.
_OF_A_CASE = (
    "h/.claude/settings.json",
    "w/proj/.claude/settings.json",
    "w/proj/.claude/settings.local.json",
    "h/.claude.json",
)


def measure() -> Iterator[Rate]:
    """The rates of the shared cases, where they are, and of those recorded in `tests/data`."""
    if (SHARED / "cases" / "permissions.jsonl").exists():
        yield from rates("permissions, shared cases", shared_verdicts())
    with tempfile.TemporaryDirectory() as directory:
        yield from rates("permissions, our own calls", our_verdicts(recorded_cases(), Path(directory)))


def rates(name: str, decided: Iterable[tuple[Case, str]]) -> Iterator[Rate]:
    """Two rates over the cases: never laxer than the client, and the same as the client."""
    laxer: list[str] = []
    stricter: list[str] = []
    total = 0
    for case, ours in decided:
        total += 1
        gap = Verdict(ours).strictness - Verdict(case["client"]).strictness
        if gap:
            (laxer if gap < 0 else stricter).append(shown(case, ours))
    yield Rate(f"{name}: never laxer", total - len(laxer), total, 1.0, tuple(laxer[:_MOST_SHOWN]))
    same = total - len(laxer) - len(stricter)
    yield Rate(f"{name}: same", same, total, 0.97, tuple(stricter[:_MOST_SHOWN]))


def shared_verdicts() -> Iterator[tuple[Case, str]]:
    """Every shared case with our verdict, in one world: to decide changes nothing, and settings and trust are its own."""
    builder = shared_builder()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        for line in (SHARED / "cases" / "permissions.jsonl").read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            for name in _OF_A_CASE:
                (root / name).unlink(missing_ok=True)
            made = builder.build(root, case)
            # What is there need not be written again for every case: two thirds of its time.
            builder.FILES, builder.LINKS = {}, {}
            with engine_in(made["home"], made["cwd"], case["mode"]) as engine:
                yield case, engine.decide(made["tool"], made["input"]).verdict.value


def shared_builder() -> Any:
    """The module that stands beside the shared cases, and builds their world."""
    spec = importlib.util.spec_from_file_location("perm_world", SHARED / "perm_world.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # A project that is a repository already need not be made one again: half of the time of a case.
    module.subprocess = types.SimpleNamespace(run=_once)  # type: ignore[attr-defined]
    return module


def _once(command: list[str], *, cwd: Path, check: bool, **options: Any) -> None:
    """``git init``, where it was not done yet."""
    if not (cwd / ".git").exists():
        subprocess.run(command, cwd=cwd, check=check, **options)


def shown(case: Case, ours: str) -> str:
    """One line about a case that differs."""
    given = {
        name: value
        for name, value in case["input"].items()
        if name not in ("description", "content", "prompt")
    }
    mode = "" if case["mode"] == "default" else f" {case['mode']}"
    return f"{case['client']} -> {ours}{mode}: {case['tool']} {json.dumps(given)} {json.dumps(case['layers'])[:150]}"
