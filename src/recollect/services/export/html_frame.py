"""The frame of an exported page: head, style, policy, foot. No script, nothing external.

A page is one file. Its policy lets a browser load only the style and the pictures inside it, so even a
mistake in the content could not fetch or run anything.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from recollect.model.cost.money import Spending, dollars
from recollect.model.markdown_html import text_html, visible_text

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
GENERATOR = "recollect"

_STYLE = """
:root{color-scheme:light dark;--text:#1c1e21;--page:#fbfbfa;--soft:#63686f;--line:#d9dcdf;--box:#f1f2f3;--you:#0a5c36;
--model:#174ea6;--bad:#b3261e;--add:#e0f3e5;--cut:#fbe4e2}
@media(prefers-color-scheme:dark){:root{--text:#e3e5e8;--page:#17191c;--soft:#9ba1a8;--line:#353a40;--box:#212429;--you:#7fd6a8;
--model:#9cc1ff;--bad:#ff9d94;--add:#173a24;--cut:#45201e}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:60rem;padding:1rem;font:16px/1.5 system-ui,sans-serif;color:var(--text);background:var(--page);
overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0}h2{font-size:1.15rem}h3,h4,h5,h6{font-size:1rem;margin:1rem 0 .5rem}
a{color:var(--model)}
.facts,.about,.note,nav,footer,.target,.language{color:var(--soft);font-size:.85rem}
nav{display:flex;gap:1rem;flex-wrap:wrap;padding:.5rem 0}
article{border-top:1px solid var(--line);padding:.6rem 0;content-visibility:auto;contain-intrinsic-size:auto 12rem}
article:target{outline:2px solid var(--model);outline-offset:4px}
.about{display:flex;gap:0 .8rem;flex-wrap:wrap;align-items:baseline}.about b{font-size:.95rem;color:var(--text)}
.prompt>.about b{color:var(--you)}.answer>.about b{color:var(--model)}
.prompt p,.summary p{white-space:pre-wrap}
pre{white-space:pre-wrap;background:var(--box);border-radius:6px;padding:.6rem .8rem;margin:.4rem 0;overflow:auto;
max-height:40rem;font:13px/1.45 ui-monospace,monospace}
code{background:var(--box);border-radius:4px;padding:0 .25em;font:.9em ui-monospace,monospace}
details{margin:.4rem 0}summary{cursor:pointer;color:var(--soft)}summary b{color:var(--text)}
.error>summary b,.denied>summary b,.interrupted>summary b,.missing>summary b,.bad{color:var(--bad)}
.call,.agent{border-left:3px solid var(--line);padding-left:.7rem}.call.error{border-color:var(--bad)}
.diff div{white-space:pre-wrap}.add{background:var(--add)}.cut{background:var(--cut)}.at{color:var(--soft)}
img{max-width:100%;height:auto;border:1px solid var(--line);border-radius:6px}
table{border-collapse:collapse;margin:.5rem 0}td,th{border:1px solid var(--line);padding:.25rem .6rem;text-align:left;
vertical-align:top}
blockquote{margin:.5rem 0;padding-left:.8rem;border-left:3px solid var(--line);color:var(--soft)}
.boundary{text-align:center;color:var(--soft);font-size:.85rem}.x{color:var(--soft);font-style:normal;font-size:.85em}
.number{text-align:right;white-space:nowrap}
"""


def head(title: str) -> str:
    """Everything before the content."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="generator" content="{GENERATOR}">\n'
        # A title holds no elements, so no characters are marked up there.
        f"<title>{_one_line(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
    )


def foot(note: str) -> str:
    """Everything after the content."""
    return f"<footer>{text_html(note)}</footer>\n</body>\n</html>\n"


def _one_line(text: str) -> str:
    from html import escape

    return escape(visible_text(" ".join(text.split()))[:300])


def navigation(links: Iterable[tuple[str, str]]) -> str:
    """Links to other pages: (address, text); without an address, only the text."""
    shown = [
        f'<a href="{address}">{words}</a>' if address else f"<span>{words}</span>" for address, words in links
    ]
    return f"<nav>{''.join(shown)}</nav>\n"


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """A small table of (name, value); values are text."""
    lines = [f"<tr><th>{name}</th><td>{text_html(value)}</td></tr>" for name, value in rows if value]
    return f'<table class="facts">{"".join(lines)}</table>\n'


def when(moment: dt.datetime | None) -> str:
    """A time in UTC, as HTML."""
    if moment is None:
        return ""
    at = moment.astimezone(dt.UTC)
    return f'<time datetime="{at:%Y-%m-%dT%H:%M:%SZ}">{at:%Y-%m-%d %H:%M:%S} UTC</time>'


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
    """Dollars and cents; models without a price are named."""
    if not spending.unpriced:
        return dollars(spending.pico_usd)
    missing = f"without {', '.join(sorted(spending.unpriced))}, which has no price"
    return f"{dollars(spending.pico_usd)} {missing}" if spending.pico_usd else f"cost not known, {missing}"
