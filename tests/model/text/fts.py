"""SQLite's own tokenizer, for what it finds."""

from __future__ import annotations

import apsw

from recollect.model.text.terms import indexed_text


class Index:
    """The table of the index with two of its columns, holding one message at a time."""

    def __init__(self) -> None:
        self.db = apsw.Connection(":memory:")
        self.db.execute(
            "CREATE VIRTUAL TABLE texts USING fts5(prose, title, content='', contentless_delete=1,"
            " tokenize='unicode61 remove_diacritics 2')"
        )
        self.db.execute("CREATE VIRTUAL TABLE vocabulary USING fts5vocab(texts, 'instance')")

    def put(self, fields: dict[str, str]) -> None:
        """A message, its texts prepared as ingest does."""
        self.put_prepared(*(indexed_text(fields.get(name, "")) for name in ("prose", "title")))

    def put_prepared(self, prose: str, title: str = "") -> None:
        self.db.execute("DELETE FROM texts WHERE rowid = 1")
        self.db.execute("INSERT INTO texts(rowid, prose, title) VALUES (1, ?, ?)", (prose, title))

    def tokens(self) -> list[str]:
        return [str(term) for (term,) in self.db.execute("SELECT term FROM vocabulary ORDER BY offset")]

    def finds(self, expression: str) -> bool:
        return bool(list(self.db.execute("SELECT 1 FROM texts WHERE texts MATCH ?", (expression,))))
