"""The verbs as calls, which both faces of a store make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from . import _sessionlog as rust
from ._types import Keep, Messages, Unpaired, json_of, list_of, seconds_of, texts_of
from .errors import InvalidInput

PAGE = 500
"""So many sessions are asked for at once."""


def update(
    core: rust.Store,
    key: str,
    append: Messages,
    keep: Keep | None,
    summary: str | None,
    tokens: int | None,
    title: str | None,
    labels: str | Iterable[str] | None,
    pinned: bool | None,
    expect: str | None,
    after: str | None,
) -> rust.Call[str]:
    if keep is not None and not isinstance(keep, Keep):
        raise InvalidInput(f"keep is a Keep, as Keep.last(10) is, and no {type(keep).__name__}")
    given = {
        "append": texts_of(append),
        "keep": None if keep is None else (keep.kind, keep.value),
        "summary": summary,
        "tokens": tokens,
        "title": title,
        "labels": None if labels is None else list_of(labels),
        "pinned": pinned,
        "expect": expect,
        "after": after,
    }
    return core.update(key, given)


def ensure_metadata(
    core: rust.Store, key: str, scope: Mapping[str, Any] | None, aliases: str | Iterable[str]
) -> rust.Call[bool]:
    encoded = None if scope is None else json_of(scope, "a scope").decode()
    return core.ensure_metadata(key, encoded, list_of(aliases))


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
    label: str | Iterable[str] = (),
    pinned: bool = False,
    deleted: bool = False,
    order: str = "updated",
) -> dict[str, Any]:
    return {
        "prefix": prefix,
        "agent": agent,
        "channel": channel,
        "person": person,
        "chat": chat,
        "updated_since": seconds_of(updated_since, "updated_since"),
        "labels": list_of(label),
        "pinned": pinned,
        "deleted": deleted,
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
    tool_calls: bool,
    summaries: bool,
    prefix: str,
) -> rust.Search:
    return core.search(
        {
            "text": text,
            "regex": regex,
            "ignore_case": ignore_case,
            "roles": list_of(role),
            "since": seconds_of(since, "since"),
            "until": seconds_of(until, "until"),
            "archived": archived,
            "tool_calls": tool_calls,
            "summaries": summaries,
            "among": sessions_query(prefix),
        }
    )
