"""Reading the logs for a text: nothing is missed by looking at bytes first, and nobody waits for ever."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import Busy, UsageError
from recollect.model.damage import Line
from recollect.model.line_views.facts import TEXT_KINDS
from recollect.model.search.terms import _folding
from recollect.services.search import text_scan
from recollect.services.search.question import OUTPUT_WINDOW, SearchQuery, finder_of, narrowing
from recollect.services.search.quotes import MessagePlace
from recollect.services.search.text_scan import LATE, LOST, quoted_by_pattern, scan
from recollect.services.search.text_scan_worker import _FOLDED, SpottedLine, TextScanTask, _fitting, hint_of
from recollect.storage.logs import chunks as log_chunks
from recollect.storage.logs.reader import OpenLog
from tests.services.search.deadlines import SOON, near_after
from tests.small_home import lines, prompt, uuid_of


def log_of(directory: Path, name: str, *texts: str) -> TextScanTask:
    """A log with one prompt for each text."""
    path = directory / f"{name}.jsonl"
    path.write_bytes(lines([prompt(number, None, text) for number, text in enumerate(texts, 1)]))
    return TextScanTask(str(path), path.stat().st_size)


def asked(how: str, text: str, tasks: list[TextScanTask], seconds: float = SOON) -> text_scan.TextScan:
    return scan(tasks, SearchQuery(how, text), time.monotonic() + seconds)


def spotted_ids(scanned: text_scan.TextScan) -> list[tuple[int, str | None]]:
    return sorted((number, line.uuid) for number, line in scanned.lines)


# --- what is spotted ---------------------------------------------------------------------------------------


def test_a_line_is_spotted_with_its_place_and_time(tmp_path: Path) -> None:
    """The second of two lines; it starts where the first ends."""
    task = log_of(tmp_path, "one", "nothing", "the needle")
    first = len(lines([prompt(1, None, "nothing")]))
    found = SpottedLine(
        first,
        task.size - first,
        uuid_of(2),
        1794736802000,
        False,
        "3f2a9c1e-0000-4000-8000-000000000001",
        in_prose=True,
    )

    assert [(0, found)] == asked("words", "needle", [task]).lines


def test_processes_spot_what_this_one_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small logs, handed out in bundles of two."""
    tasks = [log_of(tmp_path, str(number), "a needle" if number % 3 else "hay") for number in range(20)]
    here = asked("words", "needle", tasks)
    monkeypatch.setattr(text_scan, "_WORTH_A_PROCESS", 0)
    monkeypatch.setattr(text_scan, "_BUNDLE", 2 * tasks[0].size)
    there = asked("words", "needle", tasks)

    assert [number for number in range(20) if number % 3] == [number for number, _ in spotted_ids(here)]
    assert (spotted_ids(here), None) == (spotted_ids(there), there.problem)


def test_only_the_lines_that_are_named_are_read(tmp_path: Path) -> None:
    """An offset inside a line names none."""
    task = log_of(tmp_path, "one", "needle 1", "needle 2", "needle 3")
    second = len(lines([prompt(1, None, "needle 1")]))

    assert [second] == [
        line.offset
        for _, line in asked("substring", "needle", [task._replace(places=(second, second + 5))]).lines
    ]


def test_a_log_that_is_gone_has_nothing(tmp_path: Path) -> None:
    """It was cleaned up between listing and reading."""
    assert ([], None) == asked("words", "needle", [TextScanTask(str(tmp_path / "gone.jsonl"), 10)])


def test_a_side_file_is_one_message(tmp_path: Path) -> None:
    """Found by what it says anywhere; what is no UTF-8 is passed over."""
    output = tmp_path / "output.txt"
    output.write_bytes(b"\xff\xfe first line\nneedle in the second")
    task = TextScanTask(str(output), output.stat().st_size, is_tool_output=True)

    assert [(0, SpottedLine(0, task.size))] == asked("words", "needle", [task]).lines


def test_a_side_file_beyond_the_index_is_read_to_its_end(tmp_path: Path) -> None:
    """The index holds the first 32 MiB of it, and so much words are looked for in; a substring is in all of it."""
    output = tmp_path / "output.txt"
    output.write_bytes(b"x" * (OUTPUT_WINDOW - 4) + b" border " + b"y" * 3_000_000 + b" needle ")
    task = TextScanTask(str(output), output.stat().st_size, is_tool_output=True)

    assert [1, 1, 0] == [
        len(asked(how, text, [task]).lines)
        for how, text in (("substring", " border "), ("substring", "needle"), ("words", "needle"))
    ]


# --- bounded time ------------------------------------------------------------------------------------------


