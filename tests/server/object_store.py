"""A real S3 for the tests: ``moto`` as a process on the loopback, on a port that the system chooses."""

from __future__ import annotations

import contextlib
import http.client
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import obstore
from obstore.store import S3Store

from recollect.server.objects import BlobStore, open_store

# Names for a store that asks for some and knows none.
_NAMES = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}


class TestStore:
    """One process; every test has a bucket of its own."""

    __test__ = False

    def __init__(self) -> None:
        command = [sys.executable, "-u", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
        # Into a file: it writes a line for each request, and would stop when no one reads a pipe.
        self._log = tempfile.NamedTemporaryFile(prefix="recollect-s3-", suffix=".log")  # noqa: SIM115 - closed by stop
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self._log)
        found = None
        deadline = time.monotonic() + 120
        while found is None:
            assert time.monotonic() < deadline
            assert self._process.poll() is None
            time.sleep(0.05)
            found = re.search(r"(http://127\.0\.0\.1:\d+)", Path(self._log.name).read_text())
        self.url = str(found[1])
        self._buckets = 0

    def environment(self) -> dict[str, str]:
        """What a process needs to reach it."""
        return {**_NAMES, "AWS_ENDPOINT_URL": self.url}

    def bucket(self) -> Bucket:
        self._buckets += 1
        name = f"bucket-{self._buckets}"
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc)
        with contextlib.closing(connection):
            connection.request(
                "PUT",
                f"/{name}",
                headers={"Authorization": "AWS4-HMAC-SHA256 Credential=test/x/us-east-1/s3/x"},
            )
            assert connection.getresponse().status == 200
        return Bucket(self, name)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._log.close()


class Bucket:
    """A bucket, seen past recollect."""

    def __init__(self, store: TestStore, name: str) -> None:
        self.address = f"s3://{name}"
        self.environment = store.environment()
        self.raw = S3Store(
            name,
            endpoint=store.url,
            access_key_id="test",
            secret_access_key="test",
            region="us-east-1",
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )

    def opened(self) -> BlobStore:
        return open_store(self.address, self.environment)

    def names(self) -> list[str]:
        return sorted(one["path"] for some in obstore.list(self.raw) for one in some)
