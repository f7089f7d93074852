"""What a repair can do to a line: one table of texts for the plan and for ``check``."""

from __future__ import annotations

# By the code of an action: what it does. Codes are stable, scripts rely on them.
ACTIONS: dict[str, str] = {
    # lines
    "nul-trimmed": "remove NUL bytes",
    "glued-split": "put each entry on a line of its own",
    "entry-saved": "keep the complete entry of the line, set the rest aside",
    "torn-tail": "set half an entry at the end aside",
    "unreadable": "set the line aside",
    # times and links
    "time-filled": "give the entry a time",
    "relinked": "link the entry to one that is in the log",
    "leaf-kept": "mark the end of the longer branch",
    # content
    "call-renamed": "give the call another id",
    "result-renamed": "give the result the new id of its call",
    "empty-text": "remove empty text",
    "image-replaced": "replace the image with a note",
    "misplaced-block": "remove blocks that this role cannot send",
    "thinking-removed": "remove thinking that the API refuses",
    # only on request
    "slimmed": "remove what a resume does not need",
}
