"""The handlers: each takes checked values and gives a document. They hold no state but the desk."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from starlette.responses import Response

from recollect.errors import RecollectError, UsageError
from recollect.model import timespan
from recollect.model.cost.money import PICO
from recollect.model.line_views.facts import TEXT_KINDS
from recollect.services.documents import changes, conversation, parts
from recollect.services.documents import page as page_documents
from recollect.services.documents.cost import (
    CostDocument,
)
from recollect.services.documents.findings import (
    FindingsDocument,
    PageRepairDocument,
)
from recollect.services.documents.health import (
    HealthDocument,
    SecretsDocument,
)
from recollect.services.documents.search import (
    PageSearchDocument,
)
from recollect.services.documents.sessions import (
    ProjectsDocument,
    SessionListDocument,
)
from recollect.services.export.export import Redactor
from recollect.services.page import actions
from recollect.services.page import session as page_session
from recollect.services.page.branches import branches_document
from recollect.services.page.conversation import ConversationView, position_of
from recollect.services.page.cost import cost_document
from recollect.services.page.desk import PageBackend
from recollect.services.page.health import SecretJob, health_document
from recollect.services.page.messages import MessageWindow, costs_document, map_document
from recollect.services.page.search import search_document
from recollect.services.page.sessions import SessionList, SessionQuery
from recollect.services.session import Session
from recollect.web import answers

Values = Mapping[str, Any]
_FIRST_LIST_SECONDS = 2.0


class ExportFormat(NamedTuple):
    """A format: how a session is written in it, without its secrets unless told otherwise."""

    media_type: str
    suffix: str
    pieces: Callable[[Session, bool, Redactor | None], Iterable[bytes]]


class Page:
    """Everything the routes can do."""

    def __init__(
        self, desk: PageBackend, token: str, version: str, exports: Mapping[str, ExportFormat]
    ) -> None:
        self.desk, self._token, self._version, self._exports = desk, token, version, dict(exports)
        self.listed = SessionList(desk)
        self._secrets = SecretJob(desk)
        self.stopping = threading.Event()
        self._is_listed = threading.Event()

    def look_ahead(self) -> None:
        """Make what the first list needs, then read large logs."""
        with contextlib.suppress(RecollectError), self.desk.index.held():
            self.listed.document(SessionQuery(), 0, 100)
            # Whoever started us looks at the list first: nothing else is begun before it is there.
            self._is_listed.wait(_FIRST_LIST_SECONDS)
        self.desk.index.refresh()
        with contextlib.suppress(RecollectError):
            self.desk.read_ahead(self.stopping)

    # ---- who and what ------------------------------------------------------------------------------------

    def me(self, _: Values) -> page_documents.MeDocument:
        """What the page needs to know first."""
        index = self.desk.index
        return page_documents.MeDocument(
            token=self._token,
            version=self._version,
            homes=[
                page_documents.ServedHomeDocument(str(root.path), root.exists)
                for root in self.desk.home.roots
            ],
            is_sample=self.desk.is_sample,
            index=page_documents.IndexProgressDocument(
                index.state, index.done, index.total, index.refreshed_at, index.notes
            ),
            exports=list(self._exports),
        )

    # ---- lists -------------------------------------------------------------------------------------------

    def sessions(self, asked: Values) -> SessionListDocument:
        """A page of the list."""
        since, until = _bounds(asked)
        wanted = SessionQuery(
            project=asked["project"],
            branch=asked["branch"],
            model=asked["model"],
            since=since,
            until=until,
            min_cost=_pico(asked["min_cost"]),
            max_cost=_pico(asked["max_cost"]),
            tag=asked["tag"],
            text=asked["text"],
            damaged=asked["damaged"],
            expiring=asked["expiring"],
            live=asked["live"],
            archived=asked["archived"],
            sort=asked["sort"],
            is_ascending=asked["order"] == "asc",
        )
        document = self.listed.document(wanted, asked["from"], asked["count"])
        self._is_listed.set()
        return document

    def projects(self, _: Values) -> ProjectsDocument:
        """The directories that were worked in."""
        return ProjectsDocument(self.listed.projects())

    def search(self, asked: Values) -> PageSearchDocument:
        """Messages that fit, by session."""
        since, until = _bounds(asked)
        return search_document(
            self.desk,
            asked["q"],
            how=asked["how"],
            kinds=_words(asked["kinds"], TEXT_KINDS, "kinds"),
            project=asked["project"],
            session=asked["session"],
            since=since,
            until=until,
            rank=bool(asked["rank"]),
            limit=asked["limit"],
            width=asked["width"],
        )

    def cost(self, asked: Values) -> CostDocument:
        """The document of `recollect cost --json`."""
        return cost_document(
            self.desk,
            [key for key in asked["by"].split(",") if key],
            since=asked["since"],
            until=asked["until"],
            timezone=asked["timezone"],
            project=asked["project"],
            model=asked["model"],
            session=asked["session"],
            mode=asked["mode"],
            explain=bool(asked["explain"]),
        )

    def health(self, _: Values) -> HealthDocument:
        """What needs looking after."""
        return health_document(self.desk, self.listed, self._secrets)

    # ---- one session -------------------------------------------------------------------------------------

    def head(self, asked: Values) -> conversation.SessionHeadDocument:
        """What stands above a conversation."""
        return page_session.head_document(self.desk, self.listed, asked["session"])

    def resume(self, asked: Values) -> parts.PageResumeDocument:
        """How to go on with it."""
        return page_session.resume_document(self.desk.reading(asked["session"]))

    def messages(self, asked: Values) -> conversation.MessageWindowDocument:
        """A window of messages."""
        session = self.desk.reading(asked["session"])
        return MessageWindow(session, view_of(asked)).document(asked["from"], asked["count"])

    def message(self, asked: Values) -> conversation.PageMessageDocument:
        """One message without cutting."""
        number = str(asked["index"])
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            raise UsageError(f"message {number[:20]!a}: no number", hint="count from 0")
        return MessageWindow(self.desk.reading(asked["session"]), view_of(asked)).whole(int(number))

    def map(self, asked: Values) -> conversation.ConversationMapDocument:
        """All messages without their texts."""
        return map_document(self.desk.reading(asked["session"]), view_of(asked))

    def position(self, asked: Values) -> conversation.PositionDocument:
        """Where a line is shown."""
        uuid, offset = asked["uuid"], asked["offset"]
        if not uuid and offset is None:
            raise UsageError("position: of what?", hint="give uuid or offset")
        session = self.desk.reading(asked["session"])
        view, index, name = position_of(session, uuid or None, offset, asked["agent"])
        shown = conversation.ViewDocument(view.branch, view.before, view.agent, view.whole)
        return conversation.PositionDocument(index, shown, name)

    def costs(self, asked: Values) -> conversation.TurnCostsDocument:
        """What each turn cost."""
        session = self.desk.reading(asked["session"])
        whole = page_session.cost_of(self.listed.row(session))
        return costs_document(session, view_of(asked), whole)

    def branches(self, asked: Values) -> conversation.BranchesDocument:
        """Every way the conversation went."""
        return branches_document(self.desk.reading(asked["session"]))

    def agents(self, asked: Values) -> parts.PageAgentsDocument:
        """Its sub-agents."""
        return page_session.agents_document(self.desk, self.desk.reading(asked["session"]))

    def files(self, asked: Values) -> parts.FilesDocument:
        """Versions of the files it touched."""
        return page_session.files_document(self.desk, self.desk.reading(asked["session"]))

    def file_version(self, asked: Values) -> parts.FileTextDocument:
        """The text of one version."""
        session = self.desk.reading(asked["session"])
        return page_session.version_document(self.desk, session, asked["path"], asked["number"])

    def file_diff(self, asked: Values) -> parts.FileDiffDocument:
        """What changed between two versions."""
        session = self.desk.reading(asked["session"])
        return page_session.diff_document(
            self.desk, session, asked["path"], asked["number"], asked["against"]
        )

    def todos(self, asked: Values) -> parts.TodosDocument:
        """What was left to do."""
        return page_session.todos_document(self.desk, self.desk.reading(asked["session"]))

    def findings(self, asked: Values) -> FindingsDocument:
        """What is wrong with it."""
        return page_session.findings_document(self.desk, self.desk.reading(asked["session"]))

    def blob(self, asked: Values) -> Response:
        """A picture or document of a transcript."""
        number = str(asked["number"])
        if not (number.isascii() and number.isdigit() and len(number) < 6):
            raise UsageError(f"blob {number[:20]!a}: no number", hint="count from 0")
        session = self.desk.reading(asked["session"])
        found = page_session.blob(session, asked["uuid"], int(number), asked["agent"])
        suffix = found.media_type.partition("/")[2].replace("octet-stream", "bin")
        return answers.blob(found.data, found.media_type, f"{asked['uuid'][:8]}-{number}.{suffix}")

    # ---- changes -----------------------------------------------------------------------------------------

    def rename(self, asked: Values) -> changes.LabelDocument:
        """Give it a title."""
        return actions.rename(self.desk, asked["session"], asked["title"], apply=asked["apply"])

    def tag(self, asked: Values) -> changes.LabelDocument:
        """Give it a tag."""
        return actions.tag(self.desk, asked["session"], asked["tag"], apply=asked["apply"])

    def fork(self, asked: Values) -> changes.ForkDocument:
        """Copy it into a new session."""
        return actions.make_fork(
            self.desk, asked["session"], asked["at"], asked["title"], apply=asked["apply"]
        )

    def repair(self, asked: Values) -> PageRepairDocument:
        """Mend it."""
        return actions.make_repair(
            self.desk, asked["session"], in_place=asked["in_place"], slim=asked["slim"], apply=asked["apply"]
        )

    def remove(self, asked: Values) -> changes.RemovalDocument:
        """To the trash."""
        return actions.remove(self.desk, asked["session"], apply=asked["apply"])

    def archive_one(self, asked: Values) -> changes.ArchivalDocument:
        """Keep it for good."""
        return actions.archive_one(self.desk, asked["session"], apply=asked["apply"])

    def restore_file(self, asked: Values) -> changes.FileRestorationDocument:
        """Write a version of a file."""
        return actions.restore_file(
            self.desk,
            asked["session"],
            asked["path"],
            asked["number"],
            asked["to"],
            overwrite=asked["overwrite"],
            apply=asked["apply"],
        )

    def archive(self, asked: Values) -> changes.ArchivalDocument:
        """Keep many."""
        return actions.archive_many(self.desk, asked["which"], apply=asked["apply"])

    def cleanup(self, asked: Values) -> changes.PageCleanupDocument:
        """Make room."""
        return actions.clean_up(self.desk, asked["days"], asked["project"], apply=asked["apply"])

    def restore_trash(self, asked: Values) -> changes.TrashRestorationDocument:
        """Bring back what was removed."""
        return actions.restore_trash(self.desk, asked["batch"], apply=asked["apply"])

    def undo(self, asked: Values) -> changes.UndoDocument:
        """Take a change back."""
        return actions.undo(self.desk, asked["id"], apply=asked["apply"])

    def look_for_secrets(self, _: Values) -> SecretsDocument:
        """Start looking."""
        self._secrets.start()
        return self._secrets.document()

    def refresh_index(self, _: Values) -> page_documents.IndexStateDocument:
        """Bring the index up to date."""
        self.desk.index.refresh()
        return page_documents.IndexStateDocument(self.desk.index.state)

    def export(self, asked: Values) -> Response:
        """The session as a file to be saved."""
        chosen = self._exports.get(asked["format"])
        if chosen is None:
            raise UsageError(
                f"format {asked['format'][:40]!a}: not known", hint=f"one of {', '.join(self._exports)}"
            )
        session = self.desk.session(asked["session"])
        redactor = Redactor(self.desk.data) if asked["redact"] else None
        pieces = iter(chosen.pieces(session, asked["whole"], redactor))
        # Taken before the answer begins: what cannot be read at all must be a refusal, not half a file.
        whole = itertools.chain([next(pieces, b"")], pieces)
        return answers.download(whole, f"{session.id[:8]}.{chosen.suffix}", chosen.media_type)


def view_of(asked: Values) -> ConversationView:
    """The view that parameters name."""
    return ConversationView(
        branch=asked["branch"] or None,
        before=asked["before"],
        agent=asked["agent"] or None,
        whole=bool(asked["whole"]),
    )


def _bounds(asked: Values) -> tuple[dt.datetime | None, dt.datetime | None]:
    return timespan.bounds(asked["since"] or None, asked["until"] or None, dt.datetime.now(dt.UTC))


def _pico(dollars: float | None) -> int | None:
    return None if dollars is None else round(dollars * PICO)


def _words(given: str | None, known: Iterable[str], name: str) -> list[str] | None:
    if not given:
        return None
    words = [word for word in given.split(",") if word]
    for word in words:
        if word not in tuple(known):
            raise UsageError(f"{name}: {word[:40]!a} is not known", hint=f"one or more of {', '.join(known)}")
    return words
