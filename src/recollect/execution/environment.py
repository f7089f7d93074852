"""The environment variables of a confined program, and the secret places hidden from it.

Variables pass by an allow list: our tokens, agent sockets, loader and interpreter variables never reach
a command.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

PASSED_ON = frozenset(
    ["PATH", "LANG", "LANGUAGE", "TERM", "TZ", "USER", "LOGNAME", "COLUMNS", "LINES", "NO_COLOR", "COLORTERM"]
)
_FALLBACK_PATH = "/usr/local/bin:/usr/bin:/bin"
_SECRETS = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".config/gcloud",
    ".config/gh",
    ".config/op",
    ".docker/config.json",
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials.toml",
    ".password-store",
    ".local/share/keyrings",
    ".claude/.credentials.json",
    ".claude.json",
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
)
_SYSTEM_SECRETS = (
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/sudoers",
    "/etc/ssl/private",
    "/run/user",
    "/run/secrets",
)


def clean(requested: Mapping[str, str] | None, private: str, proxy: str | None) -> dict[str, str]:
    """The command's variables: allowed ones of ours, a private HOME and TMPDIR, then the requested ones."""
    variables = {
        name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith("LC_")
    }
    variables.setdefault("PATH", _FALLBACK_PATH)
    variables |= {"HOME": f"{private}/home", "TMPDIR": f"{private}/temporary"}
    if proxy:
        variables |= dict.fromkeys(
            ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), proxy
        )
    return variables | dict(requested or {})


def helper() -> dict[str, str]:
    """The helper's variables: none that influences a loader or an interpreter."""
    return {"PATH": _FALLBACK_PATH, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}


def secret_places() -> tuple[Path, ...]:
    """Where keys are stored, of this user and of the machine."""
    home = Path(os.environ.get("HOME") or "/nonexistent")
    named = [os.environ.get(name) for name in ("CLAUDE_CONFIG_DIR",)]
    own = [Path(place) / ".credentials.json" for place in named if place]
    return (*(home / name for name in _SECRETS), *own, *map(Path, _SYSTEM_SECRETS))


def existing(places: tuple[Path, ...]) -> list[Path]:
    """Existing places with links resolved: hiding a link alone would hide nothing."""
    found: dict[Path, None] = {}
    for place in places:
        try:
            found[place.resolve(strict=True)] = None
        except (OSError, RuntimeError):
            continue
    return list(found)
