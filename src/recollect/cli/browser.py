"""The browser of sessions in the terminal: filter as one types, look, read, continue. Behind ``open`` and ``resume``.

The newest sessions that the index knows are shown at once; what changed since comes from a thread. Every word of the
filter must occur in title, first prompt, directory, branch, tag or id; sessions in whose text the words stand come below.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from msgspec import Struct
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from recollect.ask.library import Home
from recollect.ask.resume import resumption
from recollect.ask.sessions.messages import whole_story
from recollect.ask.sessions.session import Session
from recollect.cli.terminal import conversation_view, output
from recollect.cli.terminal.output import fitted, plain
from recollect.cli.terminal.rows import session_rows
from recollect.cli.terminal.text import visible
from recollect.errors import RecollectError
from recollect.model.conversation.conversation import Message, model_name
from recollect.model.lines.blocks import TextBlock
from recollect.model.lines.entry import Assistant, Entry, User
from recollect.model.lines.ids import short_id
from recollect.model.session import SessionSummary
from recollect.model.text import timespan
from recollect.store.logs.reader import LogReader

_MOST_ROWS = 500  # of a list; the filter reaches the rest
_PREVIEW_ENTRIES, _PREVIEW_LINES = 40, 3
_SHORTEST_WORD = 3  # letters that are looked for in texts, too
_PAUSE_SECONDS = 0.25
_PERIODS = re.compile(r"today|yesterday|(this|last)-(week|month|year)|\d+[dwm]")


def name_of(listed: SessionSummary) -> str:
    """A name that leads to this session only; what only the archive has is known by its id."""
    return listed.id if listed.is_archive_only else listed.path


class SessionFilter(Struct, frozen=True):
    """What is typed above the list: words, ``agent:codex``, ``in:shop`` and periods such as ``last-week`` or ``7d``."""

    words: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    since: dt.datetime | None = None
    until: dt.datetime | None = None

    @classmethod
    def parse(cls, text: str, now: dt.datetime) -> SessionFilter:
        words: list[str] = []
        agents: list[str] = []
        places: list[str] = []
        since = until = None
        for word in text.casefold().split():
            name, colon, value = word.partition(":")
            if colon and name in ("agent", "in"):
                (agents if name == "agent" else places).append(value)
            elif _PERIODS.fullmatch(word):
                period = word.replace("-", " ")
                since, until = timespan.bounds(period, None if word[0].isdigit() else period, now)
            else:
                words.append(word)
        return cls(tuple(words), tuple(agents), tuple(places), since, until)

    def frames(self, listed: SessionSummary) -> bool:
        """Whether agent, place and time fit, whatever the words are."""
        at = listed.shown_at
        return (
            all((listed.agent or "").startswith(agent) for agent in self.agents)
            and all(place in (listed.cwd or "").casefold() for place in self.places)
            and (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
        )

    def names(self, listed: SessionSummary) -> bool:
        """Whether every word occurs in what names the session."""
        parts = (
            listed.title, listed.first_prompt or "", listed.cwd or "", listed.branch or "", listed.tag or "", listed.id,
        )  # fmt: skip
        text = "\n".join(parts).casefold()
        return all(word in text for word in self.words)


class SessionBrowser(App[str]):
    """Ends with the name of the session to continue, or with nothing."""

    CSS = """
    Input { border: none; height: 1; padding: 0; background: $background; }
    #count { height: 1; color: $text-muted; }
    OptionList { border: none; padding: 0; height: 1fr; background: $background; }
    #place { height: 1; color: $text-muted; }
    #preview { height: 40%; }
    .is-low #preview, .is-low #place { display: none; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "read", priority=True),
        Binding("ctrl+r", "resume", "resume", priority=True),
        Binding("ctrl+y", "copy", "copy command", priority=True),
        Binding("escape,ctrl+c,ctrl+d", "quit", "leave", priority=True, key_display="esc"),
        Binding("up,ctrl+p", "move('up')", show=False, priority=True),
        Binding("down,ctrl+n", "move('down')", show=False, priority=True),
        Binding("pageup", "move('page_up')", show=False, priority=True),
        Binding("pagedown", "move('page_down')", show=False, priority=True),
    ]

    def __init__(self, home: Home, is_reader: bool, first: Session | None = None) -> None:
        super().__init__(ansi_color=True)
        self._home, self._is_reader, self._first = home, is_reader, first
        self._sessions: list[SessionSummary] = []
        self._fitting: list[SessionSummary] = []
        self._filter = SessionFilter()
        self._in_text: set[str] = set()  # paths of sessions in whose text the words stand
        self._is_loading = True
        self._field = Input(placeholder="words, agent:codex, in:shop, last-week", compact=True)
        self._count, self._rows = Static(id="count"), OptionList(markup=False, compact=True)
        self._place, self._last_said = Static(id="place", markup=False), Static(id="preview", markup=False)

    def compose(self) -> ComposeResult:
        yield from (self._field, self._count, self._rows, self._place, self._last_said, Footer())

    def on_mount(self) -> None:
        self._field.focus()
        self._load()
        if self._first is not None:
            self.push_screen(Reader(self._first))

    def on_resize(self) -> None:
        self.screen.set_class(self.size.height < 16, "is-low")
        self._show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of the list mean other things while a conversation is read."""
        return isinstance(self.screen, Reader) is False or action not in ("choose", "move", "copy", "quit")

    @work(thread=True)
    def _load(self) -> None:
        for sessions in self._listings():
            self.call_from_thread(self._take, sessions)

    def _listings(self) -> Iterator[list[SessionSummary]]:
        """What is known at once, and what is there now. What cannot be read now is said by the command that reads it."""
        try:
            yield self._home.listed()
        except (RecollectError, OSError) as problem:
            self.call_from_thread(self.notify, visible(str(problem)), severity="error")

    def _take(self, sessions: list[SessionSummary]) -> None:
        self._sessions, self._is_loading = sessions, False
        self._show()

    # --- the list ---------------------------------------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        self._filter, self._in_text = SessionFilter.parse(event.value, dt.datetime.now(dt.UTC)), set()
        self._show(top=True)
        self._search()

    @work(thread=True, exclusive=True)
    def _search(self) -> None:
        """Find sessions by their texts, once nothing was typed for a moment."""
        worker, words = (
            get_current_worker(),
            [word for word in self._filter.words if len(word) >= _SHORTEST_WORD],
        )
        if not words:
            return
        time.sleep(_PAUSE_SECONDS)
        if worker.is_cancelled:
            return
        try:
            hits = self._home.search(" ".join(words), sessions=50, limit=1).sessions
        except (RecollectError, OSError):
            return  # names still find
        if not worker.is_cancelled:
            self.call_from_thread(self._add_hits, {hit.session for hit in hits if hit.session})

    def _add_hits(self, ids: set[str]) -> None:
        self._in_text = {listed.path for listed in self._sessions if listed.id in ids}
        self._show()

    def _show(self, *, top: bool = False) -> None:
        rows = self._rows
        chosen = None if top else self._chosen()
        framed = [listed for listed in self._sessions if self._filter.frames(listed)]
        named = [listed for listed in framed if self._filter.names(listed)]
        paths = {listed.path for listed in named}
        self._fitting = named + [one for one in framed if one.path in self._in_text and one.path not in paths]
        shown = self._fitting[:_MOST_ROWS]
        texts = session_rows(shown, dt.datetime.now(dt.UTC))
        rows.clear_options()
        rows.add_options([Option(Text.from_ansi(text, no_wrap=True)) for text in texts])
        same = [place for place, one in enumerate(shown) if chosen is not None and one.path == chosen.path]
        rows.highlighted = (same or [0])[0] if shown else None
        more = "+" if self._is_loading else ""
        text = f"{len(self._fitting):,}/{len(self._sessions):,}{more}"
        if not shown:
            text = "reading…" if self._is_loading else f"{text}  no session fits"
        self._count.update(text)
        self._preview()

    def _chosen(self) -> SessionSummary | None:
        place = self._rows.highlighted
        return None if place is None or place >= len(self._fitting) else self._fitting[place]

    def on_option_list_option_highlighted(self) -> None:
        self._preview()

    def _preview(self) -> None:
        chosen = self._chosen()
        place = (
            "  ".join(filter(None, (visible(chosen.cwd or ""), visible(chosen.branch or ""))))
            if chosen
            else ""
        )
        self._place.update(f"── {place or (visible(chosen.id) if chosen else '')}")
        lines = last_messages(Path(chosen.path)) if chosen else []
        room = self._last_said.size.height or 8
        rows = [row for line in lines for row in fitted(line, max(self.size.width, 20))][-room:]
        self._last_said.update(Text.from_ansi("\n".join(rows)))

    # --- what keys do -------------------------------------------------------------------------------------------

    def action_move(self, where: str) -> None:
        getattr(self._rows, f"action_{'cursor_' if where in ('up', 'down') else ''}{where}")()

    def action_choose(self) -> None:
        chosen = self._chosen()
        if chosen is None:
            return
        if not self._is_reader:
            self.action_resume()
            return
        try:
            self.push_screen(Reader(self._home.session(name_of(chosen))))
        except (RecollectError, OSError) as problem:
            self.notify(visible(str(problem)), severity="error")

    def action_resume(self) -> None:
        chosen = self._chosen()
        if chosen is not None:
            self.exit(name_of(chosen))

    def action_copy(self) -> None:
        """Through the terminal, so that it works over ssh, too."""
        chosen = self._chosen()
        if chosen is None:
            return
        try:
            line = resumption(self._home.session(name_of(chosen))).line
        except RecollectError as problem:
            self.notify(visible(problem.message), severity="error")
            return
        self.copy_to_clipboard(line)
        self.notify(f"copied: {visible(line)}", markup=False)


def last_messages(log: Path) -> list[str]:
    """What was said last, from the end of the log: a few lines of each message, safe to show."""
    try:
        items = LogReader(log).tail(_PREVIEW_ENTRIES)
    except (RecollectError, OSError) as problem:
        return [visible(str(problem))]
    lines: list[str] = []
    for item in items:
        body = item.body if isinstance(item, Entry) else None
        if not isinstance(body, User | Assistant) or body.is_sidechain or getattr(body, "is_meta", False):
            continue
        text = "\n".join(block.text for block in body.message.blocks if isinstance(block, TextBlock)).strip()
        if text:
            who = output.styled("You", "green")
            if isinstance(body, Assistant):
                who = output.styled(model_name(body.message.model), "cyan")
            first, *more = (visible(line) for line in text.split("\n")[:_PREVIEW_LINES])
            lines += [f"{who}: {first}", *(f"  {line}" for line in more if line.strip())]
    return lines


# ---- a conversation ------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A row of a message."""

    message: int
    row: int


