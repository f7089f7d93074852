"""Read, Write and Edit: the client's rules and shapes, and no way to a file that was not decided about."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from recollect.runtime import PermissionQuestion, ToolRunner
from recollect.runtime.outcome import AnsweredCall
from tests.runtime.workshop import Workshop, call

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


def test_a_text_is_read_with_line_numbers(tmp_path: Path) -> None:
    """As 2.1.325 numbers lines; the empty one behind the last newline counts."""
    workshop = editor(tmp_path)
    path = workshop.file("a.txt", "zero\n")

    ran = read(workshop.runner(), path)

    file = {"filePath": path, "content": "zero\n", "numLines": 2, "startLine": 1, "totalLines": 2}
    assert ("1\tzero\n2\t", {"type": "text", "file": file}) == (
        ran.block["content"],
        workshop.last()["toolUseResult"],
    )


def test_a_part_is_read_by_line(tmp_path: Path) -> None:
    """``offset`` is the first line, ``limit`` how many."""
    workshop = editor(tmp_path)
    path = workshop.file("a.txt", "a\nb\nc\nd")

    ran = read(workshop.runner(), path, offset=2, limit=2)

    file = workshop.last()["toolUseResult"]["file"]
    assert ("2\tb\n3\tc", 2, 2, 4) == (
        ran.block["content"],
        file["startLine"],
        file["numLines"],
        file["totalLines"],
    )


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    """With the directory, as the client says it."""
    workshop = editor(tmp_path)

    ran = read(workshop.runner(), str(workshop.project / "no.txt"))

    expected = f"File does not exist. Note: your current working directory is {workshop.project}."
    assert (expected, True) == (ran.block["content"], ran.block["is_error"])


def test_a_relative_path_starts_at_the_working_directory(tmp_path: Path) -> None:
    """What is decided about and what is read are one path."""
    workshop = editor(tmp_path)
    workshop.file("a.txt", "here")

    ran = read(workshop.runner(), "a.txt")

    assert "1\there" == ran.block["content"]


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


@pytest.mark.parametrize("content", [b"\0\1\2", b"ELF\0\0"])
def test_a_binary_file_is_not_read_as_text(tmp_path: Path, content: bytes) -> None:
    """NUL bytes at its start say so."""
    workshop = editor(tmp_path)

    ran = read(workshop.runner(), workshop.file("a.bin", content))

    assert "This tool cannot read binary files." == ran.block["content"]


def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    """An empty result would look like a failure."""
    workshop = editor(tmp_path)

    ran = read(workshop.runner(), workshop.file("a.txt", ""))

    assert (
        "<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>"
        == (ran.block["content"])
    )


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """A FIFO is refused, not opened for ever (C09)."""
    workshop = Workshop(tmp_path, mode="bypassPermissions")
    os.mkfifo(workshop.project / "pipe")

    ran = read(workshop.runner(), str(workshop.project / "pipe"))

    assert ran.outcome.is_error


def test_the_way_up_is_taken_before_links_are_followed(tmp_path: Path) -> None:
    """``link/../x`` is the ``x`` beside the link, for the rules and for the reader alike (C03)."""
    workshop = editor(tmp_path)
    (tmp_path / "outside" / "deep").mkdir(parents=True)
    (tmp_path / "outside" / "x").write_text("theirs")
    workshop.file("x", "ours")
    (workshop.project / "link").symlink_to(tmp_path / "outside" / "deep")

    ran = read(workshop.runner(), "link/../x")

    assert "1\tours" == ran.block["content"]


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/proc/self/cmdline", "/dev/null", "/sys/kernel/uevent_seqnum"]
)
def test_what_the_kernel_makes_up_is_no_file(tmp_path: Path, path: str) -> None:
    """Our own key stands in ``/proc/self/environ``, and no rule opens it."""
    workshop = Workshop(tmp_path, mode="bypassPermissions")

    ran = read(workshop.runner(), path)

    assert ran.outcome.is_error


def test_a_link_to_a_denied_file_is_denied(tmp_path: Path) -> None:
    """By every name it has (C02)."""
    workshop = Workshop(tmp_path, allow=["Read"], deny=["Read(./secret)"])
    workshop.file("secret", "s3cret")
    (workshop.project / "fine").symlink_to("secret")

    ran = read(workshop.runner(), str(workshop.project / "fine"))

    assert "Permission to use Read has been denied." == ran.block["content"]


# ---- Write -----------------------------------------------------------------------------------------------


def test_a_new_file_is_created_with_its_directories(tmp_path: Path) -> None:
    """Words and shape of 2.1.325."""
    workshop = editor(tmp_path)
    path = str(workshop.project / "sub" / "deep" / "a.txt")

    ran = write(workshop.runner(), path, "one\n")

    rich: dict[str, Any] = {
        "type": "create",
        "filePath": path,
        "content": "one\n",
        "structuredPatch": [],
        "originalFile": None,
        "userModified": False,
    }
    assert (f"File created successfully at: {path}{CURRENT}", rich, "one\n") == (
        ran.block["content"],
        workshop.last()["toolUseResult"],
        Path(path).read_text(),
    )


def test_a_file_that_was_not_read_is_not_overwritten(tmp_path: Path) -> None:
    """The client's rule, in its words."""
    workshop = editor(tmp_path)
    path = workshop.file("a.txt", "theirs")

    ran = write(workshop.runner(), path, "ours")

    text = "File has not been read yet. Read it first before writing to it."
    assert (f"<tool_use_error>{text}</tool_use_error>", "theirs") == (
        ran.block["content"],
        Path(path).read_text(),
    )


