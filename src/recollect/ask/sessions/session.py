"""One session of a Claude home, to be read: its conversation, branches, agents, files, usage.

Nothing is read before it is asked for, and nothing is ever written.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

from msgspec import Struct, structs

from recollect.agents.homes import agent_of_log, copied_only
from recollect.errors import NotFound, StorageError, UsageError
from recollect.model.conversation.conversation import (
    Branch,
    BranchDifference,
    Conversation,
    Influence,
    Message,
    branches,
    difference,
    influences,
)
from recollect.model.conversation.graph import Graph, Node
from recollect.model.conversation.tool_calls import ToolCall, tool_calls
from recollect.model.cost.money import Spending
from recollect.model.lines.damage import Damage, Line, readable_entries
from recollect.model.lines.entry import Dialect, Entry, Kind, Summary, System
from recollect.model.lines.ids import AgentId, SessionId, hint_name
from recollect.model.views.fact_line import text_of
from recollect.model.views.facts import usage_facts
from recollect.model.views.ledger import Ledger
from recollect.store.archive.archive import Archive
from recollect.store.archive.manifest import ArchivedFile, Manifest
from recollect.store.home import AgentFile, ClaudeHome, SessionFile
from recollect.store.logs.conversation_cache import ConversationCache, LogGraph
from recollect.store.logs.reader import LogReader, OpenLog, read_lines
from recollect.store.logs.summary import LogSummary, glance, log_counts, marked_entries
from recollect.store.own_settings import price_list
from recollect.system.paths import CLAUDE

Branches = Literal["active", "all"]


def check_branches(branches: str) -> None:
    """Refuse what names neither the active branch nor all of them."""
    if branches not in get_args(Branches):
        raise UsageError(f"branches {branches!a}: not known", hint='write "active" or "all"')


class SessionCounts(Struct, frozen=True, kw_only=True):
    """How much a session holds; docs/glossary.md says what each word means.

    ``messages`` are those of the conversation as the client would load it, ``responses`` the counted answers of the
    API with those of its sub-agents, ``lines`` and ``damaged`` lines of its own log.
    """

    messages: int
    responses: int
    lines: int
    agents: int
    damaged: int


SessionCosts = Callable[[str, bool], Spending]


class Compaction(Struct, frozen=True):
    """A place where the client cut the conversation and went on with a summary. ``number`` counts from 1."""

    number: int
    uuid: str
    at: str | None
    trigger: str | None
    pre_tokens: int | None
    before: str | None  # the last entry before the cut: the leaf of the conversation "as before"


class ActiveBranch(Struct, frozen=True):
    """A branch that a summary names: ``leaf`` is the entry it names, ``head`` the last one that follows it."""

    leaf: str
    head: str
    summary: str


class Session:
    """A session's log and what lies beside it. Make one with ``Home.session``.

    Title and graph are those of the moment they are first asked for; take a new
    ``Session`` to see what was added since. Sessions of one ``Home`` share its cache: a log that did not
    change is not read again for another ``Session``.
    """

    _costs: SessionCosts | None = None
    _is_shared: Callable[[str], bool] | None = None
    cache: ConversationCache | None = None

    def __init__(
        self,
        home: ClaudeHome,
        file: SessionFile,
        *,
        _costs: SessionCosts | None = None,
        _is_shared: Callable[[str], bool] | None = None,
        cache: ConversationCache | None = None,
    ) -> None:
        self.home, self.file = home, file
        self._costs, self._is_shared, self.cache = _costs, _is_shared, cache

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} in {self.path.parent.name!a}>"

    @property
    def id(self) -> str:
        """Its id; for a log with a name no client gives, that name."""
        return str(self.file.id) if self.file.id is not None else self.file.path.stem

    @property
    def session_id(self) -> SessionId | None:
        """Its id as a checked type, None for a name no client gives."""
        return self.file.id

    @property
    def path(self) -> Path:
        """Its log."""
        return self.file.path

    @property
    def place(self) -> Path:
        """Where its log is in the home, or will be once it is restored."""
        return self.path

    @functools.cached_property
    def agent(self) -> str:
        """Whose session it is: "claude", or another agent's; of a copy of a mirrored one what its log says."""
        return agent_of_log(str(self.home.root), str(self.path))

    @property
    def is_archived(self) -> bool:
        """Whether only the archive has it."""
        return False

    @functools.cached_property
    def glance(self) -> LogSummary:
        """What a list shows of it: title, times, directory."""
        return self.among_others(glance(self.path))

    def among_others(self, seen: LogSummary) -> LogSummary:
        """What its log says of it, with whether many sessions begin with the same prompt, where its title depends on that."""
        is_named = seen.custom_title or seen.ai_title or seen.last_prompt
        if self._is_shared is None or is_named or seen.first_prompt is None or seen.next_prompt is None:
            return seen
        return structs.replace(seen, is_shared=self._is_shared(seen.first_prompt))

    @property
    def title(self) -> str:
        """Its title, in the client's order: custom, generated, last prompt, first prompt that is no boilerplate."""
        return self.glance.title or ""

    @property
    def continued_in(self) -> str | None:
        """The session that took over, when this one was sent to the background."""
        return self.glance.continued_in

    @property
    def cwd(self) -> str:
        """The directory it worked in, by its own entries."""
        return self.glance.cwd or ""

    @functools.cached_property
    def log(self) -> LogGraph:
        """Its log as a graph."""
        return LogGraph(self.path) if self.cache is None else self.cache.get(self.path)

    @property
    def graph(self) -> Graph:
        """Its message graph."""
        return self.log.graph

    def load(self, node: Node) -> Entry | None:
        """The entry behind a node of the graph."""
        return self.log.load(node)

    def entries(self) -> Iterator[Entry | Damage]:
        """Everything in the log, in file order."""
        return LogReader(self.path).entries()

    def damage(self) -> list[Damage]:
        """The lines that cannot be read."""
        return self.log.damage()

    def conversation(self, leaf: str | None = None, *, whole: bool = False) -> Conversation:
        """The conversation as client 2.1.325 would load it, or the one that ends at ``leaf``.

        ``whole`` keeps what compactions hide. A session in which the client would
        find no conversation is ``NotFound``, with the reason.
        """
        node = self.graph.active_leaf if leaf is None else self._node(leaf)
        if node is None:
            raise NotFound(
                f"session {self.id}: {self._why_not_found()}",
                hint=f"its lines are in {self.path}; show --all-branches shows what can be shown",
            )
        return self.log.conversation(node, whole=whole)

    def messages(self, *, branches: Branches = "active", agents: bool = False) -> Iterator[Message]:
        """Its messages, each read when it is asked for, with what compactions hide.

        ``branches="active"`` is the conversation the client would load, ``"all"`` every message of the log, in
        the order of the log. ``agents`` adds what sub-agents said, after the session's own messages.
        """
        from recollect.ask.sessions.messages import session_messages

        check_branches(branches)
        return session_messages(self, branches, agents=agents)

    def branches(self) -> list[Branch]:
        """Every end of the conversation, the active one first."""
        return branches(self.graph, self.graph.leaves, self.graph.active_leaf)

    def difference(self, left: str, right: str) -> BranchDifference:
        """How two branches, named by their leaves, differ."""
        return difference(self.graph, self._node(left), self._node(right), self.load)

    def compactions(self) -> list[Compaction]:
        """Every compaction, in file order; ``conversation(leaf=compaction.before)`` shows it as before."""
        found = []
        cuts = (node for node in self.graph.nodes.values() if node.is_boundary)
        for number, node in enumerate(cuts, 1):
            entry = self.load(node)
            if entry is not None and isinstance(entry.body, System):
                data = entry.body.compact_metadata or {}
                tokens = data.get("preTokens")
                found.append(
                    Compaction(
                        number,
                        node.uuid,
                        node.timestamp,
                        text_of(data, "trigger"),
                        tokens if isinstance(tokens, int) else None,
                        entry.body.logical_parent_uuid or node.parent,
                    )
                )
        return found

    def summaries(self) -> list[str]:
        """Titles that older clients gave this conversation, newest first.

        They name the leaf they stand for and mostly lie in *another* log of the
        project, so all logs beside this one are searched for them.
        """
        return list(dict.fromkeys(body.summary for body in self._summaries()))

    def active_branches(self) -> list[ActiveBranch]:
        """The branches that summaries name, in the order of ``summaries``; the newest summary of a branch counts."""
        found: dict[str, ActiveBranch] = {}
        for body in self._summaries():
            if body.leaf_uuid is not None:
                head = self._head(body.leaf_uuid)
                found.setdefault(head, ActiveBranch(body.leaf_uuid, head, body.summary))
        return list(found.values())

    def active_messages(self) -> list[Message]:
        """The last message of each active branch."""
        ends = [self.conversation(branch.head, whole=True).messages for branch in self.active_branches()]
        return [messages[-1] for messages in ends if messages]

    def _head(self, leaf: str) -> str:
        """The last entry of the log among those that follow this one."""
        head, reached, waiting = self.graph.nodes[leaf], {leaf}, [leaf]
        while waiting:
            for uuid in self.graph.children(waiting.pop()):
                node = self.graph.nodes[uuid]
                if uuid not in reached and not node.is_sidechain:
                    reached.add(uuid)
                    waiting.append(uuid)
                    head = node if node.is_link and node.offset > head.offset else head
        return head.uuid

    def _summaries(self) -> Iterator[Summary]:
        for log in sorted(self.path.parent.glob("*.jsonl"), key=lambda path: path.name):
            # One neighbour that cannot be read must not cost us the others.
            with contextlib.suppress(NotFound, StorageError), OpenLog(log) as opened:
                for entry in marked_entries(opened, opened.whole_end(), {Kind.SUMMARY}):
                    body = entry.body
                    if isinstance(body, Summary) and body.leaf_uuid in self.graph.nodes:
                        yield body

    def tool_calls(self) -> list[ToolCall]:
        """Every tool call of the main log, with what became of it."""
        return tool_calls(readable_entries(self.entries()))

    def influences(self) -> list[Influence]:
        """Entries through which the log would speak to the model in the client's name if it were resumed."""
        return list(influences(self.entries()))

    def agents(self) -> list[AgentFile]:
        """The logs of its sub-agents, in both layouts."""
        return list(self.home.agents(self.file))

    def spending(self, *, with_agents: bool = True) -> Spending:
        """Tokens and money as ``Home.costs`` counts them: each response once over all sessions of the homes.

        What a fork copied belongs to the session it was made in. A session of no home is counted by itself.
        """
        if self._costs is not None:
            return self._costs(self.id, with_agents)
        logs = [self.path, *(agent.path for agent in self.agents() if with_agents)]
        ledger = Ledger(price_list())
        for path in logs:
            for line in read_lines(path):
                ledger.add(usage_facts(line.data) if isinstance(line, Line) else None, path=str(path))
        unknown = not ledger.responses and self.agent != CLAUDE and not copied_only(map(str, logs))
        return structs.replace(ledger.total(), responses=ledger.responses, is_unknown=unknown)

    def counts(self) -> SessionCounts:
        """How much was said. Reads its log from start to end, and the first lines of its agents' logs."""
        from recollect.ask.sessions.messages import agent_count

        log = log_counts(self.path)
        return SessionCounts(
            messages=log.messages.messages or 0,
            responses=self.spending().responses,
            lines=log.lines,
            agents=agent_count(self),
            damaged=log.damaged,
        )

    def _node(self, uuid: str) -> Node:
        found = [node for name, node in self.graph.nodes.items() if name.startswith(uuid)] if uuid else []
        exact = [node for node in found if node.uuid == uuid] or found
        if len(exact) == 1:
            return exact[0]
        problem = "fits several entries" if exact else "is not in this session"
        raise NotFound(
            f"entry {uuid!r} {problem}",
            hint=f"`recollect show {hint_name(self.id, self.path)} --tree` lists the branches",
        )

    def _why_not_found(self) -> str:
        nodes = self.graph.nodes.values()
        if not self.file.size:
            return "the log is empty"
        if not nodes:
            if LogReader(self.path).pending() is not None:
                return "its last line is not finished, and no other line is an entry"
            whole = "it has metadata but no conversation"
            return "none of its lines can be read as an entry" if self.damage() else whole
        if all(node.is_sidechain for node in nodes):
            return "it holds sub-agent lines only"
        if any(isinstance(one, Entry) and one.dialect is not Dialect.CLAUDE for one in LogReader(self.path)):
            return "the client does not load lines of another dialect"
        return "no entry that could end a conversation has a readable time"


