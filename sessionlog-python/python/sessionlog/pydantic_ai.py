"""Message histories of Pydantic AI in a store: ``pip install sessionlog[pydantic-ai]``.

::

    history = MessageHistory("user-1", store)
    result = await agent.run("hi", message_history=await history.aget())
    await history.aadd(result.new_messages())

A request or a response of the model's is one message of the store, with its text for people
and the store's other tools; the whole of it is in the field ``pydantic_ai``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse

from ._steps import AnyStore, Steps, awaited, core_of, wait
from ._types import texts_of

__all__ = ["MessageHistory"]


class MessageHistory:
    """The messages of one conversation. What is added together is there together."""

    def __init__(self, session_id: str, store: AnyStore) -> None:
        """``session_id`` is the key of the session in the store."""
        self.session_id = session_id
        self._core = core_of(store)

    def get(self, limit: int | None = None) -> list[ModelMessage]:
        """The messages, oldest first; of the newest ``limit`` those from a user's prompt on,
        so that no tool's result is without its call, or all from the newest prompt on, if
        these alone are more."""
        return wait(self._get(limit))

    async def aget(self, limit: int | None = None) -> list[ModelMessage]:
        """As :meth:`get`."""
        return await awaited(self._get(limit))

    def add(self, messages: Sequence[ModelMessage]) -> None:
        """Adds messages, as ``result.new_messages()`` has them, all or none. When it returns
        they survive power loss."""
        wait(self._add(messages))

    async def aadd(self, messages: Sequence[ModelMessage]) -> None:
        """As :meth:`add`."""
        await awaited(self._add(messages))

    def clear(self) -> None:
        """Deletes the session."""
        wait(self._clear())

    async def aclear(self) -> None:
        """As :meth:`clear`."""
        await awaited(self._clear())

    def _get(self, limit: int | None) -> Steps[list[ModelMessage]]:
        if limit is None:
            lines = yield self._core.history(self.session_id, False)
        else:
            lines = yield from self._turns(limit)
        return ModelMessagesTypeAdapter.validate_python([_message(line) for line in lines])

    def _turns(self, limit: int) -> Steps[list[dict[str, Any]]]:
        n = limit
        while True:
            lines: list[dict[str, Any]] = yield self._core.tail(self.session_id, n, False)
            prompts = [index for index, line in enumerate(lines) if _is_prompt(line)]
            within = [index for index in prompts if index >= len(lines) - limit]
            if within or prompts or len(lines) < n or not limit:
                first = within[0] if within else (prompts[-1] if prompts else len(lines))
                return lines[first:]
            n *= 4

    def _add(self, messages: Sequence[ModelMessage]) -> Steps[None]:
        if messages:
            yield self._core.append(self.session_id, texts_of([_line(one) for one in messages]))

    def _clear(self) -> Steps[None]:
        yield self._core.delete(self.session_id)


def _line(message: ModelMessage) -> dict[str, Any]:
    whole = ModelMessagesTypeAdapter.dump_python([message], mode="json")[0]
    texts = [part.get("content") for part in whole["parts"] if part.get("part_kind") in TEXTS]
    is_response = isinstance(message, ModelResponse)
    return {
        "role": "assistant" if is_response else "user",
        "content": "\n".join(text for text in texts if isinstance(text, str)),
        "pydantic_ai": whole,
    }


TEXTS = ("text", "user-prompt", "system-prompt", "tool-return")


def _is_prompt(line: dict[str, Any]) -> bool:
    whole = line.get("pydantic_ai")
    if whole is None:
        return bool(line["role"] == "user")
    return any(part.get("part_kind") == "user-prompt" for part in whole["parts"])


def _message(line: dict[str, Any]) -> dict[str, Any]:
    """A message of Pydantic AI's, or of another tool of the store, as its text."""
    whole = line.get("pydantic_ai")
    if isinstance(whole, dict):
        return whole
    if line["role"] == "assistant":
        part = {"part_kind": "text", "content": line["content"]}
        return {"kind": "response", "parts": [part]}
    kind = "system-prompt" if line["role"] == "system" else "user-prompt"
    return {"kind": "request", "parts": [{"part_kind": kind, "content": line["content"]}]}
