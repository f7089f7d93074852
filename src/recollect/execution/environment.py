"""The few variables a confined program is told, and the places it is not shown.

An allow list: tokens, agent sockets, loader and interpreter variables of ours never
reach a command, whatever they are called.
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


def clean(asked: Mapping[str, str] | None, private: str, proxy: str | None) -> dict[str, str]:
    """What the command gets: the allow list from ours, a private HOME and TMPDIR, then what was asked for."""
    kept = {name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith("LC_")}
    kept.setdefault("PATH", _FALLBACK_PATH)
    kept |= {"HOME": f"{private}/home", "TMPDIR": f"{private}/temporary"}
    if proxy:
        kept |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), proxy)
    return kept | dict(asked or {})


def helper() -> dict[str, str]:
    """What our own helper gets: nothing a loader or an interpreter could be steered with."""
    return {"PATH": _FALLBACK_PATH, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}


def secret_places() -> tuple[Path, ...]:
    """Where keys are kept, of this user and of the machine."""
    home = Path(os.environ.get("HOME") or "/nonexistent")
    named = [os.environ.get(name) for name in ("CLAUDE_CONFIG_DIR",)]
    own = [Path(place) / ".credentials.json" for place in named if place]
    return (*(home / name for name in _SECRETS), *own, *map(Path, _SYSTEM_SECRETS))


def existing(places: tuple[Path, ...]) -> list[Path]:
    """Those that are there, with every link followed: hiding a link would hide nothing."""
    found: dict[Path, None] = {}
    for place in places:
        try:
            found[place.resolve(strict=True)] = None
        except (OSError, RuntimeError):
            continue
    return list(found)
