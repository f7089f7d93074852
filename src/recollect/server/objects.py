"""Bodies of logs in an object store: the store, and the worker that moves closed segments of logs into objects.

PostgreSQL decides every append and keeps the newest hour. What is older is written as one immutable object for each run
of segments, and its rows are removed in the transaction that records the object. A worker that is killed at any point
leaves rows, or an object that is known, never neither. Any number of workers may run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, S3Store

from recollect.errors import UsageError
from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.postgres_bodies import LogBody, unpacked_object
from recollect.server.database.records import BodyLost, BodyUnavailable, now_ms
from recollect.server.database.sql import Database
from recollect.server.refusals import is_done

_SECONDS = 20.0
_HINT = "write s3://BUCKET or s3://BUCKET/PREFIX, or file:///DIRECTORY for a trial"


class BlobStore:
    """Objects by name, in a store that the package ``obstore`` reaches. Every method raises ``BodyUnavailable`` where the store
    does not answer."""

    def __init__(self, store: Any) -> None:
        self._store = store

    async def put(self, name: str, data: bytes) -> bool:
        """Write an object if there is none of that name; False where there was one."""
        try:
            await self._waited(obstore.put_async(self._store, name, data, mode="create"))
        except AlreadyExistsError:
            return False
        return True

    async def get(self, name: str) -> bytes:
        """The bytes of an object; ``BodyLost`` where there is none."""

        async def read() -> bytes:
            found = await obstore.get_async(self._store, name)
            return bytes(await found.bytes_async())

        try:
            found: bytes = await self._waited(read())
        except FileNotFoundError:
            raise BodyLost(name, "is missing") from None
        return found

    async def delete(self, names: Sequence[str]) -> None:
        """Remove objects; those that are not there are no error."""

        async def remove() -> None:
            try:
                await obstore.delete_async(self._store, list(names))
            except FileNotFoundError:  # only a directory says so; then one by one
                for name in names:
                    try:
                        await obstore.delete_async(self._store, name)
                    except FileNotFoundError:
                        continue

        await self._waited(remove())

    @staticmethod
    async def _waited(work: Any) -> Any:
        """The result; what the store refuses or does not answer in time is ``BodyUnavailable``."""
        try:
            async with asyncio.timeout(_SECONDS):
                return await work
        except (AlreadyExistsError, FileNotFoundError):
            raise
        except (BaseError, OSError, TimeoutError) as problem:
            raise BodyUnavailable(f"the object store does not answer: {type(problem).__name__}") from problem


def open_store(address: str, environment: Mapping[str, str]) -> BlobStore:
    """The store at an address: ``s3://bucket/prefix`` or ``file:///directory``."""
    parts = urlsplit(address)
    if parts.scheme == "file" and not parts.netloc and len(parts.path) > 1:
        return BlobStore(LocalStore(parts.path, mkdir=True))
    if parts.scheme != "s3" or not parts.netloc or parts.query or parts.fragment:
        raise UsageError(f"--objects {address!a}: the address is not valid", hint=_HINT)
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    store = S3Store(
        parts.netloc,
        prefix=parts.path.strip("/") or None,
        client_options={
            "timeout": "15s",
            "connect_timeout": "3s",
            # Only a store on this machine may be reached without TLS, as the server itself.
            "allow_http": urlsplit(endpoint or "").hostname in ("127.0.0.1", "::1", "localhost"),
        },
        retry_config={"max_retries": 2},
        config=_settings(environment, endpoint),  # type: ignore[arg-type] # its types name every key
    )
    return BlobStore(store)


def _settings(environment: Mapping[str, str], endpoint: str | None) -> dict[str, object]:
    names = (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_DEFAULT_REGION",
        "AWS_REGION",
    )
    found: dict[str, object] = {
        name.lower().replace("default_", ""): environment[name] for name in names if environment.get(name)
    }
    # A store with an address of its own has its buckets in the path.
    return (
        found if endpoint is None else found | {"endpoint": endpoint, "virtual_hosted_style_request": False}
    )


