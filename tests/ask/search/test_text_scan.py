"""Reading the logs for a text: nothing is missed by looking at bytes first, and nobody waits for ever."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.ask.search import text_scan
from recollect.ask.search.question import OUTPUT_WINDOW, SearchQuery, finder_of, narrowing
from recollect.ask.search.text_scan import (
    _OTHER_SPELLINGS,
    LATE,
    LOST,
    SpottedLine,
    TextScanTask,
    quoted_by_pattern,
    scan,
    spotted,
)
from recollect.errors import Busy
from recollect.index.schema import SESSION
from recollect.index.text_queries import MessageCopy, TextLogRow
from recollect.model.text.terms import folded
from tests.ask.search.deadlines import SOON, near_after
from tests.small_home import lines, prompt, uuid_of

Scanned = tuple[list[tuple[int, SpottedLine]], str | None]


def log_of(directory: Path, name: str, *texts: str) -> TextScanTask:
    """A log with one prompt for each text."""
    path = directory / f"{name}.jsonl"
    path.write_bytes(lines([prompt(number, None, text) for number, text in enumerate(texts, 1)]))
    return TextScanTask(str(path), path.stat().st_size)


def asked(how: str, text: str, tasks: list[TextScanTask], seconds: float = SOON) -> Scanned:
    return scan(tasks, SearchQuery(how, text), time.monotonic() + seconds)


# --- what is spotted ---------------------------------------------------------------------------------------


def test_a_side_file_is_one_message(tmp_path: Path) -> None:
    """Found by what it says anywhere; what is no UTF-8 is passed over."""
    output = tmp_path / "output.txt"
    output.write_bytes(b"\xff\xfe first line\nneedle in the second")
    task = TextScanTask(str(output), output.stat().st_size, is_tool_output=True)

    assert [(0, SpottedLine(0, task.size))] == asked("substring", "needle", [task])[0]


def test_a_side_file_beyond_the_index_is_read_to_its_end(tmp_path: Path) -> None:
    """The index holds the first 32 MiB of it; a substring is looked for in all of it."""
    output = tmp_path / "output.txt"
    output.write_bytes(b"x" * (OUTPUT_WINDOW - 4) + b" border " + b"y" * 3_000_000 + b" needle ")
    task = TextScanTask(str(output), output.stat().st_size, is_tool_output=True)

    assert [1, 1] == [len(asked("substring", text, [task])[0]) for text in (" border ", "needle")]


# --- bounded time ------------------------------------------------------------------------------------------


def test_no_time_is_no_answer_but_no_error(tmp_path: Path) -> None:
    """Also where the logs are read right here."""
    task = log_of(tmp_path, "one", *["needle"] * 200)

    assert LATE == asked("substring", "needle", [task], seconds=-1.0)[1]


def test_a_process_that_dies_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was reading may be missing."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))

    assert LOST == asked("regex", "needle", [log_of(tmp_path, "one", "needle")])[1]


def test_a_pattern_is_refused_where_no_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process nothing could stop it. A substring is looked for right here instead."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    monkeypatch.setattr(text_scan, "_WORTH_A_PROCESS", 0)
    task = log_of(tmp_path, "one", "needle")

    with pytest.raises(Busy, match="pattern"):
        asked("regex", "needle", [task])
    assert 1 == len(asked("substring", "needle", [task])[0])


def test_quotes_of_a_pattern_are_cut_in_time_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first place fits at once; at the second the search for more of them never ends."""
    task = log_of(tmp_path, "one", "aaa", "aa\n" + "a" * 60 + "!")
    size = len(lines([prompt(1, None, "aaa")]))
    log = TextLogRow(1, task.path, task.size, 0, SESSION, None, None, None, None, None, None, "")
    places = [
        (log, MessageCopy(0, 1, 0, size, uuid_of(1), None, 0)),
        (log, MessageCopy(0, 1, size, task.size - size, uuid_of(2), None, 0)),
    ]
    cut = quoted_by_pattern(places, SearchQuery("regex", "(a+)+$"), 80, near_after(monkeypatch, 1))

    assert ("aaa", None) == (cut[0].text if cut[0] else "", cut[1])


# --- a look at the bytes -----------------------------------------------------------------------------------