def test_a_file_that_changed_since_is_not_overwritten(tmp_path: Path) -> None:
    """Read, changed by somebody else, written: refused."""
    workshop = editor(tmp_path)
    path = workshop.file("a.txt", "theirs")
    runner = workshop.runner()
    read(runner, path)
    Path(path).write_text("theirs, later")

    ran = write(runner, path, "ours")

    assert "File has been modified since read" in str(ran.block["content"])
    assert "theirs, later" == Path(path).read_text()


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


def test_a_link_is_written_where_it_leads(tmp_path: Path) -> None:
    """The link stays a link."""
    workshop = editor(tmp_path)
    real = workshop.file("real.txt", "a")
    link = workshop.project / "link.txt"
    link.symlink_to("real.txt")
    runner = workshop.runner()
    read(runner, str(link))

    write(runner, str(link), "b")

    assert ("b", True) == (Path(real).read_text(), link.is_symlink())


def test_a_link_out_of_the_project_is_not_written(tmp_path: Path) -> None:
    """Edits run without a question inside the project only, and a link does not make it larger (C02)."""
    workshop = editor(tmp_path)
    (tmp_path / "outside").mkdir()
    (workshop.project / "out").symlink_to(tmp_path / "outside")

    ran = write(workshop.runner(), str(workshop.project / "out" / "a.txt"), "x")

    assert (True, []) == (ran.outcome.denied, list((tmp_path / "outside").iterdir()))


def test_nothing_is_left_beside_a_written_file(tmp_path: Path) -> None:
    """The file under its other name is gone when the call returns."""
    workshop = editor(tmp_path)

    write(workshop.runner(), str(workshop.project / "a.txt"), "x")

    assert ["a.txt"] == [path.name for path in workshop.project.iterdir()]


# ---- Edit ------------------------------------------------------------------------------------------------


