"""A provider on the loopback that signs whatever it is told to: expired, for others, with another key."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from joserfc import jwk, jwt


def new_key(kid: str) -> jwk.ECKey:
    return jwk.ECKey.generate_key("P-256", parameters={"kid": kid, "alg": "ES256", "use": "sig"})


class OddProvider:
    """``claims`` and ``header`` change what it signs next; ``published`` are the keys it shows."""

    def __init__(self) -> None:
        self.key = new_key("one")
        self.published = [self.key]
        self.header: dict[str, Any] = {}
        self.claims: dict[str, Any] = {}
        self.userinfo: dict[str, Any] = {}
        self.token: str | None = None
        self.nonce = ""
        self.asked: list[str] = []
        self.forms: list[dict[str, str]] = []
        # What the token endpoint says first, once each.
        self.errors: list[str] = []
        self.description: dict[str, Any] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.issuer = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def signed(self) -> str:
        """An id token that is good but for what a test changed."""
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": "recollect",
            "sub": "ada-1",
            "iat": now,
            "exp": now + 300,
            "nonce": self.nonce,
            "preferred_username": "ada",
            "groups": ["staff"],
            **self.claims,
        }
        header = {"alg": "ES256", "kid": self.key.kid, **self.header}
        kept = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode({k: v for k, v in header.items() if v is not None}, kept, self.key)

    def answer(self, path: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """The document of a path."""
        self.asked.append(path)
        self.forms.append(form)
        if path == "/.well-known/openid-configuration":
            names = ("authorization", "token", "userinfo", "device_authorization")
            ends = {f"{name}_endpoint": f"{self.issuer}/{name}" for name in names}
            return 200, {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys", **ends, **self.description}
        if path == "/keys":
            # The first is one that no library understands: it hides no other.
            odd = {"kty": "EC", "crv": "P-0", "kid": "odd", "x": "AA", "y": "AA"}
            return 200, {"keys": [odd, *(key.as_dict(private=False) for key in self.published)]}
        if path == "/device_authorization":
            uri = f"{self.issuer}/device"
            return 200, {
                "device_code": "dc",
                "user_code": "AB-CD",
                "verification_uri": uri,
                "expires_in": 60,
                "interval": 0,
            }
        if path == "/userinfo":
            return 200, self.userinfo
        if self.errors:
            return 400, {"error": self.errors.pop(0)}
        return 200, {"id_token": self.token or self.signed(), "access_token": "at", "token_type": "Bearer"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._reply({})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                self._reply({name: values[0] for name, values in parse_qs(body.decode()).items()})

            def _reply(self, form: dict[str, str]) -> None:
                status, document = provider.answer(urlsplit(self.path).path, form)
                data = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        return Handler
