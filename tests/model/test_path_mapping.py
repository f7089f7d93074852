"""Paths after a directory moved: by their parts, in their own fields, and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.project_key import PathMapping

MAPPING = PathMapping("/srv/app", "/data/shop")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/srv/app", "/data/shop"),
        ("/srv/app/src/x.py", "/data/shop/src/x.py"),
        ("/srv/app-old", None),
        ("/srv/application", None),
        ("/srv", None),
        ("/other/srv/app", None),
        ("", None),
    ],
)
def test_a_path_moves_by_its_parts(path: str, expected: str | None) -> None:
    """A directory that only begins alike is another directory."""
    assert expected == MAPPING.moved(path)


def test_a_directory_at_the_root_can_move() -> None:
    """The root itself has no name to compare, only a slash."""
    assert "/old/etc" == PathMapping("/", "/old").moved("/etc")


def test_only_the_fields_change_and_every_other_byte_stays() -> None:
    """Text that talks about the path, odd spacing and unknown fields come out as they were."""
    line = rb'{"type":"user", "cwd" : "/srv/app","message":{"content":"see \"cwd\":\"/srv/app\" in /srv/app"},"x":1e3}'
    expected = line.replace(b'"cwd" : "/srv/app"', b'"cwd" : "/data/shop"')
    assert expected == MAPPING.edited(line)


@pytest.mark.parametrize(
    "line", [b'{"cwd":"/srv/app-old"}', b'{"cwd":7}', b'{"cwd":"/srv/app', b'{"cwd":"\\ud800"}', b""]
)
def test_a_line_that_is_not_about_it_is_the_very_same(line: bytes) -> None:
    """Other paths, other types, half a line: unchanged."""
    assert line == MAPPING.edited(line)


@given(st.text(max_size=20), st.text(max_size=20))
def test_there_and_back_is_where_it_was(name: str, text: str) -> None:
    """Whatever the path below it is called, moving back gives the same bytes."""
    line = json.dumps({"cwd": f"/srv/app/{name}", "content": text}, ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )
    there = MAPPING.edited(line)
    back = PathMapping("/data/shop", "/srv/app").edited(there)
    assert json.loads(line.decode("utf-8", "surrogatepass")) == json.loads(
        back.decode("utf-8", "surrogatepass")
    )
