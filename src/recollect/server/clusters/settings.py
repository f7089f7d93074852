"""The file that names further PostgreSQL clusters.

``main`` is the cluster of ``--database``; it also holds the directory. Passwords may stay out of the file: PostgreSQL's
own ``PGPASSFILE`` is read.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.errors import StorageError, UsageError

MAIN = "main"
_HINT = "see docs/operating.md, Many databases"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}", re.ASCII)


class ClusterSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How one cluster is reached."""

    address: str
    replica: str | None = None


class _ClustersFile(Struct, frozen=True, forbid_unknown_fields=True):
    clusters: dict[str, ClusterSettings]


def load_clusters(path: Path) -> dict[str, ClusterSettings]:
    """The clusters of a file, checked."""
    try:
        found = msgspec.toml.decode(path.read_bytes(), type=_ClustersFile).clusters
    except OSError as cause:
        raise StorageError("read", path, cause, hint=_HINT) from cause
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise UsageError(f"{path}: {cause}", hint=_HINT) from None
    for name, one in found.items():
        if name == MAIN or not _NAME.fullmatch(name):
            raise UsageError(
                f"{path}: a cluster cannot be called {name!a}",
                hint=f"write small letters, digits and -; {MAIN} is the cluster of --database",
            )
        if not one.address.startswith(("postgresql://", "postgres://")):
            raise UsageError(f"{path}: {name}: the address is not one of PostgreSQL", hint=_HINT)
    return found
