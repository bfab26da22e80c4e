"""Chat histories of LangChain in a store: ``pip install sessionlog[langchain]``.

Use a :class:`ChatMessageHistory` where LangChain takes ``FileChatMessageHistory``::

    with sessionlog.open("sessions") as store:
        chain = RunnableWithMessageHistory(model, lambda id: ChatMessageHistory(id, store))

A LangChain message is one message of the store, with role, text and tool calls for people and
the store's other tools; the whole of it is in the field ``langchain``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ToolMessage,
    convert_to_messages,
    message_to_dict,
    messages_from_dict,
)

from ._steps import AnyStore, Steps, awaited, core_of, wait
from ._types import texts_of

__all__ = ["ChatMessageHistory"]

ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}


class ChatMessageHistory(BaseChatMessageHistory):
    """The messages of one conversation. What is added together is there together."""

    def __init__(self, session_id: str, store: AnyStore, *, limit: int | None = None) -> None:
        """``session_id`` is the key of the session. With ``limit`` only its newest messages
        are read, which costs what they are, however long the session is."""
        self.session_id = session_id
        self._limit = limit
        self._core = core_of(store)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """The messages, oldest first."""
        return wait(self._read())

    async def aget_messages(self) -> list[BaseMessage]:
        """As :attr:`messages`."""
        return await awaited(self._read())

    def add_message(self, message: BaseMessage) -> None:
        """Adds one message."""
        self.add_messages([message])

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Adds messages, all or none. When it returns they survive power loss."""
        wait(self._add(messages))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """As :meth:`add_messages`."""
        await awaited(self._add(messages))

    def clear(self) -> None:
        """Deletes the session."""
        wait(self._clear())

    async def aclear(self) -> None:
        """As :meth:`clear`."""
        await awaited(self._clear())

    def _read(self) -> Steps[list[BaseMessage]]:
        if self._limit is None:
            lines = yield self._core.history(self.session_id, False)
        else:
            lines = yield self._core.tail(self.session_id, self._limit, False)
        return [_message(line) for line in lines]

    def _add(self, messages: Sequence[BaseMessage]) -> Steps[None]:
        if messages:
            lines = [_line(message) for message in messages]
            yield self._core.append(self.session_id, texts_of(lines))

    def _clear(self) -> Steps[None]:
        yield self._core.delete(self.session_id)


def _line(message: BaseMessage) -> dict[str, Any]:
    role = ROLES.get(message.type) or getattr(message, "role", message.type)
    # Such roles are the store's own.
    role = role if role and not role.startswith("_") else "user"
    line: dict[str, Any] = {"role": role, "content": str(message.text)}
    if isinstance(message, AIMessage) and message.tool_calls:
        line["tool_calls"] = [
            {
                "id": call["id"] or "",
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["args"])},
            }
            for call in message.tool_calls
        ]
    if isinstance(message, ToolMessage):
        line["tool_call_id"] = message.tool_call_id
    line["langchain"] = message_to_dict(message)
    return line


def _message(line: dict[str, Any]) -> BaseMessage:
    """A message of LangChain's, or of another tool of the store."""
    whole = line.get("langchain")
    if whole is not None:
        return messages_from_dict([whole])[0]
    known = ("role", "content", "tool_calls", "tool_call_id")
    return convert_to_messages([{name: line[name] for name in known if name in line}])[0]
