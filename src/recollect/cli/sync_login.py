"""``team login``, ``rotate``, ``tokens`` and ``revoke``: how this machine gets its token, and what becomes of tokens later."""

from __future__ import annotations

import datetime as dt
import getpass
import platform
import sys
import time
from argparse import Namespace

from msgspec.structs import replace

from recollect.cli.terminal import output
from recollect.cli.terminal.options import command, own_data
from recollect.cli.terminal.text import padded, visible
from recollect.errors import Ambiguous, NotFound, UsageError
from recollect.share.sync.http_remote import HttpRemote
from recollect.share.sync.sync import SyncClient, checked_address
from recollect.share.sync.wire import FOR_PAGE, ApiToken
from recollect.store.own_settings import SyncLogin, load_login, save_login

_PATIENCE = 10.0
_LONGEST_OVERLAP = 720
# RFC 8628: how much longer to wait between questions when the provider says slow_down.
_SLOWER = 5.0


def login(options: Namespace) -> int:
    """Check the address and the token, then save them."""
    address = checked_address(options.address)
    machine = options.machine or platform.node()[:100]
    token = _token(options, address, machine)
    found = SyncLogin(address, token, machine, options.encrypt, not options.no_redact, options.plain_http)
    # Check before saving: a wrong token or address is reported now.
    who = SyncClient(found, own_data(options), patience=_PATIENCE).server().whoami()
    path = save_login(replace(found, expires=who.expires))
    if options.json:
        return output.print_json(
            {
                "address": address,
                "machine": machine,
                "organization": who.organization_name,
                "person": who.user_name,
                "scopes": who.scopes,
                "file": path,
            }
        )
    scopes = ", ".join(who.scopes)
    output.say(f"{visible(who.user_name)} of {visible(who.organization_name)} at {address} ({scopes})")
    output.say(f"Saved in {path}, readable only by you. Send with: {command(options, 'team', 'push')}")
    return 0


def rotate(options: Namespace) -> int:
    """Replace the token of this machine; the old one is not needed any more once the new one is saved."""
    if not 0 <= options.overlap <= _LONGEST_OVERLAP:
        raise UsageError(f"--overlap {options.overlap}: not 0 to {_LONGEST_OVERLAP} hours", hint="write 24")
    known = load_login()
    new = SyncClient(known, own_data(options), patience=_PATIENCE).server().rotate(options.overlap)
    if new.token is None:
        raise UsageError(f"{known.address}: sent no token", hint="is it a recollect server?")
    path = save_login(replace(known, token=new.token, expires=new.expires))
    if options.json:
        # Times in milliseconds; null is never.
        times = {"expires": new.expires, "old_until": new.old_until}
        return output.print_json({"address": known.address, **times, "file": path})
    end = "it does not expire" if new.expires is None else f"it expires {_day(new.expires)}"
    output.say(f"A new token is saved in {path}; {end}.")
    if new.old_until is not None:
        output.say(f"The old one works until {_day(new.old_until)}.")
    return 0


def tokens(options: Namespace) -> int:
    """The member's own tokens that still work."""
    found = SyncClient(load_login(), own_data(options), patience=_PATIENCE).server().own_tokens()
    if options.json:
        return output.print_json(found)
    for one in _working(found.tokens):
        kind = "browser" if one.kind == FOR_PAGE else visible(one.machine or "-")
        used = "never used" if one.last_used is None else f"used {_day(one.last_used)}"
        end = "no end" if one.end is None else f"ends {_day(one.end)}"
        this = "  (this machine)" if one.id == found.this else ""
        output.say(f"{visible(one.id)}  {padded(kind, 16)}  {used}, {end}  {', '.join(one.scopes)}{this}")
    return 0


def revoke(options: Namespace) -> int:
    """End one of them at once."""
    server, named = SyncClient(load_login(), own_data(options), patience=_PATIENCE).server(), options.token
    own = server.own_tokens()
    fits = [one for one in _working(own.tokens) if one.id.startswith(named)]
    if not fits:
        raise NotFound(f"token {named}: not one of yours", hint="`recollect team tokens` lists them")
    if len(fits) > 1:
        raise Ambiguous("token", named, tuple(one.id for one in fits))
    server.revoke_own(fits[0].id)
    after = "; log in again with another token: recollect team login" if fits[0].id == own.this else ""
    output.say(f"{visible(fits[0].id)} is revoked{after}.")
    return 0


def _working(found: list[ApiToken]) -> list[ApiToken]:
    now = time.time_ns() // 1_000_000
    return [one for one in found if one.revoked is None and (one.end is None or one.end > now)]


def _day(at: int) -> str:
    return f"{dt.datetime.fromtimestamp(at / 1_000, dt.UTC):%Y-%m-%d %H:%M} UTC"


def _token(options: Namespace, address: str, machine: str) -> str:
    if options.sso is not None:
        return _signed_in(options, address, machine)
    is_typed = sys.stdin.isatty()
    token = (getpass.getpass(f"Token for {address}: ") if is_typed else sys.stdin.readline()).strip()
    if not token:
        raise UsageError("team login: no token was given", hint="type it, or pass it on standard input")
    return token


def _signed_in(options: Namespace, address: str, machine: str) -> str:
    """A token from the organisation's identity provider, by device code (RFC 8628)."""
    server = HttpRemote(address, None, patience=_PATIENCE, allow_plain=options.plain_http)
    offer = server.sign_in_offer()
    organisation = options.sso or offer.organisation
    if not offer.is_offered:
        raise NotFound(f"{address}: has no identity provider", hint="log in with a token: leave --sso out")
    if not organisation:
        raise UsageError(f"{address}: has several organisations", hint="name yours: --sso ORGANISATION")
    code = server.device_sign_in(organisation)
    # On stderr: with --json the output is one document.
    output.note(f"open {visible(code.verification_uri)} in a browser and type {visible(code.user_code)}")
    if code.verification_uri_complete is not None:
        output.note(f"or open {visible(code.verification_uri_complete)}")
    pause, end = float(code.interval), time.monotonic() + code.expires_in
    while time.monotonic() < end:
        time.sleep(pause)
        answer = server.device_token(organisation, code.device_code, machine)
        if answer.token is not None:
            return answer.token
        pause += _SLOWER if answer.waiting == "slow_down" else 0.0
    raise UsageError("team login: no one signed in in time", hint="repeat the command")
