"""What transforms lines on their way out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect.ask.secrets.redactor import Fingerprints
from recollect.model.secrets.redaction import redacted_line
from recollect.share.sync import lines as outgoing
from tests.model.secrets.engines import search_with
from tests.model.secrets.samples import SAMPLES, Dice


@pytest.fixture(params=["engine", "re"])
def _with_and_without_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    search_with(request.param, monkeypatch)


@st.composite
def log_lines(draw: st.DrawFn) -> list[bytes]:
    """Lines of all lengths, some with a secret, some not JSON."""
    made = []
    for number in range(draw(st.integers(1, 12))):
        text = "and so on " * draw(st.sampled_from([0, 1, 30, 900]))
        kind = draw(st.none() | st.sampled_from(sorted(SAMPLES)))
        if kind is not None:
            sample = SAMPLES[kind]
            text += f"{sample.before}{sample.make(Dice((kind, number)))}{sample.after} {text}"
        line = json.dumps({"type": "user", "message": {"content": text}}).encode()
        made.append(line[: draw(st.sampled_from([len(line), len(line), -3]))] + b"\n")
    return made


@pytest.mark.usefixtures("_with_and_without_engine")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=log_lines())
def test_a_block_is_sent_as_its_lines_are_one_by_one(lines: list[bytes], tmp_path: Path) -> None:
    prints = Fingerprints(tmp_path)
    secrets = outgoing.OutgoingSecrets(tmp_path)
    expected = [redacted_line(line[:-1], prints) for line in lines]

    assert b"".join(one.data + b"\n" for one in expected) == secrets.lines(b"".join(lines))
    assert sum(len(one.found) for one in expected) == secrets.replaced
