"""The local page: the documents of ``ask`` and ``change`` as JSON, for one person's browser. See docs/design/page.md.

Nothing is answered without the checks of ``gate``; no text of a transcript is ever markup. A handler is a function of the
page and of typed parameters: open ``lists``, ``session``, ``messages`` or ``actions`` for what a route answers,
``parameters`` for what a request may say, ``app`` for how it is served.
"""
