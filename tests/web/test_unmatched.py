"""A result that no call shows is shown by itself, in the page as in an exported page; all others stand with their calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from recollect.ask.conversation.content import PageSession
from recollect.ask.conversation.conversation import ConversationView, talk_of
from recollect.ask.conversation.window import MessageWindow, map_document
from recollect.ask.library import Home
from recollect.share.export.page import session_page
from tests.share.export.html_pages import Page
from tests.small_home import ONE, call, link, outcome, prompt, put, reply, said


def _results(number: int, after: int, *blocks: dict[str, Any]) -> dict[str, Any]:
    return link(number, after, type="user", message={"role": "user", "content": list(blocks)})


def _result(name: str, text: str) -> dict[str, Any]:
    return {"tool_use_id": name, "type": "tool_result", "content": text}


ENTRIES = [
    prompt(1, None, "Go"),
    reply(2, 1, call("c1"), call("c2")),
    outcome(3, 2, "c1", "first of one"),
    _results(4, 3, _result("c2", "first of two"), _result("c9", "without a call"), said("typed beside")),
    outcome(5, 4, "c1", "again of one"),
    reply(6, 5, said("Between")),
    outcome(7, 6, "c8", "after an answer without calls"),
    reply(8, 7, said("Done")),
]
OWN = ["without a call", "typed beside", "again of one", "after an answer without calls"]
WITH_CALLS = ["first of one", "first of two"]


def _texts(blocks: list[Any]) -> list[str]:
    return [str(block.get("text") or block.get("content")) for block in blocks]


def test_each_result_is_shown_once_with_its_call_or_by_itself(tmp_path: Path) -> None:
    put(tmp_path, ONE, ENTRIES)
    home = Home(tmp_path, data=tmp_path / "data")
    session = PageSession(home.session(ONE))
    view = ConversationView(whole=True)

    assert "paruuaua" == map_document(talk_of(session, view)).kinds
    messages = MessageWindow(session, view).document(0, 50).messages
    made = msgspec.json.decode(msgspec.json.encode(messages))
    own = [
        _texts([one["blocks"][place] for place in one["own"]]) for one in made if one["kind"] == "unmatched"
    ]
    shown = [_texts(one["blocks"]) for message in made for one in message["calls"].values()]
    assert OWN == [text for texts in own for text in texts]
    assert WITH_CALLS == [text for texts in shown for text in texts]

    page = Page(b"".join(session_page(home.session(ONE), None)))
    assert dict.fromkeys([*OWN, *WITH_CALLS], 1) == {
        text: page.text.count(text) for text in [*OWN, *WITH_CALLS]
    }
    assert [one for one in made if one["kind"] != "results"] == page.messages
