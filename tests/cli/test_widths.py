"""Every row of every reading command fits the terminal, at 60, 80, 120 and 200 columns, whatever a home holds."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from wcwidth import wcswidth

from recollect.cli.main import COMMANDS, GROUPS
from recollect.model.project_key import project_key
from recollect.sample import sample_home
from tests.cli.terminals import COLOUR, environment, on_terminal
from tests.small_home import call, outcome, prompt, put, reply, said

WIDTHS = (60, 80, 120, 200)
LONG = "/srv/" + "/".join(f"a-directory-with-a-long-name-{number}" for number in range(9))
WIDE = "検索と要約を直す" * 12
HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202ereversed\u200b\x9b31m"
SESSION = "3f2a9c1e-0000-4000-8000-000000000001"
OTHER = "5b1d9c1e-0000-4000-8000-000000000002"
WORD = re.compile(r"(?:[^\s'\"]|'[^']*'|\"[^\"]*\")+")
HUGE = 987_654_321_098

# What is run, for each session where it names one. Nothing of it changes a home.
READING = [
    "list",
    "list --by repo",
    "show {id}",
    "show {id} --tools full --thinking",
    "search total",
    "search 検索",
    "search --substring orders",
    "cost",
    "cost --by project,model",
    "cost --by session --explain",
    "cost --by block",
    "cost --performance",
    "",
    "show {id} --tree",
    "show {id} --sub-agents",
    "files {id}",
    "diff {id}",
    "show --todos --all",
    "show --prompts",
    "report",
    "limits",
    "resume {id} --print",
    "doctor",
    "doctor --codes",
    "doctor --fix",
    "protect",
    "doctor {id} --fix",
    "rules settings show",
    "rules settings check",
    "rules check Bash(ls)",
    "rules check --explain Bash(ls)",
    "rules replay",
    "rules suggest",
    "rules flags",
    "protect list",
    "protect verify",
    "secrets",
    "protect tidy --older-than 1d",
    "undo",
    "data index",
    "mcp list",
    "rm {id}",
    "secrets remove {id}",
    "no-such-command",
    "show no-such-session",
]
DRIVER = """
import json, sys, fcntl, struct, termios, warnings
from recollect.cli.main import main
for columns, commands in json.loads(sys.argv[1]):
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    for words in commands:
        sys.stdout.flush()
        print("\\x1e" + json.dumps([columns, words]), flush=True)
        try:
            main(words)
        except SystemExit:
            pass
        sys.stdout.flush()
