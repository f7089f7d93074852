"""What a repair can do to a line: one table of texts for the plan and for ``check``."""

from __future__ import annotations

# By the code of an action: what it does. Codes are stable, scripts rely on them.
ACTIONS: dict[str, str] = {
    # lines
    "newline-added": "end the last line with a newline",
    "utf8-replaced": "replace bytes that are not UTF-8",
    "nul-trimmed": "remove NUL bytes",
    "glued-split": "put each entry on a line of its own",
    "entry-saved": "keep the complete entry of the line, set the rest aside",
    "torn-tail": "set half an entry at the end aside",
    "unreadable": "set the line aside",
    # times and links
    "time-filled": "give the entry a time",
    "relinked": "link the entry to one that is in the log",
    "circle-cut": "cut the circle",
    "leaf-kept": "mark the end of the longer branch",
    # calls
    "result-moved": "move the result to its call",
    "line-moved": "move the line to the answer it belongs to",
    "result-made": "add a result that says it was lost",
    "call-renamed": "give the call another id",
    "result-renamed": "give the result the new id of its call",
    "orphan-result": "keep the result as text",
    # content
    "empty-text": "remove empty text",
    "image-replaced": "replace the image with a note",
    "misplaced-block": "remove blocks that this role cannot send",
    "thinking-removed": "remove thinking that the API refuses",
    # only on request
    "slimmed": "remove what a resume does not need",
}
