"""A home with a past in two projects, and the tools of a server that was started in one of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from recollect.ask.conversation.content import IndexKeeper
from recollect.share.mcp.tools import OwnSessions, RecallTools
from tests.small_home import prompt, put, reply, said

CART, LOGIN, DOCS, ASKING = (f"3f2a9c1e-0000-4000-8000-{number:012d}" for number in range(1, 5))
SHOP, HANDBOOK = "/srv/shop", "/srv/handbook"
_OPEN = re.compile(r"<<< quoted ([0-9a-f]{16})\n")


def talk(start: int, *turns: tuple[str, str]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for number, (asked, answered) in enumerate(turns):
        place = start + 2 * number
        entries += [
            prompt(place, place - 1 if number else None, asked),
            reply(place + 1, place, said(answered)),
        ]
    return entries


def past(home: Path) -> None:
    rounding = ("the cart shows 10.99999", "Prices were floats; rounding is exact with Decimal.")
    put(home, CART, talk(100, ("hello there", "hi"), rounding, ("thanks", "welcome")), cwd=SHOP)
    put(home, LOGIN, talk(200, ("logged out at midnight", "The token was refreshed too late.")), cwd=SHOP)
    put(home, DOCS, talk(300, ("describe the cart and its rounding", "Described.")), cwd=HANDBOOK)
    put(home, ASKING, talk(400, ("how did we do the rounding of the cart?", "Let me look.")), cwd=SHOP)


def tools(
    home: Path,
    directory: str = SHOP,
    *,
    user_home: str = "/home/me",
    own: str | None = ASKING,
    is_built: bool = True,
) -> RecallTools:
    """With an index that is complete, unless there is to be none yet: every refresh is waited for."""
    data = home.parent / "data"
    index = IndexKeeper([home], data / "cache")
    if is_built:
        _refreshed(index)
    return RecallTools(
        index,
        data=data,
        directory=Path(directory),
        user_home=Path(user_home),
        own=OwnSessions(own, [home], 0),
    )


def refreshed(made: RecallTools) -> None:
    """Bring the index up to date, whatever was read lately."""
    _refreshed(made._index)


def _refreshed(index: IndexKeeper) -> None:
    """Up to date, and no refresh starts by itself: an answer would say that one runs."""
    index.hurry()
    index.refresh()
    index.wait(120)
    index._rests_until = float("inf")


def recalled(made: RecallTools, question: str, **arguments: Any) -> str:
    text, is_error = made.recall({"question": question, **arguments})
    assert not is_error, text
    assert len(text.encode()) <= 8_000
    return text


def read(made: RecallTools, handle: str, **arguments: Any) -> str:
    text, is_error = made.read({"handle": handle, **arguments})
    assert not is_error, text
    assert len(text.encode()) <= 12_000
    return text


def handles(text: str) -> list[str]:
    return re.findall(r"handle ([A-Za-z0-9_-]{20,})", outside(text))


def outside(text: str) -> str:
    """An answer without what stands in its fences; every fence must be closed by its own mark, once."""
    kept, place = [], 0
    while found := _OPEN.search(text, place):
        kept.append(text[place : found.start()])
        close = f"\n{found[1]} end >>>"
        end = text.index(close, found.end())
        assert found[1] not in text[found.end() : end]
        place = end + len(close)
    return "".join([*kept, text[place:]])


def inside(text: str) -> str:
    """What stands in the fences of an answer."""
    outer = outside(text)
    parts, place = [], 0
    while found := _OPEN.search(text, place):
        end = text.index(f"\n{found[1]} end >>>", found.end())
        parts.append(text[found.end() : end])
        place = end
    assert len(outer) < len(text) or not parts
    return "\n".join(parts)
