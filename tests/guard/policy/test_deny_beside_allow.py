"""B14 to B16: what a deny beside a broad allow sees, and what its answers say about the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.guard.policy.command_lines import CommandPattern
from recollect.guard.policy.hosts import is_private_host, is_single_label
from recollect.guard.policy.terms import Mode
from tests.guard.policy.worlds import engine, verdict

VALUED = st.sampled_from(["--profile p", "-n ns", "--context=c", "-R o/r", "--debug", "-v"])


@given(
    st.lists(VALUED, max_size=3), st.lists(VALUED, max_size=2), st.lists(st.sampled_from("xyz"), max_size=3)
)
def test_b16_options_between_the_words_hide_no_sub_command(
    before: list[str], between: list[str], rest: list[str]
) -> None:
    """Whatever options stand before and between, with or without a value."""
    words = " ".join(["tool", *before, "pr", *between, "merge", *rest]).split()
    assert CommandPattern("tool pr merge *").covers_words(words)
    assert not CommandPattern("tool pr merge *").covers_words(["tool", "view", *words[1:]])


@given(st.permutations(["-r", "-f", "-v"]), st.booleans())
def test_b16_options_may_be_grouped_and_in_any_order(options: list[str], grouped: bool) -> None:
    given_ones = ["-" + "".join(option[1] for option in options)] if grouped else options
    assert CommandPattern("rm -rf *").covers_words(["rm", *given_ones, "x"])
    assert not CommandPattern("rm -rf *").covers_words(["rm", "-r", "-v", "x"])


@pytest.mark.parametrize(
    "command", ["X=$(echo r); ${X}m a", "base64 -d <<< cm0= | sh", "mystery rm a", "perl -e 'system q(rm a)'"]
)
@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.BYPASS])
def test_b14_what_a_deny_cannot_see_is_asked_about_and_the_answer_names_the_sandbox(
    command: str, mode: Mode
) -> None:
    made = engine(["Bash"] if mode is Mode.DEFAULT else [], deny=["Bash(rm *)"], mode=mode)
    decision = made.decide("Bash", {"command": command})
    assert (decision.verdict.value, "sandbox" in decision.why) == ("ask", True)
    without = engine(["Bash"] if mode is Mode.DEFAULT else [], mode=mode)
    assert verdict(without, "Bash", command) == "allow"


def test_b14_the_answer_says_that_an_interpreter_is_the_sandboxs_job() -> None:
    """Allowed, because nothing in the text is denied; the reason says what the rules do not see."""
    decision = engine(["Bash"], deny=["Bash(rm *)"]).decide("Bash", {"command": "python3 tool.py"})
    assert (decision.verdict.value, "only the sandbox" in decision.why) == ("allow", True)


@given(
    st.ip_addresses(v=4, network="127.0.0.0/8") | st.ip_addresses(v=4, network="10.0.0.0/8"),
    st.sampled_from(
        ["[::{}]", "[::ffff:{}]", "[64:ff9b::{}]", "[fe80::5efe:{}]", "[2606:4700::200:5efe:{}]", "{}",
         "[2002:{high:x}:{low:x}::1]", "[2001:0:808:808:0:0:{not_high:x}:{not_low:x}]", "{number}", "0x{number:x}", "0{number:o}"]
    ),
)  # fmt: skip
def test_d05_a_private_address_in_any_form_is_denied(address: object, form: str) -> None:
    number = int(address)  # type: ignore[call-overload] # an address is a number
    high, low = number >> 16, number & 0xFFFF
    host = form.format(
        address, number=number, high=high, low=low, not_high=high ^ 0xFFFF, not_low=low ^ 0xFFFF
    )
    assert verdict(engine(["WebFetch", "WebFetch(domain:*)"]), "WebFetch", f"http://{host}/") == "deny"


@given(
    st.from_regex(r"[a-z][a-z0-9-]{0,10}[a-z0-9]", fullmatch=True)
    | st.sampled_from(["ip6-localhost", "ip6-loopback", "intranet"])
)
def test_d05_a_single_label_is_a_host_of_the_local_network(label: str) -> None:
    """Denied unless a rule names it; a public host of two labels is not."""
    url = f"http://{label}:8080/x"
    assert verdict(engine(["WebFetch"]), "WebFetch", url) == "deny"
    assert verdict(engine(["WebFetch", f"WebFetch(domain:{label})"]), "WebFetch", url) == "allow"
    assert (is_single_label(label), is_single_label("example.org"), is_private_host("example.org")) == (
        True,
        False,
        False,
    )
