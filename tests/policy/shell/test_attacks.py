from __future__ import annotations

from tests.policy.shell.attacks import Attack, analysed, attacks, would_allow, would_deny


def _allowed(case: Attack) -> bool:
    analysis = analysed(case)
    return would_allow(analysis, case.allow) and not would_deny(analysis, case.deny)


def test_the_list_is_large_and_every_case_has_a_source() -> None:
    """Sections A and B hold at least 180 cases, each with its own id and where it comes from."""
    cases = attacks()
    assert len(cases) >= 180
    assert len({case.id for case in cases}) == len(cases)
    assert [case.id for case in cases if not case.source or case.expected not in {"ask", "deny"}] == []


def test_no_attack_would_be_allowed() -> None:
    """An engine that trusted the analyser completely would still ask about every attack."""
    assert [case.id for case in attacks() if _allowed(case)] == []


def test_every_denied_word_is_shown() -> None:
    """The word or the file that a deny rule names is among what the analyser reports, also when it gave up."""
    denied = [case for case in attacks() if case.expected == "deny"]
    assert len(denied) >= 100
    assert [case.id for case in denied if not would_deny(analysed(case), case.deny)] == []
