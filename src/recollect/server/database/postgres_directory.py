"""The directory of organisations in a cluster, and what says that one is valid there (tables/moves.py)."""

from __future__ import annotations

from recollect.server.database.sql_base import EVERY_ORG, SqlRunner
from recollect.server.database.sql_usage import Transaction
from recollect.server.database.tables.moves import ARRIVING


class PostgresDirectory(SqlRunner):
    """What several clusters need of each."""

    async def listed_cluster(self, org: str) -> str | None:
        """The cluster of an organisation; None where the directory does not name it."""
        rows = await self._read_now(EVERY_ORG, "SELECT cluster FROM directory WHERE org = $1", org)
        return str(rows[0][0]) if rows else None

    async def list_cluster(self, org: str, cluster: str, now: int) -> None:
        async def work(tx: Transaction) -> None:
            await tx.rows(
                "INSERT INTO directory AS known(org, cluster, changed) VALUES($1,$2,$3) ON CONFLICT (org) DO UPDATE"
                " SET cluster = excluded.cluster, changed = excluded.changed WHERE known.cluster <> excluded.cluster",
                org,
                cluster,
                now,
            )

        await self._write(EVERY_ORG, work)

    async def org_arrived(self, org: str) -> None:
        """An organisation is valid here from now on; only after its cluster before said that it left for good."""

        async def work(tx: Transaction) -> None:
            await tx.rows("DELETE FROM org_moves WHERE org = $1 AND role = $2", org, ARRIVING)

        await self._write(EVERY_ORG, work)
