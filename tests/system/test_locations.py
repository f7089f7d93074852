"""Which directories the environment names, and that asking makes none of them."""

from __future__ import annotations

from pathlib import Path

from recollect.system.locations import cache_dir, claude_homes, config_file, data_dir, home_at


def made(*directories: Path) -> None:
    for directory in directories:
        directory.mkdir(parents=True)


def env(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "USERPROFILE": str(home), **more}


def test_the_named_home_has_its_config_file_inside(tmp_path: Path) -> None:
    """With CLAUDE_CONFIG_DIR set, .claude.json moves into that directory."""
    made(tmp_path / "cfg", tmp_path / ".claude")

    (home,) = claude_homes(env(tmp_path, CLAUDE_CONFIG_DIR=str(tmp_path / "cfg")))

    assert (tmp_path / "cfg", tmp_path / "cfg" / ".claude.json", True) == (
        home.path,
        home.config_file,
        home.exists,
    )


def test_several_homes_are_separated_by_commas(tmp_path: Path) -> None:
    """Empty parts and blanks do not count, a tilde is the user's home, a second name of one home is dropped."""
    made(tmp_path / "a", tmp_path / "b")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    value = f"{tmp_path}/a, ,~/b,,{tmp_path}/link,~/a"

    homes = claude_homes(env(tmp_path, CLAUDE_CONFIG_DIR=value))

    assert [tmp_path / "a", tmp_path / "b"] == [home.path for home in homes]


def test_a_comma_in_the_name_of_a_real_directory_is_part_of_it(tmp_path: Path) -> None:
    """The client takes the whole value as one directory; where that exists, it is meant."""
    made(tmp_path / "a,b", tmp_path / "a")

    homes = claude_homes(env(tmp_path, CLAUDE_CONFIG_DIR=str(tmp_path / "a,b")))

    assert [tmp_path / "a,b"] == [home.path for home in homes]


def test_a_named_home_that_is_missing_is_listed_as_missing(tmp_path: Path) -> None:
    """A misspelt variable must not look like a machine without sessions."""
    (home,) = claude_homes(env(tmp_path, CLAUDE_CONFIG_DIR="~/typo"))

    assert (tmp_path / "typo", False) == (home.path, home.exists)


def test_the_usual_homes_are_those_that_exist(tmp_path: Path) -> None:
    """The current place first, then the legacy ones; the config file lies beside, not inside."""
    made(tmp_path / ".claude", tmp_path / ".config" / "claude", tmp_path / "xdg" / "claude")

    homes = claude_homes(env(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "xdg")))

    assert [tmp_path / ".claude", tmp_path / "xdg" / "claude", tmp_path / ".config" / "claude"] == [
        home.path for home in homes
    ]
    assert {tmp_path / ".claude.json"} == {home.config_file for home in homes}


def test_a_legacy_home_linked_to_the_current_one_is_the_same_home(tmp_path: Path) -> None:
    """Real paths decide, so no session is counted twice."""
    made(tmp_path / ".claude", tmp_path / ".config")
    (tmp_path / ".config" / "claude").symlink_to(tmp_path / ".claude")

    assert [tmp_path / ".claude"] == [home.path for home in claude_homes(env(tmp_path))]


def test_a_home_pointed_at_knows_its_config_file(tmp_path: Path) -> None:
    """Inside the directory; or beside it where only that one exists."""
    made(*(tmp_path / name / ".claude" for name in ("neither", "beside", "both")))
    for path in ("beside/.claude.json", "both/.claude.json", "both/.claude/.claude.json"):
        (tmp_path / path).write_text("{}")

    found = {name: home_at(tmp_path / name / ".claude").config_file for name in ("neither", "beside", "both")}

    assert {
        "neither": tmp_path / "neither/.claude/.claude.json",
        "beside": tmp_path / "beside/.claude.json",
        "both": tmp_path / "both/.claude/.claude.json",
    } == found


def test_our_own_places_follow_xdg(tmp_path: Path) -> None:
    """Data, cache and settings each in the directory the variable names."""
    given = env(tmp_path, XDG_DATA_HOME="/d", XDG_CACHE_HOME="/c", XDG_CONFIG_HOME="/e")

    assert (Path("/d/recollect"), Path("/c/recollect"), Path("/e/recollect/config.toml")) == (
        data_dir(given),
        cache_dir(given),
        config_file(given),
    )


def test_one_variable_moves_data_and_index_together(tmp_path: Path) -> None:
    """RECOLLECT_DATA is the data directory, with the index inside it; settings stay where they are."""
    given = env(tmp_path, RECOLLECT_DATA="~/mine", XDG_CACHE_HOME="/c")

    assert (tmp_path / "mine", tmp_path / "mine" / "cache") == (data_dir(given), cache_dir(given))
    assert tmp_path / ".config/recollect/config.toml" == config_file(given)
