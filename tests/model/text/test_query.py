"""Queries: how they are read, that nothing in them is syntax, and that both ways of asking agree."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from recollect.errors import UsageError
from recollect.model.text.query import Pattern, Substring, WordQuery, merged
from recollect.model.text.terms import words
from tests.model.text.fts import Index

WORDS = [
    "foo",
    "Foo",
    "bar",
    "fooBar",
    "FooBarBaz",
    "HTTPServer",
    "http",
    "baz_qux",
    "src/app.py",
    "café",
    "量子",
    "子",
    "x2",
]
texts = st.lists(
    st.sampled_from(
        [*WORDS, *[" ", " ", "_", "-", "\n", "→", "cafe\u0301", "SERVER", "量", "é", "\u0301", "NOT", '"']]
    ),
    max_size=10,
).map("".join)


@pytest.fixture(scope="module")
def index() -> Index:
    return Index()


def _with_operators(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}) ({pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} OR {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}) AND ({pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}) NOT ({pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"{pair[0]} -({pair[1]})"),
    )


leaves = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(WORDS).map(lambda word: word[: 1 + len(word) // 2] + "*"),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(lambda group: f'"{" ".join(group)}"'),
)
queries = st.recursive(leaves, _with_operators, max_leaves=6)


# ---- how a query is read ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expression"),
    [
        ("index", '"index"'),
        ("Index BUILD", '"index" AND "build"'),
        ('"Index build"', '"index build"'),
        ("ind*", '"ind"*'),
        ('"index bui"*', '"index bui"*'),
        ("parse_http_header", '"parse http header"'),
        ("src/app.py", '"src app py"'),
        ("量子缓存", '"量 子 缓 存"'),
        ("Café", '"cafe"'),
        ("foo_ba*", '"foo ba"*'),
        ("foo_*", '"foo"'),
        ("a AND b", '"a" AND "b"'),
        ("a OR b c", '"b" AND "c" OR "a"'),
        ("c (a OR b)", '("a" OR "b") AND "c"'),
        ("a (b (c)) OR (d OR e)", '"a" AND "b" AND "c" OR "d" OR "e"'),
        ("a (b NOT c)", '("a" AND "b") NOT "c"'),
        ("a NOT b", '("a") NOT "b"'),
        ("a AND NOT b", '("a") NOT "b"'),
        ("-b a -c", '("a") NOT "b" NOT "c"'),
        ("a NOT b c", '("a" AND "c") NOT "b"'),
        ('a -"b c"', '("a") NOT "b c"'),
        ("a -(b OR c)", '("a") NOT "b" NOT "c"'),
        ("a -(b c)", '("a") NOT ("b" AND "c")'),
        ("a and b", '"a" AND "and" AND "b"'),
        ('"a AND b"', '"a and b"'),
        ("run --verbose", '"run" AND "verbose"'),
        ("x -> y => z", '"x" AND "y" AND "z"'),
        ("main() fails", '"main" AND "fails"'),
        ("a:b ^c NEAR(d)", '"a b" AND "c" AND "near" AND "d"'),
    ],
)
def test_a_query_becomes_an_expression(query: str, expression: str) -> None:
    """Everything a user typed is in quotes; only what we put there is syntax."""
    assert expression == WordQuery.parse(query).fts()


def test_columns_stand_before_the_expression() -> None:
    """Quoted as well, so that a name cannot end the list."""
    assert '{"prose" "ti""tle"} : ("a")' == WordQuery.parse("a").fts(["prose", 'ti"tle'])


def test_no_column_is_not_all_columns() -> None:
    """An empty list is refused: FTS5 has no expression for it."""
    with pytest.raises(UsageError, match="no kind of text"):
        WordQuery.parse("a").fts([])


@pytest.mark.parametrize(
    ("query", "cause"),
    [
        ("", "the query is empty"),
        (" \n", "the query is empty"),
        ("NOT a", "only words to exclude at character 1"),
        ("-a -b", "only words to exclude at character 1"),
        ("a (NOT b)", "only words to exclude at character 4"),
        ("a OR NOT b", "only words to exclude at character 6"),
        ('a "b', 'a " without a closing one at character 3'),
        ("a (b", "a ( without its ) at character 3"),
        ("a (", "a ( without its ) at character 3"),
        ("a b)", "a ) without its ( at character 4"),
        (")", "a ) without its ( at character 1"),
        ("AND a", "AND without a word before it at character 1"),
        ("(OR a)", "OR without a word before it at character 2"),
        ("a AND", "AND without a word after it at character 3"),
        ("a OR OR b", "OR without a word after it at character 3"),
        ("a OR", "OR without a word after it at character 3"),
        ("(a OR)", "OR without a word after it at character 4"),
        ("a NOT", "NOT without a word after it at character 3"),
        ("*", "a * that does not end a word at character 1"),
        ("a b*c", "a * that does not end a word at character 4"),
        ("+++", "no letter or digit to search for"),
        ('"()" ()', "no letter or digit to search for"),
        ("a OR +++", "OR beside something without a letter or digit at character 3"),
        ("a -+++", "NOT before something without a letter or digit at character 3"),
        ("x" * 1001, "1001 characters, the limit is 1000"),
        ("a " * 101, "more than 100 words and phrases at character 201"),
        ("(" * 31 + "a" + ")" * 31, "more than 30 nested parentheses at character 31"),
    ],
)
def test_a_query_that_cannot_be_understood_is_refused(query: str, cause: str) -> None:
    """The message names the query, the cause and the place, and there is something to do next."""
    with pytest.raises(UsageError) as refusal:
        WordQuery.parse(query)

    shown = repr(query if len(query) <= 60 else query[:57] + "...")
    assert (True, True, 2) == (
        refusal.value.message.startswith(f"search {shown}: ") and refusal.value.message.endswith(cause),
        bool(refusal.value.hint),
        refusal.value.exit_code,
    )


def test_only_punctuation_is_sent_to_the_substring_search() -> None:
    """The hint names the option that can find it."""
    with pytest.raises(UsageError) as refusal:
        WordQuery.parse("=>")

    assert "--substring" in refusal.value.hint


@pytest.mark.parametrize(
    "query",
    [
        "(" * 30 + "foo" + ")" * 30,
        "foo" + " -(x" * 30 + ")" * 30,
        "foo f" + " -(x y z" * 30 + ")" * 30,
        "x OR foo f" + " -(y OR x y" * 30 + ")" * 30,
        "(a OR b " * 30 + ")" * 30,
        "(a (b OR c " * 15 + "))" * 15,
        "(b OR c OR (a d OR (e " * 10 + ")))" * 10,
        "x OR (y (a OR b) (" * 14 + "foo" + "))" * 14,
        " ".join(["foo"] * 100),
        " OR ".join(["foo"] * 100),
        "foo " + " ".join(["-x"] * 99),
        '"' + "f " * 499 + '"',
        "量" * 1000,
    ],
)
def test_the_largest_queries_are_taken_by_sqlite(index: Index, query: str) -> None:
    """What we let through is within FTS5's own limits, and gets the same answer."""
    parsed = WordQuery.parse(query)
    fields = {"prose": "foo " + "f " * 600 + "量" * 1001}
    index.put(fields)

    answers = [index.finds(parsed.fts()), index.finds(parsed.fts(["prose", "title"]))]

    assert [parsed.matches(fields)] * 2 == answers


