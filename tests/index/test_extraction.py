"""Frames: what a stretch of a log adds to the index, whole lines only, each byte once."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.index import extraction
from recollect.index.extraction import ExtractionJob, frames, packed_id
from recollect.index.frame import Frame, MessageRow
from recollect.index.schema import id_text
from tests.talk import encoded, user

UUID = "0f2a9c1e-0000-4000-8000-00000000abcd"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def the_frame(log: Path, *lines: dict[str, Any] | bytes, **job: Any) -> Frame:
    """The one frame of a log of these lines."""
    log.write_bytes(b"".join(line if isinstance(line, bytes) else encoded([line]) for line in lines))
    (frame,) = frames(ExtractionJob(str(log), **job))
    return frame


class TestCutting:
    def test_frames_cover_every_whole_line_once(self, log: Path) -> None:
        """They follow each other without gap or overlap, and stop at the last newline."""
        lines = [user(f"u{n}", None, n, f"line {n}") for n in range(25)]
        log.write_bytes(encoded(lines) + b'{"type":"user","torn')
        with mock.patch.object(extraction, "_FRAME_LINES", 4):
            made = list(frames(ExtractionJob(str(log))))

        offsets = [offset for frame in made for offset, *_ in frame.messages]
        assert [(frame.start, frame.end) for frame in made] == [
            (start, end)
            for start, end in zip([0, *(f.end for f in made)], (f.end for f in made), strict=False)
        ]
        assert (7, len(encoded(lines))) == (len(made), made[-1].end)
        assert [len(encoded(lines[:n])) for n in range(25)] == offsets

    def test_much_text_ends_a_frame(self, log: Path) -> None:
        """About a megabyte of text; memory stays flat whatever a log's size."""
        log.write_bytes(encoded([user(f"u{n}", None, n, "x" * 400_000) for n in range(7)]))

        assert [3, 3, 1] == [len(frame.messages) for frame in frames(ExtractionJob(str(log)))]

    def test_much_that_has_no_text_ends_a_frame_too(self, log: Path) -> None:
        """A log may hold megabytes of snapshots."""
        snapshot = {"type": "file-history-snapshot", "snapshot": {"x": "y" * 3_000_000}, "messageId": "m"}
        log.write_bytes(encoded([snapshot] * 5))

        assert 2 == len(list(frames(ExtractionJob(str(log)))))


class TestUsage:
    def test_the_client_s_total_is_kept_by_model_and_in_all(self, log: Path) -> None:
        """What the total says beyond its models stands under no model; the last total counts."""
        state = {
            "type": "cost-state",
            "totalCostUSD": 1,
            "startTime": 77,
            "modelUsage": {"a": {"costUSD": 0.25, "inputTokens": 3}, "b": {"costUSD": 0.5}},
        }
        frame = the_frame(log, {**state, "totalCostUSD": 99}, user("u", None, 5, "x"), state)

        assert (
            None,
            77,
            [
                ("a", 250_000_000_000, 3, 0, 0, 0, 0, 0),
                ("b", 500_000_000_000, 0, 0, 0, 0, 0, 0),
                ("", 250_000_000_000, 0, 0, 0, 0, 0, 0),
            ],
        ) == frame.cost_state

    @pytest.mark.parametrize("number", ["1e400", "-1", "1e999999999", "123456789"])
    def test_a_total_nobody_was_charged_is_none(self, number: str, log: Path) -> None:
        """Nonsense must not stop the rest of the log from being read."""
        frame = the_frame(
            log, b'{"type":"cost-state","totalCostUSD":%s}\n' % number.encode(), user("u", None, 1, "x")
        )

        assert ((None, None, []), 1) == (frame.cost_state, len(frame.messages))


class TestCopies:
    def test_a_copy_has_the_digest_of_its_original(self, log: Path) -> None:
        """Equal texts, equal digests; another word, another one. A line without texts has none."""
        frame = the_frame(
            log,
            user("a", None, 0, "same"),
            user("a", None, 9, "same"),
            user("a", None, 0, "sane"),
            user("a", None, 0, ""),
        )
        first, copy, other, empty = [MessageRow(*row).digest for row in frame.messages]

        assert first is not None
        assert (True, False, None) == (first == copy, first == other, empty)

    @given(st.text(alphabet="0123456789abcdefABCDEF-_ ", min_size=30, max_size=40))
    def test_any_id_comes_back_as_it_was(self, text: str) -> None:
        """Whatever a writer took for a uuid."""
        assert text == id_text(packed_id(text))


class TestToolOutput:
    def test_a_huge_side_file_is_read_to_the_limit(self, log: Path) -> None:
        """The row still says how long the file is."""
        log.write_bytes(b"word " * 100)
        with mock.patch.object(extraction, "_LONGEST_OUTPUT", 10):
            (frame,) = frames(ExtractionJob(str(log), is_tool_output=True))

        row = MessageRow(*frame.messages[0])
        assert row.texts is not None
        assert (b"word word ", 500) == (row.texts[3], row.length)


class TestListedChanges:
    def test_a_result_of_another_agent_has_the_number_of_changes_it_lists(self, log: Path) -> None:
        """Each of several results its own, also where reading goes on between the calls and the results."""
        calls = [
            {"type": "tool_use", "id": name, "name": "write", "input": {"filePath": path, "content": "x"}}
            for name, path in (("c1", "/w/a"), ("c2", "/w/b"), ("c3", "/w/c"))
        ]
        results: list[dict[str, Any]] = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": "ok"} for call in calls
        ]
        results[2]["is_error"] = True
        listed = [
            {"filePath": path, "content": "x", "type": "update"} for path in ("/w/a", "/w/b", "/w/b", "/w/c")
        ]
        asked = {"type": "assistant", "uuid": "a", "message": {"role": "assistant", "content": calls}}
        told = {
            "type": "user",
            "uuid": "b",
            "parentUuid": "a",
            "message": {"role": "user", "content": results},
            "toolUseResult": {"changedFiles": listed},
        }
        whole = the_frame(log, asked, told)
        rest = the_frame(log, asked, told, start=len(encoded([asked])))

        for frame in (whole, rest):
            assert [one.changes for one in frame.calls if one.tool is None] == [1, 2, 0]

    def test_a_text_that_speaks_of_changes_lists_none(self, log: Path) -> None:
        result = {
            "type": "tool_result",
            "tool_use_id": "c1",
            "content": '{"changedFiles":[{"filePath":"/w/a"}]}',
        }
        told = {"type": "user", "uuid": "b", "message": {"role": "user", "content": [result]}}

        assert [one.changes for one in the_frame(log, told).calls] == [0]
