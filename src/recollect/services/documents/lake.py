"""The reports of ``export --format parquet --json`` and ``sql --json``."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class LakeTableDocument(Struct, frozen=True):
    """A table of the lake as it is now."""

    rows: int
    bytes: int


class LakeDocument(Struct, frozen=True, kw_only=True):
    """An export to a lake. ``written`` and ``removed`` are files below ``output``."""

    format: str
    output: str
    schema_version: int
    with_text: bool
    tables: dict[str, LakeTableDocument]
    written: list[str]
    removed: list[str]
    logs: int
    logs_read: int
    notes: list[str]


class SqlColumnDocument(Struct, frozen=True):
    """A column of a result; ``type`` is DuckDB's."""

    name: str
    type: str


class SqlDocument(Struct, frozen=True, kw_only=True):
    """The rows of a query. Decimals and times are texts, so that no digit is lost; ``truncated``: there are more."""

    source: str
    columns: list[SqlColumnDocument]
    rows: list[list[Any]]
    truncated: bool