# ---- the same answer with and without an index -----------------------------------------------------------


@given(query=queries, prose=texts, title=texts)
def test_a_message_matches_when_the_index_would_find_it(
    index: Index, query: str, prose: str, title: str
) -> None:
    """Words, phrases, prefixes, all operators, over two fields."""
    fields = {"prose": prose, "title": title}
    try:
        parsed = WordQuery.parse(query)
    except UsageError:
        assume(False)
    index.put(fields)

    assert index.finds(parsed.fts()) == parsed.matches(fields)


@given(query=queries, prose=texts, title=texts)
def test_a_column_filter_is_the_same_as_one_field(index: Index, query: str, prose: str, title: str) -> None:
    """What stands in another field neither helps nor hinders."""
    try:
        parsed = WordQuery.parse(query)
    except UsageError:
        assume(False)
    index.put({"prose": prose, "title": title})

    assert index.finds(parsed.fts(["title"])) == parsed.matches({"title": title})


@given(query=st.text(max_size=20), prose=st.text(max_size=30))
def test_whatever_is_typed_is_refused_or_answered_the_same(index: Index, query: str, prose: str) -> None:
    """No text reaches SQLite as syntax."""
    try:
        parsed = WordQuery.parse(query)
    except UsageError:
        return
    index.put({"prose": prose + query})

    assert index.finds(parsed.fts()) == parsed.matches({"prose": prose + query})


