"""A stub that is served while a test runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TypeVar

from tests.oracle.client_runner import ApiStub

_Stub = TypeVar("_Stub", bound=ApiStub)


@contextlib.contextmanager
def running(stub: _Stub) -> Iterator[_Stub]:
    """Serve it in a thread of its own, and end that with the test."""
    thread = threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield stub
    finally:
        stub.shutdown()
        thread.join()
        stub.server_close()
