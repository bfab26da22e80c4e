"""A drop-in for kimi-cli's ``Context``: ``pip install sessionlog[kimi-cli]``.

It keeps the same ``context.jsonl``, byte for byte, but every write is synced, taking back and
clearing replace the file in one step, and two writers of one file are refused. Call
:func:`install` before kimi-cli's application is imported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import kimi_cli.soul.context
from kimi_cli.soul.compaction import estimate_text_tokens
from kimi_cli.soul.message import system
from kosong.message import Message

from . import _sessionlog as rust
from .errors import CheckpointNotFound, Conflict

__all__ = ["Context", "install"]


def install() -> None:
    """Puts :class:`Context` in the place of kimi-cli's."""
    kimi_cli.soul.context.Context = Context  # type: ignore[misc,assignment,unused-ignore]


class Context:
    """The conversation of a file of kimi-cli's, with the interface of kimi-cli's class."""

    def __init__(self, file_backend: Path) -> None:
        self._file_backend = file_backend
        self._core: rust.Context | None = None
        self._history: list[Message] = []
        self._token_count = 0
        self._pending = 0
        self._n_checkpoints = 0
        self._system_prompt: str | None = None

    @property
    def history(self) -> Sequence[Message]:
        """Every message, oldest first."""
        return self._history

    @property
    def token_count(self) -> int:
        """The token count last recorded."""
        return self._token_count

    @property
    def token_count_with_pending(self) -> int:
        """The same, and kimi-cli's estimate for the messages since."""
        return self._token_count + self._pending

    @property
    def n_checkpoints(self) -> int:
        """The number that the next checkpoint gets."""
        return self._n_checkpoints

    @property
    def system_prompt(self) -> str | None:
        """The system prompt, if one was written."""
        return self._system_prompt

    @property
    def file_backend(self) -> Path:
        """The file."""
        return self._file_backend

    async def restore(self) -> bool:
        """Reads the file; whether there was anything.

        Raises ``RuntimeError`` if the context has messages already."""
        if self._history:
            raise RuntimeError("the context has messages already")
        core = await self._opened()
        try:
            found = await core.restore().submit()
        except Conflict as error:
            raise RuntimeError(str(error)) from error
        await self._read(core)
        return found

    async def append_message(self, message: Message | Sequence[Message]) -> None:
        """Appends messages. When it returns they survive power loss."""
        messages = [message] if isinstance(message, Message) else list(message)
        if messages:
            lines = [one.model_dump_json(exclude_none=True).encode() for one in messages]
            await (await self._opened()).append(lines).submit()
            self._add(messages)

    async def checkpoint(self, add_user_message: bool) -> None:
        """Sets a point to go back to, and tells the model of it if asked to."""
        id = await (await self._opened()).checkpoint(add_user_message).submit()
        self._n_checkpoints = id + 1
        if add_user_message:
            self._add([Message(role="user", content=[system(f"CHECKPOINT {id}")])])

    async def revert_to(self, checkpoint_id: int) -> None:
        """Takes the conversation back to before a checkpoint. What it was stays in the next
        free ``context_N.jsonl``.

        Raises ``ValueError`` if there is no such checkpoint."""
        core = await self._opened()
        try:
            await core.revert_to(checkpoint_id).submit()
        except CheckpointNotFound as error:
            raise ValueError(str(error)) from error
        await self._read(core)

    async def clear(self) -> None:
        """Starts the conversation anew. What it was stays in ``context_N.jsonl``."""
        core = await self._opened()
        await core.clear().submit()
        await self._read(core)

    async def write_system_prompt(self, prompt: str) -> None:
        """Writes the system prompt as the file's first line."""
        await (await self._opened()).write_system_prompt(prompt).submit()
        self._system_prompt = prompt

    async def update_token_count(self, token_count: int) -> None:
        """Records how many tokens the conversation has, as the model counted them."""
        await (await self._opened()).update_token_count(token_count).submit()
        self._token_count = token_count
        self._pending = 0

    async def _opened(self) -> rust.Context:
        if self._core is None:
            self._core = await asyncio.to_thread(rust.Context.open, self._file_backend)
        return self._core

    def _add(self, messages: Sequence[Message]) -> None:
        self._history.extend(messages)
        self._pending += estimate_text_tokens(messages)

    async def _read(self, core: rust.Context) -> None:
        """Takes over what the file has."""
        self._history[:] = map(Message.model_validate_json, await core.history().submit())
        self._token_count = await core.token_count().submit()
        self._pending = await core.token_count_with_pending().submit() - self._token_count
        self._n_checkpoints = await core.n_checkpoints().submit()
        self._system_prompt = await core.system_prompt().submit()
