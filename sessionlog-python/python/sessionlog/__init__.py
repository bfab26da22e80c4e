"""The session store under agents and bots.

:func:`open` opens a directory of conversations. What an append acknowledged is there after a
crash. :class:`Store` has the verbs for threads, :class:`AsyncStore` those for event loops.

The adapters put the store under a framework, which they import when they are imported
themselves: :mod:`sessionlog.openai_agents`, :mod:`sessionlog.langgraph`,
:mod:`sessionlog.langchain`, :mod:`sessionlog.kimi_cli`, :mod:`sessionlog.pydantic_ai` and
:mod:`sessionlog.telegram`.
"""

from . import errors
from ._aio import AsyncChanges, AsyncContext, AsyncSnapshot, AsyncStore
from ._store import Changes, Context, Snapshot, Store, open
from ._types import (
    Appended,
    Backup,
    BackupReport,
    Change,
    Deletion,
    Durability,
    EraseReceipt,
    Export,
    Format,
    Hit,
    Keep,
    Message,
    Messages,
    Page,
    Recovery,
    SessionInfo,
    Status,
    Unpaired,
    Window,
)
from .errors import SessionlogError

__all__ = [
    "Appended",
    "AsyncChanges",
    "AsyncContext",
    "AsyncSnapshot",
    "AsyncStore",
    "Backup",
    "BackupReport",
    "Change",
    "Changes",
    "Context",
    "Deletion",
    "Durability",
    "EraseReceipt",
    "Export",
    "Format",
    "Hit",
    "Keep",
    "Message",
    "Messages",
    "Page",
    "Recovery",
    "SessionInfo",
    "SessionlogError",
    "Snapshot",
    "Status",
    "Store",
    "Unpaired",
    "Window",
    "errors",
    "open",
]
