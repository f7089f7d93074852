"""Frames: what a stretch of a log adds to the index, whole lines only, each byte once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.index.frame import KIND_CODES, Frame
from recollect.index.schema import id_text
from recollect.services.indexing import extraction
from recollect.services.indexing.extraction import frames, is_continued, packed_id
from recollect.services.indexing.session_listing import ExtractionJob
from tests.index.message_row import MessageRow
from tests.talk import assistant, encoded, mark, user

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

    def test_a_row_says_where_its_line_stands(self, log: Path) -> None:
        """Offset and length, newline included, give the line back."""
        frame = the_frame(log, user("a", None, 0, "one"), b"\n", user("b", "a", 1, "two"))
        data = log.read_bytes()

        assert ["a", "b"] == [
            json.loads(data[offset : offset + length])["uuid"] for offset, length, *_ in frame.messages
        ]

    def test_reading_goes_on_where_it_ended(self, log: Path) -> None:
        """From any frame's end the rest comes as it would have."""
        log.write_bytes(encoded([user(f"u{n}", None, n, f"line {n}") for n in range(10)]))
        with mock.patch.object(extraction, "_FRAME_LINES", 3):
            made = list(frames(ExtractionJob(str(log))))
            again = list(frames(ExtractionJob(str(log), made[0].end)))

        assert made[1:] == again

    def test_much_text_ends_a_frame(self, log: Path) -> None:
        """About a megabyte of text; memory stays flat whatever a log's size."""
        log.write_bytes(encoded([user(f"u{n}", None, n, "x" * 400_000) for n in range(7)]))

        assert [3, 3, 1] == [len(frame.messages) for frame in frames(ExtractionJob(str(log)))]

    def test_much_that_has_no_text_ends_a_frame_too(self, log: Path) -> None:
        """A log may hold megabytes of snapshots."""
        snapshot = {"type": "file-history-snapshot", "snapshot": {"x": "y" * 3_000_000}, "messageId": "m"}
        log.write_bytes(encoded([snapshot] * 5))

        assert 2 == len(list(frames(ExtractionJob(str(log)))))

    @pytest.mark.parametrize("data", [b"", b'{"type":"user"'])
    def test_a_log_without_a_whole_line_has_no_frame(self, data: bytes, log: Path) -> None:
        """An unterminated line does not exist yet (S3)."""
        log.write_bytes(data)

        assert [] == list(frames(ExtractionJob(str(log))))

    def test_damage_is_counted_and_costs_nothing_else(self, log: Path) -> None:
        """Blank lines are no damage (L5)."""
        frame = the_frame(
            log, b"garbage\n", b"\n", b"  \n", user("a", None, 0, "one"), b"\xff\xfe\n", b"[1]\n"
        )

        assert ({"invalid-json": 1, "invalid-utf8": 1, "not-an-object": 1}, 1) == (
            dict(frame.damage),
            len(frame.messages),
        )


class TestRefused:
    def test_a_log_that_is_not_there_says_nothing(self, log: Path) -> None:
        """It vanished: no problem to speak of, and not read."""
        assert [Frame(7, 7, [], [], problem="")] == list(frames(ExtractionJob(str(log), 7)))

    def test_what_is_no_file_says_why(self, log: Path) -> None:
        """A pipe in its place is refused at once."""
        os.mkfifo(log)

        assert [f"open {log}: not a regular file"] == [
            frame.problem for frame in frames(ExtractionJob(str(log)))
        ]


