"""Every JSON document that a command prints or a page is sent, as a type with one home.

A document is a struct. Commands and the page encode it as it is; OpenAPI and the page's TypeScript types are
generated from it (``schema.py``, ``tools/build_page_types.py``). They live in this room because they are made of
what services return, such as findings and to-do lists, and because commands, page and exports all stand above it.

A member whose default is ``UNSET`` is left out where it does not apply. All other members are always there.
"""
