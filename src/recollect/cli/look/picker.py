"""Pick a session in the terminal: type to filter, arrows to move, a preview of its last messages.

The first paint shows the newest sessions that the index knows, before anything else is read. All
sessions, and then what changed since, come from a thread. Every word of the filter must occur in the
title, the first prompt, the directory, the branch or the id.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from recollect.cli.terminal import output
from recollect.cli.terminal.layout import fitted, plain
from recollect.cli.terminal.screen import Screen, edited
from recollect.cli.terminal.session_rows import session_rows
from recollect.cli.terminal.text import padded, shortened, visible, width
from recollect.errors import RecollectError
from recollect.services.indexing.access import OpenIndex, index_path, is_built, open_index
from recollect.services.indexing.at_hand import index_at_hand
from recollect.services.list import ListedSession, ListQuery, listed

if TYPE_CHECKING:
    from recollect.system.locations import HomeRoot

_REVERSE, _OFF = "\x1b[7m", "\x1b[0m"
_LEAST_ROWS_FOR_PREVIEW = 14
_PREVIEW_ENTRIES, _PREVIEW_LINES = 40, 3
# The preview is read when no key came for so long.
_IDLE_SECONDS = 0.05
_MOVES = {"up": -1, "ctrl-p": -1, "down": 1, "ctrl-n": 1}


class PickerSources(NamedTuple):
    """Where the sessions come from."""

    roots: Sequence[HomeRoot]
    cache: Path
    data: Path


class SessionChoice:
    """Which sessions fit the filter, and which one is selected. Knows nothing of a terminal."""

    def __init__(self) -> None:
        self.query = ""
        self.place = 0
        self.sessions: list[ListedSession] = []
        self._texts: list[str] = []
        self.fitting: list[int] = []

    def replace(self, sessions: list[ListedSession]) -> None:
        """Other sessions; the selected one stays selected if it is among them."""
        chosen = self.chosen
        self.sessions, self._texts = sessions, [_searched(one) for one in sessions]
        self._filter(range(len(sessions)))
        if chosen is not None and (self.place or self.query):
            at = [place for place, number in enumerate(self.fitting) if sessions[number].path == chosen.path]
            self.place = at[0] if at else min(self.place, max(len(self.fitting) - 1, 0))

    def search(self, query: str) -> None:
        narrowed = query.startswith(self.query)
        self.query, self.place = query, 0
        self._filter(self.fitting if narrowed else range(len(self.sessions)))

    def _filter(self, numbers: Sequence[int]) -> None:
        texts = self._texts
        for word in self.query.casefold().split():
            numbers = [number for number in numbers if word in texts[number]]
        self.fitting = list(numbers)

    def move(self, by: int) -> None:
        self.place = max(0, min(self.place + by, len(self.fitting) - 1))

    @property
    def chosen(self) -> ListedSession | None:
        return self.sessions[self.fitting[self.place]] if self.fitting else None

    def window(self, rows: int) -> tuple[list[ListedSession], int]:
        """The sessions on screen, and the place of the selected one among them."""
        start = max(0, min(self.place - rows // 2, len(self.fitting) - rows))
        return [self.sessions[number] for number in self.fitting[start : start + rows]], self.place - start


def _searched(one: ListedSession) -> str:
    parts = (one.title, one.first_prompt or "", one.cwd, one.branch or "", one.tag or "", one.id)
    return "\n".join(parts).casefold()


class Picker:
    """The picker on a screen. ``on_copy`` gives the command line that ctrl-y copies."""

    def __init__(
        self, screen: Screen, sources: PickerSources, verb: str, on_copy: Callable[[ListedSession], str]
    ) -> None:
        self._screen, self._sources, self._verb, self._on_copy = screen, sources, verb, on_copy
        self.choice = SessionChoice()
        self._news: list[list[ListedSession]] = []
        self._previews: dict[str, list[str]] = {}
        self._said = ""
        self._is_loading = True

    def load_first(self) -> None:
        """What the index knows of the newest sessions; the rest comes from a thread."""
        homes = [root.path for root in self._sources.roots if root.exists]
        cache = self._sources.cache
        is_known = is_built(index_path(homes, cache))
        opener = (
            open_index(homes, cache=cache, is_refreshed=False)
            if is_known
            else index_at_hand(homes, cache=cache)
        )
        with opener as opened:
            self.choice.replace(self._listed(opened, limit=self._screen.size[1]))
        self.paint()
        threading.Thread(target=self._load_all, daemon=True).start()

    def _listed(self, opened: OpenIndex, limit: int | None = None) -> list[ListedSession]:
        query = ListQuery(limit=limit, with_counts=False, with_usage=False)
        return listed(self._sources.roots, opened, query, data=self._sources.data).sessions

    def _load_all(self) -> None:
        homes = [root.path for root in self._sources.roots if root.exists]
        for is_refreshed in (False, True):
            try:
                with open_index(homes, cache=self._sources.cache, is_refreshed=is_refreshed) as opened:
                    self._news.append(self._listed(opened))
            except (RecollectError, OSError):
                pass  # what is shown stays; the command that reads it next says what is wrong
            self._is_loading = not is_refreshed
            self._screen.wake()

    def picked(self) -> ListedSession | None:
        """Runs until a session is chosen or the user leaves."""
        while True:
            key = self._screen.key(_IDLE_SECONDS if self._wants_preview() else None)
            if key is None:
                self._load_preview()
            elif key in ("esc", "ctrl-c", "ctrl-g", "ctrl-d"):
                return None
            elif key == "enter":
                if self.choice.chosen is not None:
                    return self.choice.chosen
            else:
                self._take(key)
            if not self._screen.is_key_waiting():
                self.paint()

    def _take(self, key: str) -> None:
        is_pressed = key not in (Screen.RESIZED, Screen.WOKEN)
        if is_pressed:
            self._said = ""  # what was said stays until it could be read
        page = max(self._list_rows() - 1, 1)
        if not is_pressed:
            if key == Screen.RESIZED:
                self._screen.forget()
            while self._news:
                self.choice.replace(self._news.pop(0))
        elif key == "ctrl-y":
            self._copy()
        elif key in _MOVES:
            self.choice.move(_MOVES[key])
        elif key in ("page-up", "page-down"):
            self.choice.move(-page if key == "page-up" else page)
        elif key in ("home", "end"):
            self.choice.move(-len(self.choice.fitting) if key == "home" else len(self.choice.fitting))
        else:
            query = edited(self.choice.query, key)
            if query != self.choice.query:
                self.choice.search(query)

    def _copy(self) -> None:
        if self.choice.chosen is None:
            return
        try:
            line = self._on_copy(self.choice.chosen)
        except RecollectError as problem:
            self._said = visible(problem.message)
            return
        self._screen.copy(line)
        self._said = f"copied: {visible(line)}"

    # --- what is shown ------------------------------------------------------------------------------

    def _list_rows(self) -> int:
        rows = self._screen.size[1] - 2
        return rows if self._screen.size[1] < _LEAST_ROWS_FOR_PREVIEW else max(rows // 2, 5)

    def paint(self) -> None:
        columns, height = self._screen.size
        count = self._list_rows()
        sessions, at = self.choice.window(count)
        rows = [self._head(columns)]
        for place, row in enumerate(session_rows(sessions, dt.datetime.now(dt.UTC), indent="  ")):
            rows.append(_selected(row, columns) if place == at else row)
        if not sessions:
            rows.append("  no session fits" if self.choice.sessions or not self._is_loading else "  reading…")
        rows += [""] * (count + 1 - len(rows))
        if height >= _LEAST_ROWS_FOR_PREVIEW:
            rows += self._preview_rows(columns, height - len(rows) - 1)
        rows += [""] * (height - 1 - len(rows))
        keys = f"enter {self._verb}  ctrl-y copy command  ↑↓ move  esc leave"
        rows.append(output.styled(shortened(self._said or keys, columns - 1), "dim"))
        self._screen.paint(rows[:height], (0, min(2 + width(visible(self.choice.query)), columns - 1)))

    def _head(self, columns: int) -> str:
        more = "+" if self._is_loading else ""
        count = f"{len(self.choice.fitting):,}/{len(self.choice.sessions):,}{more}"
        query = shortened(visible(self.choice.query), columns - len(count) - 4)
        return f"{output.styled('>', 'cyan')} {padded(query, columns - len(count) - 3)} {output.styled(count, 'dim')}"

    # --- the preview --------------------------------------------------------------------------------

    def _wants_preview(self) -> bool:
        chosen = self.choice.chosen
        has_room = self._screen.size[1] >= _LEAST_ROWS_FOR_PREVIEW
        return has_room and chosen is not None and chosen.path not in self._previews

    def _load_preview(self) -> None:
        chosen = self.choice.chosen
        if chosen is not None:
            self._previews[chosen.path] = last_messages(Path(chosen.path))

    def _preview_rows(self, columns: int, room: int) -> list[str]:
        chosen = self.choice.chosen
        if chosen is None:
            return []
        place = "  ".join(part for part in (visible(chosen.cwd), visible(chosen.branch or "")) if part)
        title = f"── {shortened(place or visible(chosen.id), columns - 4)} "
        rows = [output.styled(title + "─" * (columns - width(title)), "dim")]
        said = self._previews.get(chosen.path, [])
        body = [row for line in said for row in fitted(line, columns)]
        return [*rows, *body[-(room - 1) :]]


def _selected(row: str, columns: int) -> str:
    return f"{_REVERSE}{padded(plain(row), columns)}{_OFF}"


def last_messages(log: Path) -> list[str]:
    """What was said last, from the end of the log: a few lines of each message, safe to show."""
    from recollect.model.blocks import TextBlock
    from recollect.model.conversation.conversation import model_name
    from recollect.model.entry import Assistant, Entry, User
    from recollect.storage.logs.reader import LogReader

    try:
        items = LogReader(log).page_backward(None, _PREVIEW_ENTRIES).items
    except (RecollectError, OSError) as problem:
        return [visible(str(problem))]
    lines: list[str] = []
    for item in items:
        body = item.body if isinstance(item, Entry) else None
        if not isinstance(body, User | Assistant) or body.is_sidechain or getattr(body, "is_meta", False):
            continue
        text = "\n".join(block.text for block in body.message.blocks if isinstance(block, TextBlock)).strip()
        if text:
            if isinstance(body, User):
                who = output.styled("You", "green")
            else:
                who = output.styled(model_name(body.message.model), "cyan")
            first, *more = (visible(line) for line in text.split("\n")[:_PREVIEW_LINES])
            lines += [f"{who}: {first}", *(f"  {line}" for line in more if line.strip())]
    return lines
