"""A store for event loops. Each verb does what the one of :class:`sessionlog.Store` does."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
from asyncio import Future
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import datetime, timedelta
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TypeVar

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

from .errors import Io, Unreadable

if TYPE_CHECKING:
    from ._store import Store

_T = TypeVar("_T")


class AsyncStore:
    """Every verb of a :class:`Store`, for the running event loop: asyncio's, uvloop, or anyio
    over either. No verb blocks it, and none takes a thread; files are read on a small pool.

    A verb is submitted when it is called, so that writes to one session take effect in the
    order of their calls; a read sees every write that was awaited before. Cancelling who awaits
    a write takes nothing back: what was submitted is done. Messages are encoded and decoded on
    the loop's thread.
    """

    __slots__ = ("_core", "__weakref__")

    def __init__(self, core: rust.Store) -> None:
        self._core = core

    async def __aenter__(self) -> AsyncStore:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            # Else it would stay locked: nothing comes out of a block that was not entered.
            self._core.close().wait()
            raise RuntimeError(
                "event loops other than asyncio's are not supported: use the store for threads"
            ) from None
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a store belongs to its process: open it in each that reads or writes")

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def sync(self) -> Store:
        """The same store for threads."""
        from ._store import Store

        return Store(self._core)

    def with_durability(self, durability: Durability) -> AsyncStore:
        """As :meth:`Store.with_durability`."""
        return AsyncStore(self._core.with_durability(durability))

    def exact_keys(self) -> AsyncStore:
        """As :meth:`Store.exact_keys`."""
        return AsyncStore(self._core.exact_keys())

    def close(self) -> Future[None]:
        """As :meth:`Store.close`."""
        return self._core.close().submit()

    # Writing.

    def append(self, key: str, messages: Messages) -> Future[None]:
        """As :meth:`Store.append`."""
        return self._core.append(key, texts_of(messages)).submit()

    def append_once(
        self, key: str, id: str | int, messages: Messages
    ) -> Coroutine[Any, Any, Appended]:
        """As :meth:`Store.append_once`."""
        call = self._core.append_once(key, id_of(id), some_texts_of(messages))
        return _made(call.submit(), lambda answer: Appended(*answer))

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
    ) -> Future[str]:
        """As :meth:`Store.update`."""
        return calls.update(
            self._core, key, append, keep, summary, tokens, title, labels, pinned, expect, after
        ).submit()

    def set_history(self, key: str, messages: Messages) -> Future[None]:
        """As :meth:`Store.set_history`."""
        return self._core.set_history(key, texts_of(messages)).submit()

    def set_history_at(self, key: str, expect: str, messages: Messages) -> Future[str]:
        """As :meth:`Store.set_history_at`."""
        return self._core.set_history_at(key, expect, texts_of(messages)).submit()

    def edit(self, key: str, position: str, message: Message) -> Future[str]:
        """As :meth:`Store.edit`."""
        return self._core.edit(key, position, text_of(message)).submit()

    def remove(self, key: str, position: str) -> Future[str]:
        """As :meth:`Store.remove`."""
        return self._core.remove(key, position).submit()

    def ensure_metadata(
        self,
        key: str,
        scope: Mapping[str, Any] | None = None,
        aliases: str | Iterable[str] = (),
    ) -> Future[bool]:
        """As :meth:`Store.ensure_metadata`."""
        return calls.ensure_metadata(self._core, key, scope, aliases).submit()

    def set_summary(self, key: str, summary: str) -> Future[None]:
        """As :meth:`Store.set_summary`."""
        return self._core.set_summary(key, summary).submit()

    def truncate(self, key: str, keep: Keep) -> Future[None]:
        """As :meth:`Store.truncate`."""
        return self._core.truncate(key, (keep.kind, keep.value)).submit()

    def delete(self, key: str) -> Future[None]:
        """As :meth:`Store.delete`."""
        return self._core.delete(key).submit()

    def undelete(self, key: str) -> Future[str]:
        """As :meth:`Store.undelete`."""
        return self._core.undelete(key).submit()

    def empty_trash(self, older_than: timedelta | None = None) -> Future[list[str]]:
        """As :meth:`Store.empty_trash`."""
        return self._core.empty_trash(length_of(older_than, "older_than")).submit()

    def compact(self, key: str) -> Future[None]:
        """As :meth:`Store.compact`."""
        return self._core.compact(key).submit()

    def flush(self) -> Future[None]:
        """As :meth:`Store.flush`."""
        return self._core.flush().submit()

    # Reading.

    def history(self, key: str) -> Future[list[dict[str, Any]]]:
        """As :meth:`Store.history`."""
        return self._core.history(key, False).submit()

    def history_bytes(self, key: str) -> Future[list[bytes]]:
        """As :meth:`Store.history_bytes`."""
        return self._core.history(key, True).submit()

    def tail(self, key: str, n: int) -> Future[list[dict[str, Any]]]:
        """As :meth:`Store.tail`."""
        return self._core.tail(key, n, False).submit()

    def tail_bytes(self, key: str, n: int) -> Future[list[bytes]]:
        """As :meth:`Store.tail_bytes`."""
        return self._core.tail(key, n, True).submit()

    def window(
        self,
        key: str,
        *,
        messages: int | None = None,
        tokens: int | None = None,
        bytes: int | None = None,
        unpaired: Unpaired = "drop",
    ) -> Coroutine[Any, Any, Window]:
        """As :meth:`Store.window`."""
        call = calls.window(self._core, key, messages, tokens, bytes, unpaired)
        return _made(call.submit(), window_of)

    def snapshot(self, key: str) -> Coroutine[Any, Any, AsyncSnapshot]:
        """As :meth:`Store.snapshot`."""
        return _made(self._core.snapshot(key).submit(), AsyncSnapshot)

    def count(self, key: str) -> Future[int]:
        """As :meth:`Store.count`."""
        return self._core.count(key).submit()

    def exists(self, key: str) -> Future[bool]:
        """As :meth:`Store.exists`."""
        return self._core.exists(key).submit()

    def resolve(self, key: str) -> Future[str | None]:
        """As :meth:`Store.resolve`."""
        return self._core.resolve(key).submit()

    def meta(self, key: str) -> Future[dict[str, Any]]:
        """As :meth:`Store.meta`."""
        return self._core.meta(key).submit()

    def summary(self, key: str) -> Future[str]:
        """As :meth:`Store.summary`."""
        return self._core.summary(key).submit()

    def status(self) -> Coroutine[Any, Any, Status]:
        """As :meth:`Store.status`."""
        return _made(self._core.status().submit(), status_of)

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
    ) -> AsyncResults[SessionInfo]:
        """As :meth:`Store.sessions`."""
        query = calls.sessions_query(
            prefix, agent, channel, person, chat, updated_since, label, pinned, deleted, order
        )
        after: str | None = None
        unreadable: list[str] = []

        def ask() -> Future[Any]:
            return self._core.sessions(query, calls.PAGE, after).submit()

        def take(answer: Any) -> Found[SessionInfo]:
            nonlocal after
            page, lost, after = answer
            unreadable.extend(lost)
            failed = Unreadable.of(unreadable) if unreadable else None
            return list(map(info_of, page)), after is None, failed

        return AsyncResults(ask, take)

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
    ) -> AsyncResults[Hit]:
        """As :meth:`Store.search`."""
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

        def take(answer: Any) -> Found[Hit]:
            hits, excerpts = answer
            return list(map(hit_of, hits, excerpts)), not hits, None

        return AsyncResults(lambda: search.next().submit(), take, goes_on=True)

    def changes(
        self, *, prefix: str = "", agent: str | None = None, after: str | None = None
    ) -> AsyncChanges:
        """As :meth:`Store.changes`."""
        return AsyncChanges(self._core.changes(prefix, agent, after))

    # Conversations.

    def context(self, key: str) -> AsyncContext:
        """As :meth:`Store.context`."""
        return AsyncContext(self._core.context(key))

    def checkpoints(self, key: str) -> Future[list[int]]:
        """As :meth:`Store.checkpoints`."""
        return self._core.checkpoints(key).submit()

    def fork(
        self,
        key: str,
        new_key: str,
        *,
        checkpoint: int | None = None,
        messages: int | None = None,
    ) -> Future[None]:
        """As :meth:`Store.fork`."""
        return self._core.fork(key, new_key, checkpoint, messages).submit()

    def rename(self, key: str, new_key: str) -> Future[None]:
        """As :meth:`Store.rename`."""
        return self._core.rename(key, new_key).submit()

    def merge(self, key: str, new_key: str) -> Future[bool]:
        """As :meth:`Store.merge`."""
        return self._core.merge(key, new_key).submit()

    # Letting go, and keeping elsewhere.

    def erase(
        self,
        *,
        key: str | None = None,
        person: str | None = None,
        chat: str | None = None,
        channel: str | None = None,
    ) -> Coroutine[Any, Any, EraseReceipt]:
        """As :meth:`Store.erase`."""
        return _made(self._core.erase(key, person, chat, channel).submit(), receipt_of)

    def backup(self, path: str | PathLike[str]) -> Coroutine[Any, Any, BackupReport]:
        """As :meth:`Store.backup`."""
        return _made(self._core.backup(path).submit(), report_of)

    def backups(self, key: str) -> Coroutine[Any, Any, list[Backup]]:
        """As :meth:`Store.backups`."""
        return _made(self._core.backups(key).submit(), backups_of)

    def restore_backup(self, key: str, number: int) -> Future[None]:
        """As :meth:`Store.restore_backup`."""
        return self._core.restore_backup(key, number).submit()

    def export(
        self, key: str, format: Format, *, unpaired: Unpaired = "drop"
    ) -> Coroutine[Any, Any, Export]:
        """As :meth:`Store.export`."""
        call = self._core.export(key, format, unpaired)
        return _made(call.submit(), lambda answer: Export(*answer))


async def _made(answer: Future[Any], make: Callable[[Any], _T]) -> _T:
    """What is made of an answer that was asked for."""
    return make(await answer)


class AsyncSnapshot:
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

    def count(self) -> Future[int]:
        """As :meth:`Snapshot.count`."""
        return self._core.count().submit()

    def history(self) -> Future[list[dict[str, Any]]]:
        """As :meth:`Snapshot.history`."""
        return self._core.history(False).submit()

    def tail(self, n: int) -> Future[list[dict[str, Any]]]:
        """As :meth:`Snapshot.tail`."""
        return self._core.tail(n, False).submit()

    def before(self, position: str, n: int) -> Coroutine[Any, Any, Page]:
        """As :meth:`Snapshot.before`."""
        return _made(self._core.before(position, n).submit(), lambda answer: Page(*answer))


class _Asking:
    """Who asks for one thing after the other. A wait for the next that is cancelled, as
    ``asyncio.wait_for`` does, loses nothing: what it would have had is the next call's."""

    __slots__ = ("_is_asked", "_pending")

    def __init__(self) -> None:
        self._pending: Future[Any] | None = None
        self._is_asked = False

    async def _asked(self, ask: Callable[[], Future[Any]]) -> Any:
        if self._is_asked:
            raise RuntimeError("another task asks already: one at a time may")
        self._is_asked = True
        try:
            pending = self._pending
            is_ours = pending is not None and pending.get_loop() is asyncio.get_running_loop()
            if pending is None or not is_ours or pending.cancelled():
                pending = self._pending = ask()
            try:
                answer = await asyncio.shield(pending)
            except asyncio.CancelledError:
                # It outlives that, and its answer is the next call's.
                raise
            except BaseException:
                self._pending = None
                raise
            self._pending = None
            return answer
        finally:
            self._is_asked = False

    def __del__(self) -> None:
        pending = self._pending
        if pending is not None and not pending.done():
            # A loop that was closed let go of it.
            with contextlib.suppress(RuntimeError):
                pending.get_loop().call_soon_threadsafe(pending.cancel)


