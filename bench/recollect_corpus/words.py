"""What stands in generated logs: prose whose words are as unevenly frequent as real ones, code, and planted words.

Prose is put together from sentences that are made once, so that a gigabyte takes seconds.
"""

from __future__ import annotations

import tomllib
from itertools import accumulate
from pathlib import Path
from random import Random

# Planted words, by where they are planted. Nothing else in a corpus contains them.
PLANTED = {
    "prose": ("qorvalith", "amber kestrel protocol", "潮汐账本校验"),
    "code": ("reconcileTidalLedgerV3",),
    "deep": ("abyssmarker",),  # more than 20,000 characters into a result
    "thinking": ("ponderwhisk",),
    "tool_input": ("inputgalena",),
    "agent": ("delegatefern",),
}
DEEP = 20_000

_DATA = tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8"))
_LISTS: dict[str, list[str]] = {name: text.split() for name, text in _DATA["lists"].items()}
_NOUNS, _PARTS, _SYLLABLES, _FOREIGN = (_LISTS[name] for name in ("nouns", "parts", "syllables", "foreign"))
_CODE: dict[str, list[str]] = {language: text.splitlines() for language, text in _DATA["code"].items()}
LANGUAGES = tuple(_CODE)


class Words:
    """Sentences and lines of code; the same for the same seed."""

    def __init__(self, seed: int, sentences: int) -> None:
        rng = Random(f"{seed} words")
        words = list(dict.fromkeys(_LISTS["common"]))
        words += dict.fromkeys(
            "".join(rng.choices(_SYLLABLES, k=rng.choice((2, 3, 3, 4)))) for _ in range(20_000)
        )
        weights = list(accumulate((rank + 3) ** -1.07 for rank in range(len(words))))
        self._sentences = [self._sentence(rng, words, weights) for _ in range(sentences)]

    @staticmethod
    def _sentence(rng: Random, words: list[str], weights: list[float]) -> str:
        chosen = rng.choices(words, cum_weights=weights, k=rng.randrange(5, 18))
        if rng.random() < 0.04:
            chosen[rng.randrange(len(chosen))] = rng.choice(_FOREIGN)
        text = " ".join(chosen)
        return f"{text[0].upper()}{text[1:]}{rng.choice('...:?;')}"

    def prose(self, rng: Random, sentences: int) -> str:
        """So many sentences, some of them in paragraphs of their own, with a number that stands nowhere else."""
        text = " ".join(rng.choices(self._sentences, k=sentences))
        if sentences > 8:
            text = text.replace(". ", ".\n\n", sentences // 8)
        return f"{text} ({rng.getrandbits(28):07x})" if rng.random() < 0.3 else text

    def short(self, rng: Random) -> str:
        """A few words, as of a title."""
        return rng.choice(self._sentences)[:-1][:70].rstrip()

    def code(self, rng: Random, language: str, lines: int) -> list[str]:
        """So many lines."""
        return [self._code_line(rng, template) for template in rng.choices(_CODE[language], k=lines)]

    def _code_line(self, rng: Random, template: str) -> str:
        if "{" not in template:
            return template
        a, b, c = rng.choices(_NOUNS, k=3)
        comment = rng.choice(self._sentences) if "{p}" in template else ""
        return template.format(
            a=a, b=b, c=c, A=a.title(), D=rng.choice(_PARTS), n=rng.randrange(1, 5_000), p=comment
        )

    def identifier(self, rng: Random) -> str:
        """A name of two words."""
        return rng.choice(_NOUNS) + rng.choice(_PARTS)


class Planter:
    """Puts a word into one of so many texts of a kind, never two into one; the same texts get the same words."""

    def __init__(self, size_mb: float) -> None:
        # About as many in a gigabyte as in ten megabytes, so that a rare word stays one.
        self._every = {
            "prose": max(6, int(size_mb)),
            "code": max(8, int(size_mb * 1.5)),
            "deep": max(1, int(size_mb / 10)),
            "thinking": max(8, int(size_mb)),
            "tool_input": max(6, int(size_mb / 2)),
            "agent": max(6, int(size_mb / 2)),
        }
        self._seen = dict.fromkeys(PLANTED, 0)

    def plant(self, kind: str, text: str) -> tuple[str, tuple[str, ...]]:
        """The text, and what was planted in it."""
        number, every = self._seen[kind], self._every[kind]
        self._seen[kind] += 1
        if number % every:
            return text, ()
        word = PLANTED[kind][number // every % len(PLANTED[kind])]
        start = DEEP + 1_000 if kind == "deep" else len(text) // 2
        gap = text.find("\n" if kind in ("code", "deep") else " ", start)
        cut = len(text) if gap < 0 else gap
        return f"{text[:cut]} {word} {text[cut:]}", (word,)
