"""T5: a rule that holds back never loosens any verdict, and an allow never touches a deny.

Daily a few hundred examples; ``RECOLLECT_TORTURE=1`` runs a hundred thousand of each.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect.guard.policy.terms import Mode, names
from recollect.model.settings.decision import Verdict
from tests.guard.policy.worlds import CWD, TableWorld, engine

EXAMPLES = 100_000 if os.environ.get("RECOLLECT_TORTURE") else 200
PATIENT = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

WORDS = sorted(names("rm git push -rf x * secret cat sudo env ls --force src/a npm run"))
RULES = st.one_of(
    st.sampled_from(
        sorted(
            names(
                "Bash Read Edit Write WebFetch mcp__a Bash(*) Read(./secret) Edit(src/**) Read(*.pem) mcp__a__*"
                " WebFetch(domain:a.example) WebFetch(domain:*.example) mcp__a__b Bash(run_in_background:true)"
                " Read(~/.ssh/**) Edit(//etc/**) * m*"
            )
        )
    ),
    st.builds(
        lambda words, tail: f"Bash({' '.join(words)}{tail})",
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
        st.sampled_from(["", " *", ":*", "*"]),
    ),
)
JOINTS = st.sampled_from([" && ", "; ", " | ", "\n", " || ", " & "])
SIMPLE = st.builds(
    lambda words, wrap: wrap.replace("_", " ".join(words)),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
    st.sampled_from(
        [
            "_",
            "_",
            "_",
            "env _",
            "$(_)",
            "echo $(_)",
            "bash -c '_'",
            "(_)",
            "_ > out",
            "X=1 _",
            "eval _",
            "_ '",
        ]
    ),
)
COMMANDS = st.builds(lambda parts, joint: joint.join(parts), st.lists(SIMPLE, min_size=1, max_size=3), JOINTS)
CALLS: st.SearchStrategy[tuple[str, dict[str, object]]] = st.one_of(
    st.builds(lambda text: ("Bash", {"command": text}), COMMANDS),
    st.builds(
        lambda tool, path: (tool, {"file_path": path}),
        st.sampled_from(["Read", "Edit", "Write"]),
        st.sampled_from(
            [f"{CWD}/secret", f"{CWD}/src/a", "/etc/x", f"{CWD}/k.pem", f"{CWD}/link", "~/.ssh/id"]
        ),
    ),
    st.sampled_from(
        [("WebFetch", {"url": "https://a.example/"}), ("WebFetch", {"url": "https://a.example@b/"})]
    ),
    st.sampled_from([("mcp__a__b", {}), ("mcp__c__d", {})]),
)
RULE_LISTS = st.lists(RULES, max_size=4)
MODES = st.sampled_from(list(Mode))
WORLD = TableWorld(links={f"{CWD}/link": "/etc/x"})


def strictness(
    lists: tuple[list[str], list[str], list[str]], mode: Mode, call: tuple[str, dict[str, object]]
) -> int:
    return engine(*lists, mode=mode, world=WORLD).decide(*call).verdict.strictness


@PATIENT
@given(RULE_LISTS, RULE_LISTS, RULE_LISTS, RULES, st.booleans(), MODES, CALLS)
def test_t5_holding_back_more_never_loosens(
    allow: list[str],
    ask: list[str],
    deny: list[str],
    more: str,
    as_deny: bool,
    mode: Mode,
    call: tuple[str, dict[str, object]],
) -> None:
    """One more deny or ask, anywhere: no verdict becomes weaker."""
    before = strictness((allow, ask, deny), mode, call)
    after = (allow, ask, [*deny, more]) if as_deny else (allow, [*ask, more], deny)
    assert strictness(after, mode, call) >= before


@PATIENT
@given(
    RULE_LISTS,
    RULE_LISTS,
    RULE_LISTS,
    RULES,
    st.sampled_from([Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.BYPASS]),
    CALLS,
)
def test_t5_allowing_more_never_touches_a_deny(
    allow: list[str],
    ask: list[str],
    deny: list[str],
    more: str,
    mode: Mode,
    call: tuple[str, dict[str, object]],
) -> None:
    """One more allow: a deny stays a deny."""
    if strictness((allow, ask, deny), mode, call) == Verdict.DENY.strictness:
        assert Verdict.DENY.strictness == strictness(([*allow, more], ask, deny), mode, call)


@PATIENT
@given(RULE_LISTS, RULE_LISTS, RULE_LISTS, RULES, MODES, CALLS)
def test_t5_allowing_more_never_makes_stricter(
    allow: list[str],
    ask: list[str],
    deny: list[str],
    more: str,
    mode: Mode,
    call: tuple[str, dict[str, object]],
) -> None:
    """One more allow never holds anything back."""
    before = strictness((allow, ask, deny), mode, call)
    assert strictness(([*allow, more], ask, deny), mode, call) <= before


@PATIENT
@given(
    st.sampled_from(["Bash", "Read", "Write", "WebFetch", "Glob", "Agent"]), st.text(max_size=60), st.data()
)
def test_no_text_makes_the_engine_raise(tool: str, text: str, data: st.DataObject) -> None:
    """Whatever stands in the arguments, there is a decision; without a rule it is never more than looking."""
    key = data.draw(st.sampled_from(["command", "file_path", "url", "path", "pattern", "notebook_path"]))
    decision = engine(deny=["Bash(rm *)", "Read(./secret)", "Edit([x)"]).decide(tool, {key: text})
    assert decision.bound_to
