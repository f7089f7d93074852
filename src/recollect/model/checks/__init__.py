"""The rules of ``recollect check``: every code, its severity, its meaning and its fix.

``CODES`` is the whole table. A code never changes its meaning or its severity, because scripts rely on both;
a rule whose severity depends on the case is two codes. Each family of rules has its own file:

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
and says which of them a repair fixes. What client 2.1.325 repairs by itself on resume is at most a warning.
"""

from __future__ import annotations

from msgspec import Struct

from recollect.model.findings import Severity

_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
REPAIR = "recollect repair {session}"
_NONE = "nothing to do"
# No command fixes these; this one saves what can be read.
_EXPORT = "recollect export {session}"


class CheckRule(Struct, frozen=True):
    """One row of the table. ``source`` names the requirement behind it, if there is one.

    A rule whose ``fix`` is a repair can be fixed by one. Whether it is, in a given log, only the repair plan
    shows (``model/diagnosis.py``); otherwise ``other_fix`` says what to do.
    """

    severity: Severity
    meaning: str
    fix: str = _NONE
    source: str = ""

    @property
    def is_mendable(self) -> bool:
        """Whether a repair can fix it."""
        return self.fix == REPAIR

    @property
    def other_fix(self) -> str:
        """What to do where a repair does not fix it."""
        if not self.is_mendable:
            return self.fix
        return _EXPORT if self.severity is Severity.ERROR else _NONE


class RuleViolation(Struct, frozen=True):
    """A violated rule and where in the log. ``line`` counts from 1; 0 where only the offset is known.

    ``subject`` distinguishes several violations in one entry, for example by the id of a call.
    """

    code: str
    what: str
    offset: int | None = None
    uuid: str | None = None
    line: int = 0
    subject: str = ""


