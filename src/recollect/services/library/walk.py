"""A walk over many things of a home: one after another, read as they are asked for, or as a table.

Nothing is read before the first one is asked for, and nothing is held of those that were handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from recollect.services.library.arrow import ArrowColumns

Item = TypeVar("Item")


class Walk(Iterator[Item], Generic[Item]):
    """An iterator that can also become an Arrow table. It can be walked once; ask its home for another."""

    def __init__(
        self,
        what: str,
        items: Callable[[], Generator[Item, None, None]],
        _columns: Callable[[], ArrowColumns[Item]],
    ) -> None:
        self._what, self._items, self._columns = what, items, _columns
        self._running: Generator[Item, None, None] | None = None

    def __repr__(self) -> str:
        return f"<Walk over {self._what}, {'not begun' if self._running is None else 'begun'}>"

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        if self._running is None:
            self._running = self._items()
        return next(self._running)

    def close(self) -> None:
        """End the walk and give back what it holds open. Not needed after the last one."""
        if self._running is None:
            self._running = self._items()
        self._running.close()

    # Any: pyarrow comes without types, and callers under strict checking would get errors for naming its classes.
    def to_arrow(self) -> Any:
        """What is left of the walk as a ``pyarrow.Table``, for pandas, polars or DuckDB (extra ``analytics``).

        Money stands in two columns: ``pico_usd`` as whole numbers and ``usd`` as exact decimals.
        """
        from recollect.services.library.arrow import table_of

        return table_of(self, self._columns())

    def to_batches(self, rows: int = 10_000) -> Iterator[Any]:
        """The same as ``pyarrow.RecordBatch``es of at most ``rows`` rows, for more than fits into memory."""
        from recollect.services.library.arrow import batches_of

        return batches_of(self, self._columns(), rows)
