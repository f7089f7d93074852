"""Secrets in whatever they are wrapped in, and texts that only look like them."""

from __future__ import annotations

import base64
import json
import textwrap

import pytest

from recollect.model.secrets.finder import SecretMatch, find
from tests.model.secrets.samples import SAMPLES, Dice, private_key

TOKEN = SAMPLES["github-pat"].make(Dice("finder"))
LONG = SAMPLES["openai-api-key"].make(Dice("finder"))


def found(text: str, **options: object) -> list[tuple[str, str]]:
    """Kind, and what stands at the place."""
    return [(one.kind, text[one.start : one.end]) for one in find(text, **options)]  # type: ignore[arg-type]


def secrets_of(text: str) -> list[tuple[str, str]]:
    return [(one.kind, one.secret) for one in find(text)]


# ---- wrapped --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("margin", ["", "    ", "     7→", "  7\t", "+", "> ", "│ ", "  12 | "])
@pytest.mark.parametrize("width", [20, 32, 64, 76])
def test_wrapped_lines_with_what_tools_print_before_them(margin: str, width: int) -> None:
    """Line numbers, marks of patches and quotations are not letters."""
    lines = textwrap.wrap(LONG, width, break_on_hyphens=False)
    text = "\n".join(margin + line for line in ["first", *lines, "last one"])

    assert [("openai-api-key", LONG)] == secrets_of(text)


def test_base64_in_a_patch() -> None:
    """The plus of an added line is not a letter of it."""
    encoded = base64.b64encode(f"export TOKEN={TOKEN} and some more words\n".encode()).decode()
    lines = "\n".join("+" + line for line in textwrap.wrap(encoded, 40))

    assert [("github-pat", TOKEN)] == secrets_of(f"@@ -1 +1 @@\n{lines}\n context\n")


def test_pictures_are_left_alone() -> None:
    """Base64 that decodes to no text is passed over."""
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9).decode()

    assert [] == found(f'{{"data": "{picture}"}}')


# ---- private keys ---------------------------------------------------------------------------------------

PEM = private_key(Dice("pem"))
LETTERS = "".join(PEM.splitlines()[1:-1])


@pytest.mark.parametrize(
    "label",
    [
        "RSA PRIVATE KEY",
        "PRIVATE KEY",
        "EC PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
        "PGP PRIVATE KEY BLOCK",
    ],
)
def test_a_private_key_is_one_span(label: str) -> None:
    """From BEGIN to END, over all its lines."""
    key = private_key(Dice(label), label)

    assert [("private-key", key)] == found(f"see:\n{key}\nend")


@pytest.mark.parametrize("margin", ["", "  ", "    12→", "+", "> "])
def test_a_private_key_is_the_same_however_it_was_printed(margin: str) -> None:
    """Its secret is its letters, without what stood before the lines."""
    text = "\n".join(margin + line for line in PEM.splitlines())

    assert [("private-key", LETTERS)] == secrets_of(f"see:\n{text}\nend")


def test_a_private_key_in_a_json_file() -> None:
    """As service accounts have it: newlines are escapes."""
    assert [("private-key", LETTERS)] == secrets_of(json.dumps({"private_key": PEM + "\n"}))


def test_a_private_key_whose_end_was_cut_off() -> None:
    """``head -5 key.pem``: as far as its lines go, and no further."""
    head = "\n".join(PEM.splitlines()[:5])

    assert [("private-key", head)] == found(f"$ head -5 key.pem\n{head}\n$ ls -la\n")


def test_a_key_without_letters_is_documentation() -> None:
    """Three dots are no key."""
    assert [] == found("-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----")


def test_a_putty_key_is_one_span() -> None:
    """Its private lines stand between a head and a code."""
    lines = "\n".join(Dice("ppk").alnum(64) for _ in range(3))
    key = f"PuTTY-User-Key-File-3: ssh-rsa\nEncryption: none\nPrivate-Lines: 3\n{lines}\nPrivate-MAC: {Dice(3).hex(64)}"

    assert [("putty-private-key", key)] == found(f"a\n{key}\nb")


# ---- names ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["password", "db_password", "api_key", "clientSecret", "GITHUB_TOKEN", "X-Api-Key"]
)
def test_the_name_of_a_value_counts(name: str) -> None:
    """In JSON the name is another string than the value."""
    value = Dice(name).alnum(28) + "7k"

    assert [value] == [one.secret for one in find(value, name=name)]
    assert [] == find(value, name="description")


@pytest.mark.parametrize(
    "text",
    [
        "password: str = None",
        "password = os.environ['DB_PASSWORD']",
        "password=${DB_PASSWORD}",
        "PASSWORD=$1",
        "password: <your password>",
        "password = getpass.getpass()",
        "password: changeme",
        "The password is wrong, password: try again",
        'api_key = "your-api-key-goes-here"',
        "token = self.tokens[index]",
        "secret_key: settings.SECRET_KEY_FALLBACKS",
        '"input_tokens": 123456, "output_tokens": 17',
        "token: 1234567890123456",
        "key = lambda item: item.name",
        "const token = await getToken(request)",
        "csrf_token = generate_csrf_token_for(request)",
        "postgres://user:password@localhost/db",
        "postgres://user:$PASSWORD@localhost/db",
        "git@github.com:user/repository.git",
        "https://example.org:8080/path@2x.png",
        "ssh://git@host:22/path",
        "Authorization: Bearer $TOKEN",
        "Authorization: Bearer <token>",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "uuid 123e4567-e89b-12d3-a456-426614174000",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "task-0123456789abcdef0123456789abcdef",
        "AKIAIOSFODNN7EXAMPLE",
        "sk-ant-api03-" + "x" * 95,
        "ghp_" + "0" * 36,
        "sk-...",
        "took password: took=5880ms",
        "pwd: osc7/osc51/osc99",
        "integrity sha512-Kk1b5Tl1HvIv3tW3sZRm4tTmO1mT0l8ZzFj0xY8m1o4j0k5R1sYpWc2b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5g==",
    ],
)
def test_what_is_no_secret(text: str) -> None:
    """Code, placeholders, hashes, ids and prose."""
    assert [] == found(text)


def test_of_two_that_overlap_the_surer_one_counts() -> None:
    """A token in an address is a token, not a password."""
    assert [("github-pat", TOKEN)] == found(f"https://x-access-token:{TOKEN}@github.com/a/b")


def test_a_mark_is_no_secret() -> None:
    """What a secret left behind is not found again, whatever its digits."""
    marks = [f"[redacted:{kind}:{Dice(kind).hex(8)}]" for kind in SAMPLES]

    assert [] == [
        mark for mark in marks for text in (mark, f"password={mark}", f"x://u:{mark}@h") if find(text)
    ]


def test_a_find_does_not_show_its_secret() -> None:
    """No log and no traceback can carry it out."""
    assert "SecretMatch('github-pat', 4, 44)" == repr(find(f"see {TOKEN}")[0])
    assert TOKEN not in str(SecretMatch("github-pat", 0, 40, TOKEN))
