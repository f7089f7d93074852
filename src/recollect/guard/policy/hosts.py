"""Which host a URL leads to, and which hosts ``WebFetch(domain:...)`` covers (R16).

*Where does this URL lead?* is answered only for a plainly written URL; one that a browser and a library
could read differently is never allowed. *Could it lead to a denied host?* is checked for every
host-like piece of the text. Private addresses are refused unless a rule names them (D05). The code that
opens the connection checks what a name resolves to, with :func:`is_private_address`.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote, urlsplit

from recollect.guard.policy.command_lines import listed

_PLAIN_URL = re.compile(r"(https?)://([^/?#\\@\s%\[\]]+?)(?::(\d{1,5}))?(?:[/?#][^\\\s]*)?", re.IGNORECASE)
_HOSTLIKE = re.compile(r"[^\s/\\?#@:,;&=<>\"'\[\]()|]+")
_LABELS = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*")
_NUMBERS = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+)){0,3}", re.IGNORECASE)
_DOTS = re.compile("[\u3002\uff0e\uff61]")
_COMPATIBLE = ipaddress.IPv6Network("::/96")
"""IPv4 addresses in the form that no public host has any more: ``::127.0.0.1``."""
_CARRIES_IPV4 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_LOCAL_NAMES = ("localhost", "local", "internal", "localdomain", "home.arpa")


@dataclass(frozen=True)
class DomainPattern:
    """``example.com``, ``*.example.com`` or ``*``: an inner star does not cross a dot."""

    text: str

    @cached_property
    def named(self) -> str | None:
        """The one host it covers, or None when it has a star."""
        return None if "*" in self.text else canonical_host(self.text)

    def matches(self, host: str) -> bool:
        """Whether the pattern covers a host name in its canonical form."""
        return self._pattern.fullmatch(host) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        text = self.text.strip().lower().rstrip(".")
        if text == "*":
            return re.compile(".+")
        start = ""
        if text.startswith("*."):
            start, text = r"(?:[^.]+\.)+", text[2:]
        if "*" not in text:
            return re.compile(start + re.escape(canonical_host(text) or text))
        labels = [label if "*" in label else canonical_host(label) or label for label in text.split(".")]
        return re.compile(start + "[^.]*".join(map(re.escape, ".".join(labels).split("*"))))


def canonical_host(host: str) -> str | None:
    """Lower case, ASCII, no trailing dot, addresses in canonical form; None when it cannot be a host."""
    text = _DOTS.sub(".", host.strip()).rstrip(".").lower()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    address = address_of(text)
    if address is not None:
        return str(address)
    if not text.isascii():
        try:
            text = text.encode("idna").decode("ascii")
        except UnicodeError:
            return None
    return text if _LABELS.fullmatch(text) and len(text) <= 253 else None


def host_of(url: str) -> str | None:
    """The host of a plainly written http(s) URL, else None."""
    bracketed = re.fullmatch(
        r"(https?)://\[([0-9a-fA-F:.]+)\](?::\d{1,5})?(?:[/?#][^\\\s]*)?", url, re.IGNORECASE
    )
    if bracketed:
        return canonical_host(bracketed.group(2))
    found = _PLAIN_URL.fullmatch(url)
    if not found or not url.isprintable():
        return None
    return canonical_host(found.group(2))


def hosts_suspected(url: str) -> frozenset[str]:
    """Every piece of the text that some parser could take for the host, also after percent-decoding."""
    found = set()
    plain = host_of(url)
    if plain:
        return frozenset({plain})
    for text in (url, unquote(url), unquote(unquote(url))):
        squeezed = re.sub(r"[\t\r\n\x00-\x20]", "", text)
        for piece in (
            *_HOSTLIKE.findall(text),
            *_HOSTLIKE.findall(squeezed),
            *re.findall(r"\[([^\]]*)\]", text),
        ):
            host = canonical_host(piece)
            if host:
                found.add(host)
    return frozenset(found)


def address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address in any notation the C library accepts: ``0x7f.1``, ``2130706433``, ``::ffff:…``."""
    bare = host.split("%", 1)[0]
    if ":" in bare:
        try:
            six = ipaddress.IPv6Address(bare)
        except ValueError:
            return None
        return six.ipv4_mapped or six
    if not _NUMBERS.fullmatch(bare):
        return None
    try:
        *leading, last = map(_number, bare.split("."))
        return ipaddress.IPv4Address(bytes(leading) + last.to_bytes(4 - len(leading), "big"))
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> int:
    if text.lower().startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if text.startswith("0") and len(text) > 1 else int(text)


def is_private_address(address: str) -> bool:
    """Whether the address is loopback, private, link-local or reserved."""
    parsed = address_of(address)
    return parsed is not None and _private(parsed)


def is_private_host(host: str) -> bool:
    """The same for a host name: an address, or a name that is only valid locally."""
    if is_private_address(host):
        return True
    return any(host == name or host.endswith("." + name) for name in _LOCAL_NAMES)


def is_single_label(host: str) -> bool:
    """Whether the name has one part only, as ``intranet`` and ``ip6-localhost``: looked up in the local network."""
    return "." not in host and address_of(host) is None


def _private(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.sixtofour or (address.teredo[1] if address.teredo else None)
        last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is None and any(address in network for network in _CARRIES_IPV4):
            inner = last
        if inner is None and (int(address) >> 32) & 0xFDFFFFFF == 0x5EFE:  # ISATAP
            inner = last
        if address in _COMPATIBLE or (inner is not None and _private(inner)):
            return True
    return not address.is_global or address.is_multicast


_HOSTS = listed("documentation_hosts")
_PATHS = {"github.com": "/anthropics", "vercel.com": "/docs"}
"""Hosts of which only what is below one path counts."""


def is_documentation(url: str) -> bool:
    """Whether the URL leads to one of the hosts. Give only a URL that can be read in one way."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    below = _PATHS.get(host)
    return host in _HOSTS or (below is not None and f"{parts.path}/".startswith(f"{below}/"))
