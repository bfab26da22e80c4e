"""A store for threads. :mod:`sessionlog._aio` has the same for event loops."""

from __future__ import annotations

import builtins
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from . import _calls as calls
from . import _sessionlog as rust
from ._types import (
    Appended,
    Backup,
    BackupReport,
    Change,
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
    backups_of,
    hit_of,
    id_of,
    info_of,
    length_of,
    receipt_of,
    report_of,
    some_texts_of,
    status_of,
    text_of,
    texts_of,
    window_of,
)

from .errors import InvalidInput, Io, Locked, Unreadable

if TYPE_CHECKING:
    from ._aio import AsyncStore


def open(
    path: str | PathLike[str],
    *,
    read_only: bool = False,
    durability: Durability = "durable",
    auto_compact: bool | None = None,
    archive: bool | None = None,
    trash: timedelta | None = None,
    sync_in_poll: bool | None = None,
    publish_stats: bool | None = None,
    allow_other_owner: bool | None = None,
    allow_missing_lock: bool | None = None,
    max_open_files: int | None = None,
    max_line_bytes: int | None = None,
    max_batch_bytes: int | None = None,
    journal_budget: int | None = None,
    checkpoint_every: timedelta | None = None,
    once_ids: int | None = None,
    open_timeout: float | None = None,
) -> Store:
    """Opens a directory of sessions, and makes it if there is none.

    Use it as a context manager, or as an async one, which gives the :class:`AsyncStore`::

        with sessionlog.open("sessions") as store:
            store.append("telegram:123", {"role": "user", "content": "hi"})

        async with sessionlog.open("sessions") as store:
            await store.append("telegram:123", {"role": "user", "content": "hi"})

    One process writes to a directory; any number open it with ``read_only``. It blocks while
    what a crash left is recovered; to keep an event loop free meanwhile, call it by
    ``await asyncio.to_thread(sessionlog.open, path)``. The options, with their defaults:

    - ``durability``: what a reply to an append or a change of a summary means.
    - ``auto_compact`` (on): files are compacted once hidden lines outnumber the others.
    - ``archive`` (off): compactions keep what they drop, for ``search(archived=True)``.
    - ``trash`` (none): deleted sessions are kept, for :meth:`Store.undelete`;
      :meth:`Store.empty_trash` without an argument leaves them for that long.
    - ``sync_in_poll`` (off): an event loop's thread may sync, which is quicker for one task.
    - ``publish_stats`` (on): ``sessionlog top`` can look on.
    - ``allow_other_owner`` (off): the directory may belong to another user.
    - ``allow_missing_lock`` (off): the file system may keep no locks, as some network mounts and
      container volumes do not. Nothing then refuses a second writer, and two lose messages.
    - ``max_open_files`` (half of the process's limit; 64 to 1,048,576): session files kept open.
    - ``max_line_bytes`` (16 MiB; 1 KiB to 32 MiB): the largest message that is taken. For a
      directory that PicoClaw is to read as well: 10,485,759.
    - ``max_batch_bytes`` (64 MiB; 64 KiB to 1 GiB): what one verb may write.
    - ``journal_budget`` (768 MiB; 1 MiB to 16 GiB): bytes that the journal takes on disk at most,
      and never more than an eighth of the space there is.
    - ``checkpoint_every`` (5 s; 100 ms to a day): after so long the files have all that the
      journal has, however busy the store is.
    - ``once_ids`` (256; 16 to 65,536): how many ids of each session
      :meth:`Store.append_once` remembers at least.
    - ``open_timeout`` (0): seconds to wait while another writer has the directory.

    A number out of its range counts as the nearest in it.

    Raises :class:`~sessionlog.errors.Locked` if another writer has the directory, and
    :class:`~sessionlog.errors.Corrupt` if committed data is damaged.
    """
    options = {
        "durability": durability,
        "auto_compact": auto_compact,
        "archive": archive,
        "trash": length_of(trash, "trash"),
        "sync_in_poll": sync_in_poll,
        "publish_stats": publish_stats,
        "allow_other_owner": allow_other_owner,
        "allow_missing_lock": allow_missing_lock,
        "max_open_files": max_open_files,
        "max_line_bytes": max_line_bytes,
        "max_batch_bytes": max_batch_bytes,
        "journal_budget": journal_budget,
        "checkpoint_every": length_of(checkpoint_every, "checkpoint_every"),
        "once_ids": once_ids,
    }
    given = {name: value for name, value in options.items() if value is not None}
    if not 0 <= (open_timeout or 0) <= 86_400:
        raise InvalidInput("open_timeout is 0 to 86,400 seconds")
    until = time.monotonic() + (open_timeout or 0)
    while True:
        try:
            return Store(rust.Store.open(path, read_only, given))
        except Locked:
            # Waited for here, and not in the store, so that Ctrl-C ends it.
            if time.monotonic() >= until:
                raise
            time.sleep(0.02)


