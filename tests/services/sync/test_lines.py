"""What transforms lines on their way out."""

from __future__ import annotations

import subprocess
import sys


def test_sending_lines_loads_little_of_what_looks_for_secrets() -> None:
    """Neither homes nor archive nor index: that made half of the time of a push of one line."""
    code = "import sys, recollect.services.sync.lines; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith("recollect.")}

    rooms = (
        "recollect.services.homes",
        "recollect.storage.archive",
        "recollect.index",
        "recollect.services.session",
    )
    assert [] == sorted(name for name in loaded if name.startswith(rooms))
