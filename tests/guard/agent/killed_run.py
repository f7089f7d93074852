"""A process to be killed: the loop with a scripted model, in a directory and home given by name.

    python -m tests.guard.agent.killed_run PLACE

Writes and reads files, so that its log grows in many steps, and says ``begun`` when it starts.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.guard.agent.workshop import Script, Workshop, call


def main(place: Path) -> None:
    workshop = Workshop(place, mode="acceptEdits")
    paths = [str(workshop.project / f"{workshop.session.log.id}-{number}") for number in range(3)]
    steps = [
        [
            call("Write", {"file_path": path, "content": "x" * 5000}, f"w{at}")
            for at, path in enumerate(paths)
        ],
        [call("Read", {"file_path": path}, f"r{at}") for at, path in enumerate(paths)],
        [call("TodoWrite", {"todos": []}, "t")],
        "All done.",
    ]
    agent = workshop.agent(Script(*steps, *steps))
    print("begun", flush=True)
    agent.run("Go.")
    agent.run("Again.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
