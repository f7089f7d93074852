"""What a question is asked with, and how its words are found again in a text."""

from __future__ import annotations

import pytest

from recollect.model.recall import QuestionFinder, question_words, recalled_text
from recollect.model.text.terms import indexed_bytes


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("how did we fix the rounding of prices", ["fix", "rounding", "prices"]),
        ("Prices prices PRICES", ["prices"]),
        ("what is it", ["what", "is", "it"]),  # nothing else is left
        ("parseHttpHeader", ["parsehttpheader", "parse", "http", "header"]),
        ("幻灯片", ["幻灯", "灯片"]),
        ("页", ["页"]),
        ("VLM 演示", ["vlm", "演示"]),
        ("a 7 b", ["a", "7", "b"]),
        ("... ()", []),
    ],
)
def test_a_question_is_asked_with_the_words_that_say_something(question: str, words: list[str]) -> None:
    assert question_words(question) == words


def test_neighbouring_cjk_characters_are_words_of_a_text_in_pairs() -> None:
    text = recalled_text(indexed_bytes("做 幻灯片。完成"), 1000).decode()
    assert {"幻灯", "灯片", "完成"} <= set(text.split())
    assert "片完" not in text.split()


@pytest.mark.parametrize(
    ("word", "text", "found"),
    [
        ("remediation", "a remedy helps", "remedy"),
        ("running", "it runs", "runs"),
        ("categories", "one category", "category"),
        ("config", "parseConfigs(x)", "Configs"),
        ("pr", "in april a PR", "PR"),
        ("幻灯", "做幻灯片", "幻灯"),
    ],
)
def test_a_word_is_marked_in_its_other_forms(word: str, text: str, found: str) -> None:
    assert [text[start:end] for start, end, _ in QuestionFinder([word]).places(text)] == [found]
