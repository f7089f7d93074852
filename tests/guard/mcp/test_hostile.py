"""What servers do wrong on stdio (M1): the host survives each of it, and a server beside goes on.

All servers of a group and a good one run in one host; each is called, and after each of them the good one.
``answers`` is what the call returns, ``fails`` words of why it, or the listing before it, did not.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.errors import RecollectError
from recollect.guard.mcp import Host
from tests.guard.mcp.project import LIMITS, Project, hostile, processes_with

PATIENT = 120.0
# For what never comes: it is given up soon.
SOON = 0.5
BEHAVIOURS: dict[str, list[tuple[str, str, str, float]]] = {
    "bytes and lines": [
        ("huge-line", "fails", "more than 3,145,728 bytes", PATIENT),
        ("endless-line", "fails", "more than 3,145,728 bytes", PATIENT),
        ("blank-lines", "fails", "messages a second", PATIENT),
        ("invalid-utf8", "answers", "hi", PATIENT),
        ("not-json", "answers", "hi", PATIENT),
        ("talks-first", "answers", "hi", PATIENT),
        ("drip", "fails", "did not answer within 0.5 s", SOON),
        ("deep", "fails", "nested deeper than 64", PATIENT),
        ("many-values", "fails", "more than 50,000 values", PATIENT),
        ("objects-up-to-the-limit", "answers", "", PATIENT),
        ("wide-text-up-to-the-limit", "answers", "[cut by recollect: 3,000,001 characters]", PATIENT),
        ("strange-numbers", "answers", "hi", PATIENT),
    ],
    "the protocol": [
        ("id-reuse", "answers", "hi", PATIENT),
        ("reply-to-nothing", "answers", "hi", PATIENT),
        ("batch", "answers", "hi", PATIENT),
        ("twice-the-key", "answers", "hi", PATIENT),
        ("both-result-and-error", "fails", "it answered with an error: also", PATIENT),
        ("cancels-us", "answers", "hi", PATIENT),
        ("error-without-code", "fails", "did not answer", SOON),
        ("hostile-error", "fails", "\\x1b[2Jzzz", PATIENT),
        ("result-of-wrong-shape", "fails", "does not follow the protocol", PATIENT),
        ("unknown-block", "fails", "does not follow the protocol", PATIENT),
    ],
    "the greeting": [
        ("greeting-is-error", "fails", "no \\x1b[31mservice", PATIENT),
        ("greeting-lacks-fields", "fails", "does not follow the protocol", PATIENT),
        ("unknown-version", "fails", "Unsupported protocol version", PATIENT),
        ("hostile-instructions", "answers", "hi", PATIENT),
    ],
    "a greeting that never comes": [
        ("no-greeting", "fails", "did not greet in time", PATIENT),
        ("greeting-of-wrong-shape", "fails", "did not greet in time", PATIENT),
    ],
    "what it asks of us": [
        ("request-before-initialise", "answers", "hi", PATIENT),
        ("sampling", "answers", "Sampling not supported", PATIENT),
        ("elicitation", "answers", "Elicitation not supported", PATIENT),
        ("unknown-request", "answers", "Method not found", PATIENT),
    ],
    "floods": [
        ("notification-flood", "fails", "messages a second", PATIENT),
        ("progress-flood", "fails", "messages a second", PATIENT),
        ("ping-flood", "fails", "messages a second", PATIENT),
        ("stderr-flood", "answers", "hi", PATIENT),
        ("list-changed-storm", "answers", "hi", PATIENT),
    ],
    "lists of tools": [
        ("many-tools", "fails", "more than 50,000 values", PATIENT),
        ("too-many-tools", "fails", "more than 1,000 tools", PATIENT),
        ("endless-pages", "fails", "more than 50 pages", PATIENT),
        ("listing-of-wrong-shape", "fails", "does not follow the protocol", PATIENT),
        ("listing-without-schema", "fails", "does not follow the protocol", PATIENT),
        ("twin-tools", "fails", "2 tools of this name", PATIENT),
        ("separator-in-tool", "answers", "hi", PATIENT),
        ("controls-in-tool", "answers", "hi", PATIENT),
        ("look-alike-tool", "answers", "hi", PATIENT),
        ("schema-bomb", "answers", "hi", PATIENT),
        ("long-description", "answers", "hi", PATIENT),
        ("pattern-bomb", "answers", "hi", PATIENT),
    ],
    "results": [
        ("escapes", "answers", "\\x1b]52;c;ZXZpbA==\\x07\\u{202e}dcba\\u{200b}\\u{e0041}", PATIENT),
        ("large-text", "answers", "[cut by recollect: 2,900,000 characters]", PATIENT),
    ],
    "processes": [
        ("slow", "fails", "did not answer within 0.5 s", SOON),
        ("dead", "fails", "it ended; on stderr it said: out of \\x1b[31mmemory", PATIENT),
        ("dead-at-start", "fails", "on stderr it said: cannot start", PATIENT),
        ("dead-at-listing", "fails", "it ended", PATIENT),
        ("closes-output", "fails", "it ", SOON),
        ("zombie-child", "fails", "it ended", PATIENT),
        ("deaf-to-signals", "answers", "hi", PATIENT),
        ("does-not-read", "answers", "hi", PATIENT),
        ("stays", "answers", "hi", PATIENT),
        ("reads-secrets", "answers", "{}", PATIENT),
    ],
}


async def outcome(host: Host, server: str = "bad", seconds: float = PATIENT) -> tuple[str, str, str]:
    """What came of a call of the hostile server, and then of the good one."""
    try:
        answer = await host.call(f"mcp__{server}__echo", {"text": "hi"}, seconds=seconds)
        first = ("answers", answer.text)
    except RecollectError as problem:
        first = ("fails", problem.message)
    good = await host.call("mcp__good__echo", {"text": "still here"}, seconds=PATIENT)
    return (*first, good.text)


@pytest.mark.parametrize("group", list(BEHAVIOURS))
def test_each_is_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str) -> None:
    """Each ends as the table says, the good server answers, nothing drives a terminal, nothing is left running."""
    monkeypatch.setenv("MY_SECRET", "s3cr3t")
    cases = BEHAVIOURS[group]
    state = str(tmp_path / "project" / "state")
    entries = {name: hostile(name, f"{state}-{name}") for name, *_ in cases}
    project = Project(tmp_path, good=hostile("fine", state), **entries).trust()
    limits = dataclasses.replace(LIMITS)

    async def all_of_them(host: Host) -> dict[str, tuple[str, str, str]]:
        if "never" in group:
            # The good server may take its time to start; the others are given up soon.
            await host.call("mcp__good__echo", {"text": "first"}, seconds=PATIENT)
            object.__setattr__(limits, "start_seconds", 1.0)
        await host.tools()
        return {name: await outcome(host, name, seconds) for name, _, _, seconds in cases}

    found = project.ask(all_of_them, limits=limits)

    assert {name: (end, "still here") for name, end, _, _ in cases} == {
        name: (end, good) for name, (end, _, good) in found.items()
    }
    assert [] == [
        (name, words, found[name][1][:300]) for name, _, words, _ in cases if words not in found[name][1]
    ]
    assert [] == [name for name, (_, text, _) in found.items() if not text.replace("\n", "").isprintable()]
    assert [] == processes_with(str(tmp_path))


def test_there_are_at_least_forty() -> None:
    """As many as docs/design/threats.md says (M1), each of them once."""
    names = [name for cases in BEHAVIOURS.values() for name, *_ in cases]

    assert len(names) >= 40
    assert len(names) == len(set(names))


def test_all_of_them_together_take_little_memory() -> None:
    """A process of its own goes through them one by one: at most 64 MiB above what it takes when idle (M1)."""
    program = Path(__file__).with_name("memory_run.py")
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)

    assert (0, "") == (ran.returncode, ran.stderr)
    assert int(ran.stdout) <= 64