def test_a_pattern_that_takes_for_ever_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was spotted before is kept, and the answer says that it is not complete."""
    task = log_of(tmp_path, "one", "aaa", "a" * 60 + "!", "aaa")
    scanned = scan([task], SearchQuery("regex", "(a+)+$"), near_after(monkeypatch, 1))

    assert ([(0, uuid_of(1))], LATE) == (spotted_ids(scanned), scanned.problem)


def test_other_logs_are_read_while_one_process_is_lost_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two processes the second one goes on, and says when it is done."""
    monkeypatch.setattr(text_scan, "cores", lambda: 2)
    monkeypatch.setattr(text_scan, "_BUNDLE", 1)
    texts = {"bad": "a" * 60 + "!", "good": "aaa", "too": "aa"}
    tasks = [log_of(tmp_path, name, text) for name, text in texts.items()]
    scanned = scan(tasks, SearchQuery("regex", "(a+)+$"), near_after(monkeypatch, 3))

    assert [1, 2] == [number for number, _ in spotted_ids(scanned)]


def test_no_time_is_no_answer_but_no_error(tmp_path: Path) -> None:
    """Also where the logs are read right here."""
    task = log_of(tmp_path, "one", *["needle"] * 200)

    assert LATE == asked("words", "needle", [task], seconds=-1.0).problem


def test_a_process_that_dies_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was reading may be missing."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))

    assert LOST == asked("regex", "needle", [log_of(tmp_path, "one", "needle")]).problem


def test_a_pattern_is_refused_where_no_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process nothing could stop it. Words are looked for right here instead."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    monkeypatch.setattr(text_scan, "_WORTH_A_PROCESS", 0)
    task = log_of(tmp_path, "one", "needle")

    with pytest.raises(Busy, match="pattern"):
        asked("regex", "needle", [task])
    assert 1 == len(asked("words", "needle", [task]).lines)


def test_quotes_of_a_pattern_are_cut_in_time_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first place fits at once; at the second the search for more of them never ends."""
    task = log_of(tmp_path, "one", "aaa", "aa\n" + "a" * 60 + "!")
    size = len(lines([prompt(1, None, "aaa")]))
    places = [
        MessagePlace(task.path, 0, size, uuid_of(1)),
        MessagePlace(task.path, size, task.size - size, uuid_of(2)),
    ]
    cut = quoted_by_pattern(places, SearchQuery("regex", "(a+)+$"), 80, near_after(monkeypatch, 1))

    assert ("aaa", None) == (cut[0].text if cut[0] else "", cut[1])


# --- a look at the bytes -----------------------------------------------------------------------------------


def test_every_letter_that_is_folded_into_ascii_is_known_by_its_bytes() -> None:
    """The tokenizer's own tables, code point by code point; marks that it drops are among them."""
    meanings = _folding()
    unknown = [
        code
        for code in range(0x80, 0x20000)
        if not 0xD800 <= code < 0xE000
        and (meaning := meanings[code]) != " "
        and meaning.isascii()
        and not re.search(_FOLDED, chr(code).encode())
    ]

    assert ([], "a", "") == (unknown, meanings[ord("\u00e4")], meanings[0x301])


@contextmanager
def opened(data: bytes) -> Iterator[OpenLog]:
    """A log with these bytes."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        yield OpenLog(file.fileno())


def may_match(question: SearchQuery, line: bytes) -> bool:
    """Whether a look at its bytes lets the line through."""
    with opened(line) as log:
        return any(found is not None for found in hint_of(question).lines(log))


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


@given(
    before=_texts, sought=_texts, how=st.sampled_from(["words", "substring", "regex"]), escaped=st.booleans()
)
def test_what_fits_is_never_passed_over(before: str, sought: str, how: str, escaped: bool) -> None:
    """Whatever JSON makes of the text: the look at its bytes lets every line through that fits."""
    text = f"{before} {sought.swapcase()}"
    try:
        question = SearchQuery(how, re.escape(sought) if how == "regex" else sought)
        fits = finder_of(question).matches({"prose": text})
    except UsageError:
        return
    line = json.dumps({"text": text}, ensure_ascii=escaped).encode()

    assert not fits or may_match(question, line)


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


def test_a_bytes_hint_spares_most_lines(tmp_path: Path) -> None:
    """A plain line without the word is not decoded; one that writes letters as escapes is."""
    question = SearchQuery("words", "needle", kinds=TEXT_KINDS)

    assert (False, True, True) == (
        may_match(question, b'{"text":"only hay"}'),
        may_match(question, b'{"text":"NEEDLE"}'),
        may_match(question, b'{"text":"\\u006eeedle"}'),
    )


@pytest.mark.parametrize("has_engine", [True, False])
def test_lines_are_found_wherever_they_stand(has_engine: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that meet in odd ways, long ones, half ones: what is found is what reading each line finds, at its place."""
    if not has_engine:
        monkeypatch.setitem(sys.modules, "hyperscan", None)
    question = SearchQuery("words", "needle hay")
    finder = finder_of(question)

    @given(data=_odd_logs, size=st.integers(1, 400))
    def same(data: bytes, size: int) -> None:
        monkeypatch.setattr(log_chunks, "_CHUNK", size)
        with opened(data) as log:
            every = [_fitting(line, question, finder) for line in log.lines() if isinstance(line, Line)]
            candidates = [line for line in hint_of(question).lines(log) if line is not None]
            found = [_fitting(line, question, finder) for line in candidates]
        assert [one for one in every if one is not None] == [one for one in found if one is not None]

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
