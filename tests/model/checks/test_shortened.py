"""Lines with their texts cut break the same rules as the whole ones."""

from __future__ import annotations

import json

import pytest

from recollect.model.checks import api_400
from recollect.model.checks.api_400 import shortened

LONG = 5_000
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
TOO_WIDE = "iVBORw0KGgoAAAANSUhEUgAAJxAAAAABCAYAAAAfFcSJ"


def line_of(content: object) -> bytes:
    return json.dumps({"type": "user", "uuid": "u", "message": {"content": content}}).encode()


def image(data: str) -> dict[str, object]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def test_a_long_text_keeps_its_beginning() -> None:
    """Ids and everything short stay as they are."""
    whole = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "abc" + "x" * LONG}
    [short] = json.loads(shortened(line_of([whole])))["message"]["content"]

    assert ("toolu_1", "abc") == (short["tool_use_id"], short["content"][:3])
    assert len(short["content"]) == 1_024


@pytest.mark.parametrize(("text", "is_empty"), [(" " * LONG, True), (" " * LONG + "said", False)])
def test_what_is_empty_stays_empty_and_nothing_else_becomes_so(text: str, is_empty: bool) -> None:
    """White space before the first letter does not count as the beginning."""
    left = json.loads(shortened(line_of(text)))["message"]["content"]

    assert left
    assert is_empty == (not left.strip())


@pytest.mark.parametrize(
    ("data", "is_cut"),
    [
        (PIXEL + "A" * LONG, True),
        (TOO_WIDE + "A" * LONG, False),
        ("A" * (api_400.MOST_BYTES + 4), False),
    ],
)
def test_an_image_is_refused_for_the_same_reason(data: str, is_cut: bool) -> None:
    """One that is taken is cut to its header; what is wrong with another stays."""
    [left] = json.loads(shortened(line_of([image(data)])))["message"]["content"]

    assert api_400.image_fault(image(data)) == api_400.image_fault(left)
    assert is_cut == (len(left["source"]["data"]) < len(data))
