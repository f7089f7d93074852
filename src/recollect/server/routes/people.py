"""One person over HTTP: an admin erases a member, a member gets an archive of everything that is held of them.

An admin gets no archive of another member: it has private sessions, which an admin may delete and not read.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from recollect.server.database.records import OrgUser
from recollect.server.outgoing import OutgoingBuffer, TimedStreamingResponse, TooSlow
from recollect.server.people import erased, person_archive, planned_erasure
from recollect.server.refusals import invalid, not_found
from recollect.server.service import ServerRequest, answer


class _Erasure(Struct, forbid_unknown_fields=True):
    # The name of the member, so that no one is erased by a wrong id.
    name: Annotated[str, Meta(max_length=200)]


async def plan_erasure(ask: ServerRequest) -> Response:
    """GET /v1/users/{user_id}/erasure."""
    ask.only()
    return answer(await planned_erasure(ask.service.database, await _member(ask)))


async def erase(ask: ServerRequest) -> Response:
    """POST /v1/users/{user_id}/erasure."""
    ask.only()
    body = await ask.document(_Erasure)
    user = await _member(ask)
    if user.id == ask.caller.user.id:
        raise invalid("an admin cannot erase themselves", "ask another admin")
    if body.name != user.name:
        raise invalid("name: not that of the member", "repeat the name, as GET /v1/users shows it")
    report = await erased(ask.service.database, user, ask.caller.author)
    ask.service.doorkeeper.forget()
    ask.service.creators.clear()
    return answer(report)


async def export_own(ask: ServerRequest) -> Response:
    """GET /v1/whoami/export."""
    ask.only()
    outlet = OutgoingBuffer(ask.service.budget, ask.service.limits)

    async def room(size: int) -> None:
        if not await outlet.has_room(min(size, ask.service.limits.body_bytes)):
            raise TooSlow

    pieces = person_archive(ask.service.database, ask.caller.user, room)
    headers = {"Content-Disposition": 'attachment; filename="recollect-export.tar.gz"'}
    return TimedStreamingResponse(pieces, outlet, headers, "application/gzip")


async def _member(ask: ServerRequest) -> OrgUser:
    number = ask.parameter("user_id")
    for user in await ask.service.database.users(ask.org):
        if user.id == number:
            return user
    raise not_found()