class Conversation(Widget, can_focus=True):
    """The rows of a conversation, laid out when they come on screen: a session of any size opens at once."""

    def __init__(self, messages: Sequence[Message]) -> None:
        super().__init__()
        self.messages = messages
        self.word = ""
        self.top = Place(0, 0)
        self._rows: dict[int, list[str]] = {}

    def on_resize(self) -> None:
        self._rows.clear()
        self.go(Place(self.top.message, 0))

    def rows(self, message: int) -> list[str]:
        if message not in self._rows:
            lines = conversation_view.lines(self.messages[message], conversation_view.DisplayOptions())
            self._rows[message] = [
                row for line in lines for row in fitted(line, max(self.size.width, 20), is_text=True)
            ]
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
        return Place(message, max(0, min(row, len(self.rows(message)) - 1)))

    def go(self, place: Place) -> None:
        self.top = place
        self.refresh()

    def scroll_rows(self, by: int) -> None:
        self.go(self.moved(self.top, by))

    def go_to_end(self) -> None:
        last = max(len(self.messages) - 1, 0)
        end = Place(last, len(self.rows(last)) - 1 if self.messages else 0)
        self.go(self.moved(end, 1 - max(self.size.height, 1)))

    def page(self) -> list[tuple[int, str]]:
        """The rows on screen, each with its message."""
        page: list[tuple[int, str]] = []
        message, row = self.top
        while message < len(self.messages) and len(page) < self.size.height:
            page += [(message, text) for text in self.rows(message)[row:]]
            message, row = message + 1, 0
        return page[: self.size.height]

    def render(self) -> Text:
        texts = [Text.from_ansi(row, no_wrap=True) for _, row in self.page()]
        for text in texts if self.word else ():
            text.highlight_regex(re.compile(re.escape(self.word), re.IGNORECASE), "reverse")
        return Text("\n").join(texts)

    def next_prompt(self, by: int) -> Place | None:
        """The next message that the user typed, in either direction."""
        start = self.top.message + (
            by < 0 and self.top.row > 0
        )  # first back to the start of the prompt on top
        numbers = range(start + by, len(self.messages) if by > 0 else -1, by)
        return next((Place(number, 0) for number in numbers if _is_prompt(self.messages[number])), None)

    def next_match(self, by: int) -> Place | None:
        """The next row with the word, in either direction."""
        word, (message, row) = self.word.casefold(), self.top
        while 0 <= message < len(self.messages):
            rows = self.rows(message)
            for at in range(row + 1, len(rows)) if by > 0 else range(min(row, len(rows)) - 1, -1, -1):
                if word in plain(rows[at]).casefold():
                    return Place(message, at)
            message += by
            row = -1 if by > 0 else sys.maxsize
        return None


