"""Ties a decision to the call it was made for (E10).

The seal covers the tool, its arguments, the directory and the identity of every named file. An approval
cannot be used for another command, nor for the same name after it became a link.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from recollect.policy.world import World


def seal(tool: str, arguments: Mapping[str, object], cwd: str, files: Iterable[str], world: World) -> str:
    """The hash of everything outside the rules that a decision depends on."""
    named = sorted({cwd, *files})
    facts = [
        tool,
        _canonical(arguments),
        cwd,
        [[path, world.resolved(path), world.identity(path)] for path in named],
    ]
    text = json.dumps(facts, ensure_ascii=True, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(arguments: Mapping[str, object]) -> str:
    try:
        return json.dumps(dict(arguments), ensure_ascii=True, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):
        return "not JSON: " + _fallback_text(arguments)


def _fallback_text(arguments: object) -> str:
    """A fallback for arguments that JSON cannot hold; such calls are denied anyway."""
    try:
        return repr(arguments)
    except RecursionError:
        return type(arguments).__name__
