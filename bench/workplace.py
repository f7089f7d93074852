"""What the measurements of one run share: a home that may grow, our index of it, the peers.

All of it lies in one scratch directory of the benchmark's cache (a temporary directory may be
memory, and an index is several hundred megabytes) and is removed at the end.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.corpora import Corpus, cache_directory, copied, newest_log
from bench.measured import Taken, run
from bench.peers import AgentsView, CCUsage, Peers, plain_environment


class Workplace:
    """One corpus, measured. Use as a context manager."""

    def __init__(self, corpus: Corpus, peers: Peers, *, is_full: bool, rounds: int) -> None:
        self.corpus = corpus
        self.peers = peers
        self.is_full = is_full
        self.rounds = rounds
        self.slow_rounds = 1 if is_full else min(rounds, 2)
        cache_directory().mkdir(parents=True, exist_ok=True)
        self.scratch = Path(tempfile.mkdtemp(prefix="run-", dir=cache_directory()))
        self.user_home = self._directory("user")
        self.home = self.scratch / "home"
        self.data = self.scratch / "data"
        self.growing = copied(corpus.path, self.home, newest_log(corpus.path))
        self.ccusage = CCUsage(peers.ccusage, self.home, self.user_home) if peers.ccusage else None
        self.agentsview = (
            AgentsView(peers.agentsview, self.home, self.user_home, self.scratch / "agentsview")
            if peers.agentsview
            else None
        )

    def __enter__(self) -> Workplace:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        """What our own command is started with."""
        return plain_environment(self.user_home)

    def recollect(
        self,
        *arguments: str,
        data: Path | None = None,
        stdin: str = "",
        is_family_watched: bool = False,
        expected: Sequence[int] = (0,),
    ) -> Taken:
        """Our own command over the home, as a fresh process."""
        return recollect(
            self.home,
            data or self.data,
            self.environment,
            *arguments,
            stdin=stdin,
            is_family_watched=is_family_watched,
            expected=expected,
        )

    def ensure_index(self) -> None:
        """Our index, built unless an earlier measurement left one, and in step with the home."""
        self.recollect("search", "the", "--rank", "--json")  # other first questions do not wait for it

    def ensure_synced(self) -> AgentsView | None:
        """agentsview with an index in step with the home."""
        if self.agentsview is not None:
            self.agentsview.sync()
        return self.agentsview

    def add_line(self) -> int:
        """One more response in the newest session; returns its tokens."""
        line = _next_response(self.growing)
        with self.growing.open("ab") as log:
            log.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        usage = line["message"]["usage"]
        names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        return sum(usage[name] for name in names)

    def _directory(self, name: str) -> Path:
        made = self.scratch / name
        made.mkdir()
        return made


def recollect(
    home: Path,
    data: Path,
    environment: dict[str, str],
    *arguments: str,
    stdin: str = "",
    is_family_watched: bool = False,
    expected: Sequence[int] = (0,),
) -> Taken:
    """``recollect ARGUMENTS`` over a home, with its index below ``data``."""
    command = [*our_program(), "--home", home, "--data", data, *arguments]
    return run(command, environment, stdin=stdin, is_family_watched=is_family_watched, expected=expected)


def our_program() -> list[str | Path]:
    """How our command is started: as it was installed, else as a module."""
    script = Path(sys.executable).with_name("recollect")
    return [script] if script.is_file() else [sys.executable, "-m", "recollect"]


def _next_response(log: Path) -> dict[str, Any]:
    """The last response of a log once more, under ids of its own."""
    lines = [
        line
        for line in log.read_bytes().split(b"\n")
        if b'"type":"assistant"' in line and b'"usage":{' in line
    ]
    last: dict[str, Any] = json.loads(lines[-1])
    fresh = uuid.uuid4().hex
    last.pop("forkedFrom", None)
    last["parentUuid"], last["uuid"] = last["uuid"], str(uuid.UUID(fresh))
    last["requestId"] = f"req_{fresh[:24]}"
    last["message"] |= {"id": f"msg_{fresh[:24]}", "stop_reason": "end_turn"}
    last["timestamp"] = re.sub(r"\.\d+Z$", ".999Z", last["timestamp"])
    return last