# A part of the results, whether it is the last, and what is raised after the last.
Found = tuple[list[_T], bool, Io | None]


class AsyncResults(_Asking, Generic[_T]):
    """What was found, one after the other. A session that cannot be read is told at the end."""

    __slots__ = ("_ask", "_failed", "_found", "_goes_on", "_is_all", "_take")

    def __init__(
        self,
        ask: Callable[[], Future[Any]],
        take: Callable[[Any], Found[_T]],
        goes_on: bool = False,
    ) -> None:
        super().__init__()
        self._ask = ask
        self._take = take
        self._found: deque[_T] = deque()
        self._is_all = False
        self._failed: Io | None = None
        # Whether an answer comes after one that failed.
        self._goes_on = goes_on

    def __aiter__(self) -> AsyncResults[_T]:
        return self

    async def __anext__(self) -> _T:
        while not self._found:
            if self._is_all:
                failed, self._failed = self._failed, None
                raise failed or StopAsyncIteration
            try:
                found, self._is_all, failed = self._take(await self._asked(self._ask))
            except Io as error:
                if not self._goes_on:
                    raise
                self._failed = self._failed or error
                continue
            self._failed = self._failed or failed
            self._found.extend(found)
        return self._found.popleft()


class AsyncChanges(_Asking):
    """The changes of sessions, one after the other. It never ends by itself.

    Raises :class:`~sessionlog.errors.ChangesMissed` if changes came faster than they were asked
    for: list the sessions to catch up, and go on."""

    __slots__ = ("_core",)

    def __init__(self, core: rust.Changes) -> None:
        super().__init__()
        self._core = core

    def __aiter__(self) -> AsyncChanges:
        return self

    async def __anext__(self) -> Change:
        return await self.next()

    async def next(self) -> Change:
        """The next change. One task at a time may ask."""
        key, version, kind = await self._asked(lambda: self._core.next().submit())
        return Change(key, version, kind)


