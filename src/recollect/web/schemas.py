"""The shapes of the page's documents, for OpenAPI. A test validates real answers against them."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "number"}
ANY: Schema = {}
FREE: Schema = {"type": "object"}


def nullable(schema: Schema) -> Schema:
    """Or nothing."""
    return {"anyOf": [schema, {"type": "null"}]}


def many(schema: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": schema}


def shape(optional: dict[str, Schema] | None = None, /, **fields: Schema) -> Schema:
    """An object with these members and no others; ``from_`` is the member "from"."""
    named = {name.rstrip("_"): schema for name, schema in fields.items()}
    return {
        "type": "object",
        "properties": {**named, **(optional or {})},
        "required": list(named),
        "additionalProperties": False,
    }


def named(name: str) -> Schema:
    """A schema of this page."""
    return {"$ref": f"#/components/schemas/{name}"}


MAYBE_TEXT, MAYBE_COUNT, TEXTS = nullable(TEXT), nullable(COUNT), many(TEXT)
_TOKENS = {
    "input_tokens": COUNT,
    "output_tokens": COUNT,
    "cache_write_5m_tokens": COUNT,
    "cache_write_1h_tokens": COUNT,
    "cache_read_tokens": COUNT,
    "web_searches": COUNT,
}
_SPENT = {"cost_usd": MAYBE_TEXT, "unpriced": TEXTS, **_TOKENS}
_REQUEST = shape(path=TEXT, body=FREE)
_DONE = {"applied": FLAG, "undo": MAYBE_TEXT, "undo_request": nullable(_REQUEST)}
_COST_ROW: Schema = {
    "type": "object",
    "required": ["messages", *_TOKENS, "cost_usd", "unpriced_messages"],
    "properties": {"messages": COUNT, **_TOKENS, "cost_usd": TEXT, "unpriced_messages": COUNT},
}
_FINDING = shape(
    code=TEXT,
    severity={"type": "string", "enum": ["error", "warning", "info"]},
    what=TEXT,
    fix=TEXT,
    path=TEXT,
    session=MAYBE_TEXT,
    agent=MAYBE_TEXT,
    line=MAYBE_COUNT,
    offset=MAYBE_COUNT,
    uuid=MAYBE_TEXT,
)
_BRANCH = {"leaf": TEXT, "forked_at": MAYBE_TEXT, "length": COUNT, "at": MAYBE_TEXT, "active": FLAG}
_REPAIR = {
    "session": TEXT,
    "path": TEXT,
    "is_needed": FLAG,
    "open_in": MAYBE_COUNT,
    "actions": many(FREE),
    "actions_total": COUNT,
    "set_aside": many(FREE),
    "notes": TEXTS,
    "bytes": FREE,
    "proof": FREE,
}
_FACET = many({"type": "array", "prefixItems": [TEXT, COUNT], "minItems": 2, "maxItems": 2})

_MEMBER = shape(
    name=TEXT,
    role=TEXT,
    organization=TEXT,
    sealed=COUNT,
    left_out=COUNT,
    filling=nullable(shape(done=COUNT, total=COUNT)),
)

SCHEMAS: dict[str, Schema] = {
    "Error": shape({"sign_in": FLAG}, error=TEXT, hint=TEXT),
    "Description": FREE,
    "Login": shape(token=TEXT),
    "SignedOut": shape(signed_out=FLAG),
    "Me": shape(
        {"is_read_only": FLAG, "member": _MEMBER},
        token=TEXT,
        version=TEXT,
        homes=many(shape(path=TEXT, exists=FLAG)),
        is_sample=FLAG,
        index=shape(
            state={"type": "string", "enum": ["ready", "building", "none"]},
            done=COUNT,
            total=COUNT,
            refreshed_at=MAYBE_TEXT,
            notes=TEXTS,
        ),
        exports=TEXTS,
    ),
    "SessionRow": shape(
        {"person": MAYBE_TEXT},
        id=TEXT,
        project=TEXT,
        cwd=MAYBE_TEXT,
        title=TEXT,
        tag=MAYBE_TEXT,
        branch=MAYBE_TEXT,
        first_at=MAYBE_TEXT,
        last_at=MAYBE_TEXT,
        entries=MAYBE_COUNT,
        bytes=COUNT,
        agents=MAYBE_COUNT,
        cost_usd=MAYBE_TEXT,
        unpriced=TEXTS,
        models=TEXTS,
        live=FLAG,
        damaged=MAYBE_COUNT,
        expires_at=MAYBE_TEXT,
        is_archived=FLAG,
        is_indexed=FLAG,
    ),
    "Sessions": shape(
        {"facets": shape(projects=_FACET, branches=_FACET, models=_FACET, tags=_FACET)},
        sessions=many(named("SessionRow")),
        from_=COUNT,
        total=COUNT,
        total_cost_usd=TEXT,
        unpriced=TEXTS,
        index=TEXT,
    ),
    "Projects": shape(
        projects=many(
            shape(
                project=TEXT,
                cwd=MAYBE_TEXT,
                sessions=COUNT,
                bytes=COUNT,
                first_at=MAYBE_TEXT,
                last_at=MAYBE_TEXT,
                cost_usd=MAYBE_TEXT,
                unpriced=TEXTS,
                live=COUNT,
            )
        )
    ),
    "Found": shape(
        query=TEXT,
        groups=many(
            shape(
                session=MAYBE_TEXT,
                title=MAYBE_TEXT,
                project=MAYBE_TEXT,
                branch=MAYBE_TEXT,
                resume=MAYBE_TEXT,
                hits=many(
                    shape(
                        uuid=MAYBE_TEXT,
                        agent=MAYBE_TEXT,
                        kind=TEXT,
                        at=MAYBE_TEXT,
                        offset=COUNT,
                        snippet=shape(text=TEXT, marks=many(many(COUNT))),
                    )
                ),
            )
        ),
        total=COUNT,
        total_is_exact=FLAG,
        shown=COUNT,
        took_ms=NUMBER,
        notes=TEXTS,
    ),
    "Head": shape(
        {"person": MAYBE_TEXT},
        id=TEXT,
        title=TEXT,
        custom_title=MAYBE_TEXT,
        tag=MAYBE_TEXT,
        project=TEXT,
        cwd=MAYBE_TEXT,
        branch=MAYBE_TEXT,
        path=TEXT,
        home=TEXT,
        first_at=MAYBE_TEXT,
        last_at=MAYBE_TEXT,
        bytes=COUNT,
        version=MAYBE_TEXT,
        live=FLAG,
        is_archive_only=FLAG,
        messages=COUNT,
        entries=COUNT,
        hidden=COUNT,
        active_leaf=MAYBE_TEXT,
        problem=MAYBE_TEXT,
        branches=many(shape(**_BRANCH)),
        compactions=many(
            shape(
                number=COUNT,
                uuid=TEXT,
                at=MAYBE_TEXT,
                trigger=MAYBE_TEXT,
                pre_tokens=MAYBE_COUNT,
                before=MAYBE_TEXT,
            )
        ),
        agents=COUNT,
        cost_usd=MAYBE_TEXT,
        unpriced=TEXTS,
        models=TEXTS,
        **dict.fromkeys(_TOKENS, MAYBE_COUNT),
        is_indexed=FLAG,
        expires_at=MAYBE_TEXT,
        is_archived=FLAG,
        damaged=MAYBE_COUNT,
        commands={"type": "object", "additionalProperties": TEXT},
    ),
    "Resume": shape(
        session=TEXT, title=TEXT, cwd=TEXT, cwd_exists=FLAG, command=TEXT, argv=TEXTS, nearby=TEXTS, line=TEXT
    ),
    "Call": shape(
        status=TEXT,
        duration_ms=nullable(NUMBER),
        in_background=FLAG,
        result_index=MAYBE_COUNT,
        result_uuid=MAYBE_TEXT,
        at=MAYBE_TEXT,
        blocks=many(ANY),
        structured=ANY,
        agent=MAYBE_TEXT,
    ),
    "Message": shape(
        {"compaction": MAYBE_COUNT},
        index=COUNT,
        kind={
            "type": "string",
            "enum": ["prompt", "answer", "results", "summary", "boundary", "command", "other"],
        },
        bytes=COUNT,
        uuid=TEXT,
        parent_uuid=MAYBE_TEXT,
        role=TEXT,
        at=MAYBE_TEXT,
        model=MAYBE_TEXT,
        usage=nullable(FREE),
        blocks=many(ANY),
        is_meta=FLAG,
        is_summary=FLAG,
        lines=many(shape(uuid=TEXT, offset=COUNT, length=COUNT)),
        calls={"type": "object", "additionalProperties": named("Call")},
        cost=nullable(shape(**_SPENT)),
        response_index=COUNT,
        is_copied=FLAG,
        turn=COUNT,
        cut=FLAG,
    ),
    "Window": shape(session=TEXT, from_=COUNT, total=COUNT, signature=TEXT, messages=many(named("Message"))),
    "Map": shape(
        total=COUNT,
        signature=TEXT,
        kinds=TEXT,
        bytes=many(COUNT),
        at=many(MAYBE_COUNT),
        prompts=many(shape(index=COUNT, text=TEXT, uuid=TEXT)),
    ),
    "Position": shape(
        index=COUNT,
        uuid=TEXT,
        view=shape(branch=MAYBE_TEXT, before=MAYBE_COUNT, agent=MAYBE_TEXT, whole=FLAG),
    ),
    "Costs": shape(
        **_SPENT,
        turns=many(shape(from_=COUNT, to=COUNT, at=MAYBE_TEXT, **_SPENT)),
        session=shape(cost_usd=MAYBE_TEXT, unpriced=TEXTS),
    ),
    "Branches": shape(
        branches=many(
            shape(
                **_BRANCH,
                parent=MAYBE_TEXT,
                depth=COUNT,
                messages=COUNT,
                from_uuid=MAYBE_TEXT,
                from_index=MAYBE_COUNT,
                from_text=TEXT,
                text=TEXT,
            )
        )
    ),
    "Agents": shape(
        session=TEXT,
        agents=many(
            shape(
                id=TEXT,
                layout=TEXT,
                path=MAYBE_TEXT,
                root_uuid=MAYBE_TEXT,
                agent_type=MAYBE_TEXT,
                description=MAYBE_TEXT,
                prompt=TEXT,
                tool_use_id=MAYBE_TEXT,
                spawned_by=MAYBE_TEXT,
                parent_agent=MAYBE_TEXT,
                depth=COUNT,
                link=TEXT,
                messages=COUNT,
                first_at=MAYBE_TEXT,
                last_at=MAYBE_TEXT,
            )
        ),
    ),
    "Files": shape(
        session=TEXT,
        total=COUNT,
        files=many(
            shape(
                path=TEXT,
                versions=many(
                    shape(
                        number=COUNT,
                        at=MAYBE_TEXT,
                        source=TEXT,
                        entry_uuid=MAYBE_TEXT,
                        existed=FLAG,
                        known=FLAG,
                        bytes=MAYBE_COUNT,
                        backup=MAYBE_TEXT,
                    )
                ),
            )
        ),
    ),
    "FileVersion": shape(
        path=TEXT, number=COUNT, text=MAYBE_TEXT, is_binary=FLAG, cut=FLAG, bytes=MAYBE_COUNT
    ),
    "FileDiff": shape(path=TEXT, number=COUNT, against=COUNT, diff=TEXT, cut=FLAG, problem=MAYBE_TEXT),
    "Todos": shape(
        lists=many(
            shape(
                kind=TEXT,
                session=TEXT,
                agent=MAYBE_TEXT,
                path=TEXT,
                orphan=FLAG,
                items=many(
                    shape(
                        text=TEXT,
                        status=TEXT,
                        id=MAYBE_TEXT,
                        active_form=MAYBE_TEXT,
                        description=TEXT,
                        blocked_by=TEXTS,
                    )
                ),
            )
        )
    ),
    "Findings": shape(findings=many(_FINDING), total=COUNT, summary=FREE, repair=nullable(shape(**_REPAIR))),
    "Cost": shape(
        by=TEXTS,
        mode=TEXT,
        timezone=TEXT,
        rows=many(_COST_ROW),
        totals=_COST_ROW,
        unpriced=many(shape(model=TEXT, messages=COUNT, **_TOKENS)),
        uncertain=many(shape({"versions": TEXTS}, model=TEXT, messages=COUNT, output_tokens=COUNT)),
        gone=COUNT,
        notes=TEXTS,
    ),
    "Health": shape(
        expiring=shape(
            within_days=COUNT,
            sessions=many(shape(session=TEXT, title=TEXT, expires_at=TEXT, is_archived=FLAG)),
            total=COUNT,
            not_archived=COUNT,
            command=MAYBE_TEXT,
            action=nullable(_REQUEST),
        ),
        not_archived=shape(total=COUNT, bytes=COUNT, command=TEXT, action=nullable(_REQUEST)),
        damaged=shape(
            sessions=many(shape(session=TEXT, title=TEXT, lines=COUNT)),
            total=COUNT,
            is_complete=FLAG,
            command=TEXT,
            action=nullable(_REQUEST),
        ),
        old=shape(
            before_days=COUNT, total=COUNT, bytes=COUNT, note=TEXT, command=TEXT, action=nullable(_REQUEST)
        ),
        homes=shape(findings=many(_FINDING)),
        secrets=named("Secrets"),
        changes=many(shape(id=TEXT, what=TEXT, subject=TEXT, at=TEXT, state=TEXT, undo=_REQUEST)),
    ),
    "Secrets": shape(
        state={"type": "string", "enum": ["unknown", "running", "done", "failed"]},
        done=COUNT,
        total=COUNT,
        problem=MAYBE_TEXT,
        by_kind=many(shape(kind=TEXT, secrets=COUNT, places=COUNT, sessions=TEXTS)),
        total_secrets=MAYBE_COUNT,
        command=TEXT,
        action=nullable(_REQUEST),
    ),
    "Labelled": shape(session=TEXT, path=TEXT, what=TEXT, before=TEXT, after=TEXT, **_DONE),
    "Forked": shape(
        session=TEXT,
        at=TEXT,
        title=TEXT,
        entries=COUNT,
        bytes=COUNT,
        backups=COUNT,
        new=MAYBE_TEXT,
        path=MAYBE_TEXT,
        **_DONE,
    ),
    "Repaired": shape(
        **_REPAIR, in_place=FLAG, slim=FLAG, new=MAYBE_TEXT, result=MAYBE_TEXT, quarantine=MAYBE_TEXT, **_DONE
    ),
    "Removed": shape(
        session=TEXT,
        title=TEXT,
        items=TEXTS,
        bytes=COUNT,
        open_in=MAYBE_COUNT,
        batch=MAYBE_TEXT,
        **_DONE,
    ),
    "TrashRestored": shape(batch=TEXT, session=TEXT, restored=TEXTS, obstacles=TEXTS, **_DONE),
    "FileRestored": shape(
        session=TEXT,
        path=TEXT,
        version=COUNT,
        to=TEXT,
        bytes=MAYBE_COUNT,
        in_the_way=FLAG,
        kept=MAYBE_TEXT,
        **_DONE,
    ),
    "Archived": shape(
        sessions=TEXTS,
        total=COUNT,
        raw_bytes=COUNT,
        stored_bytes=COUNT,
        new_bytes=COUNT,
        failed=many(shape(session=TEXT, reason=TEXT)),
        **_DONE,
    ),
    "CleanedUp": shape(
        sessions=many(
            shape(session=TEXT, title=TEXT, last_at=MAYBE_TEXT, bytes=COUNT, kept_because=MAYBE_TEXT)
        ),
        total=COUNT,
        bytes=COUNT,
        failed=many(shape(session=TEXT, reason=TEXT)),
        batches=TEXTS,
        **_DONE,
    ),
    "Undone": shape(
        change=shape(
            id=TEXT,
            what=TEXT,
            subject=TEXT,
            at=TEXT,
            state=TEXT,
            steps=many(shape(kind=TEXT, path=TEXT)),
        ),
        **_DONE,
    ),
    "IndexState": shape(state=TEXT),
}
