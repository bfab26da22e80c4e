"""The verbs as calls, which both faces of a store make."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from . import _sessionlog as rust
from ._types import Keep, Messages, Unpaired, texts_of

PAGE = 500
"""So many sessions are asked for at once."""


def update(
    core: rust.Store,
    key: str,
    append: Messages,
    keep: Keep | None,
    summary: str | None,
    tokens: int | None,
    expect: str | None,
) -> rust.Call[str]:
    kept = None if keep is None else (keep.kind, keep.value)
    return core.update(key, texts_of(append), kept, summary, tokens, expect)


def window(
    core: rust.Store,
    key: str,
    messages: int | None,
    tokens: int | None,
    bytes: int | None,
    unpaired: Unpaired,
) -> rust.Call[dict[str, Any]]:
    budget = {"messages": messages, "tokens": tokens, "bytes": bytes, "unpaired": unpaired}
    return core.window(key, budget)


def sessions_query(
    prefix: str = "",
    agent: str | None = None,
    channel: str | None = None,
    person: str | None = None,
    chat: str | None = None,
    updated_since: datetime | None = None,
    order: str = "updated",
) -> dict[str, Any]:
    return {
        "prefix": prefix,
        "agent": agent,
        "channel": channel,
        "person": person,
        "chat": chat,
        "updated_since": None if updated_since is None else updated_since.timestamp(),
        "order": order,
    }


def search(
    core: rust.Store,
    text: str | None,
    regex: str | None,
    ignore_case: bool,
    role: str | Iterable[str],
    since: datetime | None,
    until: datetime | None,
    archived: bool,
    prefix: str,
) -> rust.Search:
    return core.search(
        {
            "text": text,
            "regex": regex,
            "ignore_case": ignore_case,
            "roles": [role] if isinstance(role, str) else list(role),
            "since": None if since is None else since.timestamp(),
            "until": None if until is None else until.timestamp(),
            "archived": archived,
            "among": sessions_query(prefix),
        }
    )
