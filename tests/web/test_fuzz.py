"""Whatever is asked, the answer is a document as described or a refusal with a hint; never a defect of ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.sample import sample_home
from recollect.services.documents.page import ErrorDocument
from recollect.web.operations import Operation, Parameter
from recollect.web.routes import OPERATIONS
from tests.documents import require_fit
from tests.web.pages import Browser, served

READING = [one for one in OPERATIONS if one.method == "GET" and not one.streams]
CHANGING = [one for one in OPERATIONS if one.method == "POST" and one.document is not None]
_text = st.text(st.characters(codec="utf-8"), max_size=30)
_odd = st.one_of(
    _text, st.integers().map(str), st.sampled_from(["", "true", "-1", "0", "1e9", "nan", "../..", "\x00"])
)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(served(sample_home(), tmp_path_factory.mktemp("data"))) as one:
        yield one


def _fitting(parameter: Parameter) -> st.SearchStrategy[str]:
    schema = parameter.schema
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema["type"] == "boolean":
        return st.sampled_from(["true", "false"])
    if schema["type"] in ("integer", "number"):
        return st.integers(schema["minimum"], min(schema["maximum"], 10_000)).map(str)
    return st.one_of(_text, st.sampled_from(["the", "7d", "2026-01-01", "day", "day,model", "UTC"]))


@st.composite
def _requests(draw: st.DrawFn, names: list[str]) -> tuple[Operation, str]:
    one = draw(st.sampled_from(READING))
    session = draw(st.one_of(st.sampled_from(names), _odd.filter(bool)))
    path = one.path
    for name in one.path_names:
        value = (
            session if name == "session" else draw(st.one_of(st.sampled_from(["0", "1"]), _odd.filter(bool)))
        )
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    chosen = (
        draw(st.lists(st.sampled_from(one.query), unique_by=lambda p: p.name, max_size=4))
        if one.query
        else []
    )
    chosen += [p for p in one.query if p.is_required and p not in chosen]
    query = {p.name: draw(st.one_of(_fitting(p), _fitting(p), _odd)) for p in chosen}
    return one, f"{path}?{urlencode(query)}"


def test_no_question_breaks_the_page(sample: Browser) -> None:
    """Parameters that fit and such that do not, over all reading routes: 200 as described, or 4xx."""
    names = [row["id"] for row in sample.get("/api/sessions")["sessions"]]
    seen: set[int] = set()

    @settings(max_examples=200)
    @given(_requests(names))
    def ask(request: tuple[Operation, str]) -> None:
        one, path = request
        answer = sample.ask("GET", path)
        seen.add(answer.status_code)
        assert answer.status_code in (200, 400, 404, 409, 422), (path, answer.text)
        if answer.status_code != 200:
            require_fit(ErrorDocument, answer.json())
        elif one.document is not None:
            require_fit(one.document, answer.json())

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
        body = {field.name: data.draw(values) for field in one.body if data.draw(st.booleans())}
        answer = sample.ask("POST", one.path.replace("{session}", "none"), body=body)
        assert answer.status_code in (200, 400, 404, 409), (one.path, body, answer.text)

    ask()
