"""Every JSON document that a command prints or the page receives, as a struct defined once.

Commands and the page encode the struct as it is. OpenAPI and the page's TypeScript types are generated
from it (``schema.py``, ``tools/build_page_types.py``). The structs are in this package because they
hold results of services, such as findings and todo lists, and commands, page and exports all use them.

A member with the default ``UNSET`` is omitted if it does not apply. All other members are always present.
"""
