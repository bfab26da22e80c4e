"""Persistence of python-telegram-bot in a store: ``pip install sessionlog[telegram]``.

::

    application = ApplicationBuilder().token(...).persistence(Persistence(store)).build()

The data of each user, each chat, the bot and each conversation is a session of its own, whose
last line is what it is now: an update writes that one and nothing else. The data is pickled, as
``PicklePersistence`` does it: open no directory from people whom you would not let run code.
"""

from __future__ import annotations

import asyncio
import io
import json
import pickle
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from telegram import Bot, TelegramObject
from telegram.ext import BasePersistence, ContextTypes, PersistenceInput

from ._steps import AnyStore, all_sessions, awaited, core_of
from ._types import texts_of

__all__ = ["Persistence"]


class Persistence(BasePersistence[Any, Any, Any]):
    """What an application remembers, durable with every update."""

    __slots__ = ("_context_types", "_core", "_known", "_prefix")

    def __init__(
        self,
        store: AnyStore,
        *,
        prefix: str = "telegram-bot/",
        store_data: PersistenceInput | None = None,
        update_interval: float = 60,
        context_types: ContextTypes[Any, Any, Any, Any] | None = None,
    ) -> None:
        """The sessions' keys begin with ``prefix``."""
        super().__init__(store_data=store_data, update_interval=update_interval)
        self._core = core_of(store)
        self._prefix = prefix
        self._context_types = context_types or ContextTypes()
        # What is stored, by key, so that an update that changes nothing writes nothing.
        self._known: dict[str, bytes] = {}

    async def get_user_data(self) -> dict[int, Any]:
        """The data of all users."""
        return {int(id): data for id, data in (await self._all("user_data/")).items()}

    async def get_chat_data(self) -> dict[int, Any]:
        """The data of all chats."""
        return {int(id): data for id, data in (await self._all("chat_data/")).items()}

    async def get_bot_data(self) -> Any:
        """The data of the bot."""
        return await self._one("bot_data", self._context_types.bot_data)

    async def get_callback_data(self) -> Any:
        """The callback data, or ``None``."""
        return await self._one("callback_data", lambda: None)

    async def get_conversations(self, name: str) -> dict[Any, Any]:
        """The states of a handler's conversations."""
        return dict((await self._all(f"conversations/{quote(name, safe='')}/")).values())

    async def update_user_data(self, user_id: int, data: Any) -> None:
        """Stores the data of a user."""
        await self._put(f"user_data/{user_id}", data)

    async def update_chat_data(self, chat_id: int, data: Any) -> None:
        """Stores the data of a chat."""
        await self._put(f"chat_data/{chat_id}", data)

    async def update_bot_data(self, data: Any) -> None:
        """Stores the data of the bot."""
        await self._put("bot_data", data)

    async def update_callback_data(self, data: Any) -> None:
        """Stores the callback data."""
        await self._put("callback_data", data)

    async def update_conversation(
        self, name: str, key: tuple[int | str, ...], new_state: object | None
    ) -> None:
        """Stores the state of a conversation; ``None`` ends it."""
        cell = f"conversations/{quote(name, safe='')}/{json.dumps(key)}"
        if new_state is None:
            await self._drop(cell)
        else:
            await self._put(cell, (key, new_state))

    async def drop_user_data(self, user_id: int) -> None:
        """Deletes the data of a user."""
        await self._drop(f"user_data/{user_id}")

    async def drop_chat_data(self, chat_id: int) -> None:
        """Deletes the data of a chat."""
        await self._drop(f"chat_data/{chat_id}")

    async def refresh_user_data(self, user_id: int, user_data: Any) -> None:
        """Does nothing: nobody else changes it."""

    async def refresh_chat_data(self, chat_id: int, chat_data: Any) -> None:
        """Does nothing: nobody else changes it."""

    async def refresh_bot_data(self, bot_data: Any) -> None:
        """Does nothing: nobody else changes it."""

    async def flush(self) -> None:
        """Brings the files up to date. What was updated is durable before."""
        await self._core.flush().submit()

    async def _all(self, kind: str) -> dict[str, Any]:
        prefix = self._prefix + kind
        keys = await awaited(all_sessions(self._core, prefix))
        tails = await asyncio.gather(*(self._core.tail(key, 1, False).submit() for key in keys))
        found = {}
        for key, lines in zip(keys, tails):
            if lines:
                found[key[len(prefix) :]] = self._load(key, lines[0])
        return found

    async def _one(self, name: str, default: Callable[[], Any]) -> Any:
        key = self._prefix + name
        lines = await self._core.tail(key, 1, False).submit()
        return self._load(key, lines[0]) if lines else default()

    async def _put(self, cell: str, data: Any) -> None:
        key = self._prefix + cell
        pickled = self._dump(data)
        if self._known.get(key) != pickled:
            line = {"role": "data", "content": "", "pickle": b64encode(pickled).decode("ascii")}
            # The older ones go in the same commit.
            given = {"append": texts_of(line), "keep": ("last", 0)}
            stored = self._core.update(key, given).submit()
            # From when it is under way: the next update comes after it.
            self._known[key] = pickled
            try:
                await stored
            except BaseException:
                self._known.pop(key, None)
                raise

    async def _drop(self, cell: str) -> None:
        key = self._prefix + cell
        self._known.pop(key, None)
        await self._core.delete(key).submit()

    def _dump(self, data: Any) -> bytes:
        file = io.BytesIO()
        _Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(data)
        return file.getvalue()

    def _load(self, key: str, line: dict[str, Any]) -> Any:
        pickled = b64decode(line["pickle"])
        self._known[key] = pickled
        return _Unpickler(io.BytesIO(pickled), getattr(self, "bot", None)).load()


BOT = "bot"


class _Pickler(pickle.Pickler):
    """Writes a mark in the place of the bot, which cannot be pickled."""

    def persistent_id(self, obj: object) -> str | None:
        return BOT if isinstance(obj, Bot) else None

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, TelegramObject):
            return NotImplemented
        try:
            bot = obj.get_bot()
        except RuntimeError:
            bot = None
        return _restored, (type(obj), obj.__getstate__(), bot)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, bot: Bot | None) -> None:
        super().__init__(file)
        self._bot = bot

    def persistent_load(self, pid: Any) -> Any:
        return self._bot


def _restored(kind: type[TelegramObject], state: Any, bot: Bot | None) -> TelegramObject:
    """An object of Telegram's, with the bot that runs now."""
    obj = kind.__new__(kind)
    obj.__setstate__(state)
    obj.set_bot(bot)
    return obj
