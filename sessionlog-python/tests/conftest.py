import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
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


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine on a loop of its own, for ten seconds at most."""

    async def bounded() -> Any:
        return await asyncio.wait_for(work, 60)

    return asyncio.run(bounded())


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages]
