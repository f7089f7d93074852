"""`redact`, killed at any call and then run again: it never says that all is well while a secret is in the home."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from recollect.cli.main import main
from recollect.model.secrets import KEY_BYTES
from tests.ask.secrets.test_everywhere import every_byte
from tests.crash.sweeps import Place, both_sides, killed_at
from tests.crash.test_keeping_crash import a_session_with_secrets
from tests.secret_home import OF_THE_SESSION, PEM, token, write
from tests.small_home import ONE, prompt, put, reply, said

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")]
SECRETS = [*(token(place, kind) for place, kind in OF_THE_SESSION.items()), PEM.splitlines()[3]]


def log_and_output(home: Path, data: Path) -> None:
    """A secret in the log, one in a file beside it."""
    log = put(home, ONE, [prompt(1, None, f"Use {token('prompt')}"), reply(2, 1, said("Done"))])
    write(log.with_suffix("") / "tool-results" / "toolu_1.txt", f"{token('tool result')}\n")
    (data / "fingerprint.key").write_text("5a" * KEY_BYTES)


def redact(what: str, home: Path, data: Path, *words: str) -> int:
    return main(["--home", str(home), "--data", str(data), "secrets", "remove", what, "--json", *words])


def applying(what: str, home: Path, data: Path) -> None:
    assert 0 == redact(what, home, data, "--apply")


def has_secrets(what: str, place: Place) -> bool:
    """Whether any file holds one, hidden ones too; also of our own where all were to be removed."""
    text = every_byte(place.home, *([place.data] if what == "--all" else []))
    return any(secret in text for secret in SECRETS)


@both_sides
@pytest.mark.parametrize(
    ("what", "lay_down"),
    [
        pytest.param(ONE, log_and_output, id="a session, two files"),
        pytest.param("--all", log_and_output, id="all secrets, two files"),
        pytest.param(ONE, a_session_with_secrets, marks=pytest.mark.torture, id="a session, every place"),
    ],
)
def test_redact_after_a_killed_redact_leaves_no_secret(
    quick_directory: Path,
    lay_down: Callable[[Path, Path], None],
    what: str,
    how: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every call that changes anything. A plan that ends with 0 names all that is then replaced."""
    whole = Place(quick_directory, lay_down)
    code, calls = killed_at(partial(applying, what, whole.home, whole.data), 0, how)
    assert (0, False) == (code, has_secrets(what, whole))
    ends: Counter[str] = Counter()
    for nth in calls:
        place = Place(quick_directory, lay_down)
        code, _ = killed_at(partial(applying, what, place.home, place.data), nth, how)
        ends["killed"] += code == -signal.SIGKILL
        capsys.readouterr()
        planned = redact(what, place.home, place.data)
        plan = json.loads(capsys.readouterr().out)
        code = redact(what, place.home, place.data, "--apply")
        done = json.loads(capsys.readouterr().out)
        is_clean = not has_secrets(what, place)
        ends["exit 0 and clean"] += code == 0 and is_clean
        ends["exit 0 with a secret"] += code == 0 and not is_clean
        ends["plan ends with 4"] += planned == 4
        ends["plan ends with 0, too short"] += planned == 0 and plan["findings"] != done["findings"]
    print(f"\nredact {how} {len(calls)} calls: {dict(ends)}")

    assert ends["killed"] * 2 > len(calls)
    assert (0, 0) == (ends["exit 0 with a secret"], ends["plan ends with 0, too short"])
    assert len(calls) == ends["exit 0 and clean"]
    assert ends["plan ends with 4"]
