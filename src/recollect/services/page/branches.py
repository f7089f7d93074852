"""The branches of a conversation as a tree. The trunk is the branch that the client would load.

A branch's parent is the branch that holds the line it forked from; if several do, the one listed
first. Every line is visited once, however many branches share it.
"""

from __future__ import annotations

from msgspec import Struct, structs

from recollect.errors import NotFound
from recollect.model.conversation.chain import grouped
from recollect.model.conversation.conversation import Branch
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import Node
from recollect.services import whole_session
from recollect.services.documents.conversation import BranchesDocument, BranchNodeDocument
from recollect.services.page.conversation import ConversationView, ViewMessages, talk_of
from recollect.services.page.log import PageSession
from recollect.services.page.messages import first_words

_CHARACTERS = 200
_FORK_CHARACTERS = 80
_LOOKED_AT = 8


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


def branches_document(session: PageSession) -> BranchesDocument:
    """Every end of the conversation as a tree, with the first text on the way to it."""
    with session.lock:
        active = _active(session)
        return BranchesDocument(
            [_limb(session, one, active) for one in limbs(session.graph, session.branches())]
        )


def _active(session: PageSession) -> ViewMessages | None:
    try:
        return talk_of(session, ConversationView())
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
    messages = (node for node in limb.own[:_LOOKED_AT] if node.is_message)
    return next(filter(None, (_text_of(session, node, _CHARACTERS) for node in messages)), "")


def _text_of(session: PageSession, node: Node, characters: int) -> str:
    return first_words(ViewMessages([(node,)], session.graph, session.log), 0, characters)
