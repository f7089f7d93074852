"""What public calls return prints in one short line, without transcript text."""

from __future__ import annotations

import shutil
from pathlib import Path

import recollect
from recollect.sample import sample_home


def test_large_answers_have_short_reprs(tmp_path: Path) -> None:
    """A report of days, statistics and an archive are named by what they hold, not printed as a whole."""
    shutil.copytree(sample_home(), tmp_path / "claude")
    home = recollect.Home(tmp_path / "claude", data=tmp_path / "data")
    report = home.costs("day", "model")
    answers = {"stats": home.stats(), "archive": home.archive(), "costs": report}

    assert {} == {name: len(repr(one)) for name, one in answers.items() if len(repr(one)) > 300}
    assert f"<CostReport by day, model: {len(report.rows)} rows, 9 responses, $0.22>" == repr(report)
    assert "total_cost_usd='0.2" in repr(answers["stats"])


def test_ids_are_shown_and_texts_are_not() -> None:
    """Of a call, the ids of its lines; of its input and result only how large they are."""
    (first, *_) = recollect.Home(sample_home()).session("6ada").tool_calls()

    assert f"result_uuid={first.result_uuid!r}" in repr(first)
    assert "characters>" not in repr(first)
