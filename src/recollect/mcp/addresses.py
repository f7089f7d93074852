"""Which addresses a server may have: public ones, and private ones only where the user allowed it.

A name is resolved once per connection, every address is checked, and the connection goes to a checked
address, so DNS rebinding gains nothing.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import NamedTuple

import anyio

from recollect.policy.rules.hosts import is_private_address


class AddressRefused(Exception):
    """The address may not be used; the message is ours, not the server's."""


class UrlOrigin(NamedTuple):
    """Scheme, host and port; requests stay within it."""

    scheme: str
    host: str
    port: int


async def usable_address(origin: UrlOrigin, *, private_allowed: bool) -> str:
    """An address of the host that may be used; plain http is never used for a public address."""
    addresses = await _resolved(origin)
    for address in addresses:
        private = is_private_address(address)
        if private and not private_allowed:
            raise AddressRefused("it is at a private address, which was not allowed for this server")
        if not private and origin.scheme != "https":
            raise AddressRefused("plain http to a public address; use https")
    return addresses[0]


async def _resolved(origin: UrlOrigin) -> list[str]:
    try:
        return [str(ipaddress.ip_address(origin.host))]
    except ValueError:
        pass
    try:
        found = await anyio.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as cause:
        raise AddressRefused("its host name cannot be resolved") from cause
    addresses = [str(entry[4][0]) for entry in found]
    if not addresses:
        raise AddressRefused("its host name has no address")
    return addresses
