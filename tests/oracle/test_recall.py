"""The plugin in the real client, as a new user has it: installed from the checkout, asked, and read.

One client runs once for most tests here, as a run costs seconds. The past it asks is hostile and holds a secret; another
project has the same words; so has the session that asks.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recollect.index.access import open_index
from tests.browser.payloads import PAYLOADS
from tests.model.secrets.samples import SAMPLES, Dice
from tests.oracle.client_runner import Client
from tests.oracle.conftest import command_of
from tests.oracle.test_files_and_tasks import ScriptedStub
from tests.oracle.tool_client import running
from tests.share.mcp.past import CART, DOCS, HANDBOOK, inside, outside, talk
from tests.share.mcp.test_tools import FENCES
from tests.small_home import put

MARKETPLACE = Path(__file__).resolve().parents[2] / "plugin"
SERVER = "mcp__plugin_recollect_recollect"
RECALL, READ = f"{SERVER}__recall", f"{SERVER}__read"
QUESTION = "how was the rounding of the cart fixed"
SECRET = SAMPLES["github-pat"].make(Dice("recall oracle"))
CHANGED = "3f2a9c1e-0000-4000-8000-000000000010"
HOSTILE = [*FENCES, *PAYLOADS]
_AT_ONCE = 20


class AskingStub(ScriptedStub):
    """Fills the handle of the newest answer into a call that has none."""

    before_reading: Callable[[], None] | None = None

    def answer(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        wanted = self.script[0][1].get("handle") if body.get("tools") and self.script else None
        if wanted in ("newest", "changed"):
            found = re.findall(r"handle ([A-Za-z0-9_-]{20,})", json.dumps(body["messages"]))
            self.script[0] = (self.script[0][0], {**self.script[0][1], "handle": found[-1]})
        if wanted == "changed" and self.before_reading is not None:
            self.before_reading()
        return super().answer(body)


class Answer(NamedTuple):
    """What came back to the model."""

    text: str
    is_error: bool


class Recalling(Client):
    """A client with our plugin, and a past."""

    stub: AskingStub

    def settle(self, **permissions: list[str]) -> None:
        """Install as a user would, then write the rules and the past."""
        for words in (("marketplace", "add", str(MARKETPLACE)), ("install", "recollect@recollect")):
            done = self.started("plugin", *words)
            assert 0 == done.returncode, done.stdout + done.stderr
        file = self.config / "settings.json"
        settings = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps({**settings, "permissions": permissions}))
        said = f"rounding of the cart, token {SECRET}, and more"
        put(self.config, CART, talk(100, (said, "The rounding is exact with Decimal.")), cwd=str(self.cwd))
        put(self.config, DOCS, talk(300, ("rounding of the cart", "Described.")), cwd=HANDBOOK)
        put(self.config, CHANGED, talk(400, ("the quokka of yesterday", "It is fine.")), cwd=str(self.cwd))
        for number in range(0, len(HOSTILE), _AT_ONCE):
            turns = [(f"{one}\nwalrus{number} {one}", "ok") for one in HOSTILE[number : number + _AT_ONCE]]
            session = f"3f2a9c1e-0000-4000-8000-{5000 + number:012d}"
            put(self.config, session, talk(10_000 + 100 * number, *turns), cwd=str(self.cwd))
        with open_index([self.config], cache=self.config.parent / ".cache" / "recollect"):
            pass

    def called(self, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[Answer]:
        """Let the client call these tools."""
        self.stub.script = list(calls)
        done = self.ask(QUESTION)
        assert (0, []) == (done.returncode, self.stub.script), done.stdout + done.stderr
        last = self.stub.conversations()[-1]
        return [
            Answer(_text(block), bool(block.get("is_error")))
            for message in last
            for block in (message["content"] if isinstance(message["content"], list) else [])
            if block.get("type") == "tool_result"
        ]


def _text(block: dict[str, Any]) -> str:
    content = block["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _recalling(root: Path, stub: AskingStub) -> Recalling:
    own = root / "bin"
    own.mkdir()
    program = own / "recollect"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m recollect "$@"\n')
    program.chmod(0o755)
    return Recalling("2.1.325", command_of("2.1.325"), root, stub)


def _rewrite(log: Path) -> None:
    log.write_bytes(log.read_bytes().replace(b"quokka", b"QUOKKA"))


class Asked(NamedTuple):
    """The answers of one run."""

    here: Answer
    everywhere: Answer
    around: Answer
    unknown: Answer
    nothing: Answer
    changed: Answer
    hostile: list[Answer]
    offered: set[str]

    def every(self) -> list[Answer]:
        return [
            self.here,
            self.everywhere,
            self.around,
            self.unknown,
            self.nothing,
            self.changed,
            *self.hostile,
        ]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    root = tmp_path_factory.mktemp("asked")
    with pytest.MonkeyPatch.context() as patch, running(AskingStub()) as stub:
        patch.setenv("PATH", str(root / "bin"), prepend=":")
        client = _recalling(root, stub)
        client.settle(allow=[SERVER])
        log = next(client.config.rglob(f"{CHANGED}.jsonl"))
        stub.before_reading = lambda: _rewrite(log)
        groups = [f"walrus{number}" for number in range(0, len(HOSTILE), _AT_ONCE)]
        reading = {"handle": "newest", "before": 10, "after": 10}
        answers = client.called(
            [
                (RECALL, {"question": QUESTION}),
                (RECALL, {"question": QUESTION, "scope": "all"}),
                (READ, {"handle": "newest"}),
                (READ, {"handle": "A" * 27}),
                (RECALL, {"question": "zanzibar"}),
                (RECALL, {"question": "the quokka of yesterday"}),
                (READ, {"handle": "changed"}),
                *(step for one in groups for step in ((RECALL, {"question": one}), (READ, reading))),
            ]
        )
        here, everywhere, around, unknown, nothing, _, changed, *hostile = answers
        offered = {str(tool["name"]) for body in stub.asked for tool in body.get("tools") or ()}
        yield Asked(here, everywhere, around, unknown, nothing, changed, hostile, offered)


def test_three_questions_in_a_client_with_the_installed_plugin_are_answered(answers: Asked) -> None:
    """Each tool is offered at once, called, and its answer comes back to the model."""
    assert {RECALL, READ} <= answers.offered
    assert [False] * 3 == [one.is_error for one in (answers.here, answers.everywhere, answers.around)]
    assert "rounding is exact" in inside(answers.here.text)
    assert "the recalled message" in outside(answers.around.text)
    assert not answers.nothing.is_error
    said = "No session of this project has a word of the question; scope 'all' asks every project."
    assert answers.nothing.text.splitlines()[0] == said  # a refresh that runs is said below


def test_another_project_is_absent_unless_all_are_asked(answers: Asked) -> None:
    assert DOCS not in answers.here.text
    assert DOCS in outside(answers.everywhere.text)


def test_the_session_that_asks_is_absent(answers: Asked) -> None:
    """Its prompt has the words of the question."""
    assert [CART] == re.findall(r"session ([0-9a-f-]{36})", outside(answers.here.text))
    assert {CART, DOCS} == set(re.findall(r"session ([0-9a-f-]{36})", outside(answers.everywhere.text)))


def test_every_answer_is_within_its_bound(answers: Asked) -> None:
    for one in answers.every():
        assert len(one.text.encode()) <= (8_000 if "best first" in one.text else 12_000)


def test_a_planted_secret_is_never_returned(answers: Asked) -> None:
    assert "[redacted:github-pat" in answers.here.text
    for one in answers.every():
        assert SECRET not in one.text
        assert SECRET[8:24] not in one.text


def test_a_dead_handle_says_so(answers: Asked) -> None:
    """One that never was, and one whose log was changed after it was given."""
    for one in (answers.unknown, answers.changed):
        assert one.is_error
        assert one.text.startswith("gone: ")


_OURS = re.compile(
    r"[1-9][0-9]* sessions? of this project, best first\.(?:\nWeak: [^\n]*)?(?:\nThe index is being refreshed[^\n]*)?"
    r"(?:\n\n[1-5]\. strength [01]\.[0-9]{2}(?: \(weak\))? · session [0-9a-f-]{36}"
    r"(?:\n   [ab]: (?:20[0-9: -]{14}|no time) · prose · handle [A-Za-z0-9_-]{27})+\n)+(?:\n\n[0-9]+ more: cursor [0-9a-f-]+)?"
    r"|session [0-9a-f-]{36}\n(?:\n\n(?:20[0-9: -]{14}|no time) · (?:user|assistant)(?: · the recalled message)?\n)+"
    r"(?:\n\nmore of this message: cursor [0-9]+)?"
)


def test_a_hostile_transcript_never_leaves_its_fence(answers: Asked) -> None:
    """Instructions, fake fences, control characters and every text that would run in a page."""
    assert len(answers.hostile) == 2 * -(-len(HOSTILE) // _AT_ONCE)
    for one in answers.hostile:
        assert not one.is_error
        assert _OURS.fullmatch(outside(one.text)), outside(one.text)
        assert all(char in "\n\t" or char.isprintable() or char in "\u200c\u200d" for char in one.text)
    read = "\n".join(inside(one.text) for one in answers.hostile[1::2])
    assert read.count("walrus") >= len(HOSTILE) // 2  # they were there


@pytest.mark.clients
def test_rules_allow_and_refuse_each_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(AskingStub()) as stub:
        monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
        client = _recalling(tmp_path, stub)
        client.settle(allow=[RECALL])
        allowed, refused = client.called([(RECALL, {"question": QUESTION}), (READ, {"handle": "newest"})])

    assert "rounding is exact" in allowed.text
    assert refused.is_error
    assert "Decimal" not in refused.text
