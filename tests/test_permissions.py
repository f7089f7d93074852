"""`recollect.guard.library`: the engine for programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.errors import UsageError
from recollect.guard.library import Engine, Verdict
from tests.permission_home import Place, place, rules

__all__ = ["place"]


def test_lists_of_rules_are_enough(tmp_path: Path) -> None:
    """Deny beats allow; what no rule allows is asked about."""
    engine = Engine(allow=["Bash(make *)"], deny=["Bash(make deploy *)"], cwd=tmp_path)

    assert [Verdict.ALLOW, Verdict.DENY, Verdict.ASK] == [
        engine.check(f"Bash({text})").verdict for text in ("make test", "make deploy now", "cargo run")
    ]


def test_a_rule_that_would_be_skipped_is_an_error(tmp_path: Path) -> None:
    """A deny that was meant must not be missing quietly."""
    with pytest.raises(UsageError):
        Engine(deny=["Bash("], cwd=tmp_path)


def test_directories_may_be_read(tmp_path: Path) -> None:
    """Besides the working directory."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").write_text("x")
    call = {"file_path": str(tmp_path / "b" / "x")}

    assert [False, True] == [
        Engine(cwd=tmp_path / "a", directories=more).allows("Read", call) for more in ([], [tmp_path / "b"])
    ]


def test_settings_of_a_directory_can_be_used(place: Place) -> None:
    """As the client layers them."""
    place.user(rules(allow=["Bash(make test)"]))
    place.local(rules(deny=["Bash(make test)"]))
    engine = Engine.from_settings(place.project, home=place.home.root)
    decision = engine.check("Bash(make test)")

    assert (Verdict.DENY, "local") == (decision.verdict, decision.source.scope if decision.source else None)
    assert {"Bash(make test)"} == {look.rule for look in engine.explain("Bash", {"command": "make test"})}


def test_a_decision_names_its_rule_and_where_it_stands(place: Place, tmp_path: Path) -> None:
    """File and line of settings, or the scope of rules that were given; nothing where no rule decided."""
    place.local(rules(deny=["Bash(make test)"]))
    from_settings = Engine.from_settings(place.project, home=place.home.root).check("Bash(make test)")
    given = Engine(deny=["Bash(rm *)"], cwd=tmp_path).check("Bash(ls && rm x)")
    by_nature = Engine(cwd=tmp_path).check("Bash(cargo run)")

    assert "Bash(make test)" == from_settings.rule
    assert from_settings.source is not None
    path, _, line = str(from_settings.source).rpartition(":")
    assert "Bash(make test)" in Path(path).read_text().splitlines()[int(line) - 1]
    assert ("Bash(rm *)", "command line") == (given.rule, str(given.source))
    assert {(None, "None"), ("Bash(rm *)", "command line")} == {
        (part.rule, str(part.source)) for part in given.parts
    }
    assert (None, None) == (by_nature.rule, by_nature.source)
    assert by_nature.why


def test_a_decision_holds_only_for_what_it_was_made_for(tmp_path: Path) -> None:
    """Another command, or another file under the same name, needs another one (E10)."""
    file = tmp_path / "x"
    file.write_text("x")
    engine = Engine(cwd=tmp_path)
    call = {"file_path": str(file)}
    decision = engine.decide("Read", call)
    assert engine.still_holds(decision, "Read", call)
    file.unlink()
    file.symlink_to("/etc/passwd")

    assert [False, False] == [
        engine.still_holds(decision, "Read", call),
        engine.still_holds(decision, "Read", {"file_path": str(tmp_path / "y")}),
    ]


@pytest.mark.parametrize(
    "arguments", [{}, {"command": None}, {"command": "a\0b"}, {"command": "x" * 100_000}]
)
def test_no_argument_makes_it_raise_or_allow(tmp_path: Path, arguments: dict[str, object]) -> None:
    """The arguments come from a model that reads hostile text."""
    assert not Engine(allow=["Bash(make *)"], cwd=tmp_path).allows("Bash", arguments)
