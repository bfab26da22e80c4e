"""What verbs take and return."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from .errors import InvalidInput

Message: TypeAlias = "Mapping[str, Any] | bytes"
"""A message to be written: a dict with ``role`` and ``content`` and whatever else belongs to
it, or the JSON text of one as bytes."""

Messages: TypeAlias = "Message | Iterable[Message]"
"""A message, or several that are there together or not at all."""

Durability: TypeAlias = Literal["durable", "buffered"]
"""What a reply to a write means: the write survives power loss, or the death of the process."""

Unpaired: TypeAlias = Literal["drop", "answer", "keep", "error"]
"""What becomes of a tool's call without its result, and of a result without its call."""

Format: TypeAlias = Literal[
    "jsonl", "markdown", "openai", "openai-responses", "anthropic", "gemini"
]
"""A format of :meth:`Store.export`."""


@dataclass(frozen=True, slots=True)
class Keep:
    """What a truncation leaves visible: use :meth:`last`, :meth:`turns` or :meth:`since`."""

    kind: Literal["last", "turns", "from"]
    value: int | str

    @classmethod
    def last(cls, messages: int) -> Keep:
        """The newest messages."""
        return cls("last", messages)

    @classmethod
    def turns(cls, turns: int) -> Keep:
        """The newest turns, each from a user's message on."""
        return cls("turns", turns)

    @classmethod
    def since(cls, position: str) -> Keep:
        """Everything from a position on, as :attr:`Window.start` gives it."""
        return cls("from", position)


@dataclass(frozen=True, slots=True)
class Appended:
    """The answer to :meth:`Store.append_once`."""

    is_new: bool
    """False if a message of this id was taken before, and nothing was written."""
    version: str
    """The session's version."""


@dataclass(frozen=True, slots=True)
class Window:
    """The newest whole turns of a conversation that fit a budget."""

    messages: list[dict[str, Any]]
    start: str
    """The position of the first message."""
    omitted: int
    """How many messages came before."""
    is_partial: bool
    """Whether the newest turn alone is over the budget, so that only its end is here."""
    summary: str
    system_prompt: str | None
    tokens: int
    """An estimate for all of it."""
    took: dict[str, int]
    """How many of them each kind of content takes."""
    version: str


@dataclass(frozen=True, slots=True)
class Page:
    """Messages before a position, oldest first."""

    messages: list[dict[str, Any]]
    positions: list[str]
    start: str
    """The position before which the next page ends."""
    is_first: bool
    """Whether no message is before these."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """The key that a deleted session had, and when it was deleted."""

    key: str
    at: str


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session, as a list of sessions shows it."""

    key: str
    aliases: list[str]
    summary: str
    created_at: str
    updated_at: str
    lines: int
    bytes: int
    first_text: str
    last_text: str
    agent: str
    channel: str
    title: str
    labels: list[str]
    pinned: bool
    deleted: Deletion | None
    """What it was called, and when it was deleted, if it was."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that a search found."""

    key: str
    position: str
    message: dict[str, Any]
    excerpt: str
    """The match, with forty characters of the text before and after it."""
    archived: str | None
    """The month in which it was archived, if it was."""
    hidden: bool
    """Whether it was truncated, and is still in the session's file."""
    found_in: str
    """``text``, ``tool_name``, ``tool_arguments``, ``summary`` or ``title``."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a session that readers see."""

    key: str
    version: str
    kind: Literal["appended", "updated", "truncated", "replaced", "deleted"]


@dataclass(frozen=True, slots=True)
class Status:
    """Whether a store takes writes, and how much waits."""

    health: str
    """``healthy``, ``full``, ``poisoned`` or ``closed``."""
    reason: str | None
    """Why it is poisoned."""
    queued: int
    journal_bytes: int
    journal_limit: int
    free_space: int | None


@dataclass(frozen=True, slots=True)
class EraseReceipt:
    """What an erasure did."""

    sessions: list[str]
    """The keys of the sessions that went."""
    is_complete: bool
    """Whether nothing of them is left in the directory."""
    details: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BackupReport:
    """What :meth:`Store.backup` copied."""

    sessions: int
    written: int
    failed: list[tuple[str, str]]
    """Keys that could not be copied, and why."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A conversation as it was before it was taken back or cleared."""

    number: int
    created_at: str
    size: int


