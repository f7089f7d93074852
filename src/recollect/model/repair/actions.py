"""What a repair can do to a line, in words: one table for the plan and for what ``check`` says of it."""

from __future__ import annotations

# By the code of an action: what it does. Codes are stable, scripts rely on them.
ACTIONS: dict[str, str] = {
    # lines
    "newline-added": "end the last line with a newline",
    "utf8-replaced": "replace bytes that are not UTF-8",
    "nul-trimmed": "take NUL bytes out",
    "glued-split": "put each entry on a line of its own",
    "entry-saved": "keep the whole entry of the line, set the rest aside",
    "torn-tail": "set half an entry at the end aside",
    "unreadable": "set the line aside",
    # times and links
    "time-filled": "give the entry a time",
    "relinked": "let the entry follow one that is in the log",
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
    "empty-text": "take empty text out",
    "image-replaced": "put a note in place of the image",
    "misplaced-block": "take out blocks that this side of the talk cannot send",
    "thinking-removed": "take out thinking that the API refuses",
    # only where it is asked for
    "slimmed": "take out what no resume needs",
}
