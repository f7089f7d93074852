"""The library beside an event loop: calls in threads, iterators a batch at a time, objects behind proxies.

A cancelled call does not go on in the background: its thread is waited for, so that the caller may close, delete or
repeat afterwards. Leaving an iteration early closes what it reads before control returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import weakref
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Hashable, Iterable, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

from recollect.errors import RecollectError

Result = TypeVar("Result")
Item = TypeVar("Item")
Owner = TypeVar("Owner")
Parameters = ParamSpec("Parameters")

_BATCH_ITEMS = 256
_BATCH_BYTES = 4 * 1024 * 1024
_ITERATORS = ("Iterator[", "Iterable[", "Generator[")


async def in_thread(work: Callable[[], Result]) -> Result:
    """The result of ``work``, run in a thread. A cancellation waits for the thread to end."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        # Not left running: after a cancellation the caller may close, delete or repeat.
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                continue
        if not running.cancelled():
            running.exception()  # retrieved, so that the loop does not complain about it
        raise


def threaded(
    method: Callable[Concatenate[Owner, Parameters], Result],
) -> Callable[Concatenate[Owner, Parameters], Coroutine[Any, Any, Result]]:
    """A method that is carried out in a thread, and awaited."""

    @functools.wraps(method)
    async def awaited(self: Owner, /, *values: Parameters.args, **named: Parameters.kwargs) -> Result:
        return await in_thread(lambda: method(self, *values, **named))

    return awaited


class KeyedExecutor:
    """Runs work in threads: for one key one after another in the order of the calls, else side by side.

    It orders the calls of one event loop; several loops may share it, but no
    order holds among them.
    """

    def __init__(self) -> None:
        self._locks: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, weakref.WeakValueDictionary[Hashable, asyncio.Lock]
        ] = weakref.WeakKeyDictionary()

    async def run(self, key: Hashable, work: Callable[[], Result]) -> Result:
        """What ``work`` returns, once everything that was asked for before under ``key`` is done."""
        locks = self._locks.setdefault(asyncio.get_running_loop(), weakref.WeakValueDictionary())
        # The lock lives as long as it is held or awaited. asyncio locks are fair, which keeps the order.
        lock = locks.setdefault(key, asyncio.Lock())
        async with lock:
            return await in_thread(work)


async def streamed(items: Iterator[Item]) -> AsyncGenerator[Item, None]:
    """Items of an iterator that reads the disk, in batches; items read before a failure are returned."""
    try:
        failure: RecollectError | None = None
        batch: list[Item] = []
        while failure is None:
            batch, failure = await in_thread(lambda: _batch(items))
            for item in batch:
                yield item
            if not batch and failure is None:
                return
        raise failure
    finally:
        # Not in a thread: no batch is being read now, and a closing generator must not wait.
        close = getattr(items, "close", None)
        if close is not None:
            close()


def _batch(items: Iterator[Item]) -> tuple[list[Item], RecollectError | None]:
    """Some items, and the error after them: items already read must not be lost."""
    batch: list[Item] = []
    size = 0
    try:
        for item in items:
            batch.append(item)
            size += getattr(item, "length", 0)
            if len(batch) >= _BATCH_ITEMS or size >= _BATCH_BYTES:
                break
    except RecollectError as failure:
        return batch, failure
    return batch, None