def test_every_letter_that_is_folded_into_ascii_is_known_by_its_bytes() -> None:
    """Code point by code point; accents that are dropped are among them."""
    unknown = [
        code
        for code in range(0x80, 0x20000)
        if not 0xD800 <= code < 0xE000
        and (meaning := folded(chr(code))) != b" "
        and meaning.isascii()
        and not set(_OTHER_SPELLINGS) & set(chr(code).encode())
    ]

    assert ([], b"a", b"") == (unknown, folded("\u00e4"), folded("\u0301"))


_PIECES = [
    "parse",
    "Http",
    "kelvin",
    "K",
    "é",
    "e\u0301",
    "ı",
    "İ",
    "ſ",
    "ß",
    "ﬁ",
    "量",
    "量子",
    "カ",
    "\u3099",
    "가",
    "Ａ",
    "㎡",
    " ",
    "\n",
    '"',
    "\\",
    "/",
    "_",
    "<",
    "x1",
]
_texts = st.lists(st.sampled_from(_PIECES), min_size=1, max_size=8).map("".join)


@given(before=_texts, sought=_texts, escaped=st.booleans())
def test_what_fits_is_never_passed_over(before: str, sought: str, escaped: bool) -> None:
    """Whatever JSON makes of the text: the look at its bytes lets every line through that fits."""
    text = f"{before} {sought.swapcase()}"
    fits = finder_of(SearchQuery("substring", sought)).matches({"prose": text})
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        line = json.dumps(prompt(1, None, text), ensure_ascii=escaped).encode()
        file.write(line)
        file.flush()
        found = asked("substring", sought, [TextScanTask(file.name, len(line))])

    assert fits == bool(found[0])


@given(
    before=_texts,
    sought=_texts,
    after=_texts,
    how=st.sampled_from(["substring", "regex"]),
    case=st.booleans(),
)
def test_what_fits_is_never_narrowed_away(before: str, sought: str, after: str, how: str, case: bool) -> None:
    """A message that holds the text has every word that the index is asked for."""
    text = before + (sought if case else sought.swapcase()) + after
    question = SearchQuery(how, re.escape(sought) if how == "regex" else sought, case)
    fits = finder_of(question).matches({"prose": text})
    query = narrowing(question)

    assert not fits or query is None or query.matches({"prose": text})


def asked_for(question: SearchQuery) -> list[str]:
    """The words that the index is asked for."""
    query = narrowing(question)
    return [] if query is None else [word for term in query.terms for word in term.words]


def test_a_substring_of_several_words_is_narrowed_by_the_inner_ones() -> None:
    """The outer words may be parts of longer ones."""
    assert ["walrus"] == asked_for(SearchQuery("substring", "ple walrus mig"))
    assert [] == asked_for(SearchQuery("substring", "walrus"))


def test_a_pattern_in_any_case_is_narrowed_by_every_spelling() -> None:
    """To Python an i without its dot is an i in another case; to the index it is not."""
    pattern = r"\w+ this \w+"

    assert (["this", "thıs"], ["this"]) == (
        asked_for(SearchQuery("regex", pattern)),
        asked_for(SearchQuery("regex", pattern, is_case_exact=True)),
    )


def test_lines_are_found_wherever_they_stand() -> None:
    """Lines that meet in odd ways, long ones, half ones: what is found is what reading each line finds, at its place."""
    question = SearchQuery("substring", "needle")
    finder = finder_of(question)

    @given(data=_odd_logs)
    def same(data: bytes) -> None:
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
            file.write(data)
            file.flush()
            task = TextScanTask(file.name, len(data))
            every = [line for line in spotted(task, question, finder, None) if line is not None]
            found = [line for _, line in asked("substring", "needle", [task])[0]]
        assert every == found

    same()


_SAID = lines([prompt(1, None, "hay and a NEEDLE")])
_SILENT = lines([prompt(2, None, "hay only")])
_ESCAPED = lines([prompt(3, None, "hay nxedle")]).replace(b"nx", b"\\u006ee")
_odd_logs = st.lists(
    st.sampled_from(
        (
            *(_SAID, _SAID, _SILENT, _ESCAPED, _SAID[:-1], _SAID[:30], b"\xef\xbb\xbf" + _SAID),
            *(_SAID.replace(b"\n", b"\r\n"), _SAID.replace(b",", b",\n", 1)),
            *(b"\n", b" \n", b"needle hay\n", b"\xc3\n", b"\0", b"}\n", b"{"),
        )
    ),
    max_size=9,
).map(b"".join)
