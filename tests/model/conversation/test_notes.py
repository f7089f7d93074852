"""Notes that were stored without words: what people put into them is sent, the rest has a labelled stand-in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recollect.model.conversation.client_words import STAND_IN, NotePlace, is_sent, resumed_model, worded_note
from tests.model.conversation.test_api import api_of
from tests.oracle.stand_ins import is_allowed
from tests.talk import Fields, assistant, link, log_at, user

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


def note(kind: str, **fields: Any) -> Fields:
    return {"type": kind, **fields}


def sent_with(attachment: Fields, place: Path, model: str = "claude-sonnet-4-5") -> Any:
    """The messages of a talk in which this note follows the second prompt."""
    answer = assistant("a1", "u1", 20, "A1")
    last = assistant("a2", "n", 80, "A2")
    for line in (answer, last):
        line["message"]["model"] = model
    prompts = [user("u1", None, 0, "Q1"), user("u2", "a1", 40, "Q2")]
    stored = link("n", "u2", 60, type="attachment", attachment=attachment)
    log = log_at(place / "projects" / "-x" / "3f2a9c1e-0000-4000-8000-000000000001.jsonl", [])
    return api_of(log_at(log, [prompts[0], answer, prompts[1], stored, last]))


def test_a_queued_command_is_the_users_own_words_and_images(tmp_path: Path) -> None:
    """Text and image arrive exactly, before the prompt of that turn."""
    words = [{"type": "text", "text": "stop that"}, IMAGE]
    sent = sent_with(note("queued_command", prompt=words, commandMode="prompt"), tmp_path)
    told, image, prompt = sent[2]["content"]

    assert "\nstop that\n" in told["text"]
    assert (IMAGE, "Q2") == (image, prompt["text"])


@pytest.mark.parametrize(
    ("attachment", "supplied"),
    [
        (note("edited_text_file", filename="/x/a.js", snippet="1\tcode"), "1\\tcode"),
        (note("plan_mode", planFilePath="/x/plan.md"), "/x/plan.md"),
        (note("mcp_instructions_delta", addedBlocks=["## server\nuse it"]), "## server\\nuse it"),
        (note("file", filename="/x/b.css", content={"type": "text", "file": {"content": "css"}}), "css"),
    ],
)
def test_a_stand_in_names_the_kind_and_its_data(attachment: Fields, supplied: str, tmp_path: Path) -> None:
    """In the place where the client puts its own words."""
    text = "".join(block["text"] for one in sent_with(attachment, tmp_path) for block in one["content"])

    assert f"{STAND_IN}{attachment['type']}]" in text
    assert supplied in text


def test_kinds_from_the_future_are_sent_only_with_their_words() -> None:
    """Stored with words any kind is sent; without them the client knows nothing to say."""
    future = note("invented_next_year", content="x")

    assert worded_note(future) is None
    assert is_sent(future)
    assert not is_sent(note("file", filename="/x"))


def test_models_are_recognised_by_their_name_inside_another_providers() -> None:
    """A model that is no longer offered continues with the default."""
    bedrock = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"

    assert (bedrock, NotePlace.INSIDE) == resumed_model(bedrock)
    assert ("claude-sonnet-5-5", NotePlace.BESIDE) == resumed_model("claude-sonnet-5-5")
    assert ("claude-opus-5-5", NotePlace.BESIDE) == resumed_model("claude-opus-4-1")


def test_a_stand_in_is_compared_by_what_was_supplied(tmp_path: Path) -> None:
    """A text of the client with the same data matches, one without it does not."""
    ours = sent_with(note("edited_text_file", filename="/x/a.js", snippet="1\tcode"), tmp_path)
    told = [{**one, "content": [dict(block) for block in one["content"]]} for one in ours]
    told[2]["content"][0]["text"] = "<system-reminder>\nNote: /x/a.js changed:\n1\tcode\n</system-reminder>\n"
    assert is_allowed(ours, [told])

    told[2]["content"][0]["text"] = "<system-reminder>\nNote: something changed\n</system-reminder>\n"
    assert not is_allowed(ours, [told])