class AsyncProxy:
    """An object of the synchronous library, with the same names: calls are awaited, iterators walked with ``async for``.

    ``of`` is the class that is proxied; ``awaited`` names its properties that read the disk, which are methods here. With
    ``is_ordered`` calls on one object are carried out in the order of the calls, even if they are not awaited one by one.
    What a subclass defines itself stands.
    """

    _of: type

    def __init_subclass__(cls, *, of: type, awaited: Collection[str] = (), is_ordered: bool = False) -> None:
        cls._of = of
        _PROXIES[of] = cls
        for name in [name for name in dir(of) if not name.startswith("_") and name not in vars(cls)]:
            found = inspect.getattr_static(of, name)
            if inspect.isfunction(found):
                setattr(cls, name, _proxied(found, is_ordered=is_ordered))
            elif name in awaited:
                getter: Any = found.fget if isinstance(found, property) else found.func
                setattr(cls, name, _proxied(getter, reader=functools.partial(_attribute, name)))

    def __init__(self, *values: Any, **named: Any) -> None:
        self._original: Any = self._of(*values, **named)
        self._turns = KeyedExecutor()

    def __getattr__(self, name: str) -> Any:
        """Attributes and properties that read nothing."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._original, name)

    def __repr__(self) -> str:
        return f"<Async{repr(self._original)[1:]}"


_PROXIES: dict[type, type[AsyncProxy]] = {}


def _attribute(name: str, original: Any) -> Any:
    return getattr(original, name)


def proxy_of(original: Any) -> Any:
    """The proxy of an object; what has none comes back as it is."""
    kind = _PROXIES.get(type(original))
    if kind is None:
        return original
    proxy = kind.__new__(kind)
    proxy._original, proxy._turns = original, KeyedExecutor()  # noqa: SLF001 - of this module
    return proxy


def _proxied(
    method: Callable[..., Any], *, reader: Callable[[Any], Any] | None = None, is_ordered: bool = False
) -> Callable[..., Any]:
    returns = str(method.__annotations__.get("return", ""))
    call: Callable[..., Any] = reader or method

    @functools.wraps(method)
    def walk(self: AsyncProxy, /, *values: Any, **named: Any) -> AsyncWalk:
        return AsyncWalk(call(self._original, *values, **named))

    @functools.wraps(method)
    def stream(self: AsyncProxy, /, *values: Any, **named: Any) -> AsyncGenerator[Any, None]:
        return _streamed_from(lambda: call(self._original, *values, **named))

    @functools.wraps(method)
    async def threaded(self: AsyncProxy, /, *values: Any, **named: Any) -> Any:
        def work() -> Any:
            return call(self._original, *values, **named)

        return proxy_of(await (self._turns.run(self, work) if is_ordered else in_thread(work)))

    if returns.startswith("Walk["):
        return walk
    return stream if returns.startswith(_ITERATORS) else threaded


async def _streamed_from(call: Callable[[], Iterable[Any]]) -> AsyncGenerator[Any, None]:
    async with contextlib.aclosing(streamed(iter(await in_thread(call)))) as items:
        async for item in items:
            yield proxy_of(item)


def threaded_function(function: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """A function of the library, awaited; takes proxies for the objects it takes."""

    @functools.wraps(function)
    async def threaded(*values: Any, **named: Any) -> Any:
        plain = {
            name: value._original if isinstance(value, AsyncProxy) else value  # noqa: SLF001 - of this module
            for name, value in named.items()
        }
        return await in_thread(lambda: function(*values, **plain))

    return threaded


class AsyncWalk:
    """``Walk`` for an event loop: iterate with ``async for``, or take what is left as an Arrow table."""

    def __init__(self, walk: Any) -> None:
        self._walk = walk

    def __repr__(self) -> str:
        return f"<Async{repr(self._walk)[1:]}"

    async def __aiter__(self) -> AsyncGenerator[Any, None]:
        async with contextlib.aclosing(streamed(self._walk)) as items:
            async for item in items:
                yield proxy_of(item)

    async def close(self) -> None:
        """End the walk and give back what it holds open. Not needed after the last one."""
        await in_thread(self._walk.close)

    async def to_arrow(self) -> Any:
        """See ``Walk.to_arrow``."""
        return await in_thread(self._walk.to_arrow)

    async def to_batches(self, rows: int = 10_000) -> AsyncGenerator[Any, None]:
        """See ``Walk.to_batches``."""
        batches = self._walk.to_batches(rows)
        while (batch := await in_thread(lambda: next(batches, None))) is not None:
            yield batch
