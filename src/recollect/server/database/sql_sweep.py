"""What expires: sessions past their retention, bytes past their grace, old rows of the audit log, old months of responses."""

from __future__ import annotations

from abc import abstractmethod

from recollect.server.database.contract import Held, OrgElsewhere
from recollect.server.database.records import DELETED, LIVE, Author, Org, SweepResult
from recollect.server.database.sql_base import EVERY_ORG, SqlRunner, note
from recollect.server.database.sql_usage import Transaction
from recollect.server.database.tables.usage_months import month_start

DAY_MS = 86_400_000
_AT_ONCE = 20_000
_RETENTION = Author("retention", "retention")
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
        """Each session in its own transaction, until none is left; then old months."""
        purged = await self._sweep_all(_GONE, now - grace_ms, purge=True)
        deleted = await self._sweep_all(_OLD, now, purge=False)
        audit, months, usage = await self._sweep_months(now)
        return SweepResult(deleted, purged, audit, months, await self._backlog(now, grace_ms), usage)

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

    async def _sweep_months(self, now: int) -> tuple[int, int, int]:
        """Rows of the audit log and of responses that were removed one by one, and months whose space was returned.

        Months go as a whole where no organisation keeps anything of them."""
        orgs = await self._all_orgs()
        usage_from = [await self._drop_usage(org, now, is_here=is_here) for org, is_here in orgs]
        audit_from = [0 if org.audit_days is None else now - org.audit_days * DAY_MS for org, _ in orgs]
        months = await self._tidy_months(now, min(audit_from, default=0), min(usage_from, default=0))
        audit = usage = 0
        for (org, is_here), before, dropped in zip(orgs, audit_from, usage_from, strict=True):
            if is_here and before:
                audit += await self._remove_audit(org.id, before)
            if is_here and dropped:
                usage += await self._remove_usage(org.id, dropped)
        return audit, months + (await self._tidy_months(now) if audit or usage else 0), usage

    async def _drop_usage(self, org: Org, now: int, *, is_here: bool) -> int:
        """Say from which month on responses of an organisation are kept; later appends and reports know it."""

        async def work(tx: Transaction) -> int:
            rows = await tx.rows("SELECT coalesce(usage_from, 0) FROM orgs WHERE id = $1", org.id)
            known = int(rows[0][0]) if rows else 0
            if org.usage_days is None or not is_here:
                return known
            month = month_start(now // DAY_MS - org.usage_days)
            if month > known:
                # What is being counted now has read rows of that month.
                await tx.lock_responses(org.id, None)
                await tx.rows("UPDATE orgs SET usage_from = $2 WHERE id = $1", org.id, month)
                await note(tx, org.id, _RETENTION, "usage.drop", org.id, str(month))
            return max(month, known)

        try:
            return await self._write(org.id if is_here else EVERY_ORG, work)
        except OrgElsewhere:  # moved since the query
            return 0

    async def _remove_usage(self, org: str, before: int) -> int:
        """Some responses at a time, each with all its rows of these months."""
        old = "FROM usage WHERE org = $1 AND said < $2"
        removed = 0
        while True:

            async def work(tx: Transaction) -> int:
                last = await tx.rows(
                    f"SELECT max(message) FROM (SELECT message {old} ORDER BY message LIMIT {_AT_ONCE}) AS oldest",  # noqa: S608 - constants
                    org,
                    before,
                )
                if last[0][0] is None:
                    return 0
                await tx.lock_responses(org, None)
                sql = f"DELETE {old} AND message <= $3 RETURNING 1"
                return len(await tx.rows(sql, org, before, last[0][0]))

            some = await self._write(org, work)
            removed += some
            if not some:
                return removed

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
        try:
            return await self.delete(org, session, purge=purge, only_own=False, author=_RETENTION)
        except (Held, OrgElsewhere):  # put under hold since the query, or moved to another cluster
            return False