@dataclass(frozen=True, slots=True)
class Export:
    """The text of an export, and how often it left what out."""

    text: str
    left_out: list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Recovery:
    """What opening a store found."""

    clean: bool
    sessions: int
    replayed_records: int
    torn_bytes: int
    findings: list[str]


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def text_of(message: Message) -> bytes:
    """The JSON text of one message."""
    if isinstance(message, (bytes, bytearray, memoryview)):
        return bytes(message)
    if not isinstance(message, Mapping):
        kind = type(message).__name__
        raise InvalidInput(f"a message is a dict, or its JSON text as bytes, and no {kind}")
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise InvalidInput("a message has a role, a text that is not empty")
    if "content" not in message and "tool_calls" not in message:
        raise InvalidInput("a message has content, or tool_calls")
    return json_of(message, "a message")


def json_of(value: Mapping[str, Any], what: str) -> bytes:
    """The JSON text of a dict."""
    try:
        return _encode(value if type(value) is dict else dict(value)).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} that JSON does not know: {error}") from error


def texts_of(messages: Messages) -> list[bytes]:
    """The JSON texts of messages."""
    if isinstance(messages, (str, bytes, bytearray, memoryview, Mapping)):
        return [text_of(messages)]  # type: ignore[arg-type]
    try:
        each = iter(messages)
    except TypeError:
        return [text_of(messages)]  # type: ignore[arg-type]
    return [text_of(message) for message in each]


def some_texts_of(messages: Messages) -> list[bytes]:
    """The same, of one message at least: an id is not to be taken for nothing."""
    texts = texts_of(messages)
    if not texts:
        raise InvalidInput("no message to append once")
    return texts


def id_of(id: str | int) -> str:
    """A platform's id as the store has it."""
    if isinstance(id, (str, int)) and not isinstance(id, bool):
        return str(id)
    raise InvalidInput(f"an id is a str or an int, and no {type(id).__name__}")


def list_of(texts: str | Iterable[str]) -> list[str]:
    """One text, or several."""
    return [texts] if isinstance(texts, str) else list(texts)


def seconds_of(time: datetime | None, name: str) -> float | None:
    """A time as seconds since 1970. One without a time zone is local."""
    if time is None:
        return None
    if not isinstance(time, datetime):
        raise InvalidInput(f"{name} is a datetime, and no {type(time).__name__}")
    return time.timestamp()


def length_of(time: timedelta | None, name: str) -> float | None:
    """A length of time in seconds."""
    if time is None:
        return None
    if not isinstance(time, timedelta):
        raise InvalidInput(f"{name} is a timedelta, and no {type(time).__name__}")
    return time.total_seconds()


def window_of(parts: dict[str, Any]) -> Window:
    return Window(**parts)


def info_of(parts: dict[str, Any]) -> SessionInfo:
    deleted = parts.get("deleted")
    parts = {**parts, "deleted": Deletion(**deleted) if deleted else None}
    return SessionInfo(**{name: parts[name] for name in SessionInfo.__slots__})


def hit_of(parts: dict[str, Any], excerpt: str) -> Hit:
    return Hit(
        parts["key"],
        parts["position"],
        parts["message"],
        excerpt,
        parts.get("archived"),
        bool(parts.get("hidden")),
        found_in_of(parts.get("found_in", "Text")),
    )


def found_in_of(place: str | dict[str, int]) -> str:
    name = place if isinstance(place, str) else next(iter(place))
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


def status_of(parts: dict[str, Any]) -> Status:
    health, reason = parts["health"], None
    if isinstance(health, dict):
        health, detail = next(iter(health.items()))
        reason = detail["reason"]
    return Status(
        health.lower(),
        reason,
        parts["queued"],
        parts["journal_bytes"],
        parts["journal_limit"],
        parts["free_space"],
    )


def receipt_of(parts: dict[str, Any]) -> EraseReceipt:
    return EraseReceipt(parts["sessions"], parts["is_complete"], parts)


def report_of(parts: dict[str, Any]) -> BackupReport:
    failed = [(key, why) for key, why in parts["failed"]]
    return BackupReport(parts["sessions"], parts["written"], failed)


def backups_of(parts: list[tuple[int, str, int]]) -> list[Backup]:
    return [Backup(*backup) for backup in parts]
