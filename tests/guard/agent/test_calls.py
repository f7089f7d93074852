"""Calls of a session's tools as data: each case of ``calls.toml`` gives rules, files and calls, and what they come to."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.guard.agent.workshop import Workshop, call, needs_sandbox
from tests.guard.policy.test_attacks import placed

pytestmark = needs_sandbox

CASES: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("calls.toml").read_text("utf-8"))["case"]
GLOB_SHOP = dict.fromkeys(
    [
        *("src/a.py", "src/deep/c.py", "top.py", ".git/x.py", ".git/config", "src/.hid/h.py"),
        *("node_modules/m.py", "b.md", "lib/[x].py", "Up.PY"),
    ],
    "alpha\n",
)
GREP_SHOP = {
    **{f"many/f{number:03d}.txt": "omega\n" for number in range(300)},
    "src/a.py": "alpha\nbeta\ngamma\ndelta\nalpha two\n",
    "src/b.ts": "no\nalpha\n",
    ".git/config": "alpha\n",
    ".hid/x.py": "alpha\n",
    "long.txt": f"alpha {'x' * 900}\n",
    "bin.dat": "alpha\0\n",
    "c.md": "aa alpha alpha\n",
    "odd/-r": "--version -f /etc/passwd\n",
}
"""What the client was asked about; each file is a second younger than the one before."""
LINKS = {"link.py": "src/a.py", "linkdir": "src"}


def rows(case: dict[str, Any], place: Path) -> list[tuple[dict[str, Any], Workshop]]:
    """Each row with what the case says for all, and the session it is asked in."""
    shop = {"glob": GLOB_SHOP, "grep": GREP_SHOP}.get(case.get("shop", ""))
    shared = None if shop is None else workshop({"files": shop, "links": LINKS}, place / "shop")
    found = []
    for number, row in enumerate(case.get("rows", [{}])):
        own = place / str(number)
        here = (shared.project if shared else own / "work").resolve()
        whole = placed({**case, **row}, {"$P": str(here), "$OUT": str(own.resolve() / "outside")})
        found.append((whole, shared or workshop(whole, own)))
    return found


def workshop(case: dict[str, Any], place: Path) -> Workshop:
    made = Workshop(place, mode=case.get("mode"), allow=case.get("allow", ()), deny=case.get("deny", ()))
    for number, (name, text) in enumerate(case.get("files", {}).items()):
        path = made.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        os.utime(path, (1_700_000_000 + number,) * 2)
    for name in case.get("fifos", ()):
        os.mkfifo(made.project / name)
    for name, target in case.get("links", {}).items():
        (made.project / name).symlink_to(target)
    return made


def differences(case: dict[str, Any], made: Workshop) -> dict[str, tuple[Any, Any]]:
    """By name of what was expected: that, and what came instead."""
    runner = made.runner()
    *before, last = [call(tool, arguments) for tool, arguments in case["calls"]]
    for each in before:
        runner.run(each)
    for name, text in case.get("between", {}).items():
        (made.project / name).write_text(text)
    ran = runner.run(last)
    line = made.last()
    rich = line["toolUseResult"] if isinstance(line["toolUseResult"], dict) else {}
    expected: dict[str, Any] = {
        key: case[key] for key in ("content", "is_error", "denied", "outside", "inside") if key in case
    }
    actual: dict[str, Any] = {
        "content": ran.block["content"],
        "is_error": ran.outcome.is_error,
        "denied": ran.outcome.denied,
        "outside": sorted(path.name for path in made.project.parent.glob("outside/*")),
        "inside": sorted(path.name for path in made.project.iterdir()),
    }
    for name, source in (("rich", rich), ("line", line)):
        expected |= {f"{name} {key}": value for key, value in case.get(name, {}).items()}
        actual |= {f"{name} {key}": source.get(key) for key in case.get(name, {})}
    for name, text in case.get("after", {}).items():
        expected[name], actual[name] = text, (made.project / name).read_bytes().decode()
    if "has" in case:
        expected["has"], actual["has"] = True, case["has"] in str(ran.block["content"])
    if "file" in case:
        shown = [rich.get("file", {}).get(key) for key in ("startLine", "numLines", "totalLines")]
        expected["file"], actual["file"] = case["file"], shown
    if "names" in case:
        names = case["names"]
        expected["content"] = "\n".join(names) or "No files found"
        expected["rich"] = {"filenames": names, "numFiles": len(names), "totalMatches": len(names)}
        expected["rich"] |= {"truncated": False, "countIsComplete": True, "durationMs": 0}
        actual["rich"] = {**rich, "durationMs": 0}
    if "matches" in case:
        names = case["matches"]
        head = f"Found {len(names)} file{'' if len(names) == 1 else 's'}"
        expected["content"] = "\n".join([head, *names]) if names else "No files found"
        expected["rich"] = {"mode": "files_with_matches", "filenames": names}
        expected["rich"] |= {"numFiles": len(names), "totalFiles": len(names)}
        actual["rich"] = rich
    return {key: (value, actual[key]) for key, value in expected.items() if value != actual[key]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_calls_come_to_what_the_table_says(case: dict[str, Any], tmp_path: Path) -> None:
    wrong = [(row["calls"], differences(row, made)) for row, made in rows(case, tmp_path)]
    assert [] == [each for each in wrong if each[1]]


def test_the_table_is_not_empty() -> None:
    assert sum(len(case.get("rows", [1])) for case in CASES) >= 120
