"""An exporter: a session as an Org mode outline, one heading a prompt.

python exporter.py SESSION [HOME]     # not redacted
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import recollect


def outline(session: recollect.Session) -> Iterator[bytes]:
    """The document, a message at a time: the longest message is what is held in memory."""
    yield f"#+TITLE: {' '.join(session.title.split())}\n".encode()
    for message in session.messages():
        if message.is_meta:
            continue
        for block in message.blocks:
            yield "".join(part + "\n" for part in lines(message.role, block)).encode("utf-8", "replace")


def lines(role: str, block: recollect.Block) -> Iterator[str]:
    """One block. A type checker knows from ``type`` which fields a block has."""
    if block.type == "text" and role == "user":
        first, *rest = block.text.splitlines() or [""]
        yield f"* {first}"
        yield from map(indented, rest)
    elif block.type == "text":
        yield from map(indented, block.text.splitlines())
    elif block.type == "tool_use":
        yield f"** {block.name}"
    elif block.type == "tool_result":
        yield "#+BEGIN_EXAMPLE"
        yield from map(indented, block.text().splitlines()[:20])
        yield "#+END_EXAMPLE"


def indented(text: str) -> str:
    """So that a line of a transcript is never taken for a heading or a keyword."""
    return f"  {text}"


def main() -> int:
    """Write one session to standard output."""
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        session = recollect.Home(*sys.argv[2:]).session(sys.argv[1])
    except recollect.RecollectError as problem:
        print(problem, file=sys.stderr)
        return problem.exit_code
    for piece in outline(session):
        sys.stdout.buffer.write(piece)
    return 0


if __name__ == "__main__":
    sys.exit(main())
