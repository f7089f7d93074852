"""The handlers: each takes checked values and returns a document. Their only state is the backend."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import structs
from starlette.responses import Response

from recollect.errors import RecollectError, UsageError
from recollect.model import timespan
from recollect.model.cost.cents import PICO
from recollect.model.ids import short_id
from recollect.model.line_views.facts import TEXT_KINDS
from recollect.services.documents import conversation, parts
from recollect.services.documents import page as page_documents
from recollect.services.documents.changes.files import FileRestorationDocument
from recollect.services.documents.changes.keeping import ArchivalDocument, PageCleanupDocument
from recollect.services.documents.changes.labels import ForkDocument, LabelDocument
from recollect.services.documents.changes.trash import RemovalDocument, TrashRestorationDocument
from recollect.services.documents.changes.undo import UndoDocument
from recollect.services.documents.cost.report import (
    CostDocument,
)
from recollect.services.documents.cost.stats import StatsDocument, StatSessionsDocument
from recollect.services.documents.findings import (
    FindingsDocument,
    PageRepairDocument,
)
from recollect.services.documents.health import (
    HealthDocument,
    SecretsDocument,
)
from recollect.services.documents.search import (
    HitPlacesDocument,
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
from recollect.services.page.conversation import ConversationView, offset_of, position_of
from recollect.services.page.cost import cost_document
from recollect.services.page.desk import PageBackend
from recollect.services.page.directories import directory_document
from recollect.services.page.edits import RecentEdits
from recollect.services.page.health import SecretJob, health_document
from recollect.services.page.messages import MessageWindow, map_document, prompts_document
from recollect.services.page.search import hits_document, search_document
from recollect.services.page.sessions import SessionList, SessionQuery
from recollect.services.page.stats import PageStats
from recollect.services.page.turns import turns_document
from recollect.services.session import Session
from recollect.services.stats.behind import Figure
from recollect.storage.marks import Marks
from recollect.web import answers

Values = Mapping[str, Any]
_FIRST_LIST_SECONDS = 2.0


class ExportFormat(NamedTuple):
    """An export format: how a session is written, without secrets by default."""

    media_type: str
    suffix: str
    pieces: Callable[[Session, bool, Redactor | None], Iterable[bytes]]


class Page:
    """Everything the routes can do."""

    def __init__(
        self, backend: PageBackend, token: str, version: str, exports: Mapping[str, ExportFormat]
    ) -> None:
        self.backend, self._token, self._version, self._exports = backend, token, version, dict(exports)
        self.listed = SessionList(backend)
        self._secrets = SecretJob(backend)
        self._stats = PageStats(backend)
        self._edits = RecentEdits(backend)
        self.is_remembered = False
        self.stopping = threading.Event()
        self._is_listed = threading.Event()

    def look_ahead(self) -> None:
        """Prepare the home screen and the first list, then read large logs."""
        with contextlib.suppress(RecollectError), self.backend.index.held():
            self._stats.look_ahead()  # the printed address opens the home screen
            self.listed.document(SessionQuery(), 0, 100)
            # The list is shown first: nothing else starts before it is there.
            self._is_listed.wait(_FIRST_LIST_SECONDS)
        self.backend.index.refresh()
        self.backend.index.wait(_FIRST_LIST_SECONDS)
        self._stats.look_ahead(since=None)  # the range that takes longest to add up
        with contextlib.suppress(RecollectError):
            self.backend.read_ahead(self.stopping)

    # ---- who and what ------------------------------------------------------------------------------------

    def me(self, _: Values) -> page_documents.MeDocument:
        """Token, version and homes, for the page's first request."""
        index = self.backend.index
        return page_documents.MeDocument(
            token=self._token,
            version=self._version,
            homes=[
                page_documents.ServedHomeDocument(str(root.path), root.exists)
                for root in self.backend.home.roots
            ],
            is_sample=self.backend.is_sample,
            index=page_documents.IndexProgressDocument(
                index.state, index.done, index.total, index.refreshed_at, index.notes
            ),
            exports=list(self._exports),
            is_remembered=self.is_remembered,
        )

    # ---- lists -------------------------------------------------------------------------------------------

    def sessions(self, values: Values) -> SessionListDocument:
        since, until = bounds_of(values)
        query = structs.replace(
            filter_of(values),
            project=values["project"],
            since=since,
            until=until,
            text=values["text"],
            sort=values["sort"],
            is_ascending=values["order"] == "asc",
        )
        document = self.listed.document(query, values["from"], values["count"])
        self._is_listed.set()
        return document

    def projects(self, _: Values) -> ProjectsDocument:
        """The directories of all sessions."""
        return ProjectsDocument(self.listed.projects())

    def search(self, values: Values) -> PageSearchDocument:
        """Matching messages, by session."""
        since, until = bounds_of(values)
        return search_document(
            self.backend,
            values["q"],
            how=values["how"],
            kinds=_words(values["kinds"], TEXT_KINDS, "kinds"),
            project=values["project"],
            session=values["session"],
            among=self.listed.ids(filter_of(values)),
            since=since,
            until=until,
            rank=bool(values["rank"]),
            limit=values["limit"],
            width=values["width"],
        )

    def cost(self, values: Values) -> CostDocument:
        """The document of `recollect cost --json`."""
        return cost_document(
            self.backend,
            [key for key in values["by"].split(",") if key],
            since=values["since"],
            until=values["until"],
            timezone=values["timezone"],
            project=values["project"],
            model=values["model"],
            session=values["session"],
            mode=values["mode"],
            explain=bool(values["explain"]),
        )

    def stats(self, values: Values) -> StatsDocument:
        """The document of `recollect stats --json`."""
        return self._stats.document(values["since"], values["until"], values["project"], values["timezone"])

    def stat_sessions(self, values: Values) -> StatSessionsDocument:
        """The sessions behind a figure of the statistics."""
        figure = Figure(**{name: values[name] for name in Figure.__struct_fields__ if name != "agents"})
        figure = structs.replace(figure, agents=bool(values["agents"]))
        return self._stats.sessions(
            figure, values["since"], values["until"], values["project"], values["timezone"]
        )

    def health(self, _: Values) -> HealthDocument:
        """Sessions that need attention: expiring, damaged, old, with secrets."""
        return health_document(self.backend, self.listed, self._secrets)

    # ---- marks ----------------------------------------------------------------------------------------------

    def marks(self, _: Values) -> page_documents.MarksDocument:
        """What was starred and pinned."""
        return _marks(self.backend.marks.read())

    def star(self, values: Values) -> page_documents.MarksDocument:
        session = self.backend.session(values["session"])
        return _marks(self.backend.marks.star(session.id, on=values["on"]))

    def pin(self, values: Values) -> page_documents.MarksDocument:
        session, now = self.backend.session(values["session"]), dt.datetime.now(dt.UTC)
        text = values["text"] or ""
        return _marks(self.backend.marks.pin(session.id, values["uuid"], on=values["on"], text=text, now=now))

    # ---- one session -------------------------------------------------------------------------------------

    def head(self, values: Values) -> conversation.SessionHeadDocument:
        """The summary of a session."""
        return page_session.head_document(self.backend, self.listed, values["session"])

    def resume(self, values: Values) -> parts.PageResumeDocument:
        """How to continue it."""
        return page_session.resume_document(self.backend, self.backend.reading(values["session"]))

    def messages(self, values: Values) -> conversation.MessageWindowDocument:
        session = self.backend.reading(values["session"])
        with page_session.copies_known(self.backend, session) as database:
            return MessageWindow(session, view_of(values), database).document(values["from"], values["count"])

    def message(self, values: Values) -> conversation.PageMessageDocument:
        """One message in full."""
        number = str(values["index"])
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            raise UsageError(f"message {number[:20]!a}: not a number", hint="count from 0")
        session = self.backend.reading(values["session"])
        with page_session.copies_known(self.backend, session) as database:
            return MessageWindow(session, view_of(values), database).whole(int(number))

    def map(self, values: Values) -> conversation.ConversationMapDocument:
        """All messages without their texts."""
        return map_document(self.backend.reading(values["session"]), view_of(values))

    def prompts(self, values: Values) -> conversation.PromptsDocument:
        """The beginnings of prompts."""
        session = self.backend.reading(values["session"])
        return prompts_document(session, view_of(values), values["from"], values["count"])

    def position(self, values: Values) -> conversation.PositionDocument:
        """The message that shows a line."""
        uuid, offset, line = values["uuid"], values["offset"], values["line"]
        if not uuid and offset is None and line is None:
            raise UsageError("position: uuid, offset and line are missing", hint="give one of them")
        session = self.backend.reading(values["session"])
        if not uuid and offset is None:
            offset = offset_of(session, values["agent"], line)
        view, index, name = position_of(
            session, uuid or None, offset, values["agent"], whole=bool(values["whole"])
        )
        shown = conversation.ViewDocument(view.branch, view.before, view.agent, view.whole)
        return conversation.PositionDocument(index, shown, name)

    def hits(self, values: Values) -> HitPlacesDocument:
        """Where a conversation shows the matches of a search."""
        kinds = _words(values["kinds"], TEXT_KINDS, "kinds")
        view = view_of(values)
        return hits_document(
            self.backend, values["session"], view, values["q"], how=values["how"], kinds=kinds
        )

    def costs(self, values: Values) -> conversation.TurnCostsDocument:
        """Cost and work of each turn."""
        session = self.backend.reading(values["session"])
        whole = page_session.cost_of(self.listed.row(session))
        with page_session.copies_known(self.backend, session) as database:
            return turns_document(session, view_of(values), whole, database)

    def branches(self, values: Values) -> conversation.BranchesDocument:
        """All branches of the conversation."""
        return branches_document(self.backend.reading(values["session"]))

    def agents(self, values: Values) -> parts.PageAgentsDocument:
        return page_session.agents_document(self.backend, self.backend.reading(values["session"]))

    def files(self, values: Values) -> parts.FilesDocument:
        """Versions of the files it changed."""
        return page_session.files_document(self.backend, self.backend.reading(values["session"]))

    def file_version(self, values: Values) -> parts.FileTextDocument:
        session = self.backend.reading(values["session"])
        return page_session.version_document(self.backend, session, values["path"], values["number"])

    def file_diff(self, values: Values) -> parts.FileDiffDocument:
        session = self.backend.reading(values["session"])
        return page_session.diff_document(
            self.backend, session, values["path"], values["number"], values["against"]
        )

    def file_bytes(self, values: Values) -> Response:
        """One version as a file to save."""
        session = self.backend.reading(values["session"])
        data, name = page_session.version_bytes(self.backend, session, values["path"], values["number"])
        return answers.blob(data, "application/octet-stream", name)

    def edits(self, values: Values) -> page_documents.RecentEditsDocument:
        """The newest edits of files, of all sessions."""
        return self._edits.document(values["project"], values["text"], values["from"], values["count"])

    def directories(self, values: Values) -> page_documents.DirectoryDocument:
        """Directories of this machine, to choose one."""
        return directory_document(values["path"], nearest=bool(values["nearest"]))

    def todos(self, values: Values) -> parts.TodosDocument:
        """The todo lists."""
        return page_session.todos_document(self.backend, self.backend.reading(values["session"]))

    def findings(self, values: Values) -> FindingsDocument:
        """The findings of a check."""
        return page_session.findings_document(self.backend, self.backend.reading(values["session"]))

    def blob(self, values: Values) -> Response:
        """An image or document in a transcript."""
        number = str(values["number"])
        if not (number.isascii() and number.isdigit() and len(number) < 6):
            raise UsageError(f"blob {number[:20]!a}: not a number", hint="count from 0")
        session = self.backend.reading(values["session"])
        found = page_session.blob(session, values["uuid"], int(number), values["agent"])
        suffix = found.media_type.partition("/")[2].replace("octet-stream", "bin")
        return answers.blob(found.data, found.media_type, f"{values['uuid'][:8]}-{number}.{suffix}")

    # ---- changes -----------------------------------------------------------------------------------------

    def rename(self, values: Values) -> LabelDocument:
        return actions.rename(self.backend, values["session"], values["title"], apply=values["apply"])

    def tag(self, values: Values) -> LabelDocument:
        return actions.tag(self.backend, values["session"], values["tag"], apply=values["apply"])

    def fork(self, values: Values) -> ForkDocument:
        return actions.make_fork(
            self.backend, values["session"], values["at"], values["title"], apply=values["apply"]
        )

    def repair(self, values: Values) -> PageRepairDocument:
        return actions.make_repair(
            self.backend,
            values["session"],
            in_place=values["in_place"],
            slim=values["slim"],
            apply=values["apply"],
        )

    def remove(self, values: Values) -> RemovalDocument:
        """Move it to the trash."""
        return actions.remove(self.backend, values["session"], apply=values["apply"])

    def archive_one(self, values: Values) -> ArchivalDocument:
        return actions.archive_one(self.backend, values["session"], apply=values["apply"])

    def restore_file(self, values: Values) -> FileRestorationDocument:
        return actions.restore_file(
            self.backend,
            values["session"],
            values["path"],
            values["number"],
            values["to"],
            overwrite=values["overwrite"],
            apply=values["apply"],
        )

    def archive(self, values: Values) -> ArchivalDocument:
        """Archive several sessions."""
        return actions.archive_many(self.backend, values["which"], apply=values["apply"])

    def cleanup(self, values: Values) -> PageCleanupDocument:
        """Archive old sessions and move them to the trash."""
        return actions.clean_up(self.backend, values["days"], values["project"], apply=values["apply"])

    def restore_trash(self, values: Values) -> TrashRestorationDocument:
        return actions.restore_trash(self.backend, values["batch"], apply=values["apply"])

    def undo(self, values: Values) -> UndoDocument:
        return actions.undo(self.backend, values["id"], apply=values["apply"])

    def look_for_secrets(self, _: Values) -> SecretsDocument:
        """Start a scan for secrets."""
        self._secrets.start()
        return self._secrets.document()

    def refresh_index(self, _: Values) -> page_documents.IndexStateDocument:
        self.backend.index.refresh()
        return page_documents.IndexStateDocument(self.backend.index.state)

    def export(self, values: Values) -> Response:
        """The session as a file to save."""
        chosen = self._exports.get(values["format"])
        if chosen is None:
            raise UsageError(
                f"format {values['format'][:40]!a}: unknown", hint=f"one of {', '.join(self._exports)}"
            )
        session = self.backend.session(values["session"])
        redactor = Redactor(self.backend.data) if values["redact"] else None
        pieces = iter(chosen.pieces(session, values["whole"], redactor))
        # Made before the answer begins: an unreadable session must be a refusal, not half a file.
        whole = itertools.chain([next(pieces, b"")], pieces)
        return answers.download(whole, f"{short_id(session.id)}.{chosen.suffix}", chosen.media_type)


