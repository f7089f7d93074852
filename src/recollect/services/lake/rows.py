"""Rows of a lake as Arrow tables, whatever the logs were read from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from recollect.model.cost.money import usd
from recollect.services.lake.lake_files import schema_of
from recollect.services.lake.log_rows import LogRows
from recollect.services.lake.schema import LakeTable, arrow_array, pyarrow


class PlacedLog(Protocol):
    """What rows say of the log they were read from."""

    @property
    def path(self) -> str: ...

    @property
    def agent(self) -> str | None: ...


class RowsBuilder:
    """Rows as Arrow batches: a tenth of the memory that Python objects take."""

    def __init__(self, table: LakeTable, *, with_text: bool) -> None:
        self._schema = schema_of(table, with_text=with_text)
        self._names = [one.name for one in table.columns]
        self._batches: list[Any] = []

    def add(self, rows: Iterator[tuple[object, ...]]) -> None:
        arrow = pyarrow("export")
        columns = dict(zip(self._names, zip(*rows, strict=True), strict=False))
        if not columns:
            return
        arrays = []
        for one in self._schema:
            if arrow.types.is_decimal(one.type):
                arrays.append(_dollars(columns["pico_usd"], one.type))
            elif arrow.types.is_timestamp(one.type):
                arrays.append(arrow_array(columns[one.name], arrow.int64()).cast(one.type))
            else:
                arrays.append(arrow_array(columns[one.name], one.type))
        self._batches.append(arrow.RecordBatch.from_arrays(arrays, schema=self._schema))

    def table(self) -> Any:
        return pyarrow("export").Table.from_batches(self._batches, schema=self._schema)


def _dollars(pico_usd: Sequence[object], type_: Any) -> Any:
    """Pico-dollars as decimals with twelve places, all at once and exact."""
    arrow = pyarrow("export")
    whole = arrow_array(pico_usd, arrow.int64()).cast(arrow.decimal128(19, 0))
    return arrow.compute.multiply(whole, arrow.scalar(usd(1), arrow.decimal128(12, 12))).cast(type_)


def message_rows(placed: Sequence[tuple[PlacedLog, LogRows]]) -> Iterator[tuple[object, ...]]:
    for log, found in placed:
        session, agent, path = found.session, log.agent, log.path
        for place, one in enumerate(found.messages):
            uuid, parent, role, at, model, blocks, is_meta, is_summary, inline, text = one
            yield (
                uuid, parent, session, agent or inline, role, at, model, text, blocks, is_meta, is_summary,
                path, place,
            )  # fmt: skip


def call_rows(placed: Sequence[tuple[PlacedLog, LogRows]]) -> Iterator[tuple[object, ...]]:
    for log, found in placed:
        session, agent, path = found.session, log.agent, log.path
        for place, one in enumerate(found.calls):
            name, tool, status, called, answered, elapsed, in_background, given, result = one
            yield (
                name, tool, session, agent, status, called, answered, elapsed, in_background, given, result,
                path, place,
            )  # fmt: skip
