"""Read a conversation in the terminal: scroll, search inside it, jump between prompts.

Messages are read from the log, and laid out, when they come on screen: a session of any size opens at
once. A place is a message and a row of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from recollect.cli.terminal import conversation_view, output
from recollect.cli.terminal.layout import fitted, plain
from recollect.cli.terminal.screen import Screen, edited
from recollect.cli.terminal.text import shortened, visible

if TYPE_CHECKING:
    from recollect.model.conversation.conversation import Message

_KEYS = "↑↓ space b scroll  / search  n N next  [ ] prompts  g G ends  q leave"
_VIEW = conversation_view.DisplayOptions(markdown=False)
_MARK, _OFF = "\x1b[7m", "\x1b[27m"


class Place(NamedTuple):
    """A row of a message."""

    message: int
    row: int


class ConversationRows:
    """The rows of a conversation for a width, made when they are asked for."""

    def __init__(self, messages: Sequence[Message], columns: int) -> None:
        self.messages, self.columns = messages, columns
        self._rows: dict[int, list[str]] = {}

    def rows(self, message: int) -> list[str]:
        if message not in self._rows:
            lines = conversation_view.lines(self.messages[message], _VIEW)
            self._rows[message] = [row for line in lines for row in fitted(line, self.columns, is_text=True)]
        return self._rows[message]

    def moved(self, place: Place, by: int) -> Place:
        """The place this many rows further, or back; it stops at the ends."""
        message, row = place.message, place.row + by
        while row < 0 and message > 0:
            message -= 1
            row += len(self.rows(message))
        while message < len(self.messages) - 1 and row >= len(self.rows(message)):
            row -= len(self.rows(message))
            message += 1
        last = len(self.rows(message)) - 1 if self.messages else 0
        return Place(message, max(0, min(row, last)))

    def page(self, place: Place, count: int) -> list[tuple[int, str]]:
        """The rows from a place on, each with its message."""
        found: list[tuple[int, str]] = []
        message, row = place
        while message < len(self.messages) and len(found) < count:
            found += [(message, text) for text in self.rows(message)[row:]]
            message, row = message + 1, 0
        return found[:count]

    @property
    def end(self) -> Place:
        last = max(len(self.messages) - 1, 0)
        return Place(last, max(len(self.rows(last)) - 1, 0) if self.messages else 0)

    def prompt(self, start: int, by: int) -> int | None:
        """The next message that the user typed, in either direction."""
        numbers = range(start + by, len(self.messages) if by > 0 else -1, by)
        return next((number for number in numbers if _is_prompt(self.messages[number])), None)

    def matches(self, word: str, start: Place, by: int) -> Iterator[Place | None]:
        """The next row with a text, in either direction; None after each message without one, so that a key can stop it."""
        wanted, (message, row) = word.casefold(), start
        while 0 <= message < len(self.messages):
            rows = self.rows(message)
            places = range(row + 1, len(rows)) if by > 0 else range(min(row, len(rows)) - 1, -1, -1)
            for at in places:
                if wanted in plain(rows[at]).casefold():
                    yield Place(message, at)
                    return
            message += by
            row = -1 if by > 0 else 1 << 30
            yield None


def _is_prompt(message: Message) -> bool:
    return (
        message.role == "user"
        and not message.is_meta
        and not message.is_summary
        and not conversation_view.only_results(message)
    )


class Reader:
    """A conversation on a screen."""

    def __init__(self, screen: Screen, title: str, messages: Sequence[Message]) -> None:
        self._screen, self._title = screen, title
        self._text = ConversationRows(messages, screen.size[0])
        self._word = ""
        self._typing: str | None = None
        self._said = ""
        self.top = self._last_page()

    def _last_page(self) -> Place:
        return self._text.moved(self._text.end, -(self._height - 1))

    @property
    def _height(self) -> int:
        return self._screen.size[1] - 2

    def read(self) -> None:
        """Runs until the user leaves."""
        while True:
            if not self._screen.is_key_waiting():
                self.paint()
            key = self._screen.key()
            if key is None:
                continue
            if self._typing is not None:
                self._type(key)
            elif key in ("q", "esc", "ctrl-c", "ctrl-d"):
                return
            else:
                self._take(key)

    def _type(self, key: str) -> None:
        typed = self._typing or ""
        if key == "enter":
            self._typing, self._word = None, typed or self._word
            self._find(1)
        elif key in ("esc", "ctrl-c") or (key == "backspace" and not typed):
            self._typing = None
        else:
            self._typing = edited(typed, key)

    def _take(self, key: str) -> None:
        self._said = ""
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "enter": 1}
        pages = {" ": 1, "page-down": 1, "f": 1, "b": -1, "page-up": -1}
        if key == Screen.RESIZED:
            self._screen.forget()
            self._text = ConversationRows(self._text.messages, self._screen.size[0])
            self.top = Place(self.top.message, 0)
        elif key in steps:
            self._scroll(steps[key])
        elif key in pages:
            self._scroll(pages[key] * max(self._height - 1, 1))
        elif key in ("g", "home"):
            self.top = Place(0, 0)
        elif key in ("G", "end"):
            self.top = self._last_page()
        elif key in ("[", "]", "tab", "shift-tab"):
            self._jump(1 if key in ("]", "tab") else -1)
        elif key == "/":
            self._typing = ""
        elif key in ("n", "N"):
            self._find(1 if key == "n" else -1)

    def _scroll(self, by: int) -> None:
        self.top = self._text.moved(self.top, by)

    def _jump(self, by: int) -> None:
        start = self.top.message
        if by < 0 and self.top.row > 0:
            start += 1  # first back to the start of the prompt on top
        found = self._text.prompt(start, by)
        if found is None:
            self._said = "no more prompts"
        else:
            self.top = Place(found, 0)

    def _find(self, by: int) -> None:
        if not self._word:
            return
        for found in self._text.matches(self._word, self.top, by):
            if found is not None:
                self.top = found
                return
            if self._screen.is_key_waiting():
                self._said = "search stopped"
                return
        self._said = f"not found: {visible(self._word)}"

    def paint(self) -> None:
        columns, height = self._screen.size
        page = self._text.page(self.top, self._height)
        rows = [output.styled(shortened(self._head(page), columns), "bold")]
        rows += [_marked(text, self._word) for _, text in page]
        rows += [""] * (height - 1 - len(rows))
        if self._typing is not None:
            foot = f"/{visible(self._typing)}"
            rows.append(shortened(foot, columns - 1))
            self._screen.paint(rows, (height - 1, min(len(foot), columns - 1)))
            return
        rows.append(output.styled(shortened(self._said or _KEYS, columns - 1), "dim"))
        self._screen.paint(rows)

    def _head(self, page: Sequence[tuple[int, str]]) -> str:
        last = page[-1][0] + 1 if page else 0
        return f"{last:,}/{len(self._text.messages):,}  {self._title}"


def _marked(row: str, word: str) -> str:
    """A row with the searched text in reverse; rows with colours inside the text stay as they are."""
    at = row.casefold().find(word.casefold()) if word else -1
    if at < 0 or len(row) != len(row.casefold()):
        return row
    return row[:at] + _MARK + row[at : at + len(word)] + _OFF + row[at + len(word) :]