def view_of(values: Values) -> ConversationView:
    """The view that the parameters select."""
    return ConversationView(
        branch=values["branch"] or None,
        before=values["before"],
        agent=values["agent"] or None,
        whole=bool(values["whole"]),
    )


def bounds_of(values: Values) -> tuple[dt.datetime | None, dt.datetime | None]:
    return timespan.bounds(values["since"] or None, values["until"] or None, dt.datetime.now(dt.UTC))


def filter_of(values: Values) -> SessionQuery:
    """The filters of sessions that the list and the search have in common."""
    return SessionQuery(
        branch=values["branch"],
        model=values["model"],
        repository=values["repository"],
        min_cost=_pico(values["min_cost"]),
        max_cost=_pico(values["max_cost"]),
        tag=values["tag"],
        damaged=values["damaged"],
        expiring=values["expiring"],
        live=values["live"],
        archived=values["archived"],
        starred=values["starred"],
    )


def _pico(dollars: float | None) -> int | None:
    return None if dollars is None else round(dollars * PICO)


def _words(raw: str | None, known: Iterable[str], name: str) -> list[str] | None:
    if not raw:
        return None
    words = [word for word in raw.split(",") if word]
    for word in words:
        if word not in tuple(known):
            raise UsageError(
                f"{name}: {word[:40]!a} is not a valid value", hint=f"one or more of {', '.join(known)}"
            )
    return words


def _marks(marks: Marks) -> page_documents.MarksDocument:
    pins = [page_documents.PinDocument(one.session, one.uuid, one.at, one.text) for one in marks.pins]
    return page_documents.MarksDocument(list(marks.stars), pins)
