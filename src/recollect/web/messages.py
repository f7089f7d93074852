"""The handlers of a conversation: windows of messages, costs, positions, prompts, branches."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, structs

from recollect.ask.conversation import documents
from recollect.ask.conversation.content import PageSession
from recollect.ask.conversation.conversation import (
    ConversationView,
    LinePosition,
    ViewMessages,
    offset_of,
    position_of,
    talk_of,
)
from recollect.ask.conversation.documents import BranchesDocument, BranchNodeDocument
from recollect.ask.conversation.turns import turns_document
from recollect.ask.conversation.window import (
    MessageWindow,
    first_words,
    map_document,
    prompt_document,
    prompt_places,
)
from recollect.ask.sessions import messages as whole_session
from recollect.errors import NotFound, UsageError
from recollect.model.conversation.chain import grouped
from recollect.model.conversation.conversation import Branch
from recollect.model.conversation.graph import Graph, Node
from recollect.model.cost.money import AmountDocument
from recollect.web.page import AT, Page, Routes
from recollect.web.parameters import Id, Many, Name, Place

routes = Routes()
_CHARACTERS, _FORK_CHARACTERS, _SAID_WITHIN = 200, 80, 8
Index = Annotated[int, Meta(ge=0, le=999_999_999)]
WindowStart = Annotated[int, Meta(ge=-(1 << 40), le=1 << 40)]
WindowSize = Annotated[int, Meta(ge=1, le=200)]
LineNumber = Annotated[int, Meta(ge=1, le=1 << 40, description="of its log, counted from 1")]
Preferred = Annotated[bool, Meta(description="prefer the view with what compactions hide")]


# ---- messages --------------------------------------------------------------------------------------------


@routes.get(f"{AT}/messages")
def messages(
    page: Page, session: Name, query: ConversationView, from_: WindowStart = 0, count: WindowSize = 50
) -> documents.MessageWindowDocument:
    """A window of messages."""
    opened = page.backend.reading(session)
    with page.backend.copies_known(opened) as database:
        return MessageWindow(opened, query, database).document(from_, count)


@routes.get(f"{AT}/messages/{{index}}")
def message(
    page: Page, session: Name, index: Index, query: ConversationView
) -> documents.PageMessageDocument:
    """One message in full."""
    opened = page.backend.reading(session)
    with page.backend.copies_known(opened) as database:
        return MessageWindow(opened, query, database).whole(index)


@routes.get(f"{AT}/costs")
def turn_costs(page: Page, session: Name, query: ConversationView) -> documents.TurnCostsDocument:
    """The cost of each turn."""
    opened = page.backend.reading(session)
    row = page.listed.row(opened)
    whole = AmountDocument(row.cost_usd, row.unpriced, row.known_cost_usd)
    with page.backend.copies_known(opened) as database:
        return turns_document(opened, query, whole, database)


@routes.get(f"{AT}/position")
def position(
    page: Page,
    session: Name,
    *,
    uuid: Id | None = None,
    offset: Place | None = None,
    line: LineNumber | None = None,
    agent: Id | None = None,
    whole: Preferred = False,
) -> LinePosition:
    """The message that shows a line, named by its id or its place."""
    uuid = uuid or None
    if uuid is None and offset is None and line is None:
        raise UsageError("position: uuid, offset and line are missing", hint="give one of them")
    opened = page.backend.reading(session)
    if uuid is None and offset is None and line is not None:
        offset = offset_of(opened, agent, line)
    return position_of(opened, uuid, offset, agent, whole=whole)


# ---- all messages at once --------------------------------------------------------------------------------


@routes.get(f"{AT}/map")
def conversation_map(page: Page, session: Name, query: ConversationView) -> documents.ConversationMapDocument:
    """All messages without their texts."""
    return map_document(talk_of(page.backend.reading(session), query))


@routes.get(f"{AT}/prompts")
def prompts(
    page: Page, session: Name, query: ConversationView, from_: Place = 0, count: Many = 100
) -> documents.PromptsDocument:
    """The beginnings of prompts, the oldest first: for those that the map leaves out."""
    talk = talk_of(page.backend.reading(session), query)
    places = prompt_places(talk)
    chosen = places[from_ : from_ + count]
    return documents.PromptsDocument(
        prompts=[prompt_document(talk, index) for index in chosen], from_=from_, total=len(places)
    )


# ---- branches --------------------------------------------------------------------------------------------


class BranchNode(Struct, frozen=True):
    """A branch in the tree. ``fork`` is the line of ``parent`` it starts from, ``own`` are its lines after that."""

    branch: Branch
    parent: str | None
    fork: Node | None
    depth: int
    own: list[Node]


def limbs(graph: Graph, branches: list[Branch]) -> list[BranchNode]:
    """The branches as a tree, each after its parent; siblings in the order of their forks."""
    owner: dict[str, str] = {}
    found: dict[str, BranchNode] = {}
    below: dict[str | None, list[BranchNode]] = {}
    for branch in branches:
        own: list[Node] = []
        fork: Node | None = None
        for node in graph.ancestors(branch.leaf):
            if node.uuid in owner:
                fork = node
                break
            own.append(node)
        parent = None if fork is None else owner[fork.uuid]
        depth = 0 if parent is None else found[parent].depth + 1
        owner.update((node.uuid, branch.leaf) for node in own)
        limb = found[branch.leaf] = BranchNode(branch, parent, fork, depth, own[::-1])
        below.setdefault(parent, []).append(limb)
    return _in_order(below)


def _in_order(below: dict[str | None, list[BranchNode]]) -> list[BranchNode]:
    found: list[BranchNode] = []
    waiting = list(reversed(below.get(None, [])))
    while waiting:
        limb = waiting.pop()
        found.append(limb)
        children = below.get(limb.branch.leaf, [])
        waiting += sorted(children, key=lambda one: one.fork.offset if one.fork else 0, reverse=True)
    return found


@routes.get(f"{AT}/branches")
def branches(page: Page, session: Name) -> BranchesDocument:
    """All branches of the conversation."""
    return branches_document(page.backend.reading(session))


def branches_document(session: PageSession) -> BranchesDocument:
    """Every end of the conversation as a tree, with the first text on the way to it."""
    with session.lock:
        active = _active(session)
        return BranchesDocument(
            [
                _limb(session, one, active)
                for one in limbs(session.log.story.graph, whole_session.whole_branches(session))
            ]
        )


def _active(session: PageSession) -> ViewMessages | None:
    try:
        return talk_of(session, ConversationView(whole=True))
    except NotFound:
        return None


def _limb(session: PageSession, limb: BranchNode, active: ViewMessages | None) -> BranchNodeDocument:
    branch = limb.branch
    is_stem = branch.active and active is not None
    return BranchNodeDocument(
        **structs.asdict(branch),
        parent=limb.parent,
        depth=limb.depth,
        messages=len(active) if is_stem and active is not None else len(grouped(limb.own)),
        from_uuid=None if limb.fork is None else limb.fork.uuid,
        from_index=None if active is None or limb.fork is None else active.places.get(limb.fork.uuid),
        from_text="" if limb.fork is None else _text_of(session, limb.fork, _FORK_CHARACTERS),
        text=_first_said(session, limb),
    )


def _first_said(session: PageSession, limb: BranchNode) -> str:
    """The first prompt of this branch alone; if it has none, the first message with text."""
    prompt = next((node for node in limb.own if whole_session.is_prompt(node)), None)
    if prompt is not None:
        return _text_of(session, prompt, _CHARACTERS)
    messages = (node for node in limb.own[:_SAID_WITHIN] if node.is_message)
    return next(filter(None, (_text_of(session, node, _CHARACTERS) for node in messages)), "")


def _text_of(session: PageSession, node: Node, characters: int) -> str:
    return first_words(ViewMessages([(node,)], session.graph, session.log), 0, characters)