"""


def strange_home(root: Path) -> Path:
    """Long paths, wide characters, huge numbers, control characters, wherever a home can have them."""
    huge = {"input_tokens": HUGE, "output_tokens": HUGE, "cache_read_input_tokens": HUGE * 3}
    first = reply(2, 1, said(f"{WIDE} {HOSTILE} {'x' * 300}"), call("toolu_1"))
    first["message"]["usage"] |= huge
    entries: list[dict[str, Any]] = [
        prompt(1, None, f"{WIDE}{HOSTILE} total of orders", cwd=LONG, gitBranch=HOSTILE + "b" * 90),
        first,
        outcome(3, 2, "toolu_1", f"{LONG} {HOSTILE} orders " * 20),
        reply(4, 3, said("The orders are in " + LONG + " and " + "y" * 500)),
        {"type": "custom-title", "customTitle": WIDE + HOSTILE, "sessionId": SESSION},
        {"type": "tag", "tag": HOSTILE + "t" * 90, "sessionId": SESSION},
    ]
    for entry in entries:
        entry["cwd"] = LONG
    put(root, SESSION, entries, LONG)
    cut = put(root, OTHER, [prompt(1, None, "Q"), reply(3, 9, said("A"))], "/srv/" + "日本" * 20)
    cut.write_bytes(cut.read_bytes() + b'{"torn ' + b"z" * 400 + b"\n")
    todos = root / "todos"
    todos.mkdir()
    items = [{"id": "1", "content": WIDE + HOSTILE + LONG, "status": "pending", "activeForm": "x"}]
    (todos / f"{SESSION}-agent-{SESSION}.json").write_text(json.dumps(items))
    typed = {"display": WIDE + HOSTILE, "project": LONG, "sessionId": SESSION, "timestamp": 1_763_000_000_000}
    (root / "history.jsonl").write_text(json.dumps(typed) + "\n")
    rules = {"permissions": {"allow": [f"Bash({'x' * 150}:*)", f"Read({LONG}/**)"]}, "cleanupPeriodDays": 1}
    (root / "settings.json").write_text(json.dumps(rules))
    plans = root / "plans"
    plans.mkdir()
    (plans / f"{'plan-' * 20}.md").write_text(f"# {WIDE}\n")
    os.utime(root / "projects" / project_key(LONG) / f"{SESSION}.jsonl", (1_760_000_000, 1_760_000_000))
    return root


def shown(home: Path, session: str, tmp_path: Path) -> dict[tuple[int, str], list[str]]:
    """What each command writes at each width, as rows."""
    commands = [words.format(id=session).split() for words in READING]
    options = ["--home", str(home), "--data", str(tmp_path / "data")]
    asked = [[width, [[*words, *options] for words in commands]] for width in WIDTHS]
    text, _ = on_terminal([sys.executable, "-c", DRIVER, json.dumps(asked)], 80, environment())
    found = {}
    for part in text.split("\x1e")[1:]:
        head, _, rows = part.partition("\n")
        width, words = json.loads(head)
        found[width, " ".join(words[: -len(options)])] = settled(rows)
    return found


def settled(text: str) -> list[str]:
    """The rows that stay: a progress bar erases itself."""
    return re.sub(r"\x1b\[\?25[lh]|[^\n]*\x1b\[2K|\x1b\[1A|\r", "", text).split("\n")


def too_wide(rows: list[str], columns: int) -> list[str]:
    """Rows that the terminal would wrap. One word of a command line to copy may be longer than the terminal."""
    found = []
    for row in rows:
        plain = COLOUR.sub("", row)
        is_word_to_copy = WORD.fullmatch(plain.removesuffix(" \\").strip())
        if not 0 <= wcswidth(plain) <= columns and not is_word_to_copy:
            found.append(f"{wcswidth(plain)}: {plain}")
    return found


@pytest.mark.parametrize("home", ["sample", "strange"])
def test_no_row_wraps(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing but our own colours reaches the terminal."""
    monkeypatch.chdir(tmp_path)
    root, session = (
        (sample_home(), "6ada00ba") if home == "sample" else (strange_home(tmp_path / "home"), "3f2a9c1e")
    )
    found = shown(root, session, tmp_path)

    assert len(READING) * len(WIDTHS) == len(found)
    assert {} == {place: wide for place, rows in found.items() if (wide := too_wide(rows, place[0]))}
    controls = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u200b]")
    assert {} == {
        place: bad
        for place, rows in found.items()
        if (bad := [repr(row) for row in rows if controls.search(COLOUR.sub("", row))])
    }
    # A test of nothing would pass too.
    assert sum(len(rows) for rows in found.values()) > 1_000
    assert all("Traceback" not in row for rows in found.values() for row in rows)


def test_help_fits_every_terminal_and_never_more_than_80_columns(tmp_path: Path) -> None:
    """Of all commands, and of recollect itself."""
    commands = [["--help"], *([*name.split(), "--help"] for name in (*COMMANDS, *GROUPS))]
    asked = [[width, commands] for width in WIDTHS]
    text, _ = on_terminal([sys.executable, "-c", DRIVER, json.dumps(asked)], 80, environment())
    parts = [part.partition("\n") for part in text.split("\x1e")[1:]]

    assert len(parts) == len(commands) * len(WIDTHS)
    for head, _, rows in parts:
        columns = min(json.loads(head)[0], 80)
        assert (head, []) == (head, too_wide(rows.split("\n"), columns))
