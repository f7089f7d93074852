"""A decision holds for what it was made for and nothing else (E10).

The seal covers the tool, its arguments, the directory and the identity of every file named, so
that an approval cannot be spent on another command, nor on the same name after it became a link.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from recollect.policy.world import World


def seal(tool: str, arguments: Mapping[str, object], cwd: str, files: Iterable[str], world: World) -> str:
    """The hash of all that a decision depends on outside the rules."""
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
        return "not JSON: " + _shown(arguments)


def _shown(arguments: object) -> str:
    """A last resort for arguments no JSON could hold; they are denied anyway."""
    try:
        return repr(arguments)
    except RecursionError:
        return type(arguments).__name__
