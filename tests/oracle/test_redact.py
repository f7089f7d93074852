"""Real clients and sessions whose secrets we took out: they go on, and nothing secret reaches the API."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from recollect.ask.library import Home
from recollect.ask.secrets.redactor import Fingerprints
from recollect.change.redact import redact
from recollect.model.lines import draft
from recollect.model.secrets.redaction import fingerprint, mark
from recollect.store.changes.journal import ChangeJournal
from tests.model.secrets.samples import SAMPLES, Dice, private_key
from tests.oracle.client_runner import ANSWER, Client
from tests.oracle.test_real_clients import (
    PROMPT,
    SESSION,
    answer,
    loaded,
    result,
    resumed,
    said,
    use,
    written,
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Our own directory."""
    return tmp_path / "data"


def secret_of(kind: str) -> str:
    return SAMPLES[kind].make(Dice(f"oracle {kind}"))


def test_a_redacted_session_is_resumed(client: Client, data: Path) -> None:
    """Prompt, call, result and answer arrive with marks in them; a thought arrives as text, without its signature."""
    pat, key, token = secret_of("github-pat"), secret_of("anthropic-api-key"), secret_of("npm-token")
    pem = private_key(Dice("oracle"))
    name = Fingerprints(data)
    drafts = [
        draft.user(f"Use {pat} here"),
        answer(
            draft.thinking(f"They gave me {key}", "c2ln"),
            draft.text("I look"),
            draft.tool_use("toolu_1", "Bash", {"command": f"curl -H 'X: {token}' x"}),
        ),
        draft.tool_result("toolu_1", f"ok\n{pem}\ndone", tool_use_result={"stdout": f"ok\n{pem}\ndone"}),
        answer(draft.text(f"Done with {pat}")),
    ]
    path = client.put(SESSION, written(client, drafts))
    redact(Home(path.parents[2]).own_session(SESSION), data)
    marks = {kind: mark(kind, name(value)) for kind, value in _values(pat, key, token).items()}
    pem_mark = mark("private-key", name("".join(pem.splitlines()[1:-1])))

    assert loaded(
        [
            ("user", [said(f"Use {marks['github-pat']} here")]),
            (
                "assistant",
                [
                    said(f"They gave me {marks['anthropic-api-key']}"),
                    said("I look"),
                    use("toolu_1", "Bash", command=f"curl -H 'X: {marks['npm-token']}' x"),
                ],
            ),
            ("user", [result("toolu_1", f"ok\n{pem_mark}\ndone")]),
            ("assistant", [said(f"Done with {marks['github-pat']}")]),
        ]
    ) == resumed(client, path, SESSION)
    everything = json.dumps(client.stub.asked) + path.read_text()
    assert [] == [one for one in (pat, key, token, pem.splitlines()[3]) if one in everything]


def _values(pat: str, key: str, token: str) -> dict[str, str]:
    return {"github-pat": pat, "anthropic-api-key": key, "npm-token": token}


def test_a_session_the_client_wrote_goes_on_after_redaction(client: Client, data: Path) -> None:
    """All its lines, records of requests and last prompts included; undone, it is what it was, byte for byte."""
    pat = secret_of("github-pat")
    client.ask(f"Remember {pat} for me")
    # 2.0.76 keeps its agents' logs beside the sessions.
    path = next(
        each for each in client.config.glob("projects/*/*.jsonl") if not each.name.startswith("agent-")
    )
    before = path.read_bytes()
    plan, applied = redact(Home(client.config).own_session(path.stem), data)
    assert applied is not None
    marked = f"Remember {mark('github-pat', partial(fingerprint, key=Fingerprints(data).key)(pat))} for me"
    outcome = resumed(client, path, path.stem)

    assert (0, True) == (outcome.exit_code, outcome.follows_our_leaf)
    # Newer clients send notes of their own in between, as "system".
    spoken = [(role, blocks[-1]["text"]) for role, blocks in outcome.sent if role != "system"]
    assert [("user", marked), ("assistant", ANSWER), ("user", PROMPT)] == spoken
    assert pat.encode() not in path.read_bytes()
    assert plan.findings
    with pytest.raises(Exception, match="bytes"):
        ChangeJournal(data / "undo").undo(applied.id)  # the client has gone on since
    ChangeJournal(data / "undo").undo(applied.id, force=True)
    assert before == path.read_bytes()