class TestSummary:
    def test_a_frame_says_what_its_lines_say(self, log: Path) -> None:
        """First directory and session, last branch, first and last time; blank ones say nothing."""
        frame = the_frame(
            log,
            user("a", None, 50, "x", cwd="/one", gitBranch="main", sessionId="s1"),
            user("b", "a", 10, "x", cwd="/two", gitBranch="fix", sessionId="s2"),
            user("c", "b", 90, "x", cwd="", gitBranch="", sessionId="s3"),
        )

        assert ("/one", "fix", "s1", 1_767_225_650_000, 1_767_225_690_000) == (
            frame.cwd,
            frame.branch,
            frame.session,
            frame.first_at,
            frame.last_at,
        )

    def test_titles_are_those_of_the_summary(self, log: Path) -> None:
        """The last of each kind; the first prompt that was typed."""
        lines: list[dict[str, Any]] = [
            user("m", None, 0, "said by the client", isMeta=True),
            user("p", None, 0, "typed first"),
            {"type": "ai-title", "aiTitle": "one"},
            {"type": "ai-title", "aiTitle": "two"},
            {"type": "custom-title", "customTitle": "mine"},
            mark("p", lastPrompt="typed last"),
            user("q", "p", 0, "typed later"),
            mark("p", lastPrompt=""),
        ]
        frame = the_frame(log, *lines, is_session=True)

        assert ("typed first", "two", "mine", "") == (
            frame.first_prompt,
            frame.ai_title,
            frame.custom_title,
            frame.last_prompt,
        )

    def test_a_title_that_was_taken_away_is_cleared(self, log: Path) -> None:
        """And set again after that, it is there again."""
        cleared = the_frame(
            log,
            {"type": "custom-title", "customTitle": "a"},
            {"type": "custom-title", "customTitle": ""},
            is_session=True,
        )
        again = the_frame(
            log,
            {"type": "custom-title", "customTitle": ""},
            {"type": "custom-title", "customTitle": "b"},
            is_session=True,
        )

        assert ("", "b") == (cleared.custom_title, again.custom_title)

    def test_only_a_frame_that_may_hold_the_first_prompt_looks_for_it(self, log: Path) -> None:
        """Where it is known, later prompts are no news."""
        frame = the_frame(log, user("p", None, 0, "typed"), is_session=True, has_prompt=True)

        assert frame.first_prompt is None

    def test_kinds_are_told_apart(self, log: Path) -> None:
        """What a row is about, by the type of its line; every title is one."""
        frame = the_frame(
            log,
            user("a", None, 0, "x"),
            assistant("b", "a", 1, "x"),
            {"type": "summary", "summary": "x"},
            {"type": "brand-new", "uuid": "c"},
        )

        assert ["user", "assistant", "title", "other"] == [
            next(name for name, code in KIND_CODES.items() if code == MessageRow(*row).kind)
            for row in frame.messages
        ]


