"""How well questions are answered: by session, over real transcripts, alone and among many other logs.

    python -m bench.recalling CORPUS QUESTIONS [--pile HOME]... [--data DIR] [--every]

CORPUS is a directory of Claude homes; QUESTIONS a file of JSON lines, each with a ``query`` and the ``files`` (below
CORPUS) that answer it, such as ``bench/recall_questions.jsonl``. Printed are the shares of questions whose session came first, and was among the first five and
ten, the CPU time of an answer, and every question that was not answered first, with the session that beat it.

A second set is made from the corpus: each title is a question for the sessions that have it, asked of a copy without
any title (known item), over all projects and within its own. ``--pile`` adds homes to the index; they are only read.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from recollect.ask.search.recall import recall
from recollect.index.access import OpenIndex, open_index
from recollect.model.text.titles import directory_name

_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}
_SHOWN = 10


class Question(NamedTuple):
    """A question and the sessions that answer it, as the index names them."""

    text: str
    sessions: frozenset[str]
    project: str | None = None
    name: str = ""


class Score(NamedTuple):
    """Percent of the questions that were answered first, among the first five, and ten; CPU milliseconds."""

    first: float
    five: float
    ten: float
    median_ms: float
    slow_ms: float
    failing: list[str]

    def line(self, name: str, count: int) -> str:
        hits = f"hit@1/@5/@10 {self.first:.1f}/{self.five:.1f}/{self.ten:.1f}"
        return f"{name} ({count}): {hits}, CPU p50 {self.median_ms:.0f} ms, p95 {self.slow_ms:.0f} ms"


def homes_of(corpus: Path) -> list[Path]:
    return sorted(home for home in corpus.resolve().iterdir() if (home / "projects").is_dir())


def asked(questions: Sequence[Question], opened: OpenIndex, *, in_project: bool = False) -> Score:
    places, times, failing = [], [], []
    for one in questions:
        project = one.project if in_project else None
        began = time.process_time()
        found = recall(one.text, opened=opened, project=project, limit=_SHOWN)
        times.append((time.process_time() - began) * 1000)
        names = [session.session or session.hits[0].path for session in found.sessions]
        place = next((number for number, name in enumerate(names) if name in one.sessions), None)
        places.append(place)
        if place != 0:
            best = found.sessions[0] if found.sessions else None
            beaten = "nothing" if best is None else f"{best.title!r} ({best.hits[0].snippet.text[:90]!r})"
            where = "not among ten" if place is None else f"place {place + 1}"
            failing.append(f"{one.name} {one.text!r}: {where}; first: {beaten}")

    def share(most: int) -> float:
        return 100 * sum(place is not None and place < most for place in places) / len(places)

    slow = sorted(times)[int(len(times) * 0.95)]
    return Score(share(1), share(5), share(10), statistics.median(times), slow, failing)


def written_questions(path: Path, corpus: Path, opened: OpenIndex) -> list[Question]:
    sessions = _sessions(opened)
    return [
        Question(
            one["query"],
            frozenset(sessions[str(corpus.resolve() / file)] for file in one["files"]),
            name=one["id"],
        )
        for one in map(json.loads, path.read_text().splitlines())
    ]


def _sessions(opened: OpenIndex) -> dict[str, str]:
    assert opened.database is not None
    return dict(opened.database.rows("SELECT path, coalesce(session, path) FROM files"))  # type: ignore[arg-type]


def without_titles(corpus: Path, copy: Path) -> dict[str, list[Path]]:
    """Copy the homes without any line that gives a title; returns the logs of each title."""
    titled: dict[str, list[Path]] = {}
    for home in homes_of(corpus):
        for log in sorted((home / "projects").rglob("*.jsonl")):
            target = copy / home.name / log.relative_to(home)
            target.parent.mkdir(parents=True, exist_ok=True)
            kept = []
            for line in log.read_bytes().splitlines(keepends=True):
                title = _title(line)
                if title is None:
                    kept.append(line)
                elif target not in titled.setdefault(title, []):
                    titled[title].append(target)
            target.write_bytes(b"".join(kept))
    return titled


def _title(line: bytes) -> str | None:
    if not any(kind.encode() in line for kind in _TITLES):
        return None
    with contextlib.suppress(ValueError):
        entry: Any = json.loads(line)
        if isinstance(entry, dict) and entry.get("type") in _TITLES:
            return str(entry.get(_TITLES[entry["type"]], ""))
    return None


def known_items(titled: dict[str, list[Path]], opened: OpenIndex) -> list[Question]:
    assert opened.database is not None
    sessions = _sessions(opened)
    directories = {
        str(path): str(cwd)
        for path, cwd in opened.database.rows(
            "SELECT path, text FROM files JOIN names ON names.id = files.cwd"
        )
    }
    return [
        Question(
            title,
            frozenset(sessions[str(log)] for log in logs if str(log) in sessions),
            next((directory_name(directories[str(log)]) for log in logs if str(log) in directories), None),
            "title",
        )
        for title, logs in titled.items()
        if any(str(log) in sessions for log in logs)
    ]


@contextlib.contextmanager
def _indexed(homes: Sequence[Path], data: Path) -> Iterator[OpenIndex]:
    with open_index(homes, cache=data) as opened:
        yield opened


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--pile", type=Path, action="append", default=[], help="more homes in the same index")
    parser.add_argument("--data", type=Path, help="keep the indexes in this directory")
    parser.add_argument(
        "--every", action="store_true", help="print every question that was not answered first"
    )
    options = parser.parse_args()
    data = options.data or Path(tempfile.mkdtemp(prefix="recollect-recall-"))
    try:
        for name, pile in (("alone", []), ("in the pile", options.pile))[: 2 if options.pile else 1]:
            with _indexed([*homes_of(options.corpus), *pile], data / "asked") as opened:
                questions = written_questions(options.questions, options.corpus, opened)
                _report(f"questions {name}", questions, opened, every=options.every)
            copy = data / "untitled"
            titled = without_titles(options.corpus, copy)
            with _indexed([*homes_of(copy), *pile], data / "known") as opened:
                items = known_items(titled, opened)
                _report(f"known items {name}", items, opened, every=options.every)
                placed = [one for one in items if one.project]
                _report(
                    f"known items {name}, own project", placed, opened, every=options.every, in_project=True
                )
    finally:
        if options.data is None:
            shutil.rmtree(data)


def _report(
    name: str, questions: Sequence[Question], opened: OpenIndex, *, every: bool, in_project: bool = False
) -> None:
    score = asked(questions, opened, in_project=in_project)
    print(score.line(name, len(questions)), flush=True)
    for line in score.failing if every else ():
        print("  ", line)


if __name__ == "__main__":
    main()
