"""The built page: a few files, read once and served from memory. No name from a request reaches a path."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

STATIC = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
_NOT_BUILT = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>recollect</title></head>
<body><h1>recollect</h1>
<p>The page is not built. In a checkout, <code>make web</code> builds it; an installed package has it.</p>
<p>The server is running: <a href="/openapi.json">/openapi.json</a> lists what it answers.</p>
</body></html>
"""
_INDEX = "index.html"


class BuiltFile(NamedTuple):
    """One file of the page."""

    data: bytes
    media_type: str
    caching: str


class BuiltFiles:
    """All files of the page, by address."""

    def __init__(self, directory: Path = STATIC) -> None:
        self._files = {_INDEX: BuiltFile(_NOT_BUILT, _TYPES[".html"], "no-cache")}
        for path in sorted(directory.rglob("*")) if directory.is_dir() else ():
            kind = _TYPES.get(path.suffix)
            if kind is not None and path.is_file():
                name = path.relative_to(directory).as_posix()
                # Files below assets/ have a hash in their name, so they never change.
                is_hashed = name.startswith("assets/")
                caching = "public, max-age=31536000, immutable" if is_hashed else "no-cache"
                self._files[name] = BuiltFile(path.read_bytes(), kind, caching)

    def found(self, path: str) -> BuiltFile | None:
        """A file; a route inside the page, such as a link to a message, is the page itself."""
        if path in self._files:
            return self._files[path]
        last = path.rpartition("/")[2]
        is_inside = "." not in last and not path.startswith("assets/")
        return self._files[_INDEX] if is_inside else None
