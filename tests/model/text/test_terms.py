"""What the index is given, and what it makes of it: compared with SQLite's own tokenizer."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.text import terms
from recollect.model.text.terms import Term, indexed_text, whole_words, words
from tests.model.text.fts import Index

MARK = "\ue9c3"
CJK_BLOCKS = [
    (0x3041, 0x3096),  # hiragana
    (0x30A1, 0x30FA),  # katakana
    (0x3105, 0x312F),  # bopomofo
    (0x3131, 0x318E),  # Hangul letters
    (0x31A0, 0x31BF),  # more bopomofo
    (0x3200, 0x33FF),  # circled and squared
    (0x3400, 0x4DBF),  # Han, extension A
    (0x4E00, 0x9FFF),  # Han
    (0xAC00, 0xD7A3),  # Hangul syllables
    (0xF900, 0xFAFF),  # compatibility
    (0xFF66, 0xFF9D),  # halfwidth katakana
    (0x1B000, 0x1B16F),  # more kana
    (0x20000, 0x2A6DF),  # Han, extension B
    (0x2B820, 0x2EBE0),  # extensions E and F
    (0x30000, 0x323AF),  # extensions G and H
]
# Pieces that meet each other's rules: humps, marks, folding, CJK, separators.
PIECES = [
    *[
        "foo",
        "Foo",
        "BAR",
        "fooBar",
        "HTTPServer",
        "server",
        "v2Api",
        "15T10Z",
        "URLs",
        "x",
        "B",
        "é",
        "E\u0301",
    ],
    *[
        "café",
        "Straße",
        "ſ",
        "ı",
        "量",
        "子",
        "㎡",
        "가",
        "ア",
        "\u0301",
        "Ά",
        "𫠠",
        MARK,
        "\0",
    ],
    *[" ", "_", "-", "/", ".", "\n", "→", "…", "\ufffe", "\u00a0"],
]
texts = st.one_of(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.text(max_size=30))


@pytest.fixture(scope="module")
def index() -> Index:
    return Index()


def holds(text: str, term: Term) -> bool:
    """Whether the term has a place in the text."""
    return any(True for _ in term.places(text))


# ---- words -----------------------------------------------------------------------------------------------


def test_every_letter_is_found_as_it_is_typed(index: Index) -> None:
    """Within a word: what a query asks for is folded in no way in which the index is not."""
    letters = [
        chr(code)
        for code in (*range(0xD800), *range(0xE000, 0x20000))
        if unicodedata.category(chr(code))[0] in "LN" and chr(code) != MARK
    ]
    rows = [letters[start : start + 2_000] for start in range(0, len(letters), 2_000)]
    lost = []
    for row in rows:
        index.put_prepared(" ".join(indexed_text(f"x{letter}y") for letter in row))
        lost += [letter for letter in row if not index.finds(f'"{" ".join(words(f"x{letter}y"))}"')]

    assert [] == lost


@given(text=texts.filter(lambda text: bool(words(text))))
def test_a_text_is_found_by_its_words(index: Index, text: str) -> None:
    """All of them, as one phrase."""
    index.put_prepared(indexed_text(text))

    assert index.finds(f'"{" ".join(words(text))}"')


def test_a_word_is_cut_where_fts5_cuts_it(index: Index) -> None:
    """FTS5 keeps 32,768 bytes of a word, even if the last character is then only half there."""
    index.put_prepared("x" + "я" * 20_000)
    length = len(next(iter(index.db.execute("SELECT CAST(term AS BLOB) FROM vocabulary")))[0])

    assert (32_768, 32_768) == (length, len(words("x" + "я" * 20_000)[0].encode(errors="surrogateescape")))


@pytest.mark.parametrize("first_and_last", CJK_BLOCKS, ids=lambda block: f"{block[0]:x}")
def test_a_cjk_character_is_a_word_of_its_own(index: Index, first_and_last: tuple[int, int]) -> None:
    """Every character of every block is found alone, between others and between letters."""
    first, last = first_and_last
    characters = [chr(code) for code in range(first, last + 1, 1 + (last - first) // 50)]
    index.put_prepared(indexed_text("a" + "".join(characters) + "b"))

    found = [char for char in characters if index.finds(f'"{words(char)[0]}"')]

    assert (characters, True, True) == (found, index.finds("a"), index.finds("b"))


@given(data=st.data(), text=st.text(alphabet="量子缓存的设计とはカ가나다㎡", min_size=1, max_size=12))
def test_any_part_of_a_cjk_text_is_a_phrase(index: Index, data: st.DataObject, text: str) -> None:
    """Any run of its characters is found; one that does not stand in it is not."""
    start = data.draw(st.integers(0, len(text) - 1))
    part = text[start : data.draw(st.integers(start + 1, len(text)))]
    other = data.draw(st.text(alphabet="量子缓存", min_size=1, max_size=3))
    index.put_prepared(indexed_text(text))

    answers = [index.finds(f'"{" ".join(words(piece))}"') for piece in (part, other)]

    assert [True, other in text] == answers


# ---- names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("parseHttpHeader", "parse http header"),
        ("HTTPServer", "http server"),
        ("fetchQuasarLedgerV2", "fetch quasar ledger v2"),
        ("utf8Decode", "utf8 decode"),
        ("base64URL", "base64 url"),
        ("getX", "get x"),
        ("getXValue", "get x value"),
        ("mañanaAbierta", "mañana abierta"),
        ("iOS", "i os"),
    ],
)
def test_a_name_is_found_by_its_parts(index: Index, name: str, parts: str) -> None:
    """By each part, by its parts as a phrase, and as a whole in any case."""
    index.put_prepared(indexed_text(f"call {name}(x)"))

    answers = [index.finds(f'"{asked}"') for asked in (*parts.split(), parts, name.upper(), name.lower())]

    assert all(answers)


@pytest.mark.parametrize(
    "word", ["URLs", "Hello", "README", "15T10", "000Z", "ID", "sha256sum", "IPv4", "a" * 99]
)
def test_a_word_without_humps_has_no_parts(word: str) -> None:
    """Plurals, hours and capitals at the front are no humps: the text is left as it is."""
    assert f"see {word}." == indexed_text(f"see {word}.")


@given(
    parts=st.lists(st.from_regex(r"[a-z]{2,8}[0-9]?", fullmatch=True), min_size=2, max_size=6),
    capital=st.booleans(),
    around=st.sampled_from(
        [("", ""), ("(", ")"), ("→", "→"), ("使用", "解析"), ("x/", ".py"), ("_", "_"), ("“", "”")]
    ),
)
def test_every_part_of_a_generated_name_is_found(
    index: Index, parts: list[str], capital: bool, around: tuple[str, str]
) -> None:
    """camelCase and PascalCase, whatever stands beside the name."""
    name = "".join(part.capitalize() for part in parts)
    name = name if capital else name[0].lower() + name[1:]
    index.put_prepared(indexed_text(name.join(around)))

    asked = [*parts, " ".join(parts), name.lower(), " ".join(parts[1:])]

    assert [True] * len(asked) == [index.finds(f'"{one}"') for one in asked]


@given(
    parts=st.lists(st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True), min_size=2, max_size=6),
    sign=st.sampled_from("_-./"),
)
def test_every_part_of_a_path_or_snake_is_found(index: Index, parts: list[str], sign: str) -> None:
    """unicode61 cuts those itself; the whole is the phrase of its parts."""
    index.put_prepared(indexed_text(f"in {sign.join(parts)} again"))

    asked = [*parts, " ".join(parts)]

    assert [True] * len(asked) == [index.finds(f'"{one}"') for one in asked]


def test_no_phrase_crosses_from_one_name_into_another(index: Index) -> None:
    """The end of the text, the first name and the second name do not touch."""
    index.put_prepared(indexed_text("parseHeader fetchLedger end"))

    answers = [
        index.finds(f'"{asked}"') for asked in ("parse header", "header fetch", "end parse", "ledger parse")
    ]

    assert [True, False, False, False] == answers


def test_the_parts_of_a_name_are_added_once() -> None:
    """However often the name stands in the text."""
    assert f"fooBar fooBar (fooBar) {MARK} foo Bar" == indexed_text("fooBar fooBar (fooBar)")


def test_a_mark_in_the_text_is_taken_out(index: Index) -> None:
    """Nobody can find all texts with names by asking for the mark, nor make a phrase with it."""
    index.put_prepared(indexed_text(f"header {MARK} fetch fooBar"))

    assert ([], True) == (words(MARK), index.finds('"header fetch"'))


def test_a_very_long_run_of_letters_is_not_split() -> None:
    """What is longer than 100 characters is no name but data: nothing is added."""
    data = "aB" * 50_000

    assert data == indexed_text(data)


def test_names_in_a_long_run_without_blanks_are_found(index: Index) -> None:
    """Box drawings as in a table do not hide the name behind them."""
    index.put_prepared(indexed_text("─" * 200 + "fooBar" + "│" * 200 + "bazQux"))

    assert [True, True] == [index.finds('"foo bar"'), index.finds('"baz qux"')]


@given(
    text=st.text(alphabet=st.characters(codec="ascii"), max_size=60).filter(lambda text: text == text.lower())
)
def test_ascii_without_capitals_goes_in_as_it_is(text: str) -> None:
    """No copy with additions for texts that need none."""
    assert text == indexed_text(text)


@pytest.mark.parametrize("text", ["a\ud800b", "\udcff", "nul\0inside", "fooBar\ud83d量"])
def test_broken_characters_do_not_break_the_index(index: Index, text: str) -> None:
    """Half of a surrogate pair or a NUL separates words, as far as the index goes."""
    index.put_prepared(indexed_text(text))

    tokens = index.tokens()

    assert words(text) == tokens[: tokens.index(MARK) if MARK in tokens else None]


# ---- terms -----------------------------------------------------------------------------------------------


@given(text=texts, asked=texts.filter(lambda text: bool(words(text))), prefix=st.booleans())
def test_a_field_answers_as_the_index_does(index: Index, text: str, asked: str, prefix: bool) -> None:
    """With a word, a phrase or a prefix."""
    term = Term(tuple(words(asked)), prefix)
    index.put_prepared(indexed_text(text))

    expected = index.finds(f'"{" ".join(term.words)}"{"*" if prefix else ""}')

    assert expected == holds(text, term)


def test_no_phrase_crosses_names_without_an_index_either() -> None:
    """Parts of one name are a phrase, the last of one and the first of the next are not."""
    text = "parseHeader fetchLedger"

    assert [True, False] == [holds(text, Term(("parse", "header"))), holds(text, Term(("header", "fetch")))]


def test_a_text_where_a_phrase_nearly_stands_everywhere_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that twenty megabytes of near misses take a bounded time; here after three of them."""
    monkeypatch.setattr(terms, "_MOST_FAILURES", 3)
    term = Term(("foo", "bar"))

    found = [list(term.places("foo → baz " * misses + "foo bar")) for misses in (2, 3)]

    assert [[(20, 27)], []] == found


@given(run=texts, before=texts, after=texts)
def test_whole_words_of_a_run_are_in_every_text_with_it(run: str, before: str, after: str) -> None:
    """Whatever stands on either side, even a letter or a combining mark."""
    assert set(whole_words(run)) <= set(words(before + run + after))


def test_outer_words_of_a_run_are_not_whole() -> None:
    """The first may have begun earlier and the last may go on; a CJK character can do neither."""
    runs = ["foo bar baz", " foo(", "\u0301foo bar baz", "量子"]

    assert [["bar"], ["foo"], ["bar"], ["量", "子"]] == [list(whole_words(run)) for run in runs]
