"""One home under test, asked through commands in this process."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recollect.cli.main import main


class Case:
    """A home, and a directory of our own beside it."""

    def __init__(self, home: Path, place: Path) -> None:
        self.home, self.place, self.data = home, place, place / "data"

    def said(self, *words: str, typed: str = "") -> str:
        """What a command prints."""
        with _streams(typed) as printed:
            main(["--home", str(self.home), "--data", str(self.data), *words])
        return printed.getvalue().decode()

    def document(self, *words: str) -> Any:
        """The document a command prints with ``--json``."""
        return json.loads(self.said(*words, "--json"))


@contextlib.contextmanager
def _streams(typed: str) -> Iterator[io.BytesIO]:
    """Standard streams that are no terminal; notes are not looked at."""
    printed = io.BytesIO()
    before = sys.stdin
    out = io.TextIOWrapper(printed, encoding="utf-8", write_through=True)
    sys.stdin = io.StringIO(typed)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            yield printed
    finally:
        sys.stdin = before
        out.detach()
