"""Messages of a conversation as pages show them: with calls, results and costs, and a map of all of them.

A message is read from the log, sent and not kept. Costs are exact: a response is priced from all its
lines, and its cost is on the message with the last of them. Calls of other agents stand in lines of their own; an answer has the cost
of those that are placed with it (``placed_calls``).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from msgspec import UNSET, UnsetType

from recollect.ask.conversation import documents
from recollect.ask.conversation.content import (
    LONGEST,
    BlockRenderer,
    PageSession,
    PictureAddress,
    signature_of,
)
from recollect.ask.conversation.conversation import (
    KINDS,
    ConversationView,
    ViewMessages,
    agent_in_text,
    agents_by_call,
    talk_of,
)
from recollect.ask.conversation.turns import calls_apart
from recollect.errors import NotFound
from recollect.index.database import IndexDatabase
from recollect.model.conversation.conversation import Message, spoken
from recollect.model.conversation.tool_calls import ToolCall, ToolCallStatus, own_words, tool_calls
from recollect.model.cost.money import SpendingDocument
from recollect.model.files.reports import LineTally, call_changes, call_tally
from recollect.model.lines.blocks import ToolUseBlock
from recollect.model.lines.entry import Assistant, Entry, User
from recollect.model.lines.ids import parsed_time
from recollect.model.lines.json_text import loose_value
from recollect.model.views.fact_line import AGENT_TOOLS
from recollect.model.views.facts import LineFacts, usage_facts
from recollect.model.views.ledger import Ledger
from recollect.store.own_settings import price_list

_PROMPTS = 500
_PROMPT_CHARACTERS = 120
# So many times what is shown is looked at: a note of the client may come first.
_LOOKED_AT = 30
_MOST_BYTES = 32 << 20
_MOST_WINDOW = 8 << 20
_MOST_OF_ONE = 1 << 20  # longer messages are cut, or sent by reference


class MessageWindow:
    """Reads messages of one view.

    ``talk`` reads them in another way, ``picture`` makes the address of the n-th base64 source of a line, and a text
    has at most ``longest`` characters.
    """

    def __init__(
        self,
        session: PageSession,
        view: ConversationView,
        database: IndexDatabase | None = None,
        *,
        talk: ViewMessages | None = None,
        picture: PictureAddress | None = None,
        longest: int = LONGEST,
    ) -> None:
        self._session, self._view = session, view
        self._talk = talk_of(session, view) if talk is None else talk
        self._url = picture or self._blob_url
        self._prices = price_list()
        self._called = self._calls_by_message(database)
        self._agents = agents_by_call(session) if view.agent is None else {}
        self._cut_at: int | None = longest

    def document(self, start: int, count: int) -> documents.MessageWindowDocument:
        """Messages from ``start`` on; a negative ``start`` counts from the end."""
        total = len(self._talk)
        wanted = range(total)[start:][:count]
        return documents.MessageWindowDocument(
            session=self._session.id,
            from_=wanted.start,
            total=total,
            signature=signature(self._talk),
            messages=[self.message(index) for index in self._within_bounds(wanted)],
        )

    def _within_bounds(self, wanted: range) -> Iterator[int]:
        """As many as fit into one answer, at least one: a window of huge messages is shorter."""
        left = _MOST_WINDOW
        for index in wanted:
            if left <= 0:
                return
            left -= min(sum(node.length for node in self._talk.groups[index]), _MOST_OF_ONE)
            yield index

    def whole(self, index: int) -> documents.PageMessageDocument:
        """One message, uncut."""
        if not 0 <= index < len(self._talk):
            raise NotFound(f"message {index}: there are {len(self._talk)}", hint="reload the conversation")
        if sum(node.length for node in self._talk.groups[index]) <= _MOST_BYTES:
            self._cut_at = None
        return self.message(index)

    def message(self, index: int) -> documents.PageMessageDocument:
        """One message; long texts are cut."""
        talk = self._talk
        group = talk.groups[index]
        said = spoken(group, talk.load)
        shown = BlockRenderer(self._url, self._cut_at)
        kind = talk.kinds[index]
        cost, response_index = self._cost(index, said)
        return documents.PageMessageDocument(
            index=index,
            kind=KINDS[kind],
            bytes=sum(node.length for node in group),
            uuid=said.uuid,
            parent_uuid=said.parent_uuid,
            role=said.role,
            at=said.at,
            model=said.model,
            usage=said.usage,
            blocks=shown.message(said),
            is_meta=said.is_meta,
            is_summary=said.is_summary,
            lines=[documents.LinePlaceDocument(node.uuid, node.offset, node.length) for node in group],
            calls=self._calls(said, shown),
            cost=cost,
            response_index=response_index,
            is_copied=any("forkedFrom" in entry.fields() for entry in said.entries),
            turn=self._turn(index),
            compaction=talk.boundaries.get(said.uuid) if kind == "b" else UNSET,
            own=talk.own_blocks(index, said.blocks) if kind == "u" else UNSET,
            seams=list(talk.seams[index]) if index in talk.seams else UNSET,
            cut=shown.is_cut,
        )

    def _blob_url(self, uuid: str, number: int, _: str) -> str:
        agent = f"?agent={quote(self._view.agent, safe='')}" if self._view.agent else ""
        return (
            f"/api/sessions/{quote(self._session.id, safe='')}/blobs/{quote(uuid, safe='')}/{number}{agent}"
        )

    def _turn(self, index: int) -> int:
        place = bisect.bisect_right(self._talk.turns, index)
        return self._talk.turns[place - 1] if place else -1

    # ---- calls -------------------------------------------------------------------------------------------

    def _calls(self, said: Message, shown: BlockRenderer) -> dict[str, documents.ToolCallDocument]:
        found: dict[str, documents.ToolCallDocument] = {}
        for entry in said.entries:
            body = entry.body
            for block in body.message.blocks if isinstance(body, Assistant) else ():
                if isinstance(block, ToolUseBlock) and block.id not in found:
                    found[block.id] = self._call(entry, block.id, shown)
        return found

    def _call(self, entry: Entry, name: str, shown: BlockRenderer) -> documents.ToolCallDocument:
        node = self._talk.results.get(name)
        answer = None if node is None else self._talk.load(node)
        both = [entry] if answer is None else [entry, answer]
        call = next(one for one in tool_calls(both) if one.id == name)
        tally = _tally(call, answer)
        return documents.ToolCallDocument(
            status=call.status,
            duration_ms=call.elapsed_ms,
            in_background=call.in_background,
            result_index=None if node is None else self._talk.places.get(node.uuid),
            result_uuid=call.result_uuid,
            at=call.answered_at,
            blocks=[] if answer is None else shown.result(answer, name),
            structured=None if answer is None else shown.structured(answer),
            agent=self._agent(call),
            added=None if tally is None else tally.added,
            removed=None if tally is None else tally.removed,
        )

    def _agent(self, call: ToolCall) -> str | None:
        named = self._agents.get(call.id) or call.agent_id
        return named or (agent_in_text(call.text) if call.name in AGENT_TOOLS else None)

    # ---- costs -------------------------------------------------------------------------------------------

    def _calls_by_message(self, database: IndexDatabase | None) -> dict[int | None, list[LineFacts]]:
        """The calls that stand in lines of their own, by the message they are shown with; copies are paid for elsewhere."""
        found: dict[int | None, list[LineFacts]] = {}
        for call, is_copy in calls_apart(self._talk, self._session, database):
            if not is_copy:
                found.setdefault(call.message, []).append(call.facts)
        return found

    def _cost(self, index: int, said: Message) -> tuple[SpendingDocument | None, int]:
        """The cost of a response, on its last message only, and the index of that message."""
        if index in self._called:
            return self._spent(self._called[index]), index
        name = self._talk.groups[index][0].message_id if said.role == "assistant" else None
        places = self._talk.responses.get(name or "", [index])
        if said.role != "assistant" or places[-1] != index:
            return None, places[-1]
        return self._spent(usage_facts(one.raw) for one in (*self._lines(places[:-1]), *said.entries)), index

    def _spent(self, lines: Iterable[LineFacts | None]) -> SpendingDocument | None:
        ledger = Ledger(self._prices)
        for facts in lines:
            ledger.add(facts)
        return SpendingDocument(**SpendingDocument.members(ledger.total())) if ledger.responses else None

    def _lines(self, places: Iterable[int]) -> Iterator[Entry]:
        for place in places:
            for node in self._talk.groups[place]:
                entry = self._talk.load(node)
                if entry is not None:
                    yield entry


def _tally(call: ToolCall, answer: Entry | None) -> LineTally | None:
    """The lines that an edit changed; None where nothing was."""
    if answer is None or call.status is not ToolCallStatus.OK or not isinstance(answer.body, User):
        return None
    rich = answer.body.tool_use_result
    reported = None if isinstance(rich, UnsetType) else loose_value(rich)
    given = loose_value(call.input)
    return call_tally(call.name, given, reported, call_changes(call.id, given, answer))


def signature(talk: ViewMessages) -> str:
    """A value that changes with the log."""
    size, modified, _ = signature_of(talk.log.path)
    return f"{size}-{modified}"


def map_document(talk: ViewMessages) -> documents.ConversationMapDocument:
    """Kinds, sizes and times of all messages, and the beginning of the newest prompts."""
    return documents.ConversationMapDocument(
        total=len(talk),
        signature=signature(talk),
        kinds=talk.kinds,
        bytes=[sum(node.length for node in group) for group in talk.groups],
        at=[_seconds(group[0].timestamp) for group in talk.groups],
        prompts=[prompt_document(talk, index) for index in prompt_places(talk)[-_PROMPTS:]],
        turns=talk.turns,
        chapters=[
            documents.ChapterDocument(index, list(talk.seams.get(index, ()))) for index in talk.chapters
        ],
    )


def prompt_places(talk: ViewMessages) -> list[int]:
    """Where prompts are: every turn but those that only a chapter starts."""
    return [index for index in talk.turns if talk.kinds[index] in "pc"]


def _seconds(timestamp: str | None) -> int | None:
    moment = parsed_time(timestamp)
    return None if moment is None else int(moment.timestamp())


def prompt_document(talk: ViewMessages, index: int) -> documents.PromptDocument:
    return documents.PromptDocument(
        index, first_words(talk, index, _PROMPT_CHARACTERS), talk.groups[index][-1].uuid
    )


def first_words(talk: ViewMessages, index: int, characters: int) -> str:
    """The beginning of a message, on one line."""
    text = spoken(talk.groups[index], talk.load).text[: _LOOKED_AT * characters]
    return " ".join(own_words(text).split())[:characters]
