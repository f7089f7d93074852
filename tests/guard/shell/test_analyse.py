from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.guard.policy import shell_reader
from recollect.guard.policy.shell import analyse
from recollect.guard.policy.shell_words import DEEPEST

UNDERSTOOD: dict[str, list[list[str | None]]] = {
    "ls": [["ls"]],
    "git add -A && git commit -m 'a; b'": [["git", "add", "-A"], ["git", "commit", "-m", "a; b"]],
    "a|b|&c": [["a"], ["b"], ["c"]],
    "a & b; c || d\ne": [["a"], ["b"], ["c"], ["d"], ["e"]],
    "! a b": [["a", "b"]],
    "time a b": [["time", "a", "b"]],
    "(a; b) && { c; }": [["a"], ["b"], ["c"]],
    "if a; then b; elif c; then d; else e; fi": [["a"], ["b"], ["c"], ["d"], ["e"]],
    "while a; do b; done": [["a"], ["b"]],
    "for i in x y; do a $i; done": [["a", None]],
    "case $X in a|b) c;; *) d;; esac": [["c"], ["d"]],
    "echo $(a b) `c`": [["a", "b"], ["c"], ["echo", None, None]],
    'echo "x $(a "$(b)") y"': [["b"], ["a", None], ["echo", None]],
    "diff <(a) <(b)": [["a"], ["b"], ["diff", None, None]],
    "a > f x": [["a", "x"]],
    "cat <<E\n$(a)\nE\nb": [["cat"], ["a"], ["b"]],
    "cat <<'E'\n$(a)\nE\nb": [["cat"], ["b"]],
    "cat <<-E && b\n\tit's\n\tE": [["cat"], ["b"]],
    "git commit -m \"$(cat <<'E'\nit's (fine)\nE\n)\" && a": [["cat"], ["git", "commit", "-m", None], ["a"]],
    "a # b; c": [["a"]],
    "a \\\n  b": [["a", "b"]],
    r"""a r""m r\m $'\162m' 'x y' "x\"y" "a\b" """: [["a", "rm", "rm", "rm", "x y", 'x"y', "a\\b"]],
    "a é '–' b": [["a", "é", "–", "b"]],
    "git show stash@{0} {}": [["git", "show", "stash@{0}", "{}"]],
    "echo ~/x '~/x'": [["echo", "~/x", "~/x"]],
    "[ -f a ] && export A=b": [["[", "-f", "a", "]"], ["export", "A=b"]],
    "": [],
    "# only a comment": [],
}  # fmt: skip


@pytest.mark.parametrize("text", UNDERSTOOD)
def test_understood_texts_give_their_commands_in_order(text: str) -> None:
    """Commands in words stand before the command they serve, those in a heredoc behind it; unknown is None."""
    analysis = analyse(text)
    assert analysis.unanalysable == ()
    assert [[word.text for word in command.words] for command in analysis.commands] == UNDERSTOOD[text]


NOT_UNDERSTOOD: dict[str, str] = {
    "a" * 10_001: "longer than 10,000 characters",
    **tomllib.loads(Path(__file__).with_name("not_understood.toml").read_text("utf-8")),
}


@pytest.mark.parametrize("text", NOT_UNDERSTOOD, ids=lambda text: text[:30])
def test_every_other_text_says_why(text: str) -> None:
    """What is not understood carries its reason, and then every word of the text is a suspect."""
    analysis = analyse(text)
    assert NOT_UNDERSTOOD[text] in analysis.unanalysable


@pytest.mark.parametrize("text", ["a\\\nb c", "X=$\nls"])
def test_texts_that_tree_sitter_misreads_without_an_error(text: str) -> None:
    """tree-sitter-bash accepts these with other words or borders than bash; alone it would be believed."""
    assert shell_reader.borders(text) is not None
    assert analyse(text).unanalysable != ()


@pytest.mark.parametrize(
    "opening", ["(", "$(", "echo $(", "{ ", "if ", "while ", "`", '"$(', "<(", "case a in a) "]
)
def test_deep_nesting_is_refused_and_the_denied_word_still_shown(opening: str) -> None:
    """Two thousand levels cost no stack, and the word at the bottom is a suspect."""
    analysis = analyse(opening * 2_000 + "rm x")
    assert analysis.unanalysable != ()
    assert "rm" in analysis.suspects


def test_nesting_up_to_the_limit_is_understood() -> None:
    """The limit is a number, not an accident of the stack."""
    depth = DEEPEST
    analysis = analyse("( " * depth + "a" + " )" * depth)
    assert (analysis.unanalysable, len(analysis.commands)) == ((), 1)
    assert analyse("( " * (depth + 1) + "a" + " )" * (depth + 1)).unanalysable == ("nested too deeply",)


def test_five_thousand_parts_hide_nothing() -> None:
    """There is no number of parts behind which a word is no longer looked at."""
    analysis = analyse("ok;" * 5_000 + "rm -rf x")
    assert "rm" in analysis.suspects
    assert analysis.commands[-1].argv == ("rm", "-rf", "x")
    assert len(analyse(";".join(["ok"] * 3_000)).commands) == 3_000


_SHELL_TEXT = st.text(
    st.sampled_from(list(" \t\n;&|()<>\\'\"$`{}[]*?~#!=a1-rm,:@%+^é\r\0\u200b\ud800")), max_size=80
)


@given(_SHELL_TEXT)
@settings(max_examples=400, deadline=None)
def test_no_text_makes_the_analyser_raise(text: str) -> None:
    """Whatever the text, there is an analysis of that text."""
    assert analyse(text).text == text
