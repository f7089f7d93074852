"""Private keys over many lines, recognised in any printed form.

From BEGIN to END, with any line prefixes that tools add; as far as the lines go if the end is missing. The
secret is only the letters of the key, so a key in a file, in a patch and in JSON has one fingerprint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from recollect.model.secrets.found import MatchRank, SecretMatch
from recollect.model.secrets.plausible import is_invented
from recollect.model.secrets.views import joined

PRIVATE_KEY = "private-key"
PUTTY_KEY = "putty-private-key"
_LONGEST_KEY = 20_000
_BEGIN = re.compile(r"-----BEGIN (?:[0-9A-Z]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END (?:[0-9A-Z]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_PUTTY = re.compile(r"PuTTY-User-Key-File-[23]: [\s\S]{40,8000}?\bPrivate-MAC: [0-9a-f]{40,64}")
_KEY_LINE = re.compile(r"[0-9A-Za-z+/=]{16,}\s*|[A-Z][\w-]{2,20}: [^\n]{0,100}|\s*")


def private_keys(text: str) -> Iterator[SecretMatch]:
    if "PRIVATE KEY" in text:
        begins = list(_BEGIN.finditer(text))
        nexts = [*(one.start() for one in begins[1:]), len(text)]
        for begin, following in zip(begins, nexts, strict=False):
            limit = min(following, begin.end() + _LONGEST_KEY)
            end = _END.search(text, begin.end(), limit)
            last = _last_line(text, begin.end(), limit) if end is None else end.end()
            inside = text[begin.end() : last if end is None else end.start()]
            letters = _key_letters(inside)
            # With escapes in it, it is left to the unescaped view: its letters would be wrong here.
            if len(letters) >= 40 and "\\n" not in inside and not is_invented(letters):
                yield SecretMatch(PRIVATE_KEY, begin.start(), last, letters, MatchRank.KEY_FILE)
    if "PuTTY-User-Key-File" in text:
        for match in _PUTTY.finditer(text):
            yield SecretMatch(PUTTY_KEY, *match.span(), _key_letters(match.group()), MatchRank.KEY_FILE)


def _last_line(text: str, start: int, limit: int) -> int:
    last = start
    view = joined(text[start:limit], is_marked=True)
    if view is None:
        return last
    for line in view.lines():
        piece = view.text[line.start : line.end]
        if _KEY_LINE.fullmatch(piece) is None:
            break
        if piece.strip():
            last = start + view.source(line).end
    return last


def _key_letters(inside: str) -> str:
    """The base64 of a key without margins and headers."""
    view = joined(inside, is_marked=True)
    if view is None:
        return re.sub(r"[^0-9A-Za-z+/=]", "", inside)
    lines = (view.text[line.start : line.end] for line in view.lines())
    return "".join(line for line in lines if re.fullmatch(r"[0-9A-Za-z+/=]+", line))
