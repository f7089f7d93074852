"""A store of immutable objects: S3 and what speaks its protocol, or a directory for a trial.

An object is named by the hash over its bytes, so it is written at most once (``If-None-Match``) and a reader
knows whether it is the one that was written. Credentials and the endpoint come from the environment, under the names
every S3 client knows (``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_REGION``, ``AWS_ENDPOINT_URL``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Protocol
from urllib.parse import urlsplit

import zstandard

from recollect.errors import MissingExtra, UsageError
from recollect.server.database.contract import BodyLost, BodyUnavailable

_LEVEL = 9
_SECONDS = 20.0
_HINT = "write s3://BUCKET or s3://BUCKET/PREFIX, or file:///DIRECTORY for a trial"


class BlobStore(Protocol):
    """Objects by name. Every method raises ``BodyUnavailable`` where the store does not answer."""

    async def put(self, name: str, data: bytes) -> bool:
        """Write an object if there is none of that name; False where there was one."""

    async def get(self, name: str) -> bytes:
        """The bytes of an object; ``BodyLost`` where there is none."""

    async def delete(self, names: Sequence[str]) -> None:
        """Remove objects; those that are not there are no error."""


class CloudBlobs:
    """A store that the package ``obstore`` reaches."""

    def __init__(self, store: Any) -> None:
        self._store = store

    async def put(self, name: str, data: bytes) -> bool:
        import obstore

        try:
            await self._waited(obstore.put_async(self._store, name, data, mode="create"))
        except obstore.exceptions.AlreadyExistsError:
            return False
        return True

    async def get(self, name: str) -> bytes:
        import obstore

        async def read() -> bytes:
            found = await obstore.get_async(self._store, name)
            return bytes(await found.bytes_async())

        try:
            found: bytes = await self._waited(read())
        except FileNotFoundError:
            raise BodyLost(name, "is missing") from None
        return found

    async def delete(self, names: Sequence[str]) -> None:
        import obstore

        async def remove() -> None:
            try:
                await obstore.delete_async(self._store, list(names))
            except FileNotFoundError:  # only a directory says so; then one by one
                for name in names:
                    try:
                        await obstore.delete_async(self._store, name)
                    except FileNotFoundError:
                        continue

        await self._waited(remove())

    @staticmethod
    async def _waited(work: Any) -> Any:
        """The result; what the store refuses or does not answer in time is ``BodyUnavailable``."""
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            async with asyncio.timeout(_SECONDS):
                return await work
        except (AlreadyExistsError, FileNotFoundError):
            raise
        except (BaseError, OSError, TimeoutError) as problem:
            raise BodyUnavailable(f"the object store does not answer: {type(problem).__name__}") from problem


def open_store(address: str, environment: Mapping[str, str]) -> BlobStore:
    """The store at an address: ``s3://bucket/prefix`` or ``file:///directory``."""
    try:
        from obstore.store import LocalStore, S3Store
    except ImportError:
        raise MissingExtra("an object store", "obstore", "lake") from None
    parts = urlsplit(address)
    if parts.scheme == "file" and not parts.netloc and len(parts.path) > 1:
        return CloudBlobs(LocalStore(parts.path, mkdir=True))
    if parts.scheme != "s3" or not parts.netloc or parts.query or parts.fragment:
        raise UsageError(f"--objects {address!a}: the address is not valid", hint=_HINT)
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    store = S3Store(
        parts.netloc,
        prefix=parts.path.strip("/") or None,
        client_options={
            "timeout": "15s",
            "connect_timeout": "3s",
            # Only a store on this machine may be reached without TLS, as the server itself.
            "allow_http": endpoint is not None and _is_here(endpoint),
        },
        retry_config={"max_retries": 2},
        config=_settings(environment, endpoint),  # type: ignore[arg-type] # its types name every key
    )
    return CloudBlobs(store)


def _settings(environment: Mapping[str, str], endpoint: str | None) -> dict[str, object]:
    names = (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_DEFAULT_REGION",
        "AWS_REGION",
    )
    found: dict[str, object] = {
        name.lower().replace("default_", ""): environment[name] for name in names if environment.get(name)
    }
    # A store with an address of its own has its buckets in the path.
    return (
        found if endpoint is None else found | {"endpoint": endpoint, "virtual_hosted_style_request": False}
    )


def _is_here(endpoint: str) -> bool:
    return urlsplit(endpoint).hostname in ("127.0.0.1", "::1", "localhost")


def packed_object(data: bytes) -> tuple[str, bytes]:
    """Bytes as an object: the hash that names it, and its own bytes."""
    small = zstandard.ZstdCompressor(level=_LEVEL).compress(data)
    return sha256(small).hexdigest(), small


def unpacked_object(name: str, digest: str, size: int, stored: bytes) -> bytes:
    """The inverse; ``BodyLost`` where the object is not the one that was written."""
    if sha256(stored).hexdigest() != digest:
        raise BodyLost(name, "was altered")
    try:
        data = zstandard.ZstdDecompressor().decompress(stored, max_output_size=size)
    except zstandard.ZstdError as problem:
        raise BodyLost(name, "cannot be unpacked") from problem
    if len(data) != size:
        raise BodyLost(name, "has another size than its row says")
    return data
