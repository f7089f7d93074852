"""The contract over several PostgreSQL clusters: each organisation is in one of them.

The directory says which; a server asks it once for each organisation. It may be behind: a cluster refuses an
organisation that is not its own (``OrgElsewhere``) and names the one that has it. A move is decided by one commit in the
cluster that is left; every server that learns of it may finish what follows from it, so no one waits for the tool.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

from recollect.errors import NotFound, UsageError
from recollect.server.clusters.settings import MAIN
from recollect.server.database.contract import AppendWaiter, Database, OrgElsewhere, Taken, Unavailable
from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.records import (
    AppendOutcome,
    AppendRequest,
    Author,
    Grant,
    Org,
    Segment,
    SweepResult,
)
from recollect.server.database.sql_base import now_ms

Result = TypeVar("Result")
# An organisation is followed over this many clusters; more would be a circle.
_MOST_STEPS = 4
# A cluster that does not answer must not hold up the tokens of others.
_TOKEN_SECONDS = 5.0
_MOST_TOKENS = 20_000
# Methods whose first value is the organisation, or something that has one.
ROUTED = (
    *("set_retention", "set_visibility", "add_team", "teams", "set_team", "remove_team", "add_user", "users"),
    *(
        "change_user",
        "add_token",
        "tokens",
        "token",
        "revoke_token",
        "rotate_token",
        "identity",
        "add_identity",
    ),
    *("identified", "first_use", "used", "head", "place", "reach", "access", "heads", "sessions", "session"),
    *("describe", "delete", "put_file", "file", "delete_file", "person_counts", "person_sessions"),
    *("person_tokens", "person_identities", "person_logs", "person_lines_elsewhere", "person_files"),
    *(
        "person_file",
        "person_usage",
        "person_audit",
        "forget_person",
        "usage",
        "search",
        "note_refusal",
        "audit",
    ),
)


class ClusterDatabase:
    """All clusters as one database. What ``ROUTED`` names is sent to the cluster of its organisation."""

    def __init__(self, clusters: Mapping[str, PostgresDatabase]) -> None:
        self.clusters = dict(clusters)
        self._main = self.clusters[MAIN]
        self._places: dict[str, str] = {}
        # The cluster in which a token was found last, by its hash.
        self._tokens: OrderedDict[bytes, str] = OrderedDict()

    def as_database(self) -> Database:
        """The same, for those who know the contract only; a test compares the two."""
        return cast("Database", self)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name not in ROUTED:
            raise AttributeError(name)

        async def routed(first: Any, *values: Any, **named: Any) -> Any:
            org: str = first if isinstance(first, str) else first.org
            return await self.at(org, lambda one: getattr(one, name)(first, *values, **named))

        return routed

    # --- where an organisation is ----------------------------------------------------------------

    async def cluster_of(self, org: str) -> str:
        """The name of the cluster that has an organisation, from the directory where it is not known."""
        known = self._places.get(org)
        if known is None:
            known = self._places[org] = await self._main.listed_cluster(org) or MAIN
        return known

    async def home_of(self, org: str) -> str:
        """The same, asked for in the cluster itself; ``NotFound`` where it has no such organisation."""

        async def named(one: PostgresDatabase) -> str:
            if not any(known.id == org for known in await one.orgs()):
                await one.users(org)  # says where it is instead
                raise NotFound(
                    f"organisation {org!a}: not in the cluster that the directory names",
                    hint="`recollect admin org list` lists them",
                )
            return next(name for name, database in self.clusters.items() if database is one)

        return await self.at(org, named)

    def named(self, cluster: str) -> PostgresDatabase:
        if cluster not in self.clusters:
            raise Unavailable(f"the cluster {cluster!a} is not in the file of --clusters")
        return self.clusters[cluster]

    async def at(self, org: str, work: Callable[[PostgresDatabase], Awaitable[Result]]) -> Result:
        """Do work in the cluster of an organisation, wherever it moves meanwhile."""
        for _ in range(_MOST_STEPS):
            name = await self.cluster_of(org)
            try:
                return await work(self.named(name))
            except OrgElsewhere as moved:
                await self._follow(org, name, moved)
        raise Unavailable("the organisation moves from cluster to cluster")

    async def _follow(self, org: str, known: str, moved: OrgElsewhere) -> None:
        """``known`` does not have the organisation. Where it says that it left, that was decided for good: it is valid in
        the other cluster, and the directory is set right, whatever became of the one who moved it."""
        self._places.pop(org, None)
        if await self.cluster_of(org) != known:
            return
        if not moved.is_arriving:
            await self.arrived(org, moved.other)
        self._places[org] = moved.other

    async def arrived(self, org: str, cluster: str) -> None:
        """An organisation that left for this cluster is valid there; may be repeated."""
        await self.named(cluster).org_arrived(org)
        await self._main.list_cluster(org, cluster, now_ms())

    # --- all of them -----------------------------------------------------------------------------

    async def open(self) -> None:
        opened: list[PostgresDatabase] = []
        try:
            for name, one in self.clusters.items():
                try:
                    await one.open()
                except UsageError as problem:
                    raise UsageError(f"cluster {name}: {problem.message}", hint=problem.hint) from None
                except Unavailable as problem:
                    raise Unavailable(f"cluster {name}: {problem}") from None
                opened.append(one)
        except BaseException:
            for one in opened:
                await one.close()
            raise

    async def close(self) -> None:
        await asyncio.gather(*(one.close() for one in self.clusters.values()))

    async def migrate(self) -> int:
        return sum([await one.migrate() for one in self.clusters.values()])

    async def ready(self) -> str | None:
        """By the first cluster only: one of many that is down must not take the organisations of the others away."""
        return await self._main.ready()

    @property
    def batches(self) -> tuple[int, int]:
        counts = [one.batches for one in self.clusters.values()]
        return sum(one[0] for one in counts), sum(one[1] for one in counts)

    def connections(self) -> Mapping[str, int]:
        counts: dict[str, int] = {"clusters": len(self.clusters)}
        for one in self.clusters.values():
            for name, count in one.connections().items():
                counts[name] = counts.get(name, 0) + count
        return counts

    async def orgs(self) -> list[Org]:
        found = [await one.orgs() for one in self.clusters.values()]
        return sorted((org for some in found for org in some), key=lambda org: org.name)

    async def add_org(self, org: Org, author: Author) -> None:
        if any(known.name == org.name for known in await self.orgs()):
            raise Taken(f"an organisation {org.name!a} already exists")
        await self._main.add_org(org, author)

    async def sweep(self, now: int, grace_ms: int) -> SweepResult:
        """Cluster by cluster; one that fails is swept another time, and said so at the end."""
        total, problem = SweepResult(), None
        for name, one in self.clusters.items():
            try:
                done = await one.sweep(now, grace_ms)
            except Exception as cause:  # noqa: BLE001 - whatever it was, the other clusters are swept
                told = cause if isinstance(cause, Unavailable) else type(cause).__name__
                problem = Unavailable(f"cluster {name}: {told}")
                continue
            total = SweepResult._make(sum(pair) for pair in zip(total, done, strict=True))
        if problem is not None:
            raise problem
        return total

    # --- tokens and logs -------------------------------------------------------------------------

    async def grant(self, secret_hash: bytes) -> Grant | None:
        known = self._tokens.get(secret_hash)
        if known is not None and (found := await self._granted(known, secret_hash)) is not None:
            return found
        asked = [asyncio.create_task(self._granted(name, secret_hash)) for name in self.clusters]
        problem: BaseException | None = None
        try:
            for next_done in asyncio.as_completed(asked, timeout=_TOKEN_SECONDS):
                try:
                    found = await next_done
                except (Unavailable, TimeoutError) as cause:
                    problem = cause
                    continue
                if found is not None:
                    return found
        finally:
            for task in asked:
                task.cancel()
        if problem is not None:  # it may be a token of the cluster that did not answer
            raise Unavailable(f"a cluster does not answer: {problem or type(problem).__name__}") from problem
        return None

    async def _granted(self, name: str, secret_hash: bytes) -> Grant | None:
        """What a cluster, or the one that its organisation left for, knows of a token."""
        try:
            found = await self.named(name).grant(secret_hash)
        except OrgElsewhere as moved:
            if moved.is_arriving:
                return None
            await self._follow(moved.org, name, moved)
            name = await self.cluster_of(moved.org)
            found = await self.named(name).grant(secret_hash)
        if found is not None:
            self._tokens[secret_hash] = name
            if len(self._tokens) > _MOST_TOKENS:
                self._tokens.popitem(last=False)
        return found

    async def append(self, ask: AppendRequest) -> AppendOutcome:
        return await self.at(ask.org, lambda one: one.append(ask))

    def begin_append(self, ask: AppendRequest, waiter: AppendWaiter) -> bool:
        """Where the organisation was last; the one who waits gets ``OrgElsewhere`` where it is no longer."""
        known = self._places.get(ask.org)
        return known is not None and self.named(known).begin_append(ask, waiter)

    async def segments(
        self, org: str, session: str, key: str, after: int, until: int
    ) -> AsyncIterator[Segment]:
        """Goes on in another cluster, after the last whole segment, where the organisation moves meanwhile."""
        for _ in range(_MOST_STEPS):
            name = await self.cluster_of(org)
            try:
                async for segment in self.named(name).segments(org, session, key, after, until):
                    yield segment
                    after = segment.first_line + segment.lines
                return
            except OrgElsewhere as moved:
                await self._follow(org, name, moved)
