"""The file that names an organisation's identity provider, and what its groups mean here.

A group gives a role, a team, or both. Who is in no group that is named here may not sign in, unless there is a
``default_role``. The client secret is not in the file: it is in another one, or in the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from recollect.errors import StorageError, UsageError
from recollect.server.tenancy import GRANTABLE, READ, ROLES, WRITE

_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
_HINT = "see docs/guides/sign-in.md"
Hours = Annotated[int, Meta(ge=1, le=720)]
_Days = Annotated[int, Meta(ge=1, le=3_650)]
_Word = Annotated[str, Meta(min_length=1, max_length=500)]


class ProviderSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """One provider and the organisation whose members it knows."""

    organisation: _Word
    issuer: _Word
    client_id: _Word
    client_secret_file: str = ""
    client_secret_env: str = ""
    scopes: tuple[str, ...] = ("openid", "profile")
    name_claim: _Word = "preferred_username"
    groups_claim: _Word = "groups"
    roles: dict[str, str] = {}
    teams: dict[str, str] = {}
    default_role: str = ""
    # A member of the same name who never signed in this way becomes the person who does.
    adopt_members: bool = False
    session_hours: Hours = 8
    token_days: _Days = 30
    token_scopes: tuple[str, ...] = (READ, WRITE)

    def secret(self, environ: Mapping[str, str] = os.environ) -> str | None:
        """The client secret; None for a public client."""
        if self.client_secret_env:
            value = environ.get(self.client_secret_env, "").strip()
            if not value:
                raise UsageError(f"${self.client_secret_env}: is empty", hint="set it to the client secret")
            return value
        if not self.client_secret_file:
            return None
        try:
            return Path(self.client_secret_file).read_text(encoding="utf-8").strip()
        except OSError as cause:
            raise StorageError("read", Path(self.client_secret_file), cause, hint=_HINT) from cause


class _SettingsFile(Struct, frozen=True, forbid_unknown_fields=True):
    provider: tuple[ProviderSettings, ...]


def load_providers(path: Path) -> tuple[ProviderSettings, ...]:
    """The providers of a file, checked."""
    try:
        found = msgspec.toml.decode(path.read_bytes(), type=_SettingsFile).provider
    except OSError as cause:
        raise StorageError("read", path, cause, hint=_HINT) from cause
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise UsageError(f"{path}: {cause}", hint=_HINT) from None
    for one in found:
        _check(path, one)
    names = [one.organisation for one in found]
    if len(set(names)) != len(names):
        raise UsageError(f"{path}: an organisation has two providers", hint="give it one")
    return found


def _check(path: Path, one: ProviderSettings) -> None:
    problem = ""
    if not is_safe_address(one.issuer):
        problem = f"issuer {one.issuer!a}: not an https:// address"
    elif "openid" not in one.scopes:
        problem = "scopes: openid is missing"
    elif wrong := [role for role in (*one.roles.values(), one.default_role or "member") if role not in ROLES]:
        problem = f"role {wrong[0]!a}: not one of {', '.join(ROLES)}"
    elif not set(one.token_scopes) <= set(GRANTABLE):
        problem = f"token_scopes: not all of {', '.join(GRANTABLE)}"
    elif one.client_secret_env and one.client_secret_file:
        problem = "two client secrets"
    if problem:
        raise UsageError(f"{path}: {problem}", hint=_HINT)


def is_safe_address(url: str) -> bool:
    """Whether an address may be asked: https, or this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)
    return is_safe and bool(host) and parts.username is None
