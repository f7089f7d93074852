"""What a session says about others: where it goes on, and where it is controlled from."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import recollect
from recollect.cli.main import main
from recollect.model.lines import codec
from recollect.model.lines.damage import Line
from recollect.model.lines.entry import Entry, Kind
from recollect.model.text.titles import metadata_text
from tests.small_home import ONE, TALK, TWO, put

CONTINUED: dict[str, object] = {
    "type": "continued-in",
    "sessionId": ONE,
    "continuedInSessionId": TWO,
    "zork": [1],
}
BRIDGE: dict[str, object] = {
    "type": "bridge-session",
    "sessionId": ONE,
    "bridgeSessionId": "cse_01",
    "lastSequenceNum": 7,
}


def _entry(line: dict[str, object]) -> Entry:
    item = codec.decode(Line(msgspec.json.encode(line)))
    assert isinstance(item, Entry)
    return item


def test_both_lines_are_known_and_keep_what_is_unknown() -> None:
    """The session that took over, the session elsewhere, and a field of the future."""
    continued, bridge = _entry(CONTINUED), _entry(BRIDGE)

    assert [Kind.CONTINUED_IN, Kind.BRIDGE_SESSION] == [continued.kind, bridge.kind]
    assert [ONE, TWO] == [continued.session_id, metadata_text(continued)]
    assert [1] == continued.fields()["zork"]
    assert ["cse_01", 7] == [metadata_text(bridge), bridge.fields()["lastSequenceNum"]]


@pytest.mark.parametrize("index", ["--no-refresh", "--no-index"])
def test_list_show_and_the_library_say_where_a_session_goes_on(
    index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With and without the index; the last word counts."""
    home, data = tmp_path / "home", tmp_path / "data"
    put(home, ONE, [*TALK, {**CONTINUED, "continuedInSessionId": "earlier"}, BRIDGE, CONTINUED])
    place = ["--home", str(home), "--data", str(data)]
    main([*place, "list", "--json"])
    capsys.readouterr()

    main([*place, "list", index, "--json"])
    listed = msgspec.json.decode(capsys.readouterr().out)["sessions"]
    main([*place, "list", index])
    line = capsys.readouterr().out
    main([*place, "show", ONE])
    notes = capsys.readouterr().err

    assert [TWO] == [one["continued_in"] for one in listed]
    assert f"continued in {TWO[:8]}" in line
    assert f"goes on in session {TWO}" in notes
    assert "controlled through session cse_01" in notes
    session = recollect.Home(home, data=data).session(ONE)
    assert (TWO, "cse_01") == (session.continued_in, session.glance.bridge_session)
