"""The contract in memory: plain lists and the plainest way to every answer. Nothing outlives the process.

It is what the other two are compared with: money is added by the rule of ``model.copies`` over all lines each time
it is asked for, and a search looks at every line.
trying things out.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from typing import Any

from msgspec.structs import replace

from recollect.index.frame import UsageRow
from recollect.index.schema import QUARTER_MS
from recollect.model.cost.copies import counted
from recollect.model.titles import FIRST_PROMPT, TITLE_PARTS, title_of
from recollect.server.database.contract import AppendWaiter, Forbidden, Held, Taken
from recollect.server.database.records import (
    DELETED,
    FOR_PROGRAMS,
    LIVE,
    PURGED,
    REFUSED,
    ApiToken,
    AppendConflict,
    AppendOutcome,
    AppendRequest,
    AuditRow,
    Author,
    DeletedSession,
    FileBytes,
    Grant,
    LineMatch,
    LineMatches,
    LineSearch,
    LogPlace,
    Org,
    OrgTeam,
    OrgUser,
    PersonCounts,
    PersonFile,
    PersonLog,
    Retention,
    Segment,
    SessionAccess,
    SessionChanges,
    SessionFilter,
    SessionReader,
    StoredAppend,
    SweepResult,
    TextRow,
    UsageSum,
    UsageTaker,
)
from recollect.server.database.sql_base import now_ms
from recollect.server.database.sql_logs import place_in
from recollect.server.facts import copy_of, replaces
from recollect.sync.wire import START, Head, LogHead, RemoteSession, SessionDetail, SideFile


class _Log:
    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.texts: list[TextRow] = []
        self.last_uuid: str | None = None
        self.changed = 0

    @property
    def head(self) -> Head:
        if not self.segments:
            return Head(0, 0, START.hash.hex())
        last = self.segments[-1]
        size = last.first_byte + len(last.data)
        return Head(last.first_line + last.lines, size, last.hash.hex(), self.last_uuid)


class _Session:
    def __init__(self, org: str, name: str, author: Author, machine: str | None, now: int) -> None:
        self.org, self.id, self.user = org, name, author.user
        self.project: str | None = None
        self.repository: str | None = None
        self.machine = machine
        self.title: str | None = None
        self.titles: dict[str, str | None] = {}
        self.branch: str | None = None
        self.cwd: str | None = None
        self.created = self.changed = now
        self.first_at: int | None = None
        self.last_at: int | None = None
        self.is_held = self.is_encrypted = False
        self.visibility: str | None = None
        self.state, self.deleted = LIVE, 0
        self.logs: dict[str, _Log] = {}
        self.files: dict[str, FileBytes] = {}
        self.authors: dict[str, str] = {}
        # What was said of responses, by (message, key, request), with the person; it outlives a purge.
        self.usage: dict[tuple[str, str, str, int], tuple[UsageRow, str]] = {}


class MemoryDatabase:
    """The contract without a disk."""

    def __init__(self) -> None:
        self._orgs: dict[str, Org] = {}
        self._users: dict[str, OrgUser] = {}
        self._teams: dict[str, OrgTeam] = {}
        self._tokens: dict[str, tuple[ApiToken, bytes]] = {}
        self._sessions: dict[tuple[str, str], _Session] = {}
        self._identities: dict[tuple[str, str, str], str] = {}
        self._used: set[bytes] = set()
        self._audit: list[tuple[str, AuditRow]] = []
        self._numbers = itertools.count(1)
        self.batches = (0, 0)
        # Responses of months that were dropped, and the first month that was not, by organisation.
        self._settled: set[tuple[str, str | None]] = set()
        self._usage_from: dict[str, int] = {}

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    async def migrate(self) -> int:
        """Nothing to migrate."""
        return 0

    async def ready(self) -> str | None:
        """Always."""
        return None

    def connections(self) -> dict[str, int]:
        """None."""
        return {}

    def _note(self, org: str, author: Author, act: str, target: str, detail: str = "") -> None:
        row = AuditRow(next(self._numbers), now_ms(), author.user, author.token, act, target, detail)
        self._audit.append((org, row))

    # --- one person ------------------------------------------------------------------------------

    def _mine(self, org: str, user: str) -> list[_Session]:
        return [one for (own, _), one in sorted(self._sessions.items()) if own == org and one.user == user]

    async def person_counts(self, org: str, user: str) -> PersonCounts:
        """How much is held of a member; only sessions are counted here."""
        mine = self._mine(org, user)
        return PersonCounts(len(mine), sum(one.is_held for one in mine))

    async def person_sessions(self, org: str, user: str) -> list[tuple[str, bool]]:
        """Sessions, and whether each is held."""
        return [(one.id, one.is_held) for one in self._mine(org, user)]

    async def person_tokens(self, org: str, user: str) -> list[ApiToken]:
        """Tokens of a member."""
        return [token for token in await self.tokens(org) if token.user == user]

    async def person_identities(self, org: str, user: str) -> list[tuple[str, str]]:
        """Names at identity providers."""
        return [
            (issuer, sub) for (own, issuer, sub), one in self._identities.items() if (own, one) == (org, user)
        ]

    async def person_logs(self, org: str, user: str) -> list[PersonLog]:
        """Logs of a member's sessions."""
        return [
            PersonLog(one.id, key, 0, log.head.lines, log.head.bytes)
            for one in self._mine(org, user)
            for key, log in sorted(one.logs.items())
        ]

    async def person_lines_elsewhere(self, org: str, user: str) -> list[PersonLog]:
        """Not known here: segments in memory do not name who sent them."""
        return []

    async def person_files(self, org: str, user: str) -> list[PersonFile]:
        """Side files of a member's sessions."""
        return [
            PersonFile(one.id, key, len(file.data))
            for one in self._mine(org, user)
            for key, file in sorted(one.files.items())
        ]

    async def person_file(self, org: str, session: str, key: str) -> FileBytes | None:
        """A side file."""
        return self._sessions[org, session].files.get(key)

    async def person_usage(self, org: str, user: str) -> list[dict[str, object]]:
        """Not kept by person here."""
        return []

    async def person_audit(self, org: str, user: str) -> list[AuditRow]:
        """What a member did."""
        return [row for own, row in self._audit if own == org and row.user == user]

    async def forget_person(self, org: str, user: str, author: Author, erasure: str) -> bool:
        """Remove what names a member."""
        for one in self._mine(org, user):
            if not one.is_held:
                del self._sessions[org, one.id]
        for token in await self.person_tokens(org, user):
            del self._tokens[token.id]
        del self._users[user]
        self._note(org, author, "user.erase", erasure)
        return True

    # --- tenants ---------------------------------------------------------------------------------

    async def add_org(self, org: Org, author: Author) -> None:
        """A new tenant."""
        if any(known.name == org.name for known in self._orgs.values()):
            raise Taken(f"an organisation {org.name!a} is there already")
        self._orgs[org.id] = org
        self._note(org.id, author, "org.add", org.id)

    async def orgs(self) -> list[Org]:
        """All tenants."""
        return sorted(self._orgs.values(), key=lambda org: org.name)

    async def set_retention(self, org: str, kept: Retention, author: Author) -> None:
        """How long sessions are kept."""
        self._orgs[org] = replace(
            self._orgs[org], retention_days=kept.days, audit_days=kept.audit_days, usage_days=kept.usage_days
        )
        self._note(
            org, author, "org.retention", org, f"{kept.days} audit {kept.audit_days} usage {kept.usage_days}"
        )

    async def set_visibility(self, org: str, visibility: str, author: Author) -> None:
        """Who sees sessions for which no one chose."""
        self._orgs[org] = replace(self._orgs[org], visibility=visibility)
        self._note(org, author, "org.visibility", org, visibility)

    async def add_team(self, team: OrgTeam, author: Author) -> None:
        """A new team."""
        if any(known.name == team.name for known in await self.teams(team.org)):
            raise Taken(f"a team {team.name!a} is there already")
        self._teams[team.id] = team
        self._note(team.org, author, "team.add", team.id, team.name)

    async def teams(self, org: str) -> list[OrgTeam]:
        """All teams."""
        return sorted((team for team in self._teams.values() if team.org == org), key=lambda team: team.name)

    async def set_team(self, org: str, team: str, members: Sequence[str], author: Author) -> bool:
        """Who belongs to a team."""
        known = self._teams.get(team)
        if known is None or known.org != org:
            return False
        if not set(members) <= {user.id for user in await self.users(org)}:
            raise Forbidden
        self._teams[team] = replace(known, members=tuple(sorted(set(members))))
        self._note(org, author, "team.change", team, f"{len(members)} members")
        return True

    async def remove_team(self, org: str, team: str, author: Author) -> bool:
        """Remove a team."""
        known = self._teams.get(team)
        if known is None or known.org != org:
            return False
        del self._teams[team]
        self._note(org, author, "team.remove", team)
        return True

    def _is_seen(self, session: _Session, reader: SessionReader | None) -> bool:
        if reader is None or session.user == reader.user:
            return True
        chosen = session.visibility or self._orgs[session.org].visibility
        if not reader.others or chosen == "private":
            return False
        together = any({reader.user, session.user} <= set(team.members) for team in self._teams.values())
        return chosen == "organisation" or together

    async def access(self, org: str, session: str, reader: SessionReader) -> SessionAccess | None:
        """Whether a session is visible."""
        known = self._sessions.get((org, session))
        if known is None or known.state == PURGED:
            return None
        return SessionAccess(known.user, self._is_seen(known, reader), known.state == DELETED)

    async def add_user(self, user: OrgUser, author: Author) -> None:
        """A new member."""
        if any(known.name == user.name for known in await self.users(user.org)):
            raise Taken(f"a member {user.name!a} is there already")
        self._users[user.id] = user
        self._note(user.org, author, "user.add", user.id, user.role)

    async def users(self, org: str) -> list[OrgUser]:
        """All members."""
        return sorted((user for user in self._users.values() if user.org == org), key=lambda user: user.name)

    async def change_user(
        self, org: str, user: str, role: str | None, disabled: bool | None, author: Author
    ) -> OrgUser | None:
        """Another role, or a member disabled."""
        known = self._users.get(user)
        if known is None or known.org != org:
            return None
        changed = replace(
            known, role=role or known.role, disabled=known.disabled if disabled is None else disabled
        )
        self._users[user] = changed
        self._note(org, author, "user.change", user, f"{changed.role} disabled={changed.disabled}")
        return changed

    async def add_token(self, token: ApiToken, secret_hash: bytes, author: Author) -> None:
        """A new token."""
        if token.kind != FOR_PROGRAMS:
            mine = [
                one for one, _ in self._tokens.values() if one.user == token.user and one.kind == token.kind
            ]
            for old in sorted(mine, key=lambda one: (-one.created, one.id))[49:]:
                del self._tokens[old.id]
        self._tokens[token.id] = token, secret_hash
        act = "token.add" if token.kind == FOR_PROGRAMS else "page.sign_in"
        self._note(token.org, author, act, token.id, " ".join(token.scopes))

    async def tokens(self, org: str) -> list[ApiToken]:
        """All tokens."""
        mine = (token for token, _ in self._tokens.values() if token.org == org)
        return sorted(mine, key=lambda token: (token.created, token.id))

    async def token(self, org: str, token: str) -> ApiToken | None:
        """One token."""
        return next((one for one in await self.tokens(org) if one.id == token), None)

    async def revoke_token(self, org: str, token: str, author: Author) -> bool:
        """End a token for good, and what was opened with it."""
        known, _ = self._tokens.get(token, (None, b""))
        if known is None or known.org != org:
            return False
        self._revoke(token, now_ms())
        self._note(org, author, "token.revoke", token)
        return True

    def _revoke(self, token: str, at: int) -> None:
        for known, secret_hash in list(self._tokens.values()):
            if token in (known.id, known.parent):
                self._tokens[known.id] = replace(known, revoked=known.revoked or at), secret_hash

    async def rotate_token(
        self, old: ApiToken, new: ApiToken, secret_hash: bytes, until: int, author: Author
    ) -> bool:
        """Replace a token by a new one."""
        known = self._tokens[old.id][0]
        later = self._tokens.get(known.replaced_by or "", (None, b""))[0]
        if known.revoked is not None or (later is not None and later.last_used):
            return False
        if later is not None:
            self._revoke(later.id, now_ms())
        for one, own in list(self._tokens.values()):
            if old.id in (one.id, one.parent):
                end = until if one.retires is None else min(one.retires, until)
                self._tokens[one.id] = replace(one, retires=end), own
        changed, own = self._tokens[old.id]
        self._tokens[old.id] = replace(changed, replaced_by=new.id), own
        self._tokens[new.id] = new, secret_hash
        self._note(old.org, author, "token.rotate", old.id, new.id)
        return True

    async def identity(self, org: str, issuer: str, subject: str) -> str | None:
        """The member whom an identity provider knows by this name."""
        return self._identities.get((org, issuer, subject))

    async def add_identity(self, org: str, issuer: str, subject: str, user: str, author: Author) -> None:
        """Who a member is at an identity provider."""
        self._identities.setdefault((org, issuer, subject), user)
        self._note(org, author, "user.link", user, issuer)

    async def identified(self, org: str) -> set[str]:
        """The members whom some identity provider knows."""
        return {user for (own, _, _), user in self._identities.items() if own == org}

    async def first_use(self, org: str, used: bytes, now: int) -> bool:
        """Note that a sign-in was used."""
        is_first = used not in self._used
        self._used.add(used)
        return is_first

    async def grant(self, secret_hash: bytes) -> Grant | None:
        """The token with this hash, its user and organisation."""
        for token, known in self._tokens.values():
            if known == secret_hash:
                return Grant(token, self._users[token.user], self._orgs[token.org])
        return None

    async def used(self, token: ApiToken, now: int) -> None:
        """Remember that a token was used."""
        known, secret_hash = self._tokens[token.id]
        self._tokens[token.id] = replace(known, last_used=now), secret_hash

    # --- logs ------------------------------------------------------------------------------------

    def _live(self, org: str, session: str) -> _Session | None:
        known = self._sessions.get((org, session))
        return known if known is not None and known.state == LIVE else None

    def _begun(self, org: str, session: str, author: Author, machine: str | None) -> _Session:
        known = self._sessions.get((org, session))
        if known is None:
            known = self._sessions[org, session] = _Session(org, session, author, machine, now_ms())
        elif known.state == PURGED:
            known.state = LIVE
        return known

    def begin_append(self, ask: AppendRequest, waiter: AppendWaiter) -> bool:
        """Never: who appends here waits."""
        return False

    async def append(self, ask: AppendRequest) -> AppendOutcome:
        """Add lines at the end of a log if it is where the client believes. Nothing waits in here, so nobody comes between."""
        new = ask.prepared
        known = self._sessions.get((ask.org, ask.session))
        if known is not None and known.state == DELETED:
            return DeletedSession()
        log = known.logs.get(ask.key) if known is not None else None
        head = log.head if log is not None else Head(0, 0, START.hash.hex())
        if head.position != ask.expected:
            place = await self.place(ask.org, ask.session, ask.key, new.after.lines)
            if place is None or place.position != new.after:
                return AppendConflict(head)
            again = Head(new.after.lines, place.bytes, new.after.hash.hex(), new.last_uuid)
            return StoredAppend(again, repeated=True)
        session = self._begun(ask.org, ask.session, ask.author, ask.description.machine or ask.author.machine)
        log = session.logs.setdefault(ask.key, _Log())
        before, after = ask.expected, new.after
        log.segments.append(Segment(before.lines, new.lines, head.bytes, before.hash, after.hash, new.data))
        log.texts.extend(new.texts)
        log.last_uuid = new.last_uuid or log.last_uuid
        log.changed = now_ms()
        self._describe(session, ask)
        for row in new.usage:
            if (ask.org, row.message) in self._settled:
                continue
            place_of_row = (row.message or "", ask.key, row.request, row.speaker)
            said = session.usage.get(place_of_row)
            if said is None or replaces(row, said[0]):
                session.usage[place_of_row] = row, ask.author.user
        target = f"{ask.session}/{ask.key}" if ask.key else ask.session
        self._note(ask.org, ask.author, "append", target, f"{before.lines}+{new.lines}")
        return StoredAppend(log.head)

    @staticmethod
    def _describe(session: _Session, ask: AppendRequest) -> None:
        new, told = ask.prepared, ask.description
        session.changed = max(session.changed, now_ms())
        session.project = told.project or session.project
        session.repository = told.repository or session.repository
        session.machine = told.machine or session.machine
        session.is_encrypted = session.is_encrypted or (told.encrypted and len(session.logs) == 1)
        if ask.key:
            return
        session.cwd = session.cwd or new.cwd
        session.first_at = new.first_at if session.first_at is None else session.first_at
        session.last_at = session.last_at if new.last_at is None else new.last_at
        session.branch = new.branch or session.branch
        for part in TITLE_PARTS[:3]:
            text = getattr(new, part)
            session.titles[part] = session.titles.get(part) if text is None else text
        session.titles[FIRST_PROMPT] = session.titles.get(FIRST_PROMPT) or new.first_prompt

    def _log(self, org: str, session: str, key: str) -> _Log | None:
        known = self._live(org, session)
        return known.logs.get(key) if known is not None else None

    async def head(self, org: str, session: str, key: str) -> Head | None:
        """Where a log ends."""
        log = self._log(org, session, key)
        return log.head if log is not None else None

    async def place(self, org: str, session: str, key: str, lines: int) -> LogPlace | None:
        """The position after so many lines."""
        if lines == 0:
            return LogPlace(START, 0)
        log = self._log(org, session, key)
        for segment in log.segments if log is not None else ():
            if segment.first_line < lines <= segment.first_line + segment.lines:
                return place_in(segment, lines)
        return None

    async def reach(self, org: str, session: str, key: str, after: int) -> None:
        """Every line is here."""

    async def segments(
        self, org: str, session: str, key: str, after: int, until: int
    ) -> AsyncIterator[Segment]:
        """The runs that hold these lines."""
        log = self._log(org, session, key)
        for segment in list(log.segments) if log is not None else []:
            if segment.first_line + segment.lines > after and segment.first_line < until:
                yield segment

    async def heads(
        self, org: str, after: tuple[str, str], limit: int, reader: SessionReader | None = None
    ) -> list[LogHead]:
        """All logs by session and key."""
        found = [
            _log_head(session.id, key, log)
            for session in self._sessions.values()
            if session.org == org and session.state == LIVE and self._is_seen(session, reader)
            for key, log in session.logs.items()
            if (session.id, key) > after
        ]
        return sorted(found, key=lambda head: (head.session, head.key))[:limit]

    # --- sessions and files ----------------------------------------------------------------------

    def _shown(self, session: _Session) -> RemoteSession:
        user = self._users.get(session.user)
        head = session.logs[""].head if "" in session.logs else Head(0, 0, "")
        return RemoteSession(
            session.id,
            session.project,
            session.repository,
            session.machine,
            user.name if user else None,
            session.title or title_of(*(session.titles.get(part) for part in TITLE_PARTS)) or None,
            session.branch,
            session.cwd,
            session.created,
            session.changed,
            session.first_at,
            session.last_at,
            head.lines,
            head.bytes,
            session.is_held,
            session.is_encrypted,
            session.visibility,
        )

    async def sessions(
        self,
        org: str,
        wanted: SessionFilter,
        before: tuple[int, str] | None,
        limit: int,
        reader: SessionReader | None = None,
    ) -> list[RemoteSession]:
        """Newest change first."""
        mine = [
            self._shown(one)
            for one in self._sessions.values()
            if one.org == org and one.state == LIVE and self._is_seen(one, reader)
        ]
        found = [
            one
            for one in mine
            if wanted.project in (None, one.project)
            and wanted.repository in (None, one.repository)
            and wanted.machine in (None, one.machine)
            and wanted.person in (None, one.person)
            and one.id.startswith(wanted.id or "")
            and (wanted.since is None or one.changed >= wanted.since)
            and (wanted.until is None or one.changed < wanted.until)
            and (before is None or (one.changed, one.id) < before)
        ]
        return sorted(found, key=lambda one: (one.changed, one.id), reverse=True)[:limit]

    async def session(self, org: str, session: str) -> SessionDetail | None:
        """One session with its logs and files."""
        known = self._live(org, session)
        if known is None:
            return None
        logs = [_log_head(known.id, key, log) for key, log in sorted(known.logs.items())]
        return SessionDetail(
            self._shown(known), logs, [_side_file(file) for _, file in sorted(known.files.items())]
        )

    async def describe(self, org: str, session: str, changes: SessionChanges, author: Author) -> bool:
        """Change what is said of a session."""
        known = self._live(org, session)
        if known is None:
            return False
        for name in ("project", "repository", "machine", "title"):
            value: Any = getattr(changes, name)
            if value is not None:
                setattr(known, name, value)
        if changes.held is not None:
            known.is_held = changes.held
        if changes.visibility is not None:
            known.visibility = changes.visibility or None
        named = [
            name for name, value in zip(SessionChanges._fields, changes, strict=True) if value is not None
        ]
        self._note(org, author, "session.change", session, " ".join(named))
        return True

    async def delete(self, org: str, session: str, *, purge: bool, only_own: bool, author: Author) -> bool:
        """Hide a session, or remove its bytes."""
        known = self._sessions.get((org, session))
        if known is None or known.state == PURGED or (known.state == DELETED and not purge):
            return False
        if only_own and known.user != author.user:
            raise Forbidden
        if known.is_held:
            raise Held
        known.deleted = known.deleted or now_ms()
        known.state = DELETED
        if purge:
            known.state, known.deleted = PURGED, 0
            known.logs, known.files = {}, {}
            known.title, known.titles, known.cwd, known.first_at, known.last_at = None, {}, None, None, None
        self._note(org, author, "session.purge" if purge else "session.delete", session)
        return True

    async def sweep(self, now: int, grace_ms: int) -> SweepResult:
        """Delete by retention, then purge what was deleted long ago."""
        author, done = Author("retention", "retention"), [0, 0]
        every = [one for one in self._sessions.values() if not one.is_held]
        gone = [one for one in every if one.state == DELETED and one.deleted < now - grace_ms]
        for one in every:
            days = self._orgs[one.org].retention_days
            if one.state == LIVE and days is not None and one.changed < now - days * 86_400_000:
                done[0] += await self.delete(one.org, one.id, purge=False, only_own=False, author=author)
        for one in gone:
            done[1] += await self.delete(one.org, one.id, purge=True, only_own=False, author=author)
        before = len(self._audit)
        self._audit = [
            (org, row)
            for org, row in self._audit
            if (days := self._orgs[org].audit_days) is None or row.at >= now - days * 86_400_000
        ]
        for org in self._orgs.values():
            self._settle(org, now)
        return SweepResult(done[0], done[1], before - len(self._audit))

    def _settle(self, org: Org, now: int) -> None:
        """Responses of old months stay as they are counted. Nothing is dropped here: there is no disk to give back."""
        if org.usage_days is None:
            return
        cut = dt.datetime.fromtimestamp(now / 1000, dt.UTC) - dt.timedelta(days=org.usage_days)
        month = cut.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        self._usage_from[org.id] = max(self._usage_from.get(org.id, 0), int(month.timestamp()) * 1000)
        for session in self._sessions.values():
            if session.org == org.id:
                for (message, *_), (row, _) in session.usage.items():
                    if row.at is not None and row.at < self._usage_from[org.id]:
                        self._settled.add((org.id, message))

    async def put_file(
        self,
        org: str,
        session: str,
        key: str,
        data: bytes,
        *,
        only_if: str | None,
        only_own: bool,
        author: Author,
    ) -> SideFile | None:
        """Keep a side file."""
        known = self._begun(org, session, author, author.machine)
        if known.state == DELETED:
            return None
        before, digest = known.files.get(key), sha256(data).hexdigest()
        known.changed = max(known.changed, now_ms())
        if before is not None and before.sha256 == digest:
            return _side_file(before)
        if before is not None and known.is_held:
            raise Held
        if before is not None and only_own and author.user not in (known.user, known.authors.get(key)):
            raise Taken("the side file was stored by another member")
        if only_if is not None and only_if != (before.sha256 if before else ""):
            raise Taken("the side file differs from the expected version")
        known.files[key] = FileBytes(key, digest, now_ms(), data)
        known.authors[key] = author.user
        self._note(org, author, "file.put", f"{session}/{key}", f"{len(data)} {digest}")
        return _side_file(known.files[key])

    async def file(self, org: str, session: str, key: str) -> FileBytes | None:
        """A side file with its bytes."""
        known = self._live(org, session)
        return known.files.get(key) if known is not None else None

    async def delete_file(self, org: str, session: str, key: str, *, only_own: bool, author: Author) -> bool:
        """Remove a side file."""
        known = self._live(org, session)
        if known is None or key not in known.files:
            return False
        if only_own and author.user not in (known.user, known.authors.get(key)):
            raise Forbidden
        if known.is_held:
            raise Held
        del known.files[key]
        self._note(org, author, "file.delete", f"{session}/{key}")
        return True

    # --- the team's questions --------------------------------------------------------------------

    async def usage(
        self,
        org: str,
        since: int | None,
        until: int | None,
        *,
        by: Sequence[str] | None = None,
        changes: Sequence[int] = (),
        other_changes: Sequence[int] = (),
        reader: SessionReader | None = None,
        person: str | None = None,
        models: Sequence[str] = (),
        into: UsageTaker | None = None,
    ) -> Sequence[UsageSum]:
        """One sum for every counted response. What is settled is told by the quarter of an hour."""
        held = self._usage_from.get(org, -(1 << 62))
        since, until = (
            time - time % QUARTER_MS if time is not None and time < held else time for time in (since, until)
        )
        by_message: dict[str, list[tuple[_Session, str, UsageRow, str]]] = {}
        for session in self._sessions.values():
            if session.org == org:
                for (message, key, *_), (row, teller) in session.usage.items():
                    by_message.setdefault(message, []).append((session, key, row, teller))
        found: list[UsageSum] = []
        for copies in by_message.values():
            told = [copy_of(row, f"{session.id}/{key}") for session, key, row, _ in copies]
            for place, amounts in counted(told):
                session, _, row, author = copies[place]
                if person is not None and author != person:
                    continue
                row = _with_amounts(row, copies[amounts][2])
                if models and row.model not in models:
                    continue
                is_timed = row.at is not None and row.at // QUARTER_MS != 0
                at = row.at or 0
                if (since is not None or until is not None) and not is_timed:
                    continue
                if (since is None or at >= since) and (until is None or at < until):
                    found.append(self._hidden(session, self._sum(session, row, author), reader))
        if into is None:
            return found
        into.begin()
        into.take(found)
        return []

    def _hidden(self, session: _Session, told: UsageSum, reader: SessionReader | None) -> UsageSum:
        if reader is None:
            return told
        chosen = session.visibility or self._orgs[session.org].visibility
        if not self._is_seen(session, reader):
            told = told._replace(session="(private)", branch="(private)", machine="(private)")
        if chosen == "private" and session.user != reader.user:
            told = told._replace(project="(private)", repository="(private)")
        return told

    def _sum(self, session: _Session, row: UsageRow, person: str) -> UsageSum:
        user = self._users.get(person)
        return UsageSum(
            (row.at or 0) // QUARTER_MS,
            session.id,
            session.project,
            session.repository,
            session.machine,
            user.name if user else None,
            row.model or None,
            row.branch or None,
            row.variant,
            1,
            *row[11:17],
        )

    async def search(self, org: str, wanted: LineSearch) -> LineMatches:
        """Every line looked at."""
        since, until = wanted.since, wanted.until
        found = [
            LineMatch(one.id, key, row.line, row.at, row.type)
            for one in self._sessions.values()
            if one.org == org
            and one.state == LIVE
            and self._is_seen(one, wanted.reader)
            and wanted.session in (None, one.id)
            and wanted.project in (None, one.project)
            for key, log in one.logs.items()
            for row in log.texts
            if (since is None or (row.at is not None and row.at >= since))
            and (until is None or (row.at is not None and row.at < until))
            and wanted.query.matches({"words": row.text})
        ]
        return LineMatches(sorted(found, key=lambda hit: hit.at or 0, reverse=True)[: wanted.limit])

    async def note_refusal(self, org: str, author: Author, target: str, detail: str) -> None:
        """A refused attempt."""
        self._note(org, author, REFUSED, target, detail)

    async def audit(self, org: str, before: int | None, limit: int) -> list[AuditRow]:
        """Who did what."""
        rows = [row for owner, row in reversed(self._audit) if owner == org]
        return [row for row in rows if before is None or row.id < before][:limit]


def _log_head(session: str, key: str, log: _Log) -> LogHead:
    head = log.head
    return LogHead(session, key, head.lines, head.bytes, head.hash, head.last_uuid, log.changed)


def _side_file(file: FileBytes) -> SideFile:
    return SideFile(file.key, len(file.data), file.sha256, file.changed)


def _with_amounts(row: UsageRow, other: UsageRow) -> UsageRow:
    """A response as in one copy, with the counts of another (``model.cost.copies`` chooses both)."""
    if other is row:
        return row
    return row._replace(
        model=other.model,
        version=other.version,
        variant=other.variant,
        input=other.input,
        output=other.output,
        cache_write_5m=other.cache_write_5m,
        cache_write_1h=other.cache_write_1h,
        cache_read=other.cache_read,
        web_searches=other.web_searches,
        recorded=other.recorded,
    )