class AsyncContext:
    """A session's conversation, and what belongs to it. It holds no state of its own."""

    __slots__ = ("_core",)

    def __init__(self, core: rust.Context) -> None:
        self._core = core

    def append(self, messages: Messages) -> Future[None]:
        """As :meth:`Context.append`."""
        return self._core.append(texts_of(messages)).submit()

    def checkpoint(self, *, tell_model: bool = False) -> Future[int]:
        """As :meth:`Context.checkpoint`."""
        return self._core.checkpoint(tell_model).submit()

    def revert_to(self, checkpoint: int) -> Future[None]:
        """As :meth:`Context.revert_to`."""
        return self._core.revert_to(checkpoint).submit()

    def clear(self) -> Future[None]:
        """As :meth:`Context.clear`."""
        return self._core.clear().submit()

    def write_system_prompt(self, prompt: str) -> Future[None]:
        """As :meth:`Context.write_system_prompt`."""
        return self._core.write_system_prompt(prompt).submit()

    def update_token_count(self, tokens: int) -> Future[None]:
        """As :meth:`Context.update_token_count`."""
        return self._core.update_token_count(tokens).submit()

    def history(self) -> Future[builtins.list[dict[str, Any]]]:
        """As :meth:`Context.history`."""
        return self._core.history().submit()

    def token_count(self) -> Future[int]:
        """As :meth:`Context.token_count`."""
        return self._core.token_count().submit()

    def token_count_with_pending(self) -> Future[int]:
        """As :meth:`Context.token_count_with_pending`."""
        return self._core.token_count_with_pending().submit()

    def n_checkpoints(self) -> Future[int]:
        """As :meth:`Context.n_checkpoints`."""
        return self._core.n_checkpoints().submit()

    def system_prompt(self) -> Future[str | None]:
        """As :meth:`Context.system_prompt`."""
        return self._core.system_prompt().submit()

    def usage_history(self) -> Future[builtins.list[int]]:
        """As :meth:`Context.usage_history`."""
        return self._core.usage_history().submit()
