"""Changing in a real browser: rename, fork, restore, export, and clicking through costs."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path

from recollect.ask.archive import add_all, archive_at
from recollect.ask.library import Home
from tests.browser.chromium import Chromium
from tests.browser.conftest import Place
from tests.browser.home import BASKET, BRANCHED, EDITED, RICH
from tests.small_home import prompt, put, reply, said, uuid_of


def test_a_session_is_renamed_and_the_name_taken_back(opened: Place, page: Chromium) -> None:
    """The new title is in the head and in the log; after Undo the head has the old one."""
    (log,) = opened.home.glob(f"projects/*/{BRANCHED}.jsonl")
    page.do("go", hash=f"#/s/{BRANCHED}", wait=".message")
    page.do("press", keys=["r"])
    page.do("fill", selector="dialog input", text="Two ways")
    page.do("click", selector="dialog button", text="Save")
    page.do("wait", selector=".head h1", text="Two ways")
    assert b'"customTitle":"Two ways"' in log.read_bytes()
    page.do("click", selector=".notice button", text="Undo")
    page.do("wait", selector=".notice", text="Taken back")
    page.do("wait", selector=".head h1", text="Which way")


def test_a_fork_is_planned_made_and_opened(opened: Place, page: Chromium) -> None:
    """The plan writes nothing; the fork is a new log, and the page goes there."""
    logs = set(opened.home.glob("projects/*/*.jsonl"))
    page.do("go", hash=f"#/s/{RICH}?m={uuid_of(8)}", wait=f'[data-uuid="{uuid_of(8)}"]')
    page.do("click", selector=f'[data-uuid="{uuid_of(8)}"] > header button', text="Fork", direct=True)
    page.do("wait", selector="dialog dl.plan", hidden=True)
    assert set(opened.home.glob("projects/*/*.jsonl")) == logs
    page.do("click", selector="dialog button.primary")
    page.do("wait", selector=".notice", text="Forked")
    (new,) = set(opened.home.glob("projects/*/*.jsonl")) - logs
    page.do("wait", selector=".message", text="Done.")
    assert page.do("hash") == f"#/s/{new.stem}"
    new.unlink()


def test_a_directory_typed_while_the_first_is_looked_up_stays(page: Chromium, tmp_path: Path) -> None:
    """The late answer must neither replace it nor offer to restore elsewhere."""
    page.do("go", hash=f"#/s/{EDITED}/files", wait=".version .facts")
    page.do("hold", path="/api/directories")
    page.do("click", selector=".version button", text="Restore")
    page.do("fill", selector="dialog input[required]", text=str(tmp_path))
    page.do("release", path="/api/directories")
    page.do("wait", selector="dialog .checked", text="will be written")

    assert page.do("count", selector="dialog button.primary:enabled:has-text('Restore')") == 0
    page.do("honest")
    page.do("click", selector="dialog button", text="Look there")
    page.do("wait", selector="dialog .checked", text=str(tmp_path))


def test_a_version_of_a_file_is_restored_after_a_check_and_taken_back(page: Chromium, tmp_path: Path) -> None:
    """A directory is picked, the check says what will be written, and only then it is; Undo removes it again."""
    (tmp_path / "out").mkdir()
    page.do("go", hash=f"#/s/{EDITED}/files", wait=".version .diff")
    page.do("click", selector=".version button", text="Restore")
    page.do("fill", selector="dialog input[required]", text=str(tmp_path))
    page.do("click", selector="dialog button", text="Look there")
    page.do("click", selector=".picker li button", text="out/")
    page.do("wait", selector=".checked", text=f"{tmp_path}/out/basket.py")
    assert list(tmp_path.rglob("*.py")) == []
    page.do("click", selector="dialog button.primary", text="Restore")
    page.do("wait", selector=".notice", text="Restored basket.py")
    (restored,) = tmp_path.rglob("*.py")
    assert restored.read_text() == BASKET[-1]
    page.do("click", selector=".notice button", text="Undo")
    page.do("wait", selector=".notice", text="Taken back")
    assert list(tmp_path.rglob("*.py")) == []


def test_a_file_is_looked_at_through_its_versions_and_saved(page: Chromium, tmp_path: Path) -> None:
    """Edited files first, read ones on request; the scrubber moves through versions; on a phone in one column."""
    page.do("size", width=1440, height=900)
    page.do("go", hash="#/files", wait=".edits li")
    page.do("click", selector=".edits li .file", text="…/edits/src/shop")
    page.do("wait", selector=".version .facts", text="Version 4 of 4")
    # Paths are shortened once the session's directory is known.
    page.do("gone", selector="button.file .t", text="/srv/edits/")
    assert page.do("texts", selector="button.file .t") == [
        "src/shop/",
        "basket.py",
        "tests/",
        "test_basket.py",
    ]
    assert "+11 −3" in page.do("wait", selector="button.file.isNow")
    assert page.do("texts", selector=".sides .removed.t") == [
        "    return round(sum(one.price for one in lines), 2)"
    ]
    assert page.do("texts", selector=".sides .added.t")[0] == "from decimal import Decimal"
    assert page.do("style", selector=".diff", name="fontVariantLigatures") == "none"
    page.do("press", keys=["["])
    page.do("wait", selector=".version .facts", text="Version 3 of 4")
    page.do("wait", selector=".sides .in", text="rounded once")
    page.do("set", selector=".scrubber input", value="2")
    page.do("wait", selector=".version .facts", text="Version 2 of 4")
    page.do("reload", wait=".version .facts:has-text('Version 2 of 4')")
    saved = page.do("save", selector=".version a", text="Download", path=str(tmp_path / "saved"))
    assert (saved, (tmp_path / "saved").read_text()) == ("basket.py", BASKET[0])
    page.do("click", selector=".segments button", text="All 3")
    page.do("click", selector="button.file.isRead", text="README.md")
    page.do("wait", selector=".version pre", text="# Shop")
    page.do("size", width=390, height=844)
    page.do("go", hash=f"#/s/{EDITED}/files", wait=".version .diff:not(.sides)")


def test_what_only_the_archive_has_is_listed_marked_and_read_and_not_changed(
    opened: Place, page: Chromium
) -> None:
    """Its log is gone from the home: list, side and head say so, it can be read, and resuming restores it first."""
    session, data = "aaaa0000-0000-4000-8000-0000000000aa", opened.home.parent / "data"
    answer = reply(2, 1, said("Indeed"), answer=session)
    # What an index has counted of a deleted log stays counted, and other tests compare sums: this one costs nothing.
    answer["message"]["usage"] = {"input_tokens": 0, "output_tokens": 0}
    log = put(opened.home, session, [prompt(1, None, "Kept elsewhere"), answer])
    page.do("wait", selector=f'[data-session="{session}"]', text="Kept elsewhere")
    try:
        add_all(archive_at(data), [Home(opened.home, data=data).session(session)], dt.datetime.now(dt.UTC))
        log.unlink()
        page.do("wait", selector=f'[data-session="{session}"]', text="only in the archive")
        page.do("click", selector=f'[data-session="{session}"]')
        page.do("wait", selector=".message", text="Indeed")
        page.do("wait", selector=".head .about .chip", text="only in the archive")
        page.do("wait", selector=".side-row[aria-current]", text="archive")
        page.do("click", selector=".menu summary")
        assert [one.split()[0] for one in page.do("texts", selector=".menu .items button:enabled")] == [
            "Export…"
        ]
        page.do("press", keys=["Escape", "r", "y"])
        page.do("wait", selector=".notice", text="Copied the resume command")
        assert f"protect restore {session} --apply && " in page.do("clipboard")
        assert page.do("count", selector="dialog[open]") == 0
    finally:
        shutil.rmtree(data / "archive")


def test_a_session_is_exported(page: Chromium, tmp_path: Path) -> None:
    """The saved Markdown has what was said."""
    page.do("go", hash=f"#/s/{RICH}", wait=".message")
    page.do("press", keys=["e"])
    name = page.do("save", selector="dialog button", text="Save the file", path=str(tmp_path / "saved"))
    assert name.startswith(RICH[:8])
    assert "Total the basket" in (tmp_path / "saved").read_text()


def test_the_resume_command_is_copied(page: Chromium) -> None:
    """The clipboard has a command that names the session."""
    page.do("go", hash=f"#/s/{RICH}", wait=".message")
    page.do("press", keys=["y"])
    page.do("wait", selector=".notice", text="Copied the resume command")
    assert f"{RICH}" in page.do("clipboard")
    assert "claude --resume" in page.do("clipboard")


def test_costs_lead_to_sessions(page: Chromium) -> None:
    """A click on the only day's bar lists its sessions, and one of them opens."""
    page.do("go", hash="#/cost?since=all", wait=".chart .fill")
    page.do("clickAt", selector=".chart svg", x=0.5, y=0.7)
    page.do("wait", selector='[data-day="2026-11-15"]')
    page.do("click", selector="[data-day] td a")
    page.do("wait", selector=".talk .head")
    assert page.do("hash").startswith("#/s/")


def test_the_sum_is_the_exact_one(page: Chromium) -> None:
    """Each answer is 10 tokens in and 20 out of Sonnet 4.5 at 3 and 15 dollars a million: 330 millionths."""
    page.do("go", hash=f"#/cost?since=all&session={RICH}", wait="[data-exact]")
    told = page.do("wait", selector="[data-exact]", text="0.00165")
    assert told == "exactly $0.00165"
