"""What an adapter does, written once for threads and for event loops: a generator that yields
calls of the store, or futures that another's steps end, and is sent their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar

from . import _sessionlog as rust
from ._aio import AsyncStore
from ._store import Store

_T = TypeVar("_T")

Step: TypeAlias = "rust.Call[Any] | Future[Any]"

Steps: TypeAlias = "Generator[Step, Any, _T]"

AnyStore: TypeAlias = "Store | AsyncStore"
"""Adapters take either face of a store."""


def core_of(store: AnyStore) -> rust.Store:
    """The store itself, taking keys literally: an adapter's key is no alias."""
    if not isinstance(store, (Store, AsyncStore)):
        kind = type(store).__name__
        raise TypeError(f"an open store is needed, as sessionlog.open gives it, and no {kind}")
    return store._core.exact_keys()


def wait(steps: Steps[_T]) -> _T:
    """Takes the steps on this thread."""
    try:
        call = next(steps)
        while True:
            try:
                answer = call.result() if isinstance(call, Future) else call.wait()
            except Exception as error:
                call = steps.throw(error)
            else:
                call = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        steps.close()


async def awaited(steps: Steps[_T]) -> _T:
    """Takes the steps on the running event loop."""
    try:
        call = next(steps)
        while True:
            try:
                if isinstance(call, Future):
                    # Others wait for it, too.
                    answer = await asyncio.shield(asyncio.wrap_future(call))
                else:
                    answer = await call.submit()
            except Exception as error:
                call = steps.throw(error)
            else:
                call = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        steps.close()


def all_sessions(core: rust.Store, prefix: str) -> Steps[list[str]]:
    """The keys that begin so."""
    from ._calls import PAGE, sessions_query

    query = sessions_query(prefix, order="name")
    keys: list[str] = []
    after = None
    while True:
        page, _, after = yield core.sessions(query, PAGE, after)
        keys.extend(session["key"] for session in page)
        if after is None:
            return keys
