"""What client 2.1.325 decided about the calls of our generator, recorded in ``tests/data/permission_answers.jsonl``.

The ordinary tests compare our engine with the record. To ask the client again, with another seed if wanted::

    RECOLLECT_CLIENTS=DIR python -m tests.oracle.permission_records SEED

One line is one group: name, settings by layer, mode, trust, and the calls by the client's verdict; a text is a command.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.oracle.permission_cases import CaseGenerator
from tests.oracle.permission_world import Case, PermissionClient, PermissionWorld, engine_in
from tests.oracle.test_files_and_tasks import ScriptedStub
from tests.oracle.tool_client import running

RECORD = Path(__file__).resolve().parents[1] / "data" / "permission_answers.jsonl"


def recorded_cases() -> Iterator[Case]:
    """Every recorded case with the client's verdict, those of one group together."""
    for line in RECORD.read_text(encoding="utf-8").splitlines():
        group, layers, mode, trusted, answers = json.loads(line)
        for verdict, calls in answers.items():
            for call in calls:
                tool, arguments = ("Bash", {"command": call}) if isinstance(call, str) else call
                case = {"group": group, "tool": tool, "input": arguments, "layers": layers, "client": verdict}
                yield {**case, "mode": mode, "trusted": trusted}


def our_verdicts(cases: Iterable[Case], root: Path) -> Iterator[tuple[Case, str]]:
    """Every case with our own verdict; one world and one engine serve a group."""
    world = PermissionWorld(root)
    world.build()
    for _, group in itertools.groupby(cases, _settings):
        same = list(group)
        world.settle(same[0]["layers"], trusted=same[0]["trusted"])
        with engine_in(world.home, world.cwd, same[0]["mode"]) as engine:
            for case in same:
                yield case, engine.decide(*world.call(case)).verdict.value


def asked(cases: Iterable[Case]) -> Iterator[Case]:
    """The same cases with the verdict of the real client, without those whose result does not tell."""
    for _, group in itertools.groupby(cases, _settings):
        same = list(group)
        # A sub-agent would take the next calls of the script; too many refusals in plan mode end a run.
        size = 1 if same[0]["tool"] == "Agent" else 6 if "plan" in _settings(same[0]) else 50
        for start in range(0, len(same), size):
            yield from _asked_at_once(same[start : start + size])


def _asked_at_once(cases: list[Case]) -> Iterator[Case]:
    with tempfile.TemporaryDirectory() as directory, running(ScriptedStub()) as stub:
        world = PermissionWorld(Path(directory))
        world.build()
        client = PermissionClient(world, stub)
        world.settle(cases[0]["layers"], trusted=cases[0]["trusted"])
        for case, (verdict, _) in zip(cases, client.answers(cases), strict=True):
            if verdict:
                yield {**case, "client": verdict}


def record(cases: Iterable[Case]) -> None:
    """Write the record."""
    lines = []
    for _, group in itertools.groupby(cases, _settings):
        answers: dict[str, list[object]] = {}
        for case in group:
            plain = case["input"].get("command") if case["tool"] == "Bash" else None
            answers.setdefault(case["client"], []).append(plain or [case["tool"], case["input"]])
        row = [case["group"], case["layers"], case["mode"], case["trusted"], answers]
        lines.append(json.dumps(row, ensure_ascii=False, separators=(",", ":")))
    RECORD.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _settings(case: Case) -> str:
    return json.dumps([case["group"], case["layers"], case["mode"], case["trusted"]])


if __name__ == "__main__":
    record(asked(CaseGenerator(int(sys.argv[1])).cases()))