NEWEST_MS = 3_600_000
_EVERY_SECONDS = 60.0
_log = logging.getLogger("recollect.server")


class MoveResult(NamedTuple):
    """What a pass did; ``problem`` is why it ended early."""

    objects: int = 0
    lines: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0
    removed: int = 0
    problem: str | None = None


def with_objects(database: Database, address: str, environment: Mapping[str, str]) -> BodyMover:
    """Let a database read and move bodies of logs in the store at an address."""
    store = open_store(address, environment)
    if not isinstance(database, PostgresDatabase):
        raise UsageError(
            "--objects: needs PostgreSQL; SQLite keeps all lines in its own file",
            hint="leave --objects out, or give --database postgresql://…",
        )
    database.objects = store
    return BodyMover(database, store)


class BodyMover:
    """One worker."""

    def __init__(self, database: PostgresDatabase, store: BlobStore) -> None:
        self.database, self._store = database, store
        # Whether a server does the work itself, beside answering.
        self.is_working = True
        self._failed_passes = 0

    async def run(self) -> None:
        """Move what is old enough, every minute, until cancelled."""
        while True:
            self._failed_passes += not await is_done("bodies", self._pass())
            await asyncio.sleep(_EVERY_SECONDS)

    async def _pass(self) -> None:
        done = await self.once(now_ms())
        if done.problem is not None:
            self._failed_passes += 1
            _log.warning("bodies", extra={"fields": done._asdict()})
        elif any(done[:5]):
            _log.info("bodies", extra={"fields": done._asdict()})

    async def once(self, now: int, *, newest_ms: int = NEWEST_MS) -> MoveResult:
        """One pass over everything that is old enough. A store that does not answer ends it."""
        total = MoveResult()
        try:
            removed = await self.database.remove_bodies(now, self._store.delete)
            total = total._replace(removed=removed)
            async for log in self.database.movable_logs(now - newest_ms):
                while body := await self.database.movable_body(log, now - newest_ms):
                    if not await self._moved(body, now):
                        break
                    total = total._replace(
                        objects=total.objects + 1,
                        lines=total.lines + body.segment.lines,
                        raw_bytes=total.raw_bytes + len(body.segment.data),
                        stored_bytes=total.stored_bytes + len(body.stored),
                    )
            removed += await self.database.remove_bodies(now, self._store.delete)
            return total._replace(removed=removed)
        except BodyUnavailable as problem:
            return total._replace(problem=str(problem)[:200])

    async def gauges(self) -> dict[str, float]:
        """How far the work is behind, for metrics."""
        waiting, gone = await self.database.body_backlog(now_ms() - NEWEST_MS)
        return {
            "bodies_backlog_seconds": waiting / 1000,
            "bodies_to_remove": gone,
            "bodies_failed_passes": self._failed_passes,
        }

    async def _moved(self, body: LogBody, now: int) -> bool:
        org = body.log[0]
        if not await self.database.claim_body(org, body, now):
            return False
        if not await self._store.put(body.name, body.stored):
            # Written by a worker that was killed after it. Believed only if it is what we would write.
            try:
                unpacked_object(
                    body.name, body.digest, len(body.segment.data), await self._store.get(body.name)
                )
            except BodyLost as problem:
                _log.error("bodies", extra={"fields": {"problem": str(problem)}})
                return False
        if await self.database.body_moved(org, body):
            return True
        await self.database.abandon_body(org, body)
        return False

    # --- a worker as a process -------------------------------------------------------------------

    async def work_once(self) -> MoveResult:
        """Open the database, move what there is, close it."""
        await self.database.open()
        try:
            return await self.once(now_ms())
        finally:
            await self.database.close()

    async def work_until_signal(self) -> None:
        """SIGTERM and SIGINT end it between two steps."""
        await self.database.open()
        working = asyncio.ensure_future(self.run())
        for sign in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(sign, working.cancel)
        _log.info("worker", extra={"fields": {"state": "started"}})
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await working
        finally:
            await self.database.close()
