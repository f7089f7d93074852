"""Patterns of credentials, from patterns.toml: tokens of a provider, values of a telling name, everything else with a form."""

from __future__ import annotations

import binascii
import functools
import math
import pkgutil
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct


class TokenPattern(Struct, frozen=True):
    """A secret with a provider's mark: its beginning, or a few letters ``inside``.

    ``body`` follows one of ``starts``, or is the whole secret.
    """

    kind: str
    about: str
    body: str
    starts: tuple[str, ...] = ()
    inside: str = ""


class ValuePattern(Struct, frozen=True):
    """A secret by the ``name`` before it and its ``body``, or by its form: ``pattern``, in which it is the group "secret".

    ``words`` are in lower case; one must be in the text.
    """

    kind: str
    about: str
    words: tuple[str, ...]
    name: str = ""
    body: str = ""
    pattern: str = ""
    entropy: float = 3.0
    is_generic: bool = False


@functools.cache
def _load() -> dict[str, Any]:
    text = pkgutil.get_data("recollect.model.secrets", "patterns.toml")
    assert text is not None  # noqa: S101 - for the type checker: the file is part of the package
    table = msgspec.toml.decode(text)
    classes: dict[str, str] = table["classes"]

    def whole(value: object) -> object:
        """The same with the classes that it names written out."""
        if isinstance(value, str):
            while (
                named := re.sub("<([A-Z]+)>", lambda match: classes.get(match[1], match[0]), value)
            ) != value:
                value = named
        elif isinstance(value, list):
            return [whole(one) for one in value]
        elif isinstance(value, dict):
            return {name: whole(one) for name, one in value.items()}
        return value

    return msgspec.convert(whole(table), dict[str, Any])


TOKENS = msgspec.convert(_load()["tokens"], tuple[TokenPattern, ...])
NAMED = msgspec.convert(_load()["named"], tuple[ValuePattern, ...])
SHAPES = msgspec.convert([{"entropy": 0.0, **row} for row in _load()["shapes"]], tuple[ValuePattern, ...])
BETWEEN: str = _load()["classes"]["BETWEEN"]


# ---- whether a value looks random, or was invented for people to read -----------------------------------------

# Documentation and programs are full of keys that are not real: placeholders, names of variables, dictionary words. A value
# with a provider's mark only must not be a placeholder; a value that merely has a telling name must look random as well.
_PLACEHOLDER = re.compile(
    r"(?i)your|my[_-]|<|>|\$\{|\{\{|%\(|\*\*\*|\.\.\.|example|placeholder|changeme|change_me|replace|insert|"
    r"dummy|sample|redacted|undefined|process\.env|os\.environ|getenv|xxxx|1234567890|abcdefgh|0123456789|"
    r"lorem|foobar|passw[o0]rd|hunter2|self\."
)
_WORDS = re.compile(
    r"(?i)pass|pwd|password|passwd|secret|user|username|token|test|testing|admin|root|guest|none|null|true|false"
    r"|secret123|string|value|xxx|foo|bar|baz"
)
_SEQUENCES = (
    "1234567890",
    "0123456789",
    "abcdefgh",
    "ABCDEFGH",
    "EXAMPLE",
    "xxxxxx",
    "XXXXXX",
    "000000000000",
)
_CODE = re.compile(
    r"[A-Za-z_][\w.]*\(|[\w.]+\[|(?:self|this|options|config|settings|args|env|req|request|process)\."
)


def is_invented(secret: str) -> bool:
    """Whether a value was invented for people to read: few different letters, or letters in a row."""
    return len(set(secret)) < min(9, len(secret) // 3) or any(row in secret for row in _SEQUENCES)


def entropy(text: str) -> float:
    """Bits per character, by frequency."""
    length = len(text)
    return (
        -sum(count / length * math.log2(count / length) for count in Counter(text).values())
        if length
        else 0.0
    )


def is_believed_value(value: str) -> bool:
    """Whether a value may be a secret: not a placeholder, a variable or a common word."""
    is_word = _WORDS.fullmatch(value) is not None or value.startswith(("$", "%", "{", "[", "@", "#"))
    return not is_word and not _PLACEHOLDER.search(value)


def _is_believed_password(value: str) -> bool:
    """Dictionary words, program names and paths cannot be told apart from passwords, so they are not
    reported.
    """
    is_code = _CODE.match(value) or re.match(r"[A-Za-z_]\w*=", value)
    if not is_believed_value(value) or is_code or value.startswith(("/", "~/", "./", "--", "http")):
        return False
    kinds = (
        any(map(str.isdigit, value)),
        any(map(str.isupper, value)),
        any(map(str.islower, value)),
        not value.isalnum(),
    )
    is_list = re.fullmatch(r"[\d.,:_-]+|[0-9a-z_.-]+(?:[/|][0-9a-z_.-]+)+", value) is not None
    return any(map(str.isdigit, value)) and sum(kinds) >= 2 and not is_list


def _is_believed_secret(value: str) -> bool:
    if not is_believed_value(value) or _CODE.match(value) or is_invented(value):
        return False
    letters = sum(map(str.isalpha, value))
    digits = sum(map(str.isdigit, value))
    return digits >= 2 and letters >= 4 and "/" not in value[:1] and value.count(".") <= 2


def _is_login(value: str) -> bool:
    """Whether base64 holds a name and a password."""
    try:
        login = binascii.a2b_base64(value + "=" * (-len(value) % 4))
    except binascii.Error:
        return False
    name, colon, password = login.partition(b":")
    return bool(
        colon
        and name.isascii()
        and password.isascii()
        and len(password) >= 3
        and login.decode("ascii").isprintable()
    )


# Additional test for values of a shape, by kind.
TESTS: dict[str, Callable[[str], bool]] = {
    "password": _is_believed_password,
    "curl-password": is_believed_value,
    "secret": _is_believed_secret,
    "bearer-token": _is_believed_secret,
    "http-cookie": _is_believed_secret,
    "basic-auth": _is_login,
    "docker-auth": _is_login,
}
