"""The rules of ``recollect check``: every code, its severity, what the client does, and the fix.

``CODES`` is the whole table; ``docs/reference/checks.md`` is made from it. A rule whose severity depends on
the case is two codes. An **error** stops a resume or cuts what is resumed: the client finds no conversation,
leaves messages out, or sends what the API refuses. What the client repairs by itself is no error. A
**warning** is something no client writes, without such an effect; **info** is good to know. Each family of
rules has its own file:

lines.py      lines that cannot be read, or only with replacements
chain.py      ids and links: does the client find the conversation, and all of it
times.py      the format and the order of timestamps
tools.py      calls and their results, in the whole log
api_400.py    what would be sent on resume, against rules whose violation gives a permanent 400
images.py     size and dimensions of images
shortened.py  lines with shortened texts, so that conversations of any size can be checked
resumed.py    what the client would resume: entries, messages, history
scan.py       all of these over the lines of one log
settings.py   settings files that a client would ignore as a whole

Nothing here opens a file. A rule yields ``RuleViolation``; ``model/diagnosis.py`` turns them into findings
and says which of them a repair fixes.
"""

from __future__ import annotations

from msgspec import Struct

from recollect.model.findings import Severity

_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
REPAIR = "recollect repair {session}"
_NONE = "nothing to do"
# No command fixes these; this one saves what can be read.
_EXPORT = "recollect export {session}"
_ORIGINAL = "recollect export {session} --format original --no-redact --output DIR"
# How a statement about the client was established.
_RESUMED = "2.1.325 resumed such a log"
_ALL = "2.0.76, 2.1.197 and 2.1.325 resumed such logs"
_SENT = "2.1.325 sent it; the API documents the refusal"
_OURS = "not about the client"
_UNSEEN = "not measured"
_FRESH = "seen on homes fresh from 2.0.76, 2.1.197 and 2.1.325"


class CheckRule(Struct, frozen=True):
    """One row of the table.

    ``client`` says what the client does about it and ``proof`` how that is known. ``source`` names the
    requirement behind the rule, if there is one. Only an error can have a repair as its ``fix``. Whether a
    repair fixes it, in a given log, only the repair plan shows (``model/diagnosis.py``); otherwise
    ``other_fix`` says what to do.
    """

    severity: Severity
    meaning: str
    client: str
    proof: str
    fix: str = _NONE
    source: str = ""

    @property
    def is_mendable(self) -> bool:
        """Whether a repair can fix it."""
        return self.fix == REPAIR

    @property
    def other_fix(self) -> str:
        """What to do where a repair does not fix it."""
        return _EXPORT if self.is_mendable else self.fix


class RuleViolation(Struct, frozen=True):
    """A violated rule and where in the log. ``line`` counts from 1; 0 where only the offset is known.

    ``subject`` distinguishes several violations in one entry, for example by the id of a call. ``parent`` is
    the entry that an entry without a usable link should follow.
    """

    code: str
    what: str
    offset: int | None = None
    uuid: str | None = None
    line: int = 0
    subject: str = ""
    parent: str | None = None


# Rules about the bytes of a log, for logs whose conversation no client of Claude loads.
ABOUT_LINES = frozenset(
    [
        *("invalid-json", "glued-objects", "nul-run", "torn-tail", "skipped-bytes", "unfinished-line"),
        *("not-an-object", "invalid-utf8", "oversize-line", "too-deep", "unknown-shape", "unknown-type"),
        *("being-written", "unreadable", "unreadable-record", "oversize-record", "lost-beginning"),
    ]
)

