import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import sessionlog


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


@pytest.fixture
def store(directory: Path) -> Iterator[sessionlog.Store]:
    with sessionlog.open(directory) as store:
        yield store


def run(work: Awaitable[Any]) -> Any:
    """Runs a coroutine on a loop of its own, for a minute at most."""

    async def bounded() -> Any:
        return await asyncio.wait_for(work, 60)

    return asyncio.run(bounded())


class Face:
    """One face of a store, called like the one for threads."""

    def __init__(self, target: Any, loop: asyncio.AbstractEventLoop | None) -> None:
        self._target = target
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not callable(found):
            return found

        def called(*args: Any, **named: Any) -> Any:
            if self._loop is None:
                return self._wrapped(found(*args, **named))

            async def awaited() -> Any:
                answer = found(*args, **named)
                if inspect.isawaitable(answer):
                    return await answer
                if hasattr(answer, "__aiter__") and not hasattr(answer, "next"):
                    return [one async for one in answer]
                return answer

            work = asyncio.wait_for(awaited(), 60)
            return self._wrapped(self._loop.run_until_complete(work))

        return called

    def _wrapped(self, answer: Any) -> Any:
        if type(answer).__module__ in ("sessionlog._store", "sessionlog._aio"):
            return Face(answer, self._loop)
        return answer


def _uvloop() -> asyncio.AbstractEventLoop:
    return pytest.importorskip("uvloop").new_event_loop()  # type: ignore[no-any-return]


@pytest.fixture(params=["threads", "asyncio", "uvloop"])
def face(request: pytest.FixtureRequest, directory: Path) -> Iterator[Face]:
    """The same store behind each of its faces."""
    with sessionlog.open(directory, archive=True) as store:
        if request.param == "threads":
            yield Face(store, None)
            return
        loop = _uvloop() if request.param == "uvloop" else asyncio.new_event_loop()
        try:
            yield Face(store.aio, loop)
        finally:
            loop.close()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages]