def test_a_phrase_lies_within_one_field() -> None:
    """Words may be in different fields, a phrase may not."""
    fields = {"prose": "quasar", "title": "ledger"}

    answers = [WordQuery.parse(query).matches(fields) for query in ("quasar ledger", '"quasar ledger"')]

    assert [True, False] == answers


# ---- marks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "text", "marked"),
    [
        ("header", "parseHttpHeader, header, HEADERS", ["Header", "header"]),
        ('"http header"', "parseHttpHeader or http-header", ["HttpHeader", "http-header"]),
        ("parse_http", "parse_http_header", ["parse_http"]),
        ("parsehttpheader", "call parseHttpHeader(x)", ["parseHttpHeader"]),
        ("cafe", "Café, cafe\u0301 and cafés", ["Café", "cafe\u0301"]),
        ("h*", "hand, other, Hüte", ["hand", "Hüte"]),
        ("缓存", "量子缓存的缓 存", ["缓存", "缓 存"]),
        ('"a a"', "a a a b a", ["a a a"]),
        ("a NOT b", "a b", ["a"]),
        ("a -(b OR c) OR d", "a b c d", ["a", "d"]),
        ("㎡", "12㎡", ["㎡"]),
        ('"foo cafe"', "foo café", ["foo café"]),
        ("foo", "量foo", ["foo"]),
        ("foo bar", "foobar", []),
        ("foo", "", []),
        ("é", "ascii e", ["e"]),
        ("я", "ascii", []),
    ],
)
def test_what_was_found_is_marked(query: str, text: str, marked: list[str]) -> None:
    """In the text as it was written, and nothing of what is excluded."""
    assert marked == [text[start:end] for start, end in merged(WordQuery.parse(query).places(text))]


@given(query=leaves, text=texts)
def test_a_text_has_marks_when_it_matches(query: str, text: str) -> None:
    """A single word, phrase or prefix is marked in every text that matches, and in no other."""
    parsed = WordQuery.parse(query)

    assert parsed.matches({"prose": text}) == any(parsed.places(text))


@given(query=queries, text=texts)
def test_every_term_that_is_there_is_marked(query: str, text: str) -> None:
    """Each place of each wanted term lies within a mark; marks are in order and do not overlap."""
    try:
        parsed = WordQuery.parse(query)
    except UsageError:
        assume(False)
    marks = merged(parsed.places(text))
    places = [place for term in parsed.terms for place in term.places(text)]

    covered = all(any(start <= a and b <= end for start, end in marks) for a, b in places)
    ordered = all(end <= start for (_, end), (start, _) in pairwise(marks))

    assert (True, True) == (covered, ordered)


# ---- substrings ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "sensitive", "text", "marked"),
    [
        ("ttp", False, "parseHTTPHeader http", ["TTP", "ttp"]),
        ("ttp", True, "parseHTTPHeader http", ["ttp"]),
        ("+++", False, "a +++ b", ["+++"]),
        ("ÄB", False, "xäb", ["äb"]),
        ("k", False, "→ K k", ["K", "k"]),
        ("k", False, "\u212a", []),  # the sign for kelvin, whose small letter is k
        ("[a-z]", False, "abc [A-Z]", ["[A-Z]"]),
        ("\ud800", False, "x\ud800", ["\ud800"]),
        ("aa", False, "aaaa", ["aa", "aa"]),
        ("z", False, "abc", []),
    ],
)
def test_a_substring_is_found_anywhere(wanted: str, sensitive: bool, text: str, marked: list[str]) -> None:
    """Amid words, signs included; capitals count only if that was asked for."""
    finder = Substring(wanted, case_sensitive=sensitive)

    found = [text[start:end] for start, end in merged(finder.places(text))]

    assert (marked, bool(marked)) == (found, finder.matches({"title": "", "prose": text}))


@given(wanted=texts.filter(bool), text=texts, before=texts, after=texts, sensitive=st.booleans())
def test_a_text_with_a_substring_holds_its_required_words(
    wanted: str, text: str, before: str, after: str, sensitive: bool
) -> None:
    """So the index may be asked first: nothing is lost."""
    finder = Substring(wanted, sensitive)
    candidates = [text, before + wanted + after, before + wanted.swapcase() + after]

    matching = [candidate for candidate in candidates if finder.matches({"prose": candidate})]

    assert all(set(finder.required_words()) <= set(words(candidate)) for candidate in matching)