def test_a_text_is_replaced_exactly_once(tmp_path: Path) -> None:
    """Words and shape of 2.1.325."""
    workshop = editor(tmp_path)
    path = workshop.file("a.txt", "one\n")
    runner = workshop.runner()
    read(runner, path)

    ran = edit(runner, path, "one", "two")

    rich = {
        "filePath": path,
        "oldString": "one",
        "newString": "two",
        "originalFile": "one\n",
        "structuredPatch": [
            {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-one", "+two"]}
        ],
        "userModified": False,
        "replaceAll": False,
    }
    assert (f"The file {path} has been updated successfully.{CURRENT}", rich, "two\n") == (
        ran.block["content"],
        workshop.last()["toolUseResult"],
        Path(path).read_text(),
    )


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("absent", "x", "String to replace not found in file.\nString: absent"),
        (
            "o",
            "x",
            FOUND_TWICE,
        ),
        ("one", "one", "No changes to make: old_string and new_string are exactly the same."),
        ("", "x", "Cannot create new file - file already exists."),
    ],
)
def test_an_edit_that_is_not_clear_is_refused(tmp_path: Path, old: str, new: str, text: str) -> None:
    """The file stays as it is."""
    workshop = editor(tmp_path)
    path = workshop.file("a.txt", "one two\n")
    runner = workshop.runner()
    read(runner, path)

    ran = edit(runner, path, old, new)

    assert (f"<tool_use_error>{text}</tool_use_error>", f"Error: {text}") == (
        ran.block["content"],
        workshop.last()["toolUseResult"],
    )
    assert "one two\n" == Path(path).read_text()


def test_every_match_is_replaced_when_asked(tmp_path: Path) -> None:
    """``replace_all``."""
    workshop = editor(tmp_path)
    path = workshop.file("a.txt", "a-a-a")
    runner = workshop.runner()
    read(runner, path)

    edit(runner, path, "a", "b", replace_all=True)

    assert ("b-b-b", True) == (Path(path).read_text(), workshop.last()["toolUseResult"]["replaceAll"])


def test_an_edit_of_a_file_seen_in_part_says_so(tmp_path: Path) -> None:
    """The model is not told that it knows the file, as 2.1.325 does it."""
    workshop = editor(tmp_path)
    path = workshop.file("a.txt", "one\ntwo\n")
    runner = workshop.runner()
    read(runner, path, limit=1)

    ran = edit(runner, path, "two", "2")

    assert (f"The file {path} has been updated successfully.", True) == (
        ran.block["content"],
        workshop.last()["toolUseResult"]["contentNotInModelContext"],
    )


def test_line_ends_are_kept(tmp_path: Path) -> None:
    """A CRLF file is shown without CR, edited so, and still CRLF; a mixed one is left byte for byte."""
    workshop = editor(tmp_path)
    crlf, mixed = workshop.file("c.txt", b"a\r\nb\r\n"), workshop.file("m.txt", b"a\r\nb\n")
    runner = workshop.runner()
    read(runner, crlf)
    read(runner, mixed)

    edit(runner, crlf, "a\nb", "x\ny\nz")
    edit(runner, mixed, "b\n", "c\n")

    assert (b"x\r\ny\r\nz\r\n", b"a\r\nc\n") == (Path(crlf).read_bytes(), Path(mixed).read_bytes())


def test_what_is_not_utf8_is_not_edited(tmp_path: Path) -> None:
    """Decoding and encoding it would change bytes nobody named."""
    workshop = editor(tmp_path)
    path = workshop.file("a.txt", b"caf\xe9 one")
    runner = workshop.runner()
    read(runner, path)

    ran = edit(runner, path, "one", "two")

    assert (True, b"caf\xe9 one") == (ran.outcome.is_error, Path(path).read_bytes())


def test_a_protected_name_is_not_edited_without_a_question(tmp_path: Path) -> None:
    """Not even where edits run: git hooks and settings are run by others (C05)."""
    workshop = editor(tmp_path)

    answers = [
        write(workshop.runner(), str(workshop.project / name), "x").outcome.denied
        for name in (".git/hooks/pre-commit", ".mcp.json", ".claude/settings.json")
    ]

    assert ([True, True, True], []) == (answers, list(workshop.project.iterdir()))


def test_a_directory_that_becomes_a_link_is_refused(tmp_path: Path) -> None:
    """The way is walked without links: a directory swapped while somebody decides leads nowhere (C07)."""
    workshop = Workshop(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    inside = workshop.project / "sub"
    inside.mkdir()

    def swaps(_: PermissionQuestion) -> bool:
        inside.rmdir()
        inside.symlink_to(outside)
        return True

    ran = write(workshop.runner(ask=swaps), str(inside / "a.txt"), "x")

    assert (True, []) == (ran.outcome.is_error, list(outside.iterdir()))
