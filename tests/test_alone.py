"""The project knows of no directory outside itself: what it needs from elsewhere is named by variables (``needs.py``)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_PLACES = ("bench", "deploy", "docs", "plugin", "requirements", "src", "tests", "tools", "web", ".ci")
_LEFT_OUT = {"__pycache__", "node_modules", "static", "dist"}  # made by programs
# Tests and what they read are full of paths that lead outside on purpose; so are examples in these.
_HOSTILE = re.compile(
    r"tests/(data|attack)/|(^|/)test_\w+\.py$|\.test\.ts$|escape_attempts\.py$"
    r"|cli/help\.md$|guard/cli/run\.py$|guard/policy/|tests/guard/|docs/reference/(cli|api)\.md$|build_lake_reference\.py$"
)
_UP = re.compile(r"(?<![\w.~])(?:\.\./)+[\w-][\w.-]*")
_FROM_FILE = re.compile(r"__file__\)(?:\.resolve\(\))?(?:\.parents\[(\d+)\]|((?:\.parent)+))")
_MACHINE = re.compile(r"/(?:work|farm|workspace|builds|root)/(?!worker)\w")
_BEFORE = re.compile(r"[\w~:.*}-]")  # then it is the rest of another path
_HOME = re.compile(r"/(?:home|Users)/([a-z][\w-]*)")
# People of examples, and words that a directory called home is followed by in a longer path.
_INVENTED = re.compile(
    "a|ada|alice|anna|anna-marie|blocks|bob|dev|john|me|nick|nobody|onur|projects|s|sam|tmp|user|x"
)


def texts() -> Iterator[tuple[str, str]]:
    """Every text file of the tree, by its path."""
    files = [path for place in _PLACES for path in (ROOT / place).rglob("*")]
    for path in [*files, *ROOT.glob("[A-Za-z]*")]:
        if path.is_file() and not _LEFT_OUT & {*path.relative_to(ROOT).parts}:
            try:
                yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
            except UnicodeDecodeError:
                continue


def outside(name: str, text: str) -> list[str]:
    """What of a file leads out of the tree."""
    starts = (match for match in _MACHINE.finditer(text) if not _BEFORE.match(text, match.start() - 1))
    found = [match[0] for match in starts]
    found += [match[0] for match in _HOME.finditer(text) if not _INVENTED.fullmatch(match[1])]
    for match in _FROM_FILE.finditer(text):
        ups = int(match[1]) + 1 if match[1] else match[2].count(".parent")
        if ups > name.count("/") + 1:
            found.append(match[0])
    if "../" in text and not _HOSTILE.search(name):
        found += [match[0] for match in _UP.finditer(text) if not _is_inside(name, match[0])]
    return found


def _is_inside(name: str, path: str) -> bool:
    """Only what is there, seen from the file: what is not might be meant from the root."""
    target = ((ROOT / name).parent / path).resolve()
    return target.is_relative_to(ROOT) and target.exists()


def test_no_file_names_a_path_outside_the_tree() -> None:
    """Neither relative to itself or to the root, nor a directory of the machine it was written on."""
    found = {name: paths for name, text in texts() if (paths := outside(name, text))}
    assert found == {}
