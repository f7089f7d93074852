"""A browser as far as a sign-in needs one: it follows redirects, keeps cookies and submits forms."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urljoin

import httpx


class _Form(HTMLParser):
    """The first form of a page that sends something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self._is_inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "form" and self.action is None and values.get("method", "").lower() == "post":
            self.action, self._is_inside = values.get("action", ""), True
        elif tag in ("input", "button") and self._is_inside and values.get("name") not in (None, "abort"):
            self.fields[values["name"]] = values.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._is_inside = False


class Browser:
    """Signs a person in at a provider."""

    def __init__(self, person: str) -> None:
        self._person = person
        self._client = httpx.Client(follow_redirects=False)

    def close(self) -> None:
        self._client.close()

    def visit(self, address: str, provider: str) -> str:
        """Go where an address leads, agree to everything, and say where that ends: outside of the provider, or on a
        page without a form."""
        answer = self._client.get(address)
        for _ in range(20):
            if answer.is_redirect:
                address = urljoin(str(answer.url), answer.headers["location"])
                if not address.startswith(provider):
                    return address
                answer = self._client.get(address)
                continue
            form = _Form(answer.text)
            if form.action is None:
                return answer.text
            typed = {"login": self._person, "password": "any"}
            fields = {name: typed.get(name, value) for name, value in form.fields.items()}
            answer = self._client.post(urljoin(str(answer.url), form.action), data=fields)
        raise AssertionError("the sign-in does not end")
