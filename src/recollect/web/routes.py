"""Every route of the page, as data."""

from __future__ import annotations

from recollect.model.cost.report import MODES
from recollect.services.page.sessions import SORTS
from recollect.services.search.question import HOW, WORDS
from recollect.services.stats.behind import WORK
from recollect.web.events import list_events, session_events
from recollect.web.operations import Operation, Parameter, choice, flag, integer, number, text
from recollect.web.page import Page

_AT = "/api/sessions/{session}"
_SINCE = text("since", 40, summary="2026-01-31, 2026-01-31T10:00:00Z, 7d, yesterday, last month")
_UNTIL = text("until", 40, summary="the same; a day, week or month includes its end")
_APPLY = flag("apply", default=False, summary="make the change; without it the answer is the plan")
_PATH = text("path", 4_096, is_required=True)
_AGENT = text("agent", 128, summary="a sub-agent's own conversation")
_VIEW: tuple[Parameter, ...] = (
    text("branch", 128, summary="the conversation that ends at this entry"),
    integer("before", 1, 100_000, summary="as it was before this compaction"),
    _AGENT,
    flag("whole", summary="include what compactions hide"),
)
_LARGE = 1 << 40

_FILTERS = (
    text("project"),
    text("repository", 4_096, summary="its directory, as in the facets of the list"),
    text("branch"),
    text("model", 200),
    number("min_cost", 0, 1e9, summary="dollars"),
    number("max_cost", 0, 1e9, summary="dollars"),
    text("tag", 200, summary="exact, or * for any"),
    flag("damaged"),
    flag("expiring", summary="the client deletes it within seven days"),
    flag("live"),
    flag("archived"),
    flag("starred"),
    _SINCE,
    _UNTIL,
)
_SESSIONS = (
    *_FILTERS,
    text("text", 200, summary="words of title, id, directory or branch"),
    choice("sort", *SORTS, default="last"),
    choice("order", "desc", "asc", default="desc"),
    integer("from", 0, 10_000_000, 0),
    integer("count", 1, 500, 100),
)
_SEARCH = (
    text("q", is_required=True),
    choice("how", *HOW, default=WORDS),
    text("kinds", 100, summary="comma-separated kinds of text"),
    *_FILTERS,
    text("session", 255),
    flag("rank", summary="best first"),
    integer("limit", 1, 200, 50),
    integer("width", 20, 500, 160),
)
_COST = (
    Parameter("by", {"type": "string", "maxLength": 100, "default": "day"}, False, "comma-separated keys"),
    _SINCE,
    _UNTIL,
    text("timezone", 64),
    text("project"),
    text("model", 200),
    text("session", 255),
    choice("mode", *MODES, default=MODES[0]),
    flag("explain"),
)
_STATS = (_SINCE, _UNTIL, text("timezone", 64), text("project"))
_FIGURE = (
    choice("work", *WORK),
    text("tool", 200),
    text("kind", 200, summary="the type of a sub-agent"),
    flag("agents", summary="of sub-agents only"),
    text("model", 200),
    text("repo"),
    text("day", 10, summary="2026-01-31, a day of that time zone"),
    integer("weekday", 0, 6, summary="Monday is 0"),
    integer("hour", 0, 23),
)

OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/api/me", "Token, version and homes", Page.me),
    Operation(
        "GET",
        "/api/sessions",
        "Sessions, filtered and sorted",
        Page.sessions,
        _SESSIONS,
    ),
    Operation("GET", "/api/projects", "The directories of all sessions", Page.projects),
    Operation("GET", "/api/search", "Matching messages, by session", Page.search, _SEARCH),
    Operation("GET", "/api/cost", "What `recollect cost --json` prints", Page.cost, _COST),
    Operation("GET", "/api/stats", "What `recollect stats --json` prints", Page.stats, _STATS),
    Operation(
        "GET",
        "/api/stats/sessions",
        "The sessions behind a figure of the statistics",
        Page.stat_sessions,
        (*_STATS, *_FIGURE),
    ),
    Operation(
        "GET",
        "/api/edits",
        "The newest edits of files, of all sessions",
        Page.edits,
        (
            text("project"),
            text("text", summary="part of a file's path"),
            integer("from", 0, _LARGE, 0),
            integer("count", 1, 200, 100),
        ),
    ),
    Operation(
        "GET",
        "/api/directories",
        "Directories of this machine, to choose where a file is restored",
        Page.directories,
        (text("path", 4_096), flag("nearest", summary="or the closest one that exists")),
    ),
    Operation(
        "GET",
        "/api/health",
        "Sessions that need attention: expiring, damaged, old, with secrets",
        Page.health,
    ),
    Operation(
        "GET", "/api/events", "Changes of the list", list_events, content="text/event-stream", streams=True
    ),
    Operation("GET", _AT, "The summary of a session", Page.head),
    Operation("GET", f"{_AT}/resume", "How to continue the session", Page.resume),
    Operation(
        "GET",
        f"{_AT}/messages",
        "A window of messages",
        Page.messages,
        (*_VIEW, integer("from", -_LARGE, _LARGE, 0), integer("count", 1, 200, 50)),
    ),
    Operation("GET", f"{_AT}/messages/{{index}}", "One message in full", Page.message, _VIEW),
    Operation("GET", f"{_AT}/map", "All messages without their texts", Page.map, _VIEW),
    Operation(
        "GET",
        f"{_AT}/prompts",
        "The beginnings of prompts, the oldest first",
        Page.prompts,
        (*_VIEW, integer("from", 0, _LARGE, 0), integer("count", 1, 500, 100)),
    ),
    Operation(
        "GET",
        f"{_AT}/position",
        "The message that shows a line",
        Page.position,
        (
            text("uuid", 128),
            integer("offset", 0, _LARGE),
            integer("line", 1, _LARGE, summary="of its log, counted from 1"),
            _AGENT,
            flag("whole", summary="prefer the view with what compactions hide"),
        ),
    ),
    Operation(
        "GET",
        f"{_AT}/hits",
        "Where a conversation shows the matches of a search",
        Page.hits,
        (*_VIEW, text("q", is_required=True), choice("how", *HOW, default=WORDS), text("kinds", 100)),
    ),
    Operation("GET", f"{_AT}/costs", "The cost of each turn", Page.costs, _VIEW),
    Operation("GET", f"{_AT}/branches", "All branches of the conversation", Page.branches),
    Operation("GET", f"{_AT}/agents", "Its sub-agents", Page.agents),
    Operation("GET", f"{_AT}/files", "Versions of the files it changed", Page.files),
    Operation(
        "GET",
        f"{_AT}/files/version",
        "The text of one version",
        Page.file_version,
        (_PATH, integer("number", 1, 1_000_000, is_required=True)),
    ),
    Operation(
        "GET",
        f"{_AT}/files/bytes",
        "One version as a file to save",
        Page.file_bytes,
        (_PATH, integer("number", 1, 1_000_000, is_required=True)),
        content="application/octet-stream",
    ),
    Operation(
        "GET",
        f"{_AT}/files/diff",
        "What changed between two versions",
        Page.file_diff,
        (_PATH, integer("number", 1, 1_000_000, is_required=True), integer("against", 0, 1_000_000)),
    ),
    Operation("GET", f"{_AT}/todos", "The todo lists", Page.todos),
    Operation("GET", f"{_AT}/findings", "The findings of a check", Page.findings),
    Operation(
        "GET",
        f"{_AT}/blobs/{{uuid}}/{{number}}",
        "An image or document in a transcript",
        Page.blob,
        (_AGENT,),
        content="application/octet-stream",
    ),
    Operation(
        "GET",
        f"{_AT}/events",
        "Changes of one conversation",
        session_events,
        (*_VIEW, integer("after", 0, _LARGE)),
        content="text/event-stream",
        streams=True,
    ),
    # ---- our own marks ---------------------------------------------------------------------------------------
    Operation("GET", "/api/marks", "Starred sessions and pinned messages", Page.marks),
    Operation(
        "POST",
        f"{_AT}/star",
        "Star it, or not",
        Page.star,
        body=(flag("on", default=True),),
    ),
    Operation(
        "POST",
        f"{_AT}/pin",
        "Pin a message, or not",
        Page.pin,
        body=(text("uuid", 128, is_required=True), flag("on", default=True), text("text", 200)),
    ),
    # ---- changes -----------------------------------------------------------------------------------------
    Operation(
        "POST",
        f"{_AT}/rename",
        "Set the title",
        Page.rename,
        body=(text("title", 400, is_required=True), _APPLY),
    ),
    Operation(
        "POST",
        f"{_AT}/tag",
        "Set the tag",
        Page.tag,
        body=(text("tag", 400, is_required=True), _APPLY),
    ),
    Operation(
        "POST",
        f"{_AT}/fork",
        "Copy it into a new session",
        Page.fork,
        body=(text("at", 128), text("title", 400), _APPLY),
    ),
    Operation(
        "POST",
        f"{_AT}/repair",
        "Mend it",
        Page.repair,
        body=(flag("in_place", default=False), flag("slim", default=False), _APPLY),
    ),
    Operation("POST", f"{_AT}/remove", "Move it to the trash", Page.remove, body=(_APPLY,)),
    Operation("POST", f"{_AT}/archive", "Archive the session", Page.archive_one, body=(_APPLY,)),
    Operation(
        "POST",
        f"{_AT}/files/restore",
        "Write a version of a file",
        Page.restore_file,
        body=(
            _PATH,
            integer("number", 1, 1_000_000, is_required=True),
            text("to", 4_096, is_required=True),
            flag("overwrite", default=False),
            _APPLY,
        ),
    ),
    Operation(
        "POST",
        f"{_AT}/export",
        "The session as a file",
        Page.export,
        content="application/octet-stream",
        body=(
            text("format", 40, is_required=True),
            flag("redact", default=True),
            flag("whole", default=False),
        ),
    ),
    Operation(
        "POST",
        "/api/archive",
        "Archive several sessions",
        Page.archive,
        body=(choice("which", "all", "expiring", is_required=True), _APPLY),
    ),
    Operation(
        "POST",
        "/api/cleanup",
        "Archive old sessions and move them to the trash",
        Page.cleanup,
        body=(number("days", 1, 36_500, 90), text("project"), _APPLY),
    ),
    Operation(
        "POST",
        "/api/trash/restore",
        "Restore from the trash",
        Page.restore_trash,
        body=(text("batch", 200, is_required=True), _APPLY),
    ),
    Operation(
        "POST",
        "/api/undo",
        "Undo a change",
        Page.undo,
        body=(text("id", 200, is_required=True), _APPLY),
    ),
    Operation("POST", "/api/health/secrets", "Start a scan for secrets", Page.look_for_secrets),
    Operation("POST", "/api/index/refresh", "Bring the index up to date", Page.refresh_index),
)