CODES: dict[str, CheckRule] = {
    # lines
    "invalid-json": CheckRule(
        _ERROR,
        "a line that is not JSON, with a message in it",
        "passes over the line; the message is lost",
        _ALL,
        REPAIR,
        "002",
    ),
    "glued-objects": CheckRule(
        _ERROR,
        "several entries on one line, with a message after the first",
        "reads the first entry and ignores the rest of the line",
        _RESUMED,
        REPAIR,
    ),
    "nul-run": CheckRule(
        _ERROR,
        "NUL bytes where a crash kept the disk from getting a message",
        "passes over the line; the message is lost",
        _RESUMED,
        REPAIR,
    ),
    "torn-tail": CheckRule(
        _ERROR,
        "half a message at the end of a log that no client has open",
        "passes over it; the history ends before it. 2.0.76 puts its next line behind it and loses that too",
        _ALL,
        REPAIR,
    ),
    "skipped-bytes": CheckRule(
        _WARNING,
        "bytes that are not an entry, and from which no message of the conversation is missing",
        "passes over them; all messages are sent",
        _RESUMED,
    ),
    "unfinished-line": CheckRule(
        _WARNING,
        "bytes after the last newline of a log that no client has open, which hold no message",
        "passes over them; all messages are sent",
        _RESUMED,
    ),
    "missing-final-newline": CheckRule(
        _INFO,
        "the last entry has no newline",
        "reads it, and puts a newline before its next line; 2.0.76 puts its next entry on the same line",
        _ALL,
    ),
    "not-an-object": CheckRule(
        _WARNING, "JSON, but not an object", "passes over it; 2.1.197 fails at `null`", _ALL
    ),
    "invalid-utf8": CheckRule(_WARNING, "bytes that are not UTF-8", "reads replacement characters", _RESUMED),
    "oversize-line": CheckRule(_WARNING, "a line too long to be parsed by recollect", "reads it", _UNSEEN),
    "too-deep": CheckRule(
        _WARNING, "a line nested too deeply to be parsed by recollect", "reads it", _UNSEEN
    ),
    "unknown-shape": CheckRule(
        _WARNING, "a known type with unexpected contents", "passes over its contents", _RESUMED, source="002"
    ),
    "unknown-type": CheckRule(
        _INFO, "a type of line that recollect does not know", "keeps to what it knows", _UNSEEN, source="002"
    ),
    "unreadable-record": CheckRule(
        _WARNING,
        "a line in a file of another agent that is not a record; its bytes are kept",
        "is not asked: it is the file of another client",
        _OURS,
        _ORIGINAL,
    ),
    "oversize-record": CheckRule(
        _WARNING,
        "a record in a file of another agent that is too long to be shown whole; its bytes are kept",
        "is not asked: it is the file of another client",
        _OURS,
        _ORIGINAL,
    ),
    "lost-beginning": CheckRule(
        _WARNING,
        "a fork of Codex whose beginning is in another session, which is not here",
        'is not asked; Codex refuses to resume it while that session is gone ("missing source rollout")',
        _OURS,
        "put the file of that session back below the home of Codex, and recollect has the beginning too; or hand over what there is:"
        " recollect convert {session} --to claude",
    ),
    "lone-surrogate": CheckRule(_INFO, "half a surrogate pair", "reads a replacement character", _RESUMED),
    "byte-order-mark": CheckRule(_INFO, "the log starts with a byte order mark", "reads it", _RESUMED),
    "crlf": CheckRule(_INFO, "lines end in CR LF", "reads them", _RESUMED),
    "being-written": CheckRule(
        _INFO, "an unfinished line in a session that a client has open", "will finish it", _OURS
    ),
    # ids and links
    "invalid-id": CheckRule(
        _INFO, "an entry's id is not a UUID", "takes any id", _RESUMED, source="000, 001"
    ),
    "missing-id": CheckRule(
        _ERROR,
        "a message without id that is not part of what is resumed",
        "keeps only the last entry without id, and nothing can follow it",
        _RESUMED,
        _EXPORT,
        "000",
    ),
    "duplicate-id": CheckRule(
        _WARNING,
        "one id, several lines with other bytes",
        "takes the last of them",
        _RESUMED,
        source="000, 001",
    ),
    "repeated-entry": CheckRule(
        _INFO,
        "a line that is in the log more than once, byte for byte",
        "takes the last",
        _RESUMED,
        source="000",
    ),
    "missing-parent": CheckRule(
        _INFO,
        "an entry follows one that is not in the log; no history that would be sent is lost",
        "joins it to an entry at most five seconds older; 2.0.76 starts the history there",
        _ALL,
        source="000, 001",
    ),
    "history-cut": CheckRule(
        _ERROR,
        "an entry follows one that is not in the log, or itself, and the history before it is lost",
        "sends only what follows this entry",
        _ALL,
        REPAIR,
        "000, 001",
    ),
    "unlinked-answer": CheckRule(
        _ERROR,
        "the history that is sent begins with an answer, which names no parent",
        "sends nothing before it",
        _RESUMED,
        REPAIR,
        "000, 001",
    ),
    "circle": CheckRule(
        _WARNING,
        "entries follow each other in a circle",
        "cuts it and sends all; 2.0.76 hangs",
        _ALL,
        source="000",
    ),
    "second-root": CheckRule(_INFO, "the log holds another conversation", "resumes the later one", _RESUMED),
    "other-session-id": CheckRule(
        _INFO, "entries name another session", "goes by the name of the file", _RESUMED
    ),
    "session-not-found": CheckRule(
        _ERROR,
        "the last message has no readable time, or all messages are those of sub-agents",
        'says "No conversation found" and ends',
        _RESUMED,
        REPAIR,
    ),
    "nothing-said": CheckRule(
        _ERROR,
        "there are messages, but nothing in them that could be sent",
        'says "No conversation found" and ends',
        _RESUMED,
        _EXPORT,
    ),
    "no-conversation": CheckRule(
        _INFO, "the log holds no conversation, only other lines", 'says "No conversation found"', _RESUMED
    ),
    "empty-log": CheckRule(
        _INFO, "the log is empty", "2.0.76 leaves such files behind itself", _FRESH, "recollect rm {session}"
    ),
    "foreign-name": CheckRule(_INFO, "the name of the log is not a UUID", "never lists it", _RESUMED),
    # times
    "bad-timestamp": CheckRule(
        _WARNING,
        "a chain entry without a time in ISO 8601",
        "sends it; it cannot be joined to by time",
        _RESUMED,
        source="001",
    ),
    "time-order": CheckRule(
        _INFO,
        "an entry is older than the one it follows",
        "does not compare them",
        _RESUMED,
        source="000, 001",
    ),
    # calls
    "call-without-result": CheckRule(
        _INFO,
        "a tool call that never got a result",
        "leaves the call out; 2.0.76 sends it",
        _ALL,
        source="001",
    ),
    "open-call": CheckRule(
        _INFO,
        "a tool call without result where that is usual: at an end, or on another branch",
        "adds a result that says so",
        _RESUMED,
    ),
    "result-without-call": CheckRule(
        _INFO, "a result whose call is not in the log", "leaves the result out; 2.0.76 sends it", _ALL
    ),
    "duplicate-call-id": CheckRule(
        _WARNING, "several calls have one id", "sends the first call and its result", _RESUMED, source="001"
    ),
    "duplicate-result": CheckRule(_INFO, "several results for one call", "sends the first", _RESUMED),
    "result-cut-off": CheckRule(
        _INFO,
        "its call is in the log, but a compaction, fork or rewind keeps it from being sent",
        "leaves the result out",
        _RESUMED,
    ),
    "result-not-reached": CheckRule(
        _WARNING,
        "the result is in the log, but not in the conversation that is resumed",
        "leaves the call out, or says that its result is missing",
        _RESUMED,
    ),
    "result-not-sent": CheckRule(
        _WARNING, "the result follows a later answer", "reports the result to the API as missing", _RESUMED
    ),
    # what the API would refuse on every request
    "api-bad-call-id": CheckRule(
        _ERROR, "the id of a call with characters that the API refuses", "sends it", _SENT, REPAIR
    ),
    "api-misplaced-block": CheckRule(
        _ERROR, "a block that only the other side may send", "sends it", _SENT, REPAIR
    ),
    "api-empty-text": CheckRule(_ERROR, "a blank text block in an answer", "sends it", _SENT, REPAIR),
    "api-empty-content": CheckRule(_ERROR, "a message of the user that is blank", "sends it", _SENT, REPAIR),
    "api-unsigned-thinking": CheckRule(_ERROR, "thinking without signature", "sends it", _SENT, REPAIR),
    "api-emptied-thinking": CheckRule(
        _ERROR,
        "thinking without its field, or redacted thinking without data; empty thinking with a signature is sound",
        "sends it",
        _SENT,
        REPAIR,
    ),
    "api-empty-image": CheckRule(_ERROR, "an image without data", "sends it", _SENT, REPAIR),
    "api-damaged-image": CheckRule(
        _ERROR, "an image whose data is not base64, as after a change by a program", "sends it", _SENT, REPAIR
    ),
    "api-oversize-image": CheckRule(
        _ERROR, "an image of more than 5 MB or 8000 pixels", "sends it", _SENT, REPAIR
    ),
    "api-not-checked": CheckRule(
        _INFO, "the conversation is too large to be built and checked", "resumes it", _OURS
    ),
    # the home
    "captures-continue": CheckRule(
        _ERROR,
        "a log without history is the newest of its project",
        "`claude --continue` takes it and starts with no history; 2.0.76 does not",
        "2.1.325 continued such a log",
        "recollect rm {session}",
    ),
    "unreadable": CheckRule(
        _ERROR,
        "it cannot be read at all",
        "cannot read it either",
        _UNSEEN,
        "check its permissions and the disk",
    ),
    "orphan-agent": CheckRule(
        _WARNING, "a sub-agent's log whose session is gone", "does not look at it", _UNSEEN
    ),
    "orphan-todos": CheckRule(_INFO, "todos of a session that is gone", "does not look at them", _UNSEEN),
    "orphan-tasks": CheckRule(_INFO, "tasks of a session that is gone", "does not look at them", _UNSEEN),
    "path-collision": CheckRule(
        _WARNING,
        "sessions of several directories share one project folder",
        "`claude --continue` mixes them up",
        "2.1.325 continued such a log",
        "recollect mv --split {path}",
    ),
    "ignored-settings": CheckRule(
        _ERROR,
        "settings with a value of the wrong type",
        "ignores the whole file silently, deny rules included",
        "2.0.76 and 2.1.325 ran with such files",
        "mend {path}",
    ),
    "unreadable-config": CheckRule(
        _ERROR, "the client's global config is not JSON", "starts as if it were new", _UNSEEN, "mend {path}"
    ),
    "open-mode": CheckRule(
        _WARNING,
        "other users of this machine may read it",
        "creates its files for one user",
        _FRESH,
        "chmod go-rwx {path}",
    ),
    "expiring": CheckRule(
        _WARNING,
        "the client will delete sessions soon, and they are not archived",
        "deletes logs that are older than `cleanupPeriodDays`",
        "documented",
        "recollect archive add --all",
    ),
    "expiring-archived": CheckRule(
        _INFO,
        "the client will delete sessions soon; all of them are archived",
        "deletes logs that are older than `cleanupPeriodDays`",
        "documented",
    ),
    "secrets": CheckRule(
        _INFO, "there are credentials in the logs", "sends them on resume", _OURS, "recollect scan --all"
    ),
    "unfinished-change": CheckRule(
        _WARNING, "a change of ours was interrupted", _OURS, _OURS, "recollect undo --recover"
    ),
    "damaged-change": CheckRule(
        _WARNING, "a record of a change of ours cannot be read; it cannot be undone", _OURS, _OURS
    ),
    "plugin-failed": CheckRule(
        _WARNING,
        "a check of another package failed; its problems were not searched for",
        _OURS,
        _OURS,
        "update or remove that package, or use `check --no-plugins`",
    ),
}
