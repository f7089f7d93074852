"""Whether JSON is what the type of a document says, to the last member."""

from __future__ import annotations

import functools
from typing import Any

import jsonschema_rs

from recollect.share.typed_http import answer_schemas


@functools.cache
def _validator(kind: Any) -> jsonschema_rs.Draft202012Validator:
    (schema,), named = answer_schemas([kind])
    return jsonschema_rs.Draft202012Validator({**schema, "components": {"schemas": named}})


def require_fit(kind: Any, document: object) -> None:
    """Refuse what is missing, of another type, or not known to the type."""
    _validator(kind).validate(document)