@pytest.mark.parametrize(
    ("wanted", "required"),
    [
        ("foo bar baz", ["bar"]),
        ("return self._cache[key]", ["self", "cache", "key"]),
        ("oo", []),
        ("缓存x", ["缓", "存"]),
        ("a ı b ı c", ["b"]),  # ı and I are one letter to a reader and two to the index
        (" bar  bar ", ["bar"]),
    ],
)
def test_the_inner_words_of_a_substring_are_required(wanted: str, required: list[str]) -> None:
    """The outer ones may be parts of longer words."""
    assert required == Substring(wanted).required_words()


@pytest.mark.parametrize("wanted", ["", "x" * 1001])
def test_an_empty_or_endless_substring_is_refused(wanted: str) -> None:
    """As a query would be."""
    with pytest.raises(UsageError, match="substring"):
        Substring(wanted)


# ---- regular expressions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("regex", "text", "marked"),
    [
        (r"h\w+r", "parseheader hr hair", ["header", "hair"]),
        (r"^b", "a\nb", ["b"]),
        (r"(?i)X+", "axx", ["xx"]),
        (r"[[]", "a[", ["["]),
        (r"z", "abc", []),
    ],
)
def test_an_expression_is_found(regex: str, text: str, marked: list[str]) -> None:
    """As Python's ``re`` finds it, line by line at the ends."""
    finder = Pattern(regex)

    found = [text[start:end] for start, end in merged(finder.places(text))]

    assert (marked, bool(marked)) == (found, finder.matches({"title": "", "prose": text}))


def test_an_empty_match_is_a_match_without_a_mark() -> None:
    """``x*`` is everywhere, and there is nothing to show."""
    finder = Pattern("x*")

    assert (True, []) == (finder.matches({"prose": "abc"}), merged(finder.places("abc")))


@pytest.mark.parametrize(
    ("regex", "cause"),
    [
        ("a(b", "missing ), unterminated subpattern at character 2"),
        ("[a", "unterminated character set at character 1"),
        ("a{99999999999}", "too large or too deep"),
        ("(" * 1000, "too large or too deep"),
        ("x" * 1001, "1001 characters, the limit is 1000"),
    ],
)
def test_an_expression_that_is_none_is_refused(regex: str, cause: str) -> None:
    """With the reason and the place, and exit code 2."""
    with pytest.raises(UsageError, match=re.escape(cause)) as refusal:
        Pattern(regex)

    assert (2, True) == (refusal.value.exit_code, refusal.value.message.startswith("regex "))


@pytest.mark.parametrize(
    ("regex", "required"),
    [
        ("foo bar baz", ["bar"]),
        (r"def\s+parse_header\(", ["parse", "header"]),
        (r"def\s*parse_header\(", ["header"]),
        ("a b+ c d", ["c"]),
        ("a bx? c d", ["c"]),
        ("a bar-?x", []),
        (" b? c d", ["c"]),
        ("a (b c d) e f", []),
        ("a [b c d] e f", ["e"]),
        (r"a .b c\w d e", ["d"]),
        ("a b c|d e f", []),
        ("(?i) b ", []),
        (r" \x62 c ", []),
        (r"\N{EM DASH} c", []),
        ("^ b $", ["b"]),
        (r" b{2} c{} d{1,2} e ", ["e"]),
        (r" a\.b\n", ["a", "b"]),
    ],
)
def test_the_certain_words_of_an_expression_are_required(regex: str, required: list[str]) -> None:
    """Only what no repetition, group or alternative can make go away."""
    assert required == Pattern(regex).required_words()


@given(
    regex=st.lists(
        st.sampled_from(
            [
                *[
                    "a",
                    "b",
                    " ",
                    " ",
                    " c ",
                    r"\s",
                    r"\s+",
                    r"\s*",
                    ".",
                    "?",
                    "*",
                    "+",
                    "{2}",
                    "{1,}",
                    "{}",
                    "{,1}",
                    "??",
                ],
                *[
                    "(",
                    ")",
                    "(a",
                    " b )",
                    "[ab ]",
                    "[^]a]",
                    "[",
                    "]",
                    "|",
                    "^",
                    "$",
                    r"\b",
                    r"\w",
                    r"\.",
                    r"\\",
                    "(?:",
                    "(?=",
                    "é",
                ],
            ]
        ),
        max_size=10,
    ).map("".join),
    text=st.text(alphabet="ab c.\n]{}é\\", max_size=16),
)
def test_a_text_with_a_match_holds_the_required_words(regex: str, text: str) -> None:
    """Whatever the expression is made of."""
    try:
        finder = Pattern(regex)
    except UsageError:
        return

    assert not finder.matches({"prose": text}) or set(finder.required_words()) <= set(words(text))
