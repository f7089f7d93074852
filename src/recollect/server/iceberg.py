"""The Iceberg tables of one organisation: made, evolved, and replaced session by session.

The catalogue is in PostgreSQL (``pyiceberg``'s ``SqlCatalog``), the files are in the object store. Each table has a column
``day`` and is partitioned by it. A commit of Iceberg is atomic for one table; what was begun for all four is a property of
``sessions``, so a job that was killed is finished by the next one with nothing twice.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import warnings
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import msgspec

from recollect.ask.data.query import schema_of
from recollect.ask.tables import DAY, TABLES, VERSION, LakeTable, pyarrow
from recollect.errors import Busy, DamagedData, MissingExtra, UsageError

_UNTIL, _PENDING, _TEXT, _VERSION = (
    "recollect.until",
    "recollect.pending",
    "recollect.text",
    "recollect.version",
)
_DAY_US = 86_400_000_000
_WHAT = "lake"


class LakePlace(NamedTuple):
    """Where a lake is: the catalogue's database, and the address of its files."""

    catalogue: str
    files: str
    environment: Mapping[str, str]


class ReplacedRows(NamedTuple):
    """Rows that a commit takes away: those with these values, on the days between (all days, where unknown)."""

    column: str
    values: Collection[str]
    days: tuple[dt.date, dt.date] | None


class IcebergLake:
    """The four tables of an organisation."""

    def __init__(self, place: LakePlace, org: str, *, with_text: bool) -> None:
        self._with_text = with_text
        self._namespace = f"org_{org}"
        with _typed("open", place.catalogue.rpartition("@")[2]):
            self._catalog = _catalog(place)
            self._catalog.create_namespace_if_not_exists(self._namespace)
            self._tables = {name: self._opened(table) for name, table in TABLES.items()}

    def _opened(self, table: LakeTable) -> Any:
        from pyiceberg.exceptions import NoSuchTableError

        name = (self._namespace, table.name)
        try:
            found = self._catalog.load_table(name)
        except NoSuchTableError:
            found = self._catalog.create_table_if_not_exists(name, schema=self._schema(table))
        known = found.properties
        if int(known.get(_VERSION, VERSION)) > VERSION:
            raise UsageError(
                f"{table.name}: written by a newer recollect (schema {known[_VERSION]}, known is {VERSION})",
                hint="update recollect",
            )
        if _TEXT in known and (known[_TEXT] == "true") != self._with_text:
            has = "has texts" if known[_TEXT] == "true" else "has no texts"
            raise UsageError(f"the lake {has}", hint="leave --text as it was, or write it again: --rebuild")
        self._evolve(found, table)
        return found

    def _evolve(self, found: Any, table: LakeTable) -> None:
        """Columns are only added; readers of older rows see null there."""
        have = {one.name for one in found.schema().fields}
        wanted = self._schema(table)
        is_new = not found.spec().fields
        if is_new or set(wanted.names) - have or _VERSION not in found.properties:
            with found.transaction() as change:
                if set(wanted.names) - have:
                    with change.update_schema() as columns:
                        columns.union_by_name(wanted)
                if is_new:
                    with change.update_spec() as spec:
                        spec.add_identity(DAY)
                text = "true" if self._with_text else "false"
                change.set_properties(
                    {_VERSION: str(VERSION), _TEXT: text, "write.parquet.compression-codec": "zstd"}
                )

    def _schema(self, table: LakeTable) -> Any:
        arrow = pyarrow(_WHAT)
        return schema_of(table, with_text=self._with_text).append(arrow.field(DAY, arrow.date32()))

    # --- what was written ------------------------------------------------------------------------

    @property
    def until(self) -> int:
        """The change of sessions (milliseconds) up to which all is written."""
        return int(self._tables["sessions"].properties.get(_UNTIL, "0"))

    @property
    def pending(self) -> list[str]:
        """Sessions that a job began to write and did not finish."""
        text = self._tables["sessions"].properties.get(_PENDING, "[]")
        return msgspec.json.decode(text, type=list[str])

    def rows(
        self, table: str, columns: tuple[str, ...], ids: Collection[str] | None = None
    ) -> list[dict[str, Any]]:
        """Some columns of a table; of sessions with these ids."""
        words: Any = import_module("pyiceberg.expressions")
        with _typed("read", table):
            which = words.AlwaysTrue() if ids is None else words.In("id", sorted(ids))
            found: list[dict[str, Any]] = (
                self._tables[table].scan(row_filter=which, selected_fields=columns).to_arrow().to_pylist()
            )
        return found

    def totals(self) -> dict[str, int]:
        """Rows of each table."""
        with _typed("read", "the tables"):
            return {name: int(one.scan().count()) for name, one in self._tables.items()}

    # --- writing ---------------------------------------------------------------------------------

    def begin(self, sessions: Collection[str]) -> None:
        """Write down which sessions are about to be replaced."""
        with _typed("write", "sessions"), self._tables["sessions"].transaction() as change:
            change.set_properties({_PENDING: msgspec.json.encode(sorted(sessions)).decode()})

    def replace(self, table: str, rows: Any, old: ReplacedRows | None, *, until: int | None = None) -> None:
        """One commit: take rows away, add others. ``until``: everything up to there is written now."""
        data = with_day(TABLES[table], rows)
        with _typed("write", table), self._tables[table].transaction() as change:
            if old is not None and old.values:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that nothing matched
                    change.delete(_filter(old))
            if data.num_rows:
                change.append(data)
            if until is not None:
                change.set_properties({_UNTIL: str(until), _PENDING: "[]"})

    def clear(self) -> None:
        """Take all rows away: the next run writes everything. Engines see the tables empty until then."""
        from pyiceberg.expressions import AlwaysTrue

        for name, table in self._tables.items():
            with _typed("write", name), warnings.catch_warnings(), table.transaction() as change:
                warnings.simplefilter("ignore")
                change.delete(AlwaysTrue())
                if name == "sessions":
                    change.set_properties({_UNTIL: "0", _PENDING: "[]"})


