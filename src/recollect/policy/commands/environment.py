"""Variables before a command that leave its meaning as it is (R8).

Only these names, and only with a plain value, are left out when a rule is compared with the command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from recollect.policy.analysis import Word
from recollect.policy.commands.options import names

_NAMES = names(
    "ANTHROPIC_API_KEY BLOCK_SIZE CGO_ENABLED CHARSET CI COLORTERM FORCE_COLOR GO111MODULE GOARCH"
    " GOEXPERIMENT GOOS GREP_COLOR GREP_COLORS LANG LANGUAGE LC_ALL LC_CTYPE LC_TIME LS_COLORS NODE_ENV"
    " NO_COLOR PYTEST_DEBUG PYTEST_DISABLE_PLUGIN_AUTOLOAD PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED"
    " RUST_BACKTRACE RUST_LOG TERM TIME_STYLE TZ"
)
_LOCALES = frozenset({"C", "C.UTF-8", "POSIX", "en_US.UTF-8"})
_PLAIN = re.compile(r"[A-Za-z0-9_./:-]+", re.ASCII)


def harmless_environment(assignments: Iterable[tuple[str, Word]]) -> bool:
    """Whether every assignment is of a known name and a plain value."""
    return all(_harmless(name, word.raw) for name, word in assignments)


def _harmless(name: str, value: str) -> bool:
    if name not in _NAMES or not _PLAIN.fullmatch(value):
        return False
    return value in _LOCALES or not (name == "LANG" or name.startswith("LC_"))
