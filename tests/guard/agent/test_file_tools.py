"""Read, Write and Edit: the client's rules and shapes, and no way to a file that was not decided about."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from recollect.guard.agent import ToolRunner
from recollect.guard.agent.calls import AnsweredCall
from tests.guard.agent.workshop import Workshop, call

FOUND_TWICE = (
    "Found 2 matches of the string to replace, but replace_all is false. To replace all occurrences, set "
    "replace_all to true. To replace only one occurrence, please provide more context to uniquely identify the "
    "instance.\nString: o"
)
CURRENT = " (file state is current in your context \u2014 no need to Read it back)"


def editor(place: Path) -> Workshop:
    return Workshop(place, mode="acceptEdits")


def read(runner: ToolRunner, path: str, **more: Any) -> AnsweredCall:
    return runner.run(call("Read", {"file_path": path, **more}))


def write(runner: ToolRunner, path: str, content: str) -> AnsweredCall:
    return runner.run(call("Write", {"file_path": path, "content": content}))


def edit(runner: ToolRunner, path: str, old: str, new: str, **more: Any) -> AnsweredCall:
    return runner.run(call("Edit", {"file_path": path, "old_string": old, "new_string": new, **more}))


# ---- Read ------------------------------------------------------------------------------------------------


def test_a_picture_is_an_image_block(tmp_path: Path) -> None:
    """Base64 in the block and in the rich result."""
    workshop = editor(tmp_path)
    data = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
    path = workshop.file("a.png", data)

    ran = read(workshop.runner(), path)

    encoded = base64.b64encode(data).decode()
    source = {"type": "base64", "media_type": "image/png", "data": encoded}
    assert [{"type": "image", "source": source}] == ran.block["content"]
    assert {"base64": encoded, "type": "image/png", "originalSize": 28} == workshop.last()["toolUseResult"][
        "file"
    ]


# ---- Write -----------------------------------------------------------------------------------------------


def test_a_file_that_was_read_is_overwritten_and_keeps_its_mode(tmp_path: Path) -> None:
    """The patch leads from the old text to the new one."""
    workshop = editor(tmp_path)
    path = workshop.file("run.sh", "a\nb\n")
    Path(path).chmod(0o750)
    runner = workshop.runner()
    read(runner, path)

    ran = write(runner, path, "a\nc\n")

    rich = workshop.last()["toolUseResult"]
    patch = {"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "lines": [" a", "-b", "+c"]}
    assert ("update", [patch], "a\nb\n") == (rich["type"], rich["structuredPatch"], rich["originalFile"])
    assert f"The file {path} has been updated successfully.{CURRENT}" == ran.block["content"]
    assert (0o750, "a\nc\n") == (Path(path).stat().st_mode & 0o777, Path(path).read_text())


# ---- Edit ------------------------------------------------------------------------------------------------


def test_what_is_not_utf8_is_not_edited(tmp_path: Path) -> None:
    """Decoding and encoding it would change bytes nobody named."""
    workshop = editor(tmp_path)
    path = workshop.file("a.txt", b"caf\xe9 one")
    runner = workshop.runner()
    read(runner, path)

    ran = edit(runner, path, "one", "two")

    assert (True, b"caf\xe9 one") == (ran.outcome.is_error, Path(path).read_bytes())


def test_a_directory_that_becomes_a_link_is_refused(tmp_path: Path) -> None:
    """The way is walked without links: a directory swapped while somebody decides leads nowhere (C07)."""
    workshop = Workshop(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    inside = workshop.project / "sub"
    inside.mkdir()

    def swaps(*_: object) -> bool:
        inside.rmdir()
        inside.symlink_to(outside)
        return True

    ran = write(workshop.runner(ask=swaps), str(inside / "a.txt"), "x")

    assert (True, []) == (ran.outcome.is_error, list(outside.iterdir()))
