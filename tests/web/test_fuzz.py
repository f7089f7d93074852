"""Whatever is asked, the answer is a document as described or a refusal with a hint; never a defect of ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.sample import sample_home
from recollect.share.typed_http import TypedRoute
from recollect.web.answers import ErrorDocument
from recollect.web.app import ROUTES, document_of
from tests.documents import require_fit
from tests.web.pages import Browser, served

READING = [one for one in ROUTES if one.method == "GET" and not one.path.endswith("/events")]
CHANGING = [one for one in ROUTES if one.method == "POST" and document_of(one) is not None]
_text = st.text(st.characters(codec="utf-8"), max_size=30)
_odd = st.one_of(
    _text, st.integers().map(str), st.sampled_from(["", "true", "-1", "0", "1e9", "nan", "../..", "\x00"])
)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(served(sample_home(), tmp_path_factory.mktemp("data"))) as one:
        yield one


def _fitting(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema["type"] == "boolean":
        return st.sampled_from(["true", "false"])
    if schema["type"] in ("integer", "number"):
        return st.integers(schema["minimum"], min(schema["maximum"], 10_000)).map(str)
    return st.one_of(_text, st.sampled_from(["the", "7d", "2026-01-01", "day", "day,model", "UTC"]))


@st.composite
def _requests(draw: st.DrawFn, names: list[str]) -> tuple[TypedRoute, str]:
    one = draw(st.sampled_from(READING))
    session = draw(st.one_of(st.sampled_from(names), _odd.filter(bool)))
    path = one.path
    described = one.describe({}, ErrorDocument, dict)["parameters"]
    known = [parameter for parameter in described if parameter["in"] == "query"]
    for name in (parameter["name"] for parameter in described if parameter["in"] == "path"):
        value = (
            session if name == "session" else draw(st.one_of(st.sampled_from(["0", "1"]), _odd.filter(bool)))
        )
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    chosen = (
        draw(st.lists(st.sampled_from(known), unique_by=lambda p: p["name"], max_size=4)) if known else []
    )
    chosen += [p for p in known if p["required"] and p not in chosen]
    query = {p["name"]: draw(st.one_of(_fitting(p["schema"]), _odd)) for p in chosen}
    return one, f"{path}?{urlencode(query)}"


def test_no_question_breaks_the_page(sample: Browser) -> None:
    """Parameters that fit and such that do not, over all reading routes: 200 as described, or 4xx."""
    names = [row["id"] for row in sample.get("/api/sessions")["sessions"]]
    seen: set[int] = set()

    @settings(max_examples=200)
    @given(_requests(names))
    def ask(request: tuple[TypedRoute, str]) -> None:
        one, path = request
        answer = sample.ask("GET", path)
        seen.add(answer.status_code)
        assert answer.status_code in (200, 400, 404, 409, 422), (path, answer.text)
        if answer.status_code != 200:
            require_fit(ErrorDocument, answer.json())
        elif document_of(one) is not None:
            require_fit(document_of(one), answer.json())

    ask()
    assert {200, 400, 404} <= seen


def test_no_body_breaks_the_page(sample: Browser) -> None:
    """Objects of any values to every changing route of the sample, which is never changed: refusals, no defects."""
    sample.page.page.backend.is_sample = True
    values: Any = st.one_of(
        _text, st.integers(), st.booleans(), st.none(), st.lists(st.integers(), max_size=2)
    )

    @settings(max_examples=100)
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(CHANGING))
        fields = () if one.body is None else one.body.__struct_encode_fields__
        body = {field: data.draw(values) for field in fields if data.draw(st.booleans())}
        answer = sample.ask("POST", one.path.replace("{session}", "none"), body=body)
        assert answer.status_code in (200, 400, 404, 409), (one.path, body, answer.text)

    ask()
