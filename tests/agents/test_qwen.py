"""A home of Qwen Code 0.24, read through its mirror."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import recollect
from recollect.agents.mirror_files import originals
from recollect.ask.sessions.messages import agents_of
from recollect.ask.sessions.originals import original_files
from recollect.change.redact import redact
from tests.agents.samples import Sample, counted, other_samples
from tests.secret_home import token


@pytest.fixture(scope="module")
def sample(transcripts: Path) -> Sample:
    (found,) = other_samples(transcripts, "qwen")
    return found


def test_conversations_keep_the_ids_of_the_client(sample: Sample, tmp_path: Path) -> None:
    home = recollect.Home(sample.home, data=tmp_path, index=False)
    fork = home.session("936545cc")
    origin = home.session("15a9b980")
    assert [message.text for message in fork.conversation().messages][1::2] == ["base answer", "fork answer"]
    assert fork.conversation().messages[0].uuid == origin.conversation().messages[0].uuid
    compacted = home.session("e955250d").conversation()
    assert [message.is_summary for message in compacted.messages[:2]].count(True) == 1
    assert "long talk one" not in " ".join(message.text for message in compacted.messages)


def test_what_stands_beside_the_log_of_a_sub_agent_is_restored_as_it_is_now(
    sample: Sample, tmp_path: Path
) -> None:
    """The client rewrites it when the agent ends; the last state counts, here and in what is said of the agent."""
    home = tmp_path / "home"
    shutil.copytree(sample.home, home)
    (beside,) = home.rglob("*.meta.json")
    name = beside.relative_to(home).as_posix()
    meta = beside.read_bytes()
    beside.write_bytes(meta.replace(b"general-purpose", b"running"))

    def restored() -> tuple[bytes, str | None]:
        session = recollect.Home(home, data=tmp_path / "data", index=False).session("cea11658")
        (agent,) = agents_of(session)
        return original_files(session)[name], agent.agent_type

    assert restored() == (beside.read_bytes(), "running")
    beside.write_bytes(meta)
    assert restored() == (meta, "general-purpose")
    beside.unlink()
    assert restored() == (meta, "general-purpose")


NAME = "019a0000-0000-7000-8000-00000000000a"


def chat(home: Path, *texts: str, output: int = 7) -> Path:
    """A chat as it is now: each line follows the one before, the last is a model call."""
    event = {
        "event.name": "qwen-code.api_response",
        "response_id": "r",
        "model": "qwen3",
        "input_token_count": 60,
        "output_token_count": output,
    }
    bodies: list[dict[str, object]] = [
        {"type": kind, "message": {"parts": [{"text": text}]}}
        for kind, text in zip(("user", "assistant") * len(texts), texts, strict=False)
    ]
    bodies.append({"type": "system", "subtype": "ui_telemetry", "systemPayload": {"uiEvent": event}})
    path = home / "projects" / "-w" / "chats" / f"{NAME}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        {
            "uuid": f"{NAME[:-2]}{at:02}",
            "parentUuid": f"{NAME[:-2]}{at - 1:02}" if at else None,
            "timestamp": f"2026-11-16T09:00:{at:02}.000Z",
            "cwd": "/w",
            **body,
        }
        for at, body in enumerate(bodies)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def shown(home: Path, data: Path) -> list[str]:
    (session,) = recollect.Home(home, data=data, index=False).sessions()
    return [message.text for message in session.conversation().messages]


@pytest.mark.parametrize(
    "later", [["one", "first", "two", "other"], ["one", "other", "two", "second"], ["one", "other"]]
)
def test_a_line_that_is_rewritten_under_its_own_id_is_what_is_shown(tmp_path: Path, later: list[str]) -> None:
    """What it said before stays in the log, what was cut off with it is a branch; the call counts once."""
    home, data = tmp_path / "home", tmp_path / "data"
    before = ["one", "first", "two", "second"]
    chat(home, *before)
    assert shown(home, data) == before
    file = chat(home, *later, output=9)
    assert shown(home, data) == later
    (log,) = data.rglob(f"{NAME}.jsonl")
    kept = log.read_bytes()
    assert all(f'"text":"{text}"'.encode() in kept for text in (*before, *later))
    lines = [json.loads(line) for line in kept.splitlines()]
    assert b"".join(originals(lines)[f"projects/-w/chats/{NAME}.jsonl"]) == file.read_bytes()
    assert [call.output for call in counted(recollect.Home(home, data=data)).elements()] == [9]
    file.write_bytes(file.read_bytes().replace(b": ", b":"))  # other bytes that say the same
    assert shown(home, data) == later
    again = log.read_bytes()[len(kept) :].splitlines()
    assert {json.loads(line)["type"] for line in again} == {"foreign-source", "foreign-record"}


def test_a_rewritten_file_does_not_repeat_what_was_redacted_in_its_log(tmp_path: Path) -> None:
    home, data = tmp_path / "home", tmp_path / "data"
    secret = token("in a file that is rewritten")
    chat(home, f"the key is {secret}", "first")
    (session,) = recollect.Home(home, data=data, index=False).sessions()
    redact(session, data)
    chat(home, f"the key is {secret}", "other")
    assert shown(home, data)[1:] == ["other"]
    kept = session.path.read_bytes()
    assert secret.encode() not in kept
    assert kept.count(b'"type":"user"') == 1


def test_nothing_is_wrong_with_it(sample: Sample, tmp_path: Path) -> None:
    assert not recollect.Home(sample.home, data=tmp_path, index=False).check().findings
