"""What transforms lines on their way out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect.model.secrets import scan_engine
from recollect.model.secrets.prefilter import suspects
from recollect.model.secrets.redaction import redacted_line
from recollect.services.secrets.fingerprints import Fingerprints
from recollect.services.sync import lines as outgoing
from tests.model.secrets.engines import release_engine
from tests.model.secrets.samples import SAMPLES, Dice


def test_sending_lines_loads_little_of_what_looks_for_secrets() -> None:
    """Neither homes nor archive nor index: that made half of the time of a push of one line."""
    code = "import sys, recollect.services.sync.lines; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith("recollect.")}

    rooms = (
        "recollect.services.homes",
        "recollect.storage.archive",
        "recollect.index",
        "recollect.services.session",
    )
    assert [] == sorted(name for name in loaded if name.startswith(rooms))


@pytest.fixture(params=["engine", "no engine"])
def _with_and_without_engine(request: pytest.FixtureRequest) -> Iterator[None]:
    compiled = scan_engine.compiled() if request.param == "engine" else None
    if compiled is not None:
        assert scan_engine.use(compiled)
    yield
    release_engine()


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
@given(lines=log_lines(), part=st.sampled_from([1, 100, 5_000, 20_000]))
def test_a_block_is_sent_as_its_lines_are_one_by_one(
    lines: list[bytes], part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the parts end in which it is looked through."""
    monkeypatch.setattr(outgoing, "_PART", part)
    prints = Fingerprints(tmp_path)
    secrets = outgoing.OutgoingSecrets(tmp_path)
    expected = [redacted_line(line[:-1], prints) for line in lines]

    assert b"".join(one.data + b"\n" for one in expected) == secrets.lines(b"".join(lines))
    assert sum(len(one.found) for one in expected) == secrets.replaced


def test_a_block_that_is_only_suspect_is_passed_on_without_a_copy(tmp_path: Path) -> None:
    """What a name gives looks like a secret, and is an example: gigabytes of logs hold little else."""
    line = json.dumps({"message": {"content": "api_key = AKIAIOSFODNN7EXAMPLE"}}).encode() + b"\n"
    block = line * 3
    assert suspects(block)

    assert outgoing.OutgoingSecrets(tmp_path).lines(block) is block
