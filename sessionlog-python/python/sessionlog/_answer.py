"""What a verb of an :class:`~sessionlog.AsyncStore` returns."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any, TypeVar

_T = TypeVar("_T")


class Answer(asyncio.Future[_T]):
    """A future that is taken for a coroutine, too: ``asyncio.create_task``, a ``TaskGroup`` and
    ``run_coroutine_threadsafe`` accept it."""

    _driver: Generator[Any, None, _T] | None = None

    def _drive(self) -> Generator[Any, None, _T]:
        if self._driver is None:
            self._driver = self.__await__()
        return self._driver

    def send(self, value: None) -> Any:
        """One step of who awaits it, as of a coroutine."""
        return self._drive().send(value)

    def throw(self, *error: Any) -> Any:
        """Raises an error in who awaits it, as in a coroutine."""
        return self._drive().throw(*error)

    def close(self) -> None:
        """Stops awaiting it."""
        if self._driver is not None:
            self._driver.close()
