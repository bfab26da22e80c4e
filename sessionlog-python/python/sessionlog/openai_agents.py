"""Sessions of the OpenAI Agents SDK in a store: ``pip install sessionlog[openai-agents]``.

Use a :class:`Session` where the SDK takes ``SQLiteSession``::

    async with sessionlog.open("sessions") as store:
        session = Session("user-1", store)
        result = await Runner.run(agent, "hi", session=session)

An item is one message of the store. Its role and text are the message's, so that people and the
other tools of the store can read it; an item that is more than these is kept whole in the field
``item``. Taking an item back (``pop_item``) appends a message of role ``pop``: what was said
stays in the file until the session is cleared.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from agents.memory import SessionSettings
from agents.memory.session import SessionABC

from ._steps import AnyStore, core_of
from ._types import Message, texts_of
from .errors import NotFound, VersionConflict

if TYPE_CHECKING:
    from agents import RunResultBase
    from agents.items import TResponseInputItem

__all__ = ["Session"]

POP = "pop"
USAGE = "usage"

USAGE_FIELDS = ("requests", "input_tokens", "output_tokens", "total_tokens")


class Session(SessionABC):
    """The items of one conversation. Any number of runs may share it: what one run adds is
    there together, and the store keeps one order for all."""

    def __init__(
        self,
        session_id: str,
        store: AnyStore,
        *,
        session_settings: SessionSettings | None = None,
    ) -> None:
        """``session_id`` is the key of the session in the store."""
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._core = core_of(store)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The newest ``limit`` items, oldest first; all of them without a limit, here or in
        the session's settings. It costs what it returns, however long the session is."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit is None or limit < 0:
            items = _items(await self._core.history(self.session_id, False).submit())
            return cast("list[TResponseInputItem]", items)
        n = limit + 2
        while limit:
            lines = await self._core.tail(self.session_id, n, False).submit()
            items = _items(lines)[-limit:]
            if len(items) == limit or len(lines) < n:
                return cast("list[TResponseInputItem]", items)
            n *= 2
        return []

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Adds items, all or none. When it returns they survive power loss."""
        if items:
            lines = [_line(cast("dict[str, Any]", item)) for item in items]
            await self._core.append(self.session_id, texts_of(lines)).submit()

    async def pop_item(self) -> TResponseInputItem | None:
        """Takes the newest item back and returns it. Two who pop at once get two items."""
        mark = texts_of({"role": POP, "content": ""})
        while True:
            snapshot = await self._core.snapshot(self.session_id).submit()
            n = 2
            while True:
                lines = await snapshot.tail(n, False).submit()
                items = _items(lines)
                if items or len(lines) < n:
                    break
                n *= 2
            if not items:
                return None
            try:
                given = {"append": mark, "expect": snapshot.version}
                await self._core.update(self.session_id, given).submit()
            except VersionConflict:
                continue
            return cast("TResponseInputItem", items[-1])

    async def clear_session(self) -> None:
        """Deletes the session with all its items."""
        await self._core.delete(self.session_id).submit()

    # What a log can do besides.

    async def fork(self, session_id: str | None = None, *, turn: int | None = None) -> Session:
        """A new session with the items of this one; with ``turn``, with those before the
        user's message of that number, counted from 1. Both go on by themselves.

        Raises :class:`~sessionlog.errors.SessionExists`, and
        :class:`~sessionlog.errors.NotFound` if there is no such turn."""
        messages = None
        if turn is not None:
            messages = _before_turn(await self._core.history(self.session_id, False).submit(), turn)
        new_id = session_id or f"{self.session_id}.{uuid.uuid4().hex[:12]}"
        await self._core.fork(self.session_id, new_id, None, messages).submit()
        forked = object.__new__(type(self))
        forked.session_id = new_id
        forked.session_settings = self.session_settings
        forked._core = self._core
        return forked

    async def store_run_usage(self, result: RunResultBase) -> None:
        """Records what a run used, after ``Runner.run``."""
        usage = result.context_wrapper.usage
        counts = {name: getattr(usage, name) for name in USAGE_FIELDS}
        line = {"role": USAGE, "content": "", "usage": counts}
        requests = getattr(usage, "request_usage_entries", None)
        tokens = requests[-1].total_tokens if requests else usage.total_tokens
        given = {"append": texts_of(line), "tokens": tokens}
        await self._core.update(self.session_id, given).submit()

    async def get_session_usage(self) -> dict[str, int]:
        """What all recorded runs used together."""
        total = dict.fromkeys(USAGE_FIELDS, 0)
        for line in await self._core.history(self.session_id, False).submit():
            if line["role"] == USAGE:
                for name in USAGE_FIELDS:
                    total[name] += line["usage"].get(name, 0)
        return total


def _line(item: dict[str, Any]) -> Message:
    """The message of an item."""
    role = item.get("role")
    content = item.get("content")
    if item.keys() == {"role", "content"} and isinstance(role, str) and isinstance(content, str):
        if role not in (POP, USAGE) and not role.startswith("_"):
            return item
    line: dict[str, Any]
    kind = item.get("type")
    if kind == "function_call":
        call = {"name": item.get("name") or "", "arguments": item.get("arguments") or ""}
        calls = [{"id": item.get("call_id") or "", "type": "function", "function": call}]
        line = {"role": "assistant", "content": "", "tool_calls": calls}
    elif kind == "function_call_output":
        line = {
            "role": "tool",
            "content": _text(item.get("output")),
            "tool_call_id": item.get("call_id") or "",
        }
    else:
        known = role if role in ("user", "system", "developer") else "assistant"
        line = {"role": known, "content": _text(content)}
    line["item"] = item
    return line


def _text(content: Any) -> str:
    """The text in a content, or in its parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(text for text in parts if isinstance(text, str))
    return ""


def _item(line: dict[str, Any]) -> dict[str, Any]:
    """The item of a message, its own or that of another tool of the store."""
    item = line.get("item")
    if isinstance(item, dict):
        return item
    return {"role": line["role"], "content": line["content"]}


def _items(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items that were not taken back, oldest first."""
    return [_item(line) for line in reversed(list(_visible(lines)))]


def _visible(lines: list[dict[str, Any]]) -> Any:
    """The lines of items that were not taken back, newest first: a pop takes the newest item
    before it that no other pop took."""
    taken = 0
    for line in reversed(lines):
        if line["role"] == POP:
            taken += 1
        elif line["role"] == USAGE:
            continue
        elif taken:
            taken -= 1
        else:
            yield line


def _before_turn(lines: list[dict[str, Any]], turn: int) -> int:
    """How many lines are before the user's message of a turn."""
    visible = {id(line) for line in _visible(lines)}
    turns = 0
    for index, line in enumerate(lines):
        if line["role"] == "user" and id(line) in visible:
            turns += 1
            if turns == turn:
                return index
    raise NotFound(f"the session has {turns} turns, none of number {turn}")
