"""Connections to the PostgreSQL of a run, kept from test to test.

A new connection reads what the tables are like and compiles the functions again: that was most of what a test of the
contract took. Each test still has a database object, an organisation and a service of its own.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any, TypeVar

from recollect.server.database.postgres import PostgresDatabase

Result = TypeVar("Result")


class KeptConnections:
    """One event loop for the scenes on one database, and the pools that no scene uses at the moment."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.free: list[_KeptPool] = []
        self._runner = asyncio.Runner()

    def run(self, scene: Coroutine[Any, Any, Result]) -> Result:
        """As ``asyncio.run``: what the scene left running is cancelled."""
        try:
            return self._runner.run(scene, context=contextvars.copy_context())
        finally:
            self._runner.run(_cancel_the_rest())

    def is_running(self) -> bool:
        return asyncio.get_running_loop() is self._runner.get_loop()

    def end(self) -> None:
        for pool in self.free:
            self._runner.run(pool.pool.close())
        self._runner.close()


async def _cancel_the_rest() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


class _KeptPool:
    """A pool that is put aside instead of closed, unless a connection was not given back."""

    def __init__(self, pool: Any, kept: KeptConnections) -> None:
        self.pool, self._kept = pool, kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self.pool, name)

    async def close(self) -> None:
        if self.pool.get_idle_size() != self.pool.get_size():
            await self.pool.close()
            return
        # A statement that sets no organisation must not find the last one's rows.
        for holder in self.pool._holders:
            if holder.is_connected():
                await holder._con.execute("RESET recollect.org")
        self._kept.free.append(self)

    def terminate(self) -> None:
        if self not in self._kept.free:
            self.pool.terminate()


class KeptPostgres(PostgresDatabase):
    """Opens with connections that are there already, and closes without ending them."""

    def __init__(self, kept: KeptConnections, *, patience: float) -> None:
        super().__init__(kept.address, patience=patience)
        self._kept = kept

    async def _made(self, dsn: str) -> Any:
        if not self._kept.is_running():  # connections belong to the loop they were made in
            return await super()._made(dsn)
        return self._kept.free.pop() if self._kept.free else _KeptPool(await super()._made(dsn), self._kept)