def _is_prompt(message: Message) -> bool:
    is_own = message.role == "user" and not message.is_meta and not message.is_summary
    return is_own and not conversation_view.only_results(message)


class Reader(Screen[None]):
    """One conversation, from its end."""

    CSS = """
    #head { height: 1; text-style: bold; }
    Conversation { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "type", "search", priority=True),  # what is typed in the same moment is the word
        Binding("n", "find(1)", "next"),
        Binding("N", "find(-1)", "before"),
        Binding("right_square_bracket,tab", "prompt(1)", "next prompt", key_display="]"),
        Binding("left_square_bracket,shift+tab", "prompt(-1)", "before", key_display="["),
        Binding("q,escape", "leave", "leave", key_display="q"),
        Binding("up,k", "rows(-1)", show=False),
        Binding("down,j,enter", "rows(1)", show=False),
        Binding("pageup,b", "pages(-1)", show=False),
        Binding("pagedown,space,f", "pages(1)", show=False),
        Binding("home,g", "end(-1)", show=False),
        Binding("end,G", "end(1)", "end", show=False),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__()
        facts = (visible(session.title) or "(no title)", visible(session.cwd), visible(short_id(session.id)))
        self._title = "  ".join(facts)
        self._text = Conversation(whole_story(session).messages)

    def compose(self) -> ComposeResult:
        yield Static(id="head", markup=False)
        yield self._text
        yield Input(placeholder="search", compact=True)
        yield Footer()

    def on_mount(self) -> None:
        self._type(False)
        self.call_after_refresh(self._do, self._text.go_to_end)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A word to look for may hold a slash."""
        return action != "type" or not self.query_one(Input).display

    def _do(self, action: Callable[[], None]) -> None:
        """Move, and say where that is."""
        action()
        page = self._text.page()
        last = page[-1][0] + 1 if page else 0
        self.query_one("#head", Static).update(f"{last:,}/{len(self._text.messages):,}  {self._title}")

    def action_leave(self) -> None:
        if self.query_one(Input).display:
            self._type(False)
        else:
            self.dismiss()

    def action_type(self) -> None:
        self._type(True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._text.word = event.value or self._text.word
        self._type(False)
        self.action_find(1)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()  # it is no filter of the list below

    def _type(self, is_typing: bool) -> None:
        """At once, so that keys that were typed together reach the same place."""
        field = self.query_one(Input)
        field.display = is_typing
        self.set_focus(field if is_typing else self._text)

    def action_find(self, by: int) -> None:
        if self._text.word:
            self._jump(self._text.next_match(by), f"not found: {visible(self._text.word)}")

    def action_prompt(self, by: int) -> None:
        self._jump(self._text.next_prompt(by), "no more prompts")

    def _jump(self, place: Place | None, otherwise: str) -> None:
        if place is None:
            self.notify(otherwise, markup=False)
        else:
            self._do(lambda: self._text.go(place))

    def action_rows(self, by: int) -> None:
        self._do(lambda: self._text.scroll_rows(by))

    def action_pages(self, by: int) -> None:
        self._do(lambda: self._text.scroll_rows(by * max(self._text.size.height - 1, 1)))

    def action_end(self, which: int) -> None:
        self._do(self._text.go_to_end if which > 0 else lambda: self._text.go(Place(0, 0)))
