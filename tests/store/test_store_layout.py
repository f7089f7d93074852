"""Our own store: both layouts, and no way out of its root."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import InvalidId, StorageError, UsageError
from recollect.model.lines.ids import ProjectKey, SessionId
from recollect.store.store_layout import StoreLayout, StorePaths

UUID = SessionId("0b5e9c3a-1f2d-4e5f-8a9b-0c1d2e3f4a5b")
DAY = SessionId("2025-11-16")
KEY = ProjectKey("-srv-app")
ROOT = Path("/store")


@pytest.mark.parametrize("text", ["2025-11-16", "notes", UUID.upper()])
def test_the_claude_layout_takes_no_other_name_than_a_uuid(text: str) -> None:
    """The client would not list it."""
    with pytest.raises(InvalidId, match="needs a UUID"):
        StorePaths(ROOT).log(KEY, SessionId(text))


@pytest.mark.parametrize("text", [UUID, "2025-13-01", "2025-02-29", "20251116", "2025-W46-7", "2025-1-1"])
def test_the_flat_layout_takes_no_other_name_than_a_day(text: str) -> None:
    """And only a day of the calendar."""
    with pytest.raises(InvalidId, match="needs a day"):
        StorePaths(ROOT, StoreLayout.FLAT).log(KEY, SessionId(text))


@given(st.text(st.characters(exclude_categories=())), st.sampled_from(StoreLayout))
def test_no_text_builds_a_path_outside(text: str, layout: StoreLayout) -> None:
    """Untyped callers too: refused, or directly in the directory it belongs to."""
    store = StorePaths(ROOT, layout)
    session = UUID if layout is StoreLayout.CLAUDE else DAY
    untyped: list[tuple[Callable[..., Path], tuple[str, ...], int]] = [
        (store.log, (text, session), 3),
        (store.log, (KEY, text), 3),
        (store.agent_log, (KEY, session, text), 5),
    ]
    for build, names, depth in untyped:
        try:
            path = build(*names)
        except InvalidId:
            continue
        assert (depth, False) == (len(path.relative_to(ROOT).parts), ".." in path.parts)


@pytest.mark.parametrize("path", ["/etc/passwd", "/store", "/store/../etc", "/storeroom/x", "store/x"])
def test_a_path_outside_is_no_path_of_the_store(path: str) -> None:
    """Neither for the trash nor for opening."""
    store = StorePaths(ROOT)
    for use in (store.require_inside, lambda path: store.trashed(path, "b")):
        with pytest.raises(UsageError, match="not inside the store"):
            use(Path(path))


def test_logs_are_listed_by_layout(tmp_path: Path) -> None:
    """Each layout sees its own names; locks, notes and side directories are no logs, and no problem."""
    directory = tmp_path / "projects" / KEY
    for name in (UUID, "with space.jsonl"):
        (directory / name).mkdir(parents=True)
    (tmp_path / "projects" / "with space").mkdir()
    for name in (f"{UUID}.jsonl", f"{UUID}.jsonl.lock", DAY, f"{DAY}.jsonl", "2025-99-99.jsonl", "x.jsonl"):
        (directory / name).write_bytes(b"12345")

    stores = [StorePaths(tmp_path, layout) for layout in StoreLayout]
    found = [[(log.key, log.session, log.size) for log in store.logs()] for store in stores]

    assert [[(KEY, UUID, 5)], [(KEY, DAY, 5)]] == found


def test_links_inside_the_store_are_passed_over_and_refused(tmp_path: Path) -> None:
    """A linked log, a linked project: neither listed nor opened."""
    store = StorePaths(tmp_path / "store")
    store.project_dir(KEY).mkdir(parents=True)
    secret = tmp_path / "secret.jsonl"
    secret.touch()
    store.log(KEY, UUID).symlink_to(secret)
    store.project_dir(ProjectKey("-link")).symlink_to(tmp_path)

    assert ([], [KEY]) == (list(store.logs()), list(store.projects()))
    for path in (store.log(KEY, UUID), store.log(ProjectKey("-link"), UUID)):
        with pytest.raises(StorageError, match="link"):
            store.require_inside(path)


def test_a_store_may_itself_lie_behind_a_link(tmp_path: Path) -> None:
    """Where it lies is its owner's choice; what does not exist yet is fine."""
    (tmp_path / "real").mkdir()
    (tmp_path / "store").symlink_to("real")
    store = StorePaths(tmp_path / "store")

    assert store.log(KEY, UUID) == store.require_inside(store.log(KEY, UUID))
