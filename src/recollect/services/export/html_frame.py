"""The frame of an exported page: head, policy, controls, sidebar, foot. Nothing external.

A page is one file. Its style and its script are allowed by their hashes, so a browser runs no other script and
loads nothing, even after a mistake in the content. Style and script are built from ``web/export`` with the
colours of the local page (``web/src/tokens.css``). Without a script the page can be read all the same.
"""

from __future__ import annotations

import base64
import datetime as dt
import functools
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from recollect.model.cost.cents import fine_dollars
from recollect.model.cost.money import Spending
from recollect.model.markdown_html import text_html, visible_text
from recollect.services.foreign.unrecorded import UNKNOWN_COST

GENERATOR = "recollect"
_FRAME = Path(__file__).parent / "frame"
_MODEL = re.compile(r"claude-(?:(\d)-(\d)-)?([a-z]+)(?:-(\d{1,2})(?:-(\d{1,2}))?)?(?:-\d{8})?", re.ASCII)
_KINDS = {
    "prompt": "Prompts",
    "answer": "Answers",
    "thinking": "Thinking",
    "call": "Calls",
    "result": "Results",
}
_LEVELS = ("Turns", "Calls", "Edits", "Everything")


# ---- style and script ------------------------------------------------------------------------------------


@functools.cache
def _built(name: str) -> str:
    return (_FRAME / name).read_text("utf-8")


def policy(sheet: str) -> str:
    """The content policy of a page with this style."""
    return (
        f"default-src 'none'; script-src '{_hash(_built('page.js'))}'; style-src '{_hash(sheet)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


# ---- around the content ----------------------------------------------------------------------------------


def head(title: str, *, charts: bool = False, prompts: bool = True, kinds: bool = True) -> str:
    """Everything before the content. ``prompts`` says whether there will be a sidebar."""
    sheet = _built("index.css" if charts else "page.css")
    body = "<body>" if prompts else '<body class="alone">'
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(sheet)}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="generator" content="{GENERATOR}">\n'
        # A title holds no elements, so no characters are marked up there.
        f"<title>{_one_line(title)}</title>\n<style>{sheet}</style>\n<script>{_built('page.js')}</script>\n</head>\n"
        f"{body}\n{_controls(prompts=prompts, kinds=kinds)}<main>\n"
    )


def _controls(*, prompts: bool, kinds: bool) -> str:
    menu = '<button id="menu" aria-expanded="false">Prompts</button>' if prompts else ""
    toggles = "".join(
        f'<button data-kind="{kind}" aria-pressed="true">{name}</button>' for kind, name in _KINDS.items()
    )
    levels = "".join(f'<option value="{number}">{name}</option>' for number, name in enumerate(_LEVELS))
    shown = (
        f'<span class="kinds" role="group" aria-label="Show">{toggles}</span>'
        f'<select id="fold" aria-label="Unfold">{levels}</select>'
    )
    return (
        f'<header class="top" hidden>{menu}<input id="q" type="search" aria-label="Search this page" '
        'placeholder="Search this page"><span class="n" id="n" role="status"></span>'
        '<button id="back" aria-label="Previous match">↑</button><button id="next" aria-label="Next match">↓</button>'
        f'{shown if kinds else ""}<button id="theme">Theme</button></header>\n'
    )


def foot(note: str, prompts: Iterable[tuple[str, str]] | None = None) -> str:
    """Everything after the content. ``prompts`` are (anchor, words) for the sidebar."""
    side = ""
    if prompts is not None:
        links = "".join(
            f'<li><a href="#{anchor}">{text_html(words) or "(no text)"}</a></li>\n'
            for anchor, words in prompts
        )
        side = f'<nav id="side" aria-label="Prompts"><ol>{links}</ol></nav>\n'
    return f"</main>\n{side}<footer>{text_html(note)}</footer>\n</body>\n</html>\n"


def _one_line(text: str) -> str:
    from html import escape

    return escape(visible_text(" ".join(text.split()))[:300])


def navigation(links: Iterable[tuple[str, str]], place: str = "before") -> str:
    """Links to other pages, before or after the content: (address, text); without an address, only the text."""
    shown = [
        f'<a href="{address}">{words}</a>' if address else f"<span>{words}</span>" for address, words in links
    ]
    return f'<nav class="pages" aria-label="Pages, {place}">{" ".join(shown)}</nav>\n'


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """A line of (name, value); values are text, and the names are for those who hear the page."""
    lines = [f"<div><dt>{name}</dt><dd>{text_html(value)}</dd></div>" for name, value in rows if value]
    return f'<dl class="facts">{"".join(lines)}</dl>\n'


def short_model(model: str | None) -> str:
    """claude-sonnet-4-5-20250929 is sonnet 4.5."""
    found = _MODEL.fullmatch(model or "")
    if found is None:
        return model or ""
    old_major, old_minor, family, major, minor = found.groups()
    number = ".".join(one for one in (major or old_major, minor or old_minor) if one)
    return f"{family} {number}".strip()


def when(moment: dt.datetime | None) -> str:
    """A time in UTC, as HTML."""
    if moment is None:
        return ""
    at = moment.astimezone(dt.UTC)
    day, clock = at.date().isoformat(), at.time().isoformat("seconds")
    return f'<time datetime="{day}T{clock}Z">{day} {clock[:5]} UTC</time>'


def words_of(text: str, most: int) -> str:
    """The beginning of a text, on one line."""
    start = " ".join(text[: most * 4].split())
    return start if len(start) <= most else start[: most - 1].rstrip() + "…"


def spent(spending: Spending) -> str:
    """Tokens and cost; models without a price are reported as such (law 6)."""
    tokens = spending.tokens
    counts = [
        ("in", tokens.input),
        ("cache read", tokens.cache_read),
        ("cache write", tokens.cache_write_5m + tokens.cache_write_1h),
        ("out", tokens.output),
    ]
    said = ", ".join(f"{name} {count:,}" for name, count in counts if count)
    return f"{said or 'no'} tokens, {money(spending)}"


def money(spending: Spending) -> str:
    """As the page shows it; models without a price are named."""
    if spending.is_unknown:
        return UNKNOWN_COST
    if not spending.unpriced:
        return fine_dollars(spending.pico_usd)
    missing = f"without {', '.join(sorted(spending.unpriced))}, which has no price"
    return (
        f"{fine_dollars(spending.pico_usd)} {missing}" if spending.pico_usd else f"cost not known, {missing}"
    )
