"""How xdist shares the tests out: a file stays in one process, and so does a room that shares one expensive thing.

What a module or a room sets up once (a browser, a generated home, an imported library) is then set up once in the
whole run, and not once in every process. Used for ``--dist loadfile``; see ``conftest.py``.
"""

from __future__ import annotations

from xdist.scheduler.loadfile import LoadFileScheduling  # type: ignore[import-untyped]

# All files of such a room use one browser.
ONE_PROCESS = ("tests/browser/",)


class RoomScheduling(LoadFileScheduling):  # type: ignore[misc]
    """Files in the order they were collected in: the slow ones come first, so that no process ends with a long one."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return next((room for room in ONE_PROCESS if file.startswith(room)), file)