def drop_texts_setting(place: LakePlace, org: str) -> None:
    """Forget whether the tables have texts: before they are written again."""
    with _typed("open", "the catalogue"):
        catalog = _catalog(place)
        catalog.create_namespace_if_not_exists(f"org_{org}")
        for name in TABLES:
            if catalog.table_exists((f"org_{org}", name)):
                with catalog.load_table((f"org_{org}", name)).transaction() as change:
                    change.remove_properties(_TEXT, _VERSION)


def with_day(table: LakeTable, rows: Any) -> Any:
    """Rows with the column they are partitioned by; null where they have no time, or one beyond every calendar."""
    arrow = pyarrow(_WHAT)
    compute = arrow.compute
    at = rows.column(table.day_of).cast(arrow.int64())
    days = compute.floor(compute.divide(at.cast(arrow.float64()), float(_DAY_US))).cast(arrow.int64())
    is_known = compute.and_(compute.greater(days, -700_000), compute.less(days, 2_900_000))
    return rows.append_column(
        DAY,
        compute.if_else(is_known, days, arrow.scalar(None, arrow.int64()))
        .cast(arrow.int32())
        .cast(arrow.date32()),
    )


def _filter(old: ReplacedRows) -> Any:
    words: Any = import_module("pyiceberg.expressions")
    named = words.In(old.column, sorted(old.values))
    if old.days is None:
        return named
    first, last = (day.isoformat() for day in old.days)
    between = words.And(words.GreaterThanOrEqual(DAY, first), words.LessThanOrEqual(DAY, last))
    return words.And(named, words.Or(words.IsNull(DAY), between))


def _catalog(place: LakePlace) -> Any:
    try:
        from pyiceberg.catalog.sql import SqlCatalog
    except ImportError:
        raise MissingExtra("an Iceberg lake", "pyiceberg", "data") from None
    known = place.environment
    settings = {
        "s3.endpoint": known.get("AWS_ENDPOINT_URL_S3") or known.get("AWS_ENDPOINT_URL"),
        "s3.access-key-id": known.get("AWS_ACCESS_KEY_ID"),
        "s3.secret-access-key": known.get("AWS_SECRET_ACCESS_KEY"),
        "s3.session-token": known.get("AWS_SESSION_TOKEN"),
        "s3.region": known.get("AWS_REGION") or known.get("AWS_DEFAULT_REGION"),
    }
    # Its own three seconds are too few for a store that is busy.
    settings |= {"s3.connect-timeout": "10", "s3.request-timeout": "60"}
    given = {name: value for name, value in settings.items() if value}
    address = place.catalogue.replace("postgres://", "postgresql://", 1)
    uri = address.replace("postgresql://", "postgresql+psycopg2://", 1)
    return SqlCatalog("recollect", uri=uri, warehouse=place.files.rstrip("/"), **given)


@contextlib.contextmanager
def _typed(act: str, what: str) -> Iterator[None]:
    """Failures of the catalogue and of the store, in our words."""
    from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except CommitFailedException as cause:
        raise Busy(
            f"{what}: another program changed the table meanwhile",
            hint="run it again: nothing is written twice",
        ) from cause
    except (NoSuchTableError, NoSuchNamespaceError) as cause:
        raise DamagedData(
            f"{what}: the catalogue does not have it any more", hint="run it again: it is made again"
        ) from cause
    except SQLAlchemyError as cause:
        reason = str(getattr(cause, "orig", None) or cause).strip().splitlines()[0]
        raise Busy(f"cannot {act} {what}: the catalogue: {reason}", hint="check --catalogue") from cause
    except FileNotFoundError as cause:
        raise DamagedData(
            f"{what}: the catalogue names a file that is not in the store: {cause}",
            hint="restore the file, or the catalogue of the same time; or write it again: --rebuild",
        ) from cause
    except OSError as cause:
        reason = str(cause).strip().splitlines()[0][:300]
        raise Busy(
            f"cannot {act} {what}: the object store: {reason}",
            hint="check the store's address and credentials",
        ) from cause