CODES: dict[str, CheckRule] = {
    # lines
    "invalid-json": CheckRule(_ERROR, "a line that is not JSON; the client passes over it", REPAIR, "002"),
    "glued-objects": CheckRule(_ERROR, "several entries on one line; the client loses all of them", REPAIR),
    "nul-run": CheckRule(_ERROR, "NUL bytes where a crash kept the disk from getting text", REPAIR),
    "torn-tail": CheckRule(_ERROR, "half an entry at the end of a log that no client has open", REPAIR),
    "missing-final-newline": CheckRule(
        _WARNING, "the last entry has no newline; client 2.0.76 appends its next one to the same line", REPAIR
    ),
    "not-an-object": CheckRule(_WARNING, "JSON, but not an object; client 2.1.197 fails at `null`", REPAIR),
    "invalid-utf8": CheckRule(
        _WARNING, "bytes that are not UTF-8; the client shows replacement marks", REPAIR
    ),
    "oversize-line": CheckRule(_WARNING, "a line too long to be parsed"),
    "too-deep": CheckRule(_WARNING, "a line nested too deeply to be parsed"),
    "unknown-shape": CheckRule(_WARNING, "a known type with unexpected contents", source="002"),
    "unknown-type": CheckRule(
        _INFO, "a type of line that recollect does not know; it is kept as it is", source="002"
    ),
    "lone-surrogate": CheckRule(_INFO, "half a surrogate pair; the client shows a replacement mark"),
    "byte-order-mark": CheckRule(_INFO, "a line starts with a byte order mark; the client reads it anyway"),
    "crlf": CheckRule(_INFO, "lines end in CR LF; the client reads them anyway"),
    "being-written": CheckRule(_INFO, "an unfinished line in a session that a client has open"),
    # ids and links
    "invalid-id": CheckRule(
        _WARNING, "an entry's id is not a UUID; the client takes any id", source="000, 001"
    ),
    "missing-id": CheckRule(
        _ERROR, "a message without id; the client cannot follow the chain over it", _EXPORT, "000"
    ),
    "duplicate-id": CheckRule(
        _WARNING, "one id, several lines with other bytes; the client takes the last", source="000, 001"
    ),
    "repeated-entry": CheckRule(
        _INFO, "a line that is in the log more than once, byte for byte", source="000"
    ),
    "missing-parent": CheckRule(
        _WARNING,
        "an entry follows one that is not in the log; no history that would be sent is lost",
        REPAIR,
        "000, 001",
    ),
    "history-cut": CheckRule(
        _ERROR, "on resume the client sends only what follows this entry", REPAIR, "000, 001"
    ),
    "unlinked-answer": CheckRule(
        _ERROR, "the history that is sent begins with an answer, which names no parent", REPAIR, "000, 001"
    ),
    "circle": CheckRule(
        _WARNING, "entries follow each other in a circle; client 2.0.76 hangs", REPAIR, "000"
    ),
    "second-root": CheckRule(_INFO, "the log holds another conversation, which is not resumed"),
    "other-session-id": CheckRule(_INFO, "entries name another session; the name of the file decides"),
    "session-not-found": CheckRule(
        _ERROR, "without a time at its end the client finds no conversation", REPAIR
    ),
    "nothing-said": CheckRule(_ERROR, "there are messages, but nothing in them that could be sent", _EXPORT),
    "no-conversation": CheckRule(_INFO, "the log holds no conversation, only other lines"),
    "empty-log": CheckRule(_WARNING, "the log is empty", "recollect rm {session}"),
    "foreign-name": CheckRule(_INFO, "the name of the log is not a UUID; the client never lists it"),
    # times
    "bad-timestamp": CheckRule(_WARNING, "a chain entry without a time in ISO 8601", source="001"),
    "time-order": CheckRule(_WARNING, "an entry is older than the one it follows", source="000, 001"),
    # calls
    "call-without-result": CheckRule(
        _WARNING, "a tool call that never got a result; the client drops it on resume", REPAIR, "001"
    ),
    "open-call": CheckRule(
        _INFO, "a tool call without result where that is usual: at an end, or on another branch"
    ),
    "result-without-call": CheckRule(
        _WARNING, "a result whose call is not in the log; the client sends `(no content)` for it", REPAIR
    ),
    "duplicate-call-id": CheckRule(
        _WARNING, "several calls have one id; the client keeps the first pair", REPAIR, "001"
    ),
    "duplicate-result": CheckRule(_WARNING, "several results for one call; the client keeps the first"),
    "result-cut-off": CheckRule(
        _WARNING, "its call is in the log, but a compaction, fork or rewind keeps it from being sent", REPAIR
    ),
    "result-not-reached": CheckRule(
        _WARNING, "the result is in the log, but not in the conversation that is resumed", REPAIR
    ),
    "result-not-sent": CheckRule(
        _WARNING, "the result follows a later answer; the client reports it to the API as missing", REPAIR
    ),
    # what the API would refuse on every request
    "api-unpaired-call": CheckRule(_ERROR, "a tool_use would be sent without its tool_result", REPAIR),
    "api-unpaired-result": CheckRule(_ERROR, "a tool_result would be sent without its tool_use", REPAIR),
    "api-repeated-call": CheckRule(_ERROR, "the same tool_use id would be sent twice", REPAIR),
    "api-bad-call-id": CheckRule(_ERROR, "a tool_use id with characters that the API refuses", REPAIR),
    "api-misplaced-block": CheckRule(
        _ERROR, "a block would be sent that only the other side may send", REPAIR
    ),
    "api-empty-text": CheckRule(_ERROR, "an empty text block would be sent", REPAIR),
    "api-empty-content": CheckRule(_ERROR, "a message without content would be sent", REPAIR),
    "api-unsigned-thinking": CheckRule(_ERROR, "thinking without signature would be sent", REPAIR),
    "api-emptied-thinking": CheckRule(_ERROR, "thinking whose text was removed would be sent", REPAIR),
    "api-empty-image": CheckRule(_ERROR, "an image without data would be sent", REPAIR),
    "api-oversize-image": CheckRule(
        _ERROR, "an image of more than 5 MB or 8000 pixels would be sent", REPAIR
    ),
    "api-not-checked": CheckRule(_INFO, "the conversation is too large to be built and checked"),
    # the home
    "captures-continue": CheckRule(
        _ERROR,
        "`claude --continue` would take this log and start with no history",
        "recollect rm {session}",
    ),
    "unreadable": CheckRule(_ERROR, "it cannot be read at all", "check its permissions and the disk"),
    "orphan-agent": CheckRule(_WARNING, "a sub-agent's log whose session is gone"),
    "orphan-todos": CheckRule(_INFO, "todos of a session that is gone"),
    "orphan-tasks": CheckRule(_INFO, "tasks of a session that is gone"),
    "path-collision": CheckRule(
        _WARNING,
        "sessions of several directories share one project folder; `--continue` mixes them up",
        "recollect mv --split {path}",
    ),
    "ignored-settings": CheckRule(
        _ERROR, "settings that the client ignores as a whole and silently, deny rules included", "mend {path}"
    ),
    "unreadable-config": CheckRule(_ERROR, "the client's global config is not JSON", "mend {path}"),
    "open-mode": CheckRule(_WARNING, "other users of this machine may read it", "chmod go-rwx {path}"),
    "expiring": CheckRule(
        _WARNING,
        "the client will delete sessions soon, and they are not archived",
        "recollect archive add --all",
    ),
    "expiring-archived": CheckRule(_INFO, "the client will delete sessions soon; all of them are archived"),
    "secrets": CheckRule(_INFO, "there are credentials in the logs", "recollect scan --all"),
    "unfinished-change": CheckRule(_WARNING, "a change of ours was interrupted", "recollect undo --recover"),
    "damaged-change": CheckRule(_WARNING, "a record of a change of ours cannot be read; it cannot be undone"),
    "plugin-failed": CheckRule(
        _WARNING,
        "a check of another package failed; its problems were not searched for",
        "update or remove that package, or use `check --no-plugins`",
    ),
}
