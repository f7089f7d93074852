"""An index as values that can be compared: ids replaced by what they stand for, order by meaning.

Two indexes of the same logs are equal when these are, whatever happened on the way. What legitimately
depends on the way is left out and named here: row numbers, names that nothing uses any more, how much of
a log's head was hashed, and the newest times of spans (checked as bounds in ``faults``).
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from recollect.index.database import IndexDatabase
from recollect.index.schema import MIRRORED, QUARTER_MS, ROLE_BITS, SPAN_BITS
from recollect.model.cost.line_usage import ResponseCopy, marks
from tests.client_parser import client_lines

COUNTS = "input, output, cache_write_5m, cache_write_1h, cache_read, web_searches"
Row = tuple[Any, ...]


def rows(index: IndexDatabase, sql: str) -> list[Row]:
    """All rows of a question, as whatever they are."""
    return list(index.connection.execute(sql))


class Projection(NamedTuple):
    """What an index says of the logs that are there, and of all logs together."""

    files: list[Row]
    messages: list[Row]
    words: Counter[Row]
    usage: list[Row]
    cost_states: list[Row]
    catalogue: list[Row]
    damage: list[Row]
    typed: Counter[Row]
    recall: Counter[Row]
    calls: list[Row]


def projection(index: IndexDatabase) -> Projection:
    """Everything about logs that are not gone."""
    return Projection(
        files(index),
        messages(index),
        words(index),
        usage(index),
        cost_states(index),
        catalogue(index),
        damage(index),
        typed(index),
        recall(index),
        calls(index),
    )


def differences(expected: Projection, actual: Projection) -> list[str]:
    """What one says and the other does not, in words a failing test can show."""
    found = []
    for name, right, wrong in zip(Projection._fields, expected, actual, strict=True):
        left, more = Counter(map(repr, right)), Counter(map(repr, wrong))
        if isinstance(right, Counter) and isinstance(wrong, Counter):
            left, more = Counter(right), Counter(wrong)
        found += [f"{name}: missing {row}" for row in left - more]
        found += [f"{name}: surplus {row}" for row in more - left]
    return found


def files(index: IndexDatabase) -> list[Row]:
    return sorted(
        rows(
            index,
            "SELECT path, home, role, session, agent, size, mtime, inode, device, consumed, tail, first_at, last_at,"
            " messages, damaged, (SELECT text FROM names WHERE id = cwd), (SELECT text FROM names WHERE id = branch)"
            " FROM files WHERE NOT gone",
        )
    )


def catalogue(index: IndexDatabase) -> list[Row]:
    """What a list shows; how the count of messages was come by depends on the way and is checked by itself."""
    return sorted(
        rows(
            index,
            "SELECT path, lines, begins_aside, custom_title, ai_title, last_prompt, first_prompt, next_prompt, tag"
            " FROM catalogue JOIN files ON files.id = file",
        ),
        key=repr,
    )


def damage(index: IndexDatabase) -> list[Row]:
    return sorted(rows(index, "SELECT path, code, lines FROM damage JOIN files ON files.id = file"))


def typed(index: IndexDatabase) -> Counter[Row]:
    """Every piece of every prompt, with the place of its line."""
    places = {
        number: tuple(place)
        for number, *place in rows(
            index, "SELECT messages.id, path, offset FROM messages JOIN files ON files.id = file"
        )
    }
    index.connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.pieces USING fts5vocab(main, typed, instance)"
    )
    return Counter(
        (places.get(doc, ("no message", doc)), term, offset)
        for term, doc, offset in rows(index, "SELECT term, doc, offset FROM temp.pieces")
    )


def recall(index: IndexDatabase) -> Counter[Row]:
    """Every word that a question can be asked with: who said it, and the first place of its text."""
    places = first_places(index)
    index.connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.recalled USING fts5vocab(main, recall, instance)"
    )
    return Counter(
        (places.get(doc >> ROLE_BITS, ("no message", doc)), doc & 7, term)
        for term, doc in rows(index, "SELECT term, doc FROM temp.recalled")
    )


def messages(index: IndexDatabase) -> list[Row]:
    """Each with the first place of its text: copies share one text row.

    Lengths are those of what the client reads: a whole last value is taken before the rest of its line comes, a newline
    or what the client ignores, and is not read again for it.
    """
    first = first_places(index)
    logs = functools.cache(lambda path: Path(path).read_bytes() if Path(path).is_file() else b"")
    found = rows(
        index,
        "SELECT path, offset, length, uuid, at, kind, digest, text FROM messages JOIN files ON files.id = file",
    )
    return sorted(
        (
            (
                path,
                offset,
                _read_length(logs(path)[offset : offset + length]) if path.endswith(".jsonl") else length,
                *rest,
                first.get(text),
            )
            for path, offset, length, *rest, text in found
        ),
        key=lambda row: row[:2],
    )


def _read_length(line: bytes) -> int:
    lines, _ = client_lines(line)
    end = lines[0].value_end if lines else None
    return len(line) if end is None or b"\n" in line[end:-1] else end


def first_places(index: IndexDatabase) -> dict[Any, Row]:
    found: dict[Any, Row] = {}
    for text, *place in rows(
        index,
        "SELECT text, path, offset FROM messages JOIN files ON files.id = file WHERE text NOT NULL"
        " ORDER BY path, offset",
    ):
        found.setdefault(text, tuple(place))
    return found


def words(index: IndexDatabase) -> Counter[Row]:
    """Every word with its place in every text, as the full-text table itself has it."""
    first = first_places(index)
    index.connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.words USING fts5vocab(main, texts, instance)"
    )
    return Counter(
        (first.get(doc, ("no message", doc)), term, column, offset)
        for term, doc, column, offset in rows(index, "SELECT term, doc, col, offset FROM temp.words")
    )


def calls(index: IndexDatabase) -> list[Row]:
    """Tool calls of logs that are there; which copy counts also depends on logs that are gone (``faults``)."""
    return rows(
        index,
        "SELECT path, place, key, names.text, coalesce(kind, 0) > 0, coalesce(calls.at, -1), coalesce(took, -1), state,"
        " is_retry, is_commit, forked, changes, coalesce(answer, -1) FROM calls JOIN files ON files.id = file"
        " JOIN names ON names.id = tool WHERE NOT gone",
    )


def usage(index: IndexDatabase) -> list[Row]:
    """Every copy of every response; which one counts is checked by itself."""
    return sorted(
        rows(
            index,
            "SELECT coalesce(message, ''), message IS NULL, request, path, speaker, has_stop, forked,"
            " coalesce(usage.at, -1), m.text, coalesce(b.text, ''), v.text, coalesce(t.text, ''),"
            f" variant, {COUNTS}, coalesce(recorded, -1), coalesce(duration, -1), hex(asked), typeof(asked), lines"
            " FROM usage JOIN responses ON responses.id = response JOIN files ON files.id = file"
            " LEFT JOIN names m ON m.id = model LEFT JOIN names b ON b.id = usage.branch"
            " LEFT JOIN names v ON v.id = version LEFT JOIN names t ON t.id = tool WHERE NOT gone",
        ),
        key=repr,
    )


def cost_states(index: IndexDatabase) -> list[Row]:
    return sorted(
        rows(
            index,
            "SELECT path, at, started, (SELECT text FROM names WHERE id = model), recorded, input, output,"
            " cache_write_5m, cache_write_1h, cache_read, web_searches"
            " FROM cost_states JOIN files ON files.id = file WHERE NOT gone",
        ),
        key=repr,
    )


def counting(index: IndexDatabase) -> list[Row]:
    """Which copies count, and the sums; equal in two indexes only where neither keeps gone logs."""
    marks = rows(
        index,
        "SELECT coalesce(message, ''), request, path, counted, output, lines FROM usage"
        " JOIN responses ON responses.id = response JOIN files ON files.id = file",
    )
    sums = rows(
        index,
        "SELECT quarter, path, (SELECT text FROM names WHERE id = model),"
        f" (SELECT text FROM names WHERE id = rollup.branch), variant, rollup.messages, {COUNTS}, recorded, unrecorded"
        " FROM rollup JOIN files ON files.id = file",
    )
    return [*sorted(marks, key=repr), *sorted(sums, key=repr)]


def totals(index: IndexDatabase) -> dict[str | None, Row]:
    """What is reported: the sums by model, gone logs included."""
    sums = ", ".join(f"sum({name.strip()})" for name in f"messages, {COUNTS}".split(","))
    found = rows(
        index, f"SELECT (SELECT text FROM names WHERE id = model), {sums} FROM rollup GROUP BY model"
    )
    return {model: tuple(counts) for model, *counts in found}


def faults(index: IndexDatabase) -> list[str]:
    """Which invariants of index/ingest.py do not hold; empty where all is well."""
    found: list[str] = []
    found += _check_texts(index)
    found += _check_counted(index)
    found += _check_rollup(index)
    found += _check_rows(index)
    found += _check_calls(index)
    return found


def _check_calls(index: IndexDatabase) -> list[str]:
    """One copy of each call counts: the first by (not forked, time, path); of mirrored calls each that is not forked."""
    by_key: defaultdict[int, list[Row]] = defaultdict(list)
    for row in rows(
        index,
        f"SELECT key, forked, calls.at IS NULL, coalesce(calls.at, 0), path, place, traits & {MIRRORED} AND NOT forked, counted"
        " FROM calls JOIN files ON files.id = file",
    ):
        by_key[row[0]].append(row[1:])
    expected = {key: _counting([bool(row[-2]) for row in sorted(own)]) for key, own in by_key.items()}
    actual = {key: [bool(row[-1]) for row in sorted(own)] for key, own in by_key.items()}
    return [f"call {key}: {actual[key]} count" for key in by_key if actual[key] != expected[key]]


def _counting(are_own: list[bool]) -> list[bool]:
    return are_own if any(are_own) else [number == 0 for number in range(len(are_own))]


def _check_texts(index: IndexDatabase) -> list[str]:
    texts = {row[0] for row in rows(index, "SELECT id FROM texts_docsize")}
    used = {row[0] for row in rows(index, "SELECT text FROM messages WHERE text NOT NULL")}
    found = [f"text {one} has no message" for one in texts - used]
    found += [f"message with text {one} has no text row" for one in used - texts]
    # Raises where the full-text table contradicts itself.
    index.connection.execute("INSERT INTO texts(texts) VALUES('integrity-check')")
    index.connection.execute("INSERT INTO recall(recall) VALUES('integrity-check')")
    asked = {row[0] >> ROLE_BITS for row in rows(index, "SELECT id FROM recall_docsize")}
    found += [f"a row of recall for text {one} has no message" for one in asked - used]
    newest: dict[int, int] = dict(rows(index, "SELECT span, newest FROM spans"))
    for text, at in rows(
        index, "SELECT text, max(at) FROM messages WHERE text NOT NULL AND at NOT NULL GROUP BY text"
    ):
        if newest.get(text >> SPAN_BITS, -1) < at:
            found.append(f"text {text} is newer than its span")
    return found


def _check_counted(index: IndexDatabase) -> list[str]:
    copies: dict[Any, list[tuple[Any, ResponseCopy, int]]] = defaultdict(list)
    for response, message, *row in rows(
        index,
        "SELECT response, message, request, speaker, output, has_stop, coalesce(at, 0), forked, path, counted, usage.id"
        " FROM usage JOIN responses ON responses.id = response JOIN files ON files.id = file",
    ):
        *fields, mark, number = row
        if message is None and not mark:
            return [f"usage {number} has no message id and does not count"]
        copies[response].append((number, ResponseCopy(*fields), mark))
    found = []
    for response, known in copies.items():
        right = marks([copy for _, copy, _ in known])
        marked = [mark for _, _, mark in known]
        if right != marked:
            found.append(f"response {response} has the marks {marked}, should have {right}")
    return found


def _check_rollup(index: IndexDatabase) -> list[str]:
    expected: dict[Row, list[int]] = {}
    for at, file, model, branch, variant, *counts, recorded in rows(
        index, f"SELECT at, file, model, branch, variant, {COUNTS}, recorded FROM copies WHERE counted"
    ):
        sums = expected.setdefault(((at or 0) // QUARTER_MS, file, model or 0, branch or 0, variant), [0] * 9)
        for place, amount in enumerate((1, *counts, recorded or 0, int(recorded is None))):
            sums[place] += amount
    actual = {row[:5]: list(row[5:]) for row in rows(index, "SELECT * FROM rollup")}
    return [] if expected == actual else [f"rollup is {actual}, should be {expected}"]


def _check_rows(index: IndexDatabase) -> list[str]:
    """No row without what it belongs to."""
    questions = {
        "message without a log": "SELECT id FROM messages WHERE file NOT IN (SELECT id FROM files)",
        "message of a gone log": "SELECT id FROM messages WHERE file IN (SELECT id FROM files WHERE gone)",
        "usage without a log": "SELECT id FROM usage WHERE file NOT IN (SELECT id FROM files)",
        "usage without a response": "SELECT id FROM usage WHERE response NOT IN (SELECT id FROM responses)",
        "response without usage": "SELECT id FROM responses WHERE id NOT IN (SELECT response FROM usage)",
        "cost state without a log": "SELECT file FROM cost_states WHERE file NOT IN (SELECT id FROM files)",
        "rollup without a log": "SELECT file FROM rollup WHERE file NOT IN (SELECT id FROM files)",
        "a gone tool output": "SELECT id FROM files WHERE gone AND role = 2",
    }
    return [f"{what}: {found}" for what, sql in questions.items() if (found := rows(index, sql))]