class Store:
    """Every verb of a store, for threads. Each blocks until it is done, with Python's global
    lock released. Any number of threads may share one.

    A key is any text of 1 to 1,024 bytes without NUL. A message is a dict with ``role`` and
    ``content``, or its JSON text as bytes; fields that the store does not know are kept.
    ``created_at`` is filled in if it is missing.
    """

    __slots__ = ("_core", "__weakref__")

    def __init__(self, core: rust.Store) -> None:
        self._core = core

    def __enter__(self) -> Store:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a store belongs to its process: open it in each that reads or writes")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> AsyncStore:
        return await self.aio.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aio.close()

    @property
    def aio(self) -> AsyncStore:
        """The same store for event loops."""
        from ._aio import AsyncStore

        return AsyncStore(self._core)

    @property
    def recovery(self) -> Recovery:
        """What opening the store found."""
        return Recovery(**json.loads(self._core.recovery()))

    def with_durability(self, durability: Durability) -> Store:
        """The same store; a reply to an append or a change of a summary means this."""
        return Store(self._core.with_durability(durability))

    def exact_keys(self) -> Store:
        """The same store, taking keys literally: no alias is resolved."""
        return Store(self._core.exact_keys())

    def close(self) -> None:
        """Carries out what was asked for, brings the files up to date and lets the directory
        go. Every later call raises :class:`~sessionlog.errors.Closed`. A second close does
        nothing."""
        self._core.close().wait()

    # Writing.

    def append(self, key: str, messages: Messages) -> None:
        """Appends a message, or several that are there together or not at all. When it
        returns they survive power loss, unless the store is ``buffered``."""
        self._core.append(key, texts_of(messages)).wait()

    def append_once(self, key: str, id: str | int, messages: Messages) -> Appended:
        """Appends, unless messages were appended to this session under this id before: a
        platform delivers some of its messages twice. An id has 1 to 256 bytes; of each session
        at least the newest ``once_ids`` are remembered."""
        call = self._core.append_once(key, id_of(id), some_texts_of(messages))
        return Appended(*call.wait())

    def update(
        self,
        key: str,
        *,
        append: Messages = (),
        keep: Keep | None = None,
        summary: str | None = None,
        tokens: int | None = None,
        title: str | None = None,
        labels: str | Iterable[str] | None = None,
        pinned: bool | None = None,
        expect: str | None = None,
        after: str | None = None,
    ) -> str:
        """Makes several changes in one commit, at the version ``expect`` if one is given, and
        returns the new version. ``keep`` is about what was there before; what is appended
        stays. ``title``, ``labels`` and ``pinned`` replace what the session had. With
        ``after``, a position as :attr:`Snapshot.end` gives it, nothing changes if the history
        that it is of was deleted, cleared or replaced since.

        Raises :class:`~sessionlog.errors.VersionConflict` if the session is at another
        version, and :class:`~sessionlog.errors.NotFound` if the position's history is gone."""
        return calls.update(
            self._core, key, append, keep, summary, tokens, title, labels, pinned, expect, after
        ).wait()

    def set_history(self, key: str, messages: Messages) -> None:
        """Replaces all messages of a session, in one commit."""
        self._core.set_history(key, texts_of(messages)).wait()

    def set_history_at(self, key: str, expect: str, messages: Messages) -> str:
        """Replaces all messages of a session that is at the version ``expect``, and returns
        the new one.

        Raises :class:`~sessionlog.errors.VersionConflict` if it is at another."""
        return self._core.set_history_at(key, expect, texts_of(messages)).wait()

    def edit(self, key: str, position: str, message: Message) -> str:
        """Puts a message in the place of the one at a position, as :attr:`Page.positions` gives
        them, and returns the new version. All positions of the session are others then: take
        a snapshot for the next. The line that was there stays in the file, hidden,
        until a compaction.

        Raises :class:`~sessionlog.errors.NotFound` if no visible message is there."""
        return self._core.edit(key, position, text_of(message)).wait()

    def remove(self, key: str, position: str) -> str:
        """Takes away the message at a position, and returns the new version. As for
        :meth:`edit`."""
        return self._core.remove(key, position).wait()

    def ensure_metadata(
        self,
        key: str,
        scope: Mapping[str, Any] | None = None,
        aliases: str | Iterable[str] = (),
    ) -> bool:
        """Gives a session its scope (who talks where, in PicoClaw's form: ``version``,
        ``agent_id``, ``channel``, ``account``, ``dimensions``, ``values``) and other keys that
        lead to it. A session without messages takes over those of the first alias that has
        some; returns whether it did."""
        return calls.ensure_metadata(self._core, key, scope, aliases).wait()

    def set_summary(self, key: str, summary: str) -> None:
        """Replaces a session's summary."""
        self._core.set_summary(key, summary).wait()

    def truncate(self, key: str, keep: Keep) -> None:
        """Hides the messages before those that are kept."""
        self._core.truncate(key, (keep.kind, keep.value)).wait()

    def delete(self, key: str) -> None:
        """Deletes a session; nothing if there is none. In a store with a ``trash`` it is kept
        for :meth:`undelete`, under a key of its own; deleted under that it is gone."""
        self._core.delete(key).wait()

    def undelete(self, key: str) -> str:
        """Brings back the session that was deleted last under a key or an alias, whole; or the
        one that is kept under that very key. Returns its key.

        Raises :class:`~sessionlog.errors.NotFound` if none is kept, and
        :class:`~sessionlog.errors.Conflict` if its key has messages again: ``merge`` puts it
        before them."""
        return self._core.undelete(key).wait()

    def empty_trash(self, older_than: timedelta | None = None) -> list[str]:
        """Lets deleted sessions go for good that were there for longer; without an argument, for
        longer than the option ``trash`` says. Returns the keys that they had."""
        return self._core.empty_trash(length_of(older_than, "older_than")).wait()

    def compact(self, key: str) -> None:
        """Drops hidden lines from a session's file. The store does so by itself, too."""
        self._core.compact(key).wait()

    def flush(self) -> None:
        """Brings all files up to date."""
        self._core.flush().wait()

    # Reading.

    def history(self, key: str) -> list[dict[str, Any]]:
        """Every visible message of a session, oldest first."""
        return self._core.history(key, False).wait()

    def history_bytes(self, key: str) -> list[bytes]:
        """The same as JSON texts."""
        return self._core.history(key, True).wait()

    def tail(self, key: str, n: int) -> list[dict[str, Any]]:
        """The newest ``n`` messages, oldest first. It costs what it returns, however long the
        session is."""
        return self._core.tail(key, n, False).wait()

    def tail_bytes(self, key: str, n: int) -> list[bytes]:
        """The same as JSON texts."""
        return self._core.tail(key, n, True).wait()

    def window(
        self,
        key: str,
        *,
        messages: int | None = None,
        tokens: int | None = None,
        bytes: int | None = None,
        unpaired: Unpaired = "drop",
    ) -> Window:
        """The newest whole turns that fit a model's budget, no tool's result without its
        call. Tokens are estimated."""
        call = calls.window(self._core, key, messages, tokens, bytes, unpaired)
        return window_of(call.wait())

    def snapshot(self, key: str) -> Snapshot:
        """One moment of a session, to read several things of it that belong together."""
        return Snapshot(self._core.snapshot(key).wait())

    def count(self, key: str) -> int:
        """How many messages :meth:`history` would return. Reads all of the session."""
        return self._core.count(key).wait()

    def exists(self, key: str) -> bool:
        """Whether there is a session of this key."""
        return self._core.exists(key).wait()

    def resolve(self, key: str) -> str | None:
        """The key of the session that a key or an alias leads to, or ``None``."""
        return self._core.resolve(key).wait()

    def meta(self, key: str) -> dict[str, Any]:
        """What is known of a session besides its messages, as its sidecar has it."""
        return self._core.meta(key).wait()

    def summary(self, key: str) -> str:
        """A session's summary, or an empty text."""
        return self._core.summary(key).wait()

    def status(self) -> Status:
        """Whether the store takes writes, and how much waits."""
        return status_of(self._core.status().wait())

    # Finding.

    def sessions(
        self,
        *,
        prefix: str = "",
        agent: str | None = None,
        channel: str | None = None,
        person: str | None = None,
        chat: str | None = None,
        updated_since: datetime | None = None,
        label: str | Iterable[str] = (),
        pinned: bool = False,
        deleted: bool = False,
        order: Literal["updated", "name"] = "updated",
    ) -> Iterator[SessionInfo]:
        """The sessions, those changed last first, or by name: those that match every filter
        given. With ``deleted`` those that were deleted and are kept, in place of the others.

        Raises :class:`~sessionlog.errors.Unreadable` at the end if some could not be read."""
        query = calls.sessions_query(
            prefix, agent, channel, person, chat, updated_since, label, pinned, deleted, order
        )
        after = None
        unreadable: list[str] = []
        while True:
            page, lost, after = self._core.sessions(query, calls.PAGE, after).wait()
            yield from map(info_of, page)
            unreadable += lost
            if after is None:
                break
        if unreadable:
            raise Unreadable.of(unreadable)

    def search(
        self,
        text: str | None = None,
        *,
        regex: str | None = None,
        ignore_case: bool = False,
        role: str | Iterable[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        archived: bool = False,
        tool_calls: bool = False,
        summaries: bool = False,
        prefix: str = "",
    ) -> Iterator[Hit]:
        """The messages that have this text or match this regular expression, in sessions
        whose keys begin with ``prefix``, those changed last first. With ``tool_calls`` names and
        arguments of tool calls are searched, too; with ``summaries`` titles and summaries.

        Raises :class:`~sessionlog.errors.Io` at the end if a session could not be read."""
        search = calls.search(
            self._core,
            text,
            regex,
            ignore_case,
            role,
            since,
            until,
            archived,
            tool_calls,
            summaries,
            prefix,
        )
        failed: Io | None = None
        while True:
            try:
                hits, excerpts = search.next().wait()
            except Io as error:
                # The next session.
                failed = failed or error
                continue
            if not hits:
                break
            yield from map(hit_of, hits, excerpts)
        if failed is not None:
            raise failed

    def changes(
        self, *, prefix: str = "", agent: str | None = None, after: str | None = None
    ) -> Changes:
        """Follows the changes of all sessions from now on, or from after a version."""
        return Changes(self._core.changes(prefix, agent, after))

    # Conversations.

    def context(self, key: str) -> Context:
        """A session's conversation: checkpoints to go back to, token usage, a prompt."""
        return Context(self._core.context(key))

    def checkpoints(self, key: str) -> list[int]:
        """The checkpoints that a session can go back to."""
        return self._core.checkpoints(key).wait()

    def fork(
        self,
        key: str,
        new_key: str,
        *,
        checkpoint: int | None = None,
        messages: int | None = None,
    ) -> None:
        """Makes a new session of the beginning of another: up to a checkpoint, or of so many
        messages (of all, if there are fewer), or all of it.

        Raises :class:`~sessionlog.errors.SessionExists` if there is one of the new key."""
        self._core.fork(key, new_key, checkpoint, messages).wait()

    def rename(self, key: str, new_key: str) -> None:
        """Has a session go on under another key, in one commit, with all there is of it. The
        old key becomes an alias: what comes late arrives.

        Raises :class:`~sessionlog.errors.Conflict` if there are messages under the new key."""
        self._core.rename(key, new_key).wait()

    def merge(self, key: str, new_key: str) -> bool:
        """The same, but puts the messages before those under the new key, if there are some;
        returns whether there were. For a chat whose id changed, and who learned it late."""
        return self._core.merge(key, new_key).wait()

    # Letting go, and keeping elsewhere.

    def erase(
        self,
        *,
        key: str | None = None,
        person: str | None = None,
        chat: str | None = None,
        channel: str | None = None,
    ) -> EraseReceipt:
        """Erases sessions so that no byte of them is left in the directory: that of a key, or
        those whose scope names a person or a chat, on one channel or on all. A key that no
        session has is looked for in all files, too, and told among the sessions."""
        return receipt_of(self._core.erase(key, person, chat, channel).wait())

    def backup(self, path: str | PathLike[str]) -> BackupReport:
        """Copies the store to another directory, beside running writers."""
        return report_of(self._core.backup(path).wait())

    def backups(self, key: str) -> list[Backup]:
        """What a session was before it was taken back or cleared."""
        return backups_of(self._core.backups(key).wait())

    def restore_backup(self, key: str, number: int) -> None:
        """Makes a session what it was in a backup."""
        self._core.restore_backup(key, number).wait()

    def export(self, key: str, format: Format, *, unpaired: Unpaired = "drop") -> Export:
        """A session in the form of a model's API, or for people."""
        return Export(*self._core.export(key, format, unpaired).wait())


class Snapshot:
    """One moment of a session. What is written later does not change it."""

    __slots__ = ("_core",)

    def __init__(self, core: rust.Snapshot) -> None:
        self._core = core

    @property
    def version(self) -> str:
        """The session's version then, for :meth:`Store.update`."""
        return self._core.version

    @property
    def summary(self) -> str:
        """The session's summary then."""
        return self._core.summary

    @property
    def start(self) -> str:
        """The position of the first message that is not hidden."""
        return self._core.start

    @property
    def end(self) -> str:
        """The position behind the last message, for :meth:`before`."""
        return self._core.end

    @property
    def meta(self) -> dict[str, Any]:
        """The session's sidecar then."""
        return self._core.meta()

    def count(self) -> int:
        """How many messages it has."""
        return self._core.count().wait()

    def history(self) -> list[dict[str, Any]]:
        """Every message, oldest first."""
        return self._core.history(False).wait()

    def tail(self, n: int) -> list[dict[str, Any]]:
        """The newest ``n`` messages, oldest first."""
        return self._core.tail(n, False).wait()

    def before(self, position: str, n: int) -> Page:
        """The newest ``n`` messages before a position, oldest first."""
        return Page(*self._core.before(position, n).wait())


class Changes:
    """The changes of sessions, one after the other. It never ends by itself.

    Raises :class:`~sessionlog.errors.ChangesMissed` if changes came faster than they were asked
    for: list the sessions to catch up, and go on."""

    __slots__ = ("_core",)

    def __init__(self, core: rust.Changes) -> None:
        self._core = core

    def __iter__(self) -> Changes:
        return self

    def __next__(self) -> Change:
        return self.next()

    def next(self, timeout: float | None = None) -> Change:
        """The next change. Raises :class:`TimeoutError` after so many seconds; nothing is
        lost by that."""
        key, version, kind = self._core.next().wait(timeout)
        return Change(key, version, kind)  # type: ignore[arg-type]


class Context:
    """A session's conversation, and what belongs to it. It holds no state of its own."""

    __slots__ = ("_core",)

    def __init__(self, core: rust.Context) -> None:
        self._core = core

    def append(self, messages: Messages) -> None:
        """Appends a message, or several that are there together or not at all."""
        self._core.append(texts_of(messages)).wait()

    def checkpoint(self, *, tell_model: bool = False) -> int:
        """Sets a point to go back to, and returns its number, counted from 0. With
        ``tell_model`` a user's message says so to the model."""
        return self._core.checkpoint(tell_model).wait()

    def revert_to(self, checkpoint: int) -> None:
        """Takes the conversation back to where it was before a checkpoint, in one commit.
        What it was becomes a backup.

        Raises :class:`~sessionlog.errors.CheckpointNotFound`."""
        self._core.revert_to(checkpoint).wait()

    def clear(self) -> None:
        """Starts the conversation anew. What it was becomes a backup."""
        self._core.clear().wait()

    def write_system_prompt(self, prompt: str) -> None:
        """Replaces the system prompt."""
        self._core.write_system_prompt(prompt).wait()

    def update_token_count(self, tokens: int) -> None:
        """Records how many tokens the conversation has, as the model counted them."""
        self._core.update_token_count(tokens).wait()

    def history(self) -> builtins.list[dict[str, Any]]:
        """Every message, oldest first."""
        return self._core.history().wait()

    def token_count(self) -> int:
        """The token count last recorded; 0 if there is none."""
        return self._core.token_count().wait()

    def token_count_with_pending(self) -> int:
        """The same, and an estimate for the messages since."""
        return self._core.token_count_with_pending().wait()

    def n_checkpoints(self) -> int:
        """The number that the next checkpoint gets."""
        return self._core.n_checkpoints().wait()

    def system_prompt(self) -> str | None:
        """The system prompt, if one was written."""
        return self._core.system_prompt().wait()

    def usage_history(self) -> builtins.list[int]:
        """Every token count recorded, oldest first."""
        return self._core.usage_history().wait()
