"""What an adapter does, written once for threads and for event loops: a generator that yields
calls of the store and is sent their answers."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

from . import _sessionlog as rust
from ._aio import AsyncStore
from ._store import Store

_T = TypeVar("_T")

Steps: TypeAlias = "Generator[rust.Call[Any], Any, _T]"

AnyStore: TypeAlias = "Store | AsyncStore"
"""Adapters take either face of a store."""


def core_of(store: AnyStore) -> rust.Store:
    """The store itself, taking keys literally: an adapter's key is no alias."""
    return store._core.exact_keys()


def wait(steps: Steps[_T]) -> _T:
    """Takes the steps on this thread."""
    try:
        call = next(steps)
        while True:
            try:
                answer = call.wait()
            except Exception as error:
                call = steps.throw(error)
            else:
                call = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def awaited(steps: Steps[_T]) -> _T:
    """Takes the steps on the running event loop."""
    try:
        call = next(steps)
        while True:
            try:
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