class TestUsage:
    def test_lines_of_one_response_are_one_row(self, log: Path) -> None:
        """The largest output speaks, the first tool and the first parent are kept, lines are counted."""
        lines = [
            assistant("a", "asked", 1, [{"type": "thinking", "thinking": "x"}], "m"),
            assistant("b", "a", 2, [{"type": "tool_use", "name": "Bash", "input": {}}], "m"),
            assistant("c", "b", 3, [{"type": "tool_use", "name": "Read", "input": {}}], "m"),
        ]
        lines[1]["message"]["usage"]["output_tokens"] = 9
        (row,) = the_frame(log, *lines).usage

        assert ("m", "req_m", 9, 1_767_225_602_000, "Bash", "asked", 3) == (
            row.message,
            row.request,
            row.output,
            row.at,
            row.tool,
            row.asked,
            row.lines,
        )

    def test_the_last_of_equal_lines_gives_the_time(self, log: Path) -> None:
        """A response that spans midnight belongs to the day of its last line."""
        (row,) = the_frame(log, assistant("a", None, 1, "x", "m"), assistant("b", "a", 2, "y", "m")).usage

        assert 1_767_225_602_000 == row.at

    def test_answers_without_ids_are_rows_of_their_own(self, log: Path) -> None:
        """The flat dialect has none."""
        flat = {
            "type": "assistant",
            "content": "x",
            "model": "m",
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }

        assert 2 == len(the_frame(log, flat, flat).usage)

    def test_what_an_old_client_recorded_is_kept_to_the_last_digit(self, log: Path) -> None:
        """Dollars as pico-dollars: 0.1 is a hundred billion of them."""
        line = assistant("a", None, 1, "x", "m", costUSD=0.1, durationMs=12.9)
        (row,) = the_frame(log, line).usage

        assert (100_000_000_000, 12) == (row.recorded, row.duration)

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

    def test_the_same_text_of_another_kind_is_no_copy(self, log: Path) -> None:
        """Columns are part of what is compared."""
        frame = the_frame(
            log, user("a", None, 0, "same"), user("a", None, 0, [{"type": "tool_result", "content": "same"}])
        )
        first, other = [MessageRow(*row).digest for row in frame.messages]

        assert first != other

    @pytest.mark.parametrize(
        "text", [UUID, UUID.upper(), "odd", "", UUID.replace("-", "_"), UUID[:-1] + "g", "0" * 36]
    )
    def test_an_id_comes_back_as_it_was(self, text: str) -> None:
        """Only a uuid in the usual spelling is shortened to its bytes."""
        assert (text, text == UUID) == (id_text(packed_id(text)), isinstance(packed_id(text), bytes))

    @given(st.text(alphabet="0123456789abcdefABCDEF-_ ", min_size=30, max_size=40))
    def test_any_id_comes_back_as_it_was(self, text: str) -> None:
        """Whatever a writer took for a uuid."""
        assert text == id_text(packed_id(text))


class TestContinuation:
    @pytest.fixture
    def frame(self, log: Path) -> Frame:
        return the_frame(log, *(user(f"u{n}", None, n, f"text {n} " * 100) for n in range(20)))

    def test_a_log_that_grew_is_continued(self, log: Path, frame: Frame) -> None:
        """Also where nothing was added."""
        same = is_continued(str(log), frame.end, frame.head, frame.tail)
        log.write_bytes(log.read_bytes() + b"more")

        assert (True, True) == (same, is_continued(str(log), frame.end, frame.head, frame.tail))

    @pytest.mark.parametrize("place", [0, 100, 4_000, -2, -200])
    def test_another_beginning_or_end_is_another_log(self, place: int, log: Path, frame: Frame) -> None:
        """Within the first 4 KiB, or within the 256 bytes before the place it was read to."""
        data = bytearray(log.read_bytes())
        data[place] ^= 1
        log.write_bytes(data)

        assert not is_continued(str(log), frame.end, frame.head, frame.tail)

    def test_a_shorter_or_missing_log_is_not_continued(self, log: Path, frame: Frame) -> None:
        """Truncated, then removed."""
        os.truncate(log, frame.end - 1)
        shorter = is_continued(str(log), frame.end, frame.head, frame.tail)
        log.unlink()

        assert (False, False) == (shorter, is_continued(str(log), frame.end, frame.head, frame.tail))


class TestToolOutput:
    def test_a_side_file_is_one_message(self, log: Path) -> None:
        """Its whole text as a tool's result; bytes that are no text are replaced."""
        log.write_bytes(b"line one\nline \xff two")
        (frame,) = frames(ExtractionJob(str(log), is_tool_output=True))

        assert (0, 19, [(0, 19, None, None, KIND_CODES["tool-output"])]) == (
            frame.start,
            frame.end,
            [tuple(row[:5]) for row in frame.messages],
        )
        texts = MessageRow(*frame.messages[0]).texts
        assert texts is not None
        assert [None, None, None, "line one\nline � two".encode(), None, None] == list(texts)

    def test_an_empty_side_file_is_none(self, log: Path) -> None:
        """There is nothing to be found in it."""
        log.write_bytes(b"")
        (frame,) = frames(ExtractionJob(str(log), is_tool_output=True))

        assert ([], 0) == (frame.messages, frame.end)

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
