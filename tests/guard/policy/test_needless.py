"""T2: how often a person would be asked for nothing, measured on the Bash calls of public transcripts.

A *needless ask* is a call that a plain reader of the rules would say is covered: every part of it starts
like an intended rule or is a well-known look, stays in the project, and has no redirect to a file,
no substitution and no variable (the plain rule does not cover those, and the client asks too). The reader here is
a few lines of its own and shares nothing with the analyser. The rule set is what people of such
projects write: their build, test and lint commands, and the git commands that change only the checkout.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.model.settings.decision import Verdict
from tests.guard.policy.worlds import engine

_LISTS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("needless.toml").read_text("utf-8"))
PREFIXES, LOOKS = _LISTS["prefixes"], frozenset(_LISTS["looks"])


def calls(transcripts: Path) -> Iterator[tuple[str, str, str]]:
    """Each command with the directory it ran in and the directory its session began in."""
    for path in sorted((transcripts / "corpus").rglob("*.jsonl")):
        root = None
        for line in path.read_bytes().split(b"\n"):
            entry = _object(line)
            cwd = _posix(entry.get("cwd"))
            root = root if root and cwd and (cwd + "/").startswith(root + "/") else cwd or root
            message = entry.get("message")
            content = message.get("content") if isinstance(message, dict) else None
            for block in content if isinstance(content, list) else []:
                if (
                    isinstance(block, dict)
                    and block.get("type") == "tool_use"
                    and block.get("name") == "Bash"
                ):
                    command = (block.get("input") or {}).get("command")
                    if isinstance(command, str):
                        yield command, cwd or "/w/repo", root or "/w/repo"


def _object(line: bytes) -> dict[str, object]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _posix(cwd: object) -> str | None:
    """``D:\\x`` as the shell of that machine writes it."""
    if not isinstance(cwd, str) or not cwd:
        return None
    return re.sub(r"^([A-Za-z]):", lambda drive: "/" + drive[1].lower(), cwd.replace("\\", "/"))


def plainly_covered(command: str, cwd: str, root: str) -> bool:
    """What somebody who knows the rules would say at a glance."""
    text = re.sub(r'"\$\(cat <<\'EOF\'\n.*?\nEOF\n\s*\)"', "message", command, flags=re.DOTALL)
    text = re.sub(r"'[^']*'", "q", text)
    if re.search(r"[$`{}]|<<|\(|\bthen\b|\bdo\b", text):
        return False
    text = re.sub(r'"(?:[^"\\]|\\.)*"', "q", text)
    text = re.sub(r"\s*(?:2>&1|[12&]?>\s*/dev/null|<\s*/dev/null)", " ", text)
    if re.search(r"[<>]", text):
        return False
    parts = [part.split() for part in re.split(r"&&|\|\||[;|&\n]", text)]
    return all(not part or _covered(part, cwd, root) for part in parts)


def _covered(words: list[str], cwd: str, root: str) -> bool:
    text = " ".join(words)
    if words[0] == "cd":
        return len(words) == 2 and not words[1].startswith(("~", "-")) and _inside(words[1], cwd, root)
    if any(text == prefix or text.startswith(prefix + " ") for prefix in PREFIXES):
        return True
    name = f"git-{words[1]}" if words[0] == "git" and len(words) > 1 else words[0]
    if name == "find" and re.search(r"-exec|-delete|-ok|-fprint|-fls", text):
        return False
    if name == "sort" and re.search(r"\s-o|--output|--compress", text):
        return False
    return name in LOOKS and all(_inside(word, cwd, root) for word in words[1:])


def _inside(word: str, cwd: str, root: str) -> bool:
    if word.startswith("~") or ".." in word.split("/"):
        return False
    return not re.match(r"/|[A-Za-z]:[/\\]", word) or (word + "/").startswith((cwd + "/", root + "/"))


@pytest.fixture(scope="module")
def tally(transcripts: Path) -> dict[str, list[str]]:
    allow = [f"Bash({prefix}:*)" for prefix in PREFIXES]
    found: dict[str, list[str]] = {"all": [], "asked": [], "needless": []}
    for command, cwd, root in calls(transcripts):
        directories = (root,) if root != cwd else ()
        made = engine(allow, cwd=cwd, directories=directories, home="/home/nobody")
        found["all"].append(command)
        if made.decide("Bash", {"command": command}).verdict is not Verdict.ALLOW:
            found["asked"].append(command)
            if plainly_covered(command, cwd, root):
                found["needless"].append(command)
    return found


def test_t2_at_most_one_in_fifty_is_asked_for_nothing(tally: dict[str, list[str]]) -> None:
    """Needless asks are at most 2 % of at least 500 real calls."""
    assert len(tally["all"]) >= 500
    assert len(tally["needless"]) <= 0.02 * len(tally["all"]), tally["needless"]


def test_t2_most_calls_run_without_asking(tally: dict[str, list[str]]) -> None:
    """A rule set of that size spares a person more than half of all questions."""
    assert len(tally["asked"]) <= 0.45 * len(tally["all"])
