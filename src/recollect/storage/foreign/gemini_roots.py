"""Which directory a project of Gemini CLI stands for.

Since 0.29 the client writes it down. Before, the name of a project was the SHA-256 of its directory, which sessions still
hold: tools were called with absolute paths below it. So the ancestors of such paths are hashed, and the one that fits is it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from recollect.model.json.text import loose_value

_HASH = re.compile(r"[0-9a-f]{64}\Z")
# In JSON: to the end of the string, or to the first escaped character.
_PATH = re.compile(rb'(?<![\w.~/])/[^"\\/\x00-\x1f][^"\\\x00-\x1f]{0,1000}')
_MOST_READ, _MOST_TRIED = 32 << 20, 200_000


def project_root(project: Path, home: Path, digest: object, session: Callable[[], bytes]) -> str:
    """The directory of a project, "" where nothing tells it. ``digest`` is its checksum, ``session`` gives one of its files."""
    written = _written_root(project, home)
    wanted = digest if isinstance(digest, str) and _HASH.match(digest) else project.name
    if written or not _HASH.match(wanted):
        return written
    return _fitting(wanted, [session()]) or _root_in_project(project, wanted, _changed_at(project / "chats"))


def _written_root(project: Path, home: Path) -> str:
    try:
        return (project / ".project_root").read_text().strip().replace("\0", "")
    except (OSError, UnicodeDecodeError):
        pass
    try:
        named = loose_value((home / "projects.json").read_bytes())
    except OSError:
        return ""
    projects = named.get("projects") if isinstance(named, dict) else None
    listed = projects.items() if isinstance(projects, dict) else ()
    return next((path for path, slug in listed if slug == project.name), "")


@lru_cache(maxsize=256)
def _root_in_project(project: Path, wanted: str, changed_at: int) -> str:
    """Out of other sessions of the project; asked for again when there is another one."""
    return _fitting(wanted, _contents(project / "chats"))


def _changed_at(directory: Path) -> int:
    try:
        return directory.stat().st_mtime_ns
    except OSError:
        return 0


def _contents(chats: Path) -> Iterator[bytes]:
    left = _MOST_READ
    for path in sorted(chats.glob("session-*.json*"), reverse=True):
        try:
            data = path.read_bytes()
        except OSError:
            continue
        left -= len(data)
        if left < 0:
            return
        yield data


def _fitting(wanted: str, texts: Iterable[bytes]) -> str:
    """The directory with this checksum among all that are named."""
    seen: set[bytes] = set()
    for text in texts:
        for found in _PATH.finditer(text):
            if len(seen) > _MOST_TRIED:
                return ""
            for directory in _ancestors(found[0], seen):
                if sha256(directory).hexdigest() == wanted:
                    return directory.decode("utf-8", "replace")
    return ""


def _ancestors(path: bytes, seen: set[bytes]) -> Iterator[bytes]:
    """A path and those above it, each once; where words follow it, also without them."""
    while len(path) > 1 and path not in seen:
        seen.add(path)
        yield path
        ended = path.rstrip(b".,:;)]}'`> ")
        cut = ended if ended != path else path[: max(path.rfind(b"/"), path.rfind(b" "))]
        path = cut.rstrip(b"/") if cut.rfind(b"/") >= 0 else b""
