"""What expires: sessions past their retention, bytes past their grace, old rows of the audit log."""

from __future__ import annotations

from abc import abstractmethod

from recollect.server.database.contract import Held, OrgElsewhere
from recollect.server.database.records import DELETED, LIVE, Author, Org, SweepResult
from recollect.server.database.sql_base import EVERY_ORG, SqlRunner
from recollect.server.database.sql_usage import Transaction

DAY_MS = 86_400_000
# Sessions past their retention, and deleted ones past their grace; ``$1`` is the time.
_OLD = (
    "FROM sessions JOIN orgs ON orgs.id = sessions.org"
    f" WHERE state = {LIVE} AND held = 0 AND retention_days IS NOT NULL AND changed < $1 - retention_days * {DAY_MS}"
)
_GONE = f"FROM sessions WHERE state = {DELETED} AND held = 0 AND deleted < $1"
_NEXT = " AND (sessions.org, sessions.id) > ($2, $3) ORDER BY sessions.org, sessions.id LIMIT 1000"


class SqlSweeps(SqlRunner):
    """What the contract says about sweeping."""

    @abstractmethod
    async def _all_orgs(self) -> list[tuple[Org, bool]]:
        """All organisations, also those that are about to arrive or have left, and whether each is valid here."""

    @abstractmethod
    async def delete(self, org: str, session: str, *, purge: bool, only_own: bool, author: Author) -> bool:
        """As the contract says."""

    async def sweep(self, now: int, grace_ms: int) -> SweepResult:
        """Each session in its own transaction, until none is left; then old rows of the audit log, in batches."""
        purged = await self._sweep_all(_GONE, now - grace_ms, purge=True)
        deleted = await self._sweep_all(_OLD, now, purge=False)
        audit = await self._sweep_audit(now)
        return SweepResult(deleted, purged, *audit, await self._backlog(now, grace_ms))

    async def _sweep_all(self, question: str, at: int, *, purge: bool) -> int:
        done, after = 0, ("", "")
        while True:
            rows = await self._read_now(
                EVERY_ORG, f"SELECT sessions.org, sessions.id {question}{_NEXT}", at, *after
            )
            for org, session in rows:
                done += await self._swept(str(org), str(session), purge=purge)
            if not rows:
                return done
            after = str(rows[-1][0]), str(rows[-1][1])

    async def _backlog(self, now: int, grace_ms: int) -> int:
        counts = [
            (await self._read_now(EVERY_ORG, f"SELECT count(*) {question}", at))[0][0]
            for question, at in ((_OLD, now), (_GONE, now - grace_ms))
        ]
        return int(sum(counts))

    async def _sweep_audit(self, now: int) -> tuple[int, int]:
        """Rows of the audit log that were removed one by one, and months whose space was returned."""
        orgs = await self._all_orgs()
        kept = [org.audit_days for org, _ in orgs]
        longest = None if not kept or None in kept else max(days for days in kept if days is not None)
        months = await self._tidy_months(now, None if longest is None else now - longest * DAY_MS)
        removed = 0
        for org, is_here in orgs:
            if org.audit_days is not None and is_here:
                removed += await self._remove_audit(org.id, now - org.audit_days * DAY_MS)
        return removed, months + (await self._tidy_months(now, None) if removed else 0)

    async def _remove_audit(self, org: str, before: int) -> int:
        """A day at a time: one transaction for a year would hold back everything else."""
        removed = 0
        while True:
            rows = await self._read_now(
                org, "SELECT min(at) FROM audit WHERE org = $1 AND at < $2", org, before
            )
            if rows[0][0] is None:
                return removed
            until = min(rows[0][0] + DAY_MS, before)

            async def work(tx: Transaction, until: int = until) -> int:
                gone = await tx.rows("DELETE FROM audit WHERE org = $1 AND at < $2 RETURNING 1", org, until)
                return len(gone)

            removed += await self._write(org, work)

    async def _swept(self, org: str, session: str, *, purge: bool) -> bool:
        author = Author("retention", "retention")
        try:
            return await self.delete(org, session, purge=purge, only_own=False, author=author)
        except (Held, OrgElsewhere):  # put under hold since the query, or moved to another cluster
            return False