class ArchivedSession(Session):
    """A session read through its manifest."""

    def __init__(
        self, archive: Archive, manifest: Manifest, *, cache: ConversationCache | None = None
    ) -> None:
        self.manifest = manifest
        self._archive = archive
        log = manifest.log
        file = SessionFile(
            archive.log_path(manifest), log.stored.size, log.mtime_ns, 0, 0, id=SessionId(manifest.session)
        )
        super().__init__(ClaudeHome(Path(manifest.home)), file, cache=cache)

    @property
    def id(self) -> str:
        return self.manifest.session

    @property
    def place(self) -> Path:
        return self.home.root / self.manifest.log.path

    @property
    def is_archived(self) -> bool:
        """Whether only the archive has it."""
        return True

    def agents(self) -> list[AgentFile]:
        return [agent for file in self.manifest.files if (agent := self._agent(file)) is not None]

    def summaries(self) -> list[str]:
        """Titles in other logs of the project are ignored: the archive stores each session separately."""
        return []

    def _agent(self, file: ArchivedFile) -> AgentFile | None:
        name = PurePosixPath(file.path).name
        if not (name.startswith("agent-") and name.endswith(".jsonl")):
            return None
        agent_id = AgentId.parse(name.removeprefix("agent-").removesuffix(".jsonl"))
        is_nested = "/subagents/" in file.path
        return AgentFile(
            self._archive.log_path(self.manifest, file),
            file.stored.size,
            file.mtime_ns,
            0,
            0,
            agent_id=agent_id,
            meta_path=None,
            layout="nested" if is_nested else "flat",
            session=SessionId(self.manifest.session),
        )


def way_to(session: Session, leaf: str) -> list[Node]:
    """The entries up to a leaf; compactions hide nothing.

    Results of the leaf's own calls hang off it and are gathered by the client; here they come after.
    """
    nodes = session.conversation(leaf, whole=True).nodes
    end = next((index for index, node in enumerate(nodes, 1) if node.uuid == leaf), len(nodes))
    return nodes[:end]


def own_way_to(graph: Graph, leaf: Node) -> list[Node]:
    """The entries up to a leaf of a sub-agent, all of whose lines count as being beside a conversation."""
    return list(graph.ancestors(leaf.uuid))[::-1]


def archived_only(
    homes: Sequence[ClaudeHome], data: Path, cache: ConversationCache | None = None
) -> Iterator[ArchivedSession]:
    """Sessions of these homes that only the archive in ``data`` still has, by project and name."""
    if not (data / "archive").is_dir():
        return
    archive = Archive(data / "archive")
    logs = (str(log.path) for home in homes for log in home.sessions())
    for manifest, _ in archive.only_here((home.root for home in homes), logs):
        yield ArchivedSession(archive, manifest, cache=cache)
