"""The environment variables of a confined program.

Variables pass by an allow list: our tokens, agent sockets, loader and interpreter variables never reach
a command.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

PASSED_ON = frozenset(
    ["PATH", "LANG", "LANGUAGE", "TERM", "TZ", "USER", "LOGNAME", "COLUMNS", "LINES", "NO_COLOR", "COLORTERM"]
)
_FALLBACK_PATH = "/usr/local/bin:/usr/bin:/bin"


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
