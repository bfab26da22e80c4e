"""Checkpoints of LangGraph in a store: ``pip install sessionlog[langgraph]``.

Use a :class:`SessionlogSaver` where LangGraph takes ``SqliteSaver`` or ``AsyncSqliteSaver``::

    with sessionlog.open("sessions") as store:
        graph = builder.compile(checkpointer=SessionlogSaver(store))

A thread has one session for each namespace. A checkpoint is one line, and so are the writes of
one task: each is there entirely or not at all after a crash, and a thread goes on from the last
checkpoint that is. The newest checkpoint is found from the end of the session, however long its
thread is. A checkpoint is at most as large as a line: three quarters of ``max_line_bytes``,
12 MiB by default.
"""

from __future__ import annotations

import builtins
import random
import threading
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, cast
from urllib.parse import quote, unquote

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from ._steps import AnyStore, Steps, all_sessions, awaited, core_of, wait
from ._types import texts_of
from .errors import InvalidInput, VersionConflict

__all__ = ["SessionlogSaver"]

CHECKPOINT = "checkpoint"
WRITES = "writes"

REMEMBERED = 10_000
"""Of so many threads and checkpoints a saver remembers what it saw."""

EARLY = 1_000
"""For so many checkpoints that are yet to be put a saver holds their writes in memory."""

Line = dict[str, Any]


class SessionlogSaver(BaseCheckpointSaver[str]):
    """The checkpoints of all threads, for ``invoke`` and ``ainvoke`` alike."""

    def __init__(
        self,
        store: AnyStore,
        *,
        prefix: str = "langgraph/",
        serde: SerializerProtocol | None = None,
    ) -> None:
        """The sessions' keys begin with ``prefix``."""
        super().__init__(serde=serde)
        self._core = core_of(store)
        self._prefix = prefix
        # LangGraph stores a checkpoint on one thread while it stores writes on others.
        self._lock = threading.Lock()
        # The newest checkpoint by session.
        self._newest: OrderedDict[str, str] = OrderedDict()
        # Checkpoints that are in the log, and those on their way there.
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._putting: dict[tuple[str, str], Future[None]] = {}
        # Writes that came before their checkpoint was on its way, and checkpoints of which those
        # are no longer held here. They are in the log as well.
        self._early: OrderedDict[tuple[str, str], list[Line]] = OrderedDict()
        self._let_go: OrderedDict[tuple[str, str], None] = OrderedDict()

    # What LangGraph calls.

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a configuration names, or the newest of its thread."""
        return wait(self._get(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As :meth:`get_tuple`."""
        return await awaited(self._get(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints of a thread, or of all, newest first. Reads the whole thread."""
        threads = wait(self._threads(config))
        yield from self._listed(threads, config, filter, before, limit)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As :meth:`list`."""
        threads = await awaited(self._threads(config))
        for found in self._listed(threads, config, filter, before, limit):
            yield found

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Stores a checkpoint; when it returns it survives power loss."""
        return wait(self._put(config, checkpoint, metadata))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As :meth:`put`."""
        return await awaited(self._put(config, checkpoint, metadata))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Stores what a task wrote after a checkpoint, all of it or nothing."""
        wait(self._put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """As :meth:`put_writes`."""
        await awaited(self._put_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Deletes all checkpoints and writes of a thread."""
        wait(self._delete(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        """As :meth:`delete_thread`."""
        await awaited(self._delete(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints and writes of runs. Reads all threads."""
        wait(self._delete_for_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As :meth:`delete_for_runs`."""
        await awaited(self._delete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies a thread to a new one, with all its checkpoints and writes.

        Raises :class:`~sessionlog.errors.SessionExists` if the target has checkpoints."""
        wait(self._copy(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As :meth:`copy_thread`."""
        await awaited(self._copy(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Leaves of each namespace the newest checkpoint with its writes, and those before it
        that its delta channels are made of; or nothing, if the strategy is ``"delete"``."""
        wait(self._prune(thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As :meth:`prune`."""
        await awaited(self._prune(thread_ids, strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, Any]:
        """What channels are made of, along the parents of a checkpoint. Reads the whole
        thread once."""
        return wait(self._deltas(config, channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, Any]:
        """As :meth:`get_delta_channel_history`."""
        return await awaited(self._deltas(config, channels))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Versions count up, with a random part that tells branches apart."""
        count = 0 if current is None else int(str(current).split(".", 1)[0])
        return f"{count + 1:032}.{random.random():016}"

    # How it is done.

    def _key(self, config: RunnableConfig) -> str:
        return self._key_of(_thread(config), config["configurable"].get("checkpoint_ns", ""))

    def _key_of(self, thread_id: str, namespace: str) -> str:
        return f"{self._thread_prefix(thread_id)}{namespace}"

    def _thread_prefix(self, thread_id: str) -> str:
        return f"{self._prefix}{quote(str(thread_id), safe='')}/"

    def _config(self, key: str, checkpoint_id: str) -> RunnableConfig:
        thread, namespace = key[len(self._prefix) :].split("/", 1)
        configurable = {
            "thread_id": unquote(thread),
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint_id,
        }
        return {"configurable": configurable}

    def _get(self, config: RunnableConfig) -> Steps[CheckpointTuple | None]:
        key = self._key(config)
        thread = yield from self._back_to(key, get_checkpoint_id(config))
        if thread is None:
            return None
        return self._tuple(key, *thread)

    def _back_to(
        self, key: str, checkpoint_id: str | None
    ) -> Steps[tuple[Line, Sequence[Line]] | None]:
        """A checkpoint, or the newest, and the lines after it."""
        # Mostly the newest checkpoint and its writes.
        n = 4
        while True:
            lines = yield self._core.tail(key, n, False)
            is_all = len(lines) < n
            wanted = checkpoint_id or _newest(lines, is_all)
            for index in range(len(lines) - 1, -1, -1):
                if lines[index]["role"] == CHECKPOINT and lines[index][CHECKPOINT]["id"] == wanted:
                    with self._lock:
                        self._remember(key, cast(str, wanted), is_newest=checkpoint_id is None)
                    return lines[index], lines[index:]
            if is_all:
                return None
            n *= 4

    def _put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> Steps[RunnableConfig]:
        key, new = self._key(config), checkpoint["id"]
        if key not in self._newest:
            yield from self._back_to(key, None)
        metadata = get_checkpoint_metadata(config, metadata)
        line: Line = {
            "role": CHECKPOINT,
            "content": f"step {metadata.get('step')}, {metadata.get('source')}",
            CHECKPOINT: {
                "id": new,
                "parent": get_checkpoint_id(config),
                "data": self._dump(checkpoint),
                "metadata": self._dump(metadata),
            },
        }
        put: Future[None] = Future()
        # Nobody who waits for it may cancel it.
        put.set_running_or_notify_cancel()
        of = (key, new)
        with self._lock:
            # Ids grow with time. One that does not is not what the thread goes on from.
            newest = max([id for other, id in self._putting if other == key], default=new)
            newest = max(newest, self._newest.get(key, new))
            if new < newest:
                line["newest"] = newest
            # Whoever reads from the end stops at this line. Writes that come from now on wait
            # for it.
            early = self._early.pop(of, [])
            is_let_go = of in self._let_go
            self._putting[of] = put
        try:
            told = early
            if is_let_go:
                lines = yield self._core.history(key, False)
                told = [other[WRITES] for other in _writes_by_checkpoint(lines).get(new, ())]
                told += [other for other in early if other not in told]
            if told:
                line["early"] = told
            yield self._core.append(key, texts_of(line))
            with self._lock:
                self._remember(key, new, is_newest=new >= self._newest.get(key, new))
                self._let_go.pop(of, None)
                # An older one that has not come by now is not expected any more.
                self._release([it for it in self._early if it[0] == key and it[1] < new])
        except BaseException:
            with self._lock:
                if early and of not in self._seen:
                    self._early[of] = early + self._early.get(of, [])
            raise
        finally:
            with self._lock:
                if self._putting.get(of) is put:
                    del self._putting[of]
            put.set_result(None)
        return self._config(key, new)

    def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> Steps[None]:
        key, checkpoint_id = self._key(config), config["configurable"]["checkpoint_id"]
        items = [
            [WRITES_IDX_MAP.get(channel, index), channel, self._dump(value)]
            for index, (channel, value) in enumerate(writes)
        ]
        told = {"checkpoint": checkpoint_id, "task": task_id, "path": task_path, "items": items}
        of = (key, checkpoint_id)
        while True:
            with self._lock:
                put = self._putting.get(of)
                if put is None and of not in self._seen:
                    # The checkpoint is yet to be put, and takes this along.
                    self._early.setdefault(of, []).append(told)
                    while len(self._early) > EARLY:
                        self._release([next(iter(self._early))])
            if put is None:
                break
            yield put
        channels = ", ".join(channel for channel, _ in writes)
        yield self._core.append(key, texts_of({"role": WRITES, "content": channels, WRITES: told}))

    def _threads(self, config: RunnableConfig | None) -> Steps[builtins.list[tuple[str, builtins.list[Line]]]]:
        """The sessions that a configuration means, with their lines."""
        if config is None:
            keys = yield from all_sessions(self._core, self._prefix)
        elif config["configurable"].get("checkpoint_ns") is None:
            keys = yield from self._keys(_thread(config))
        else:
            keys = [self._key(config)]
        threads = []
        for key in keys:
            lines = yield self._core.history(key, False)
            threads.append((key, lines))
        return threads

    def _keys(self, thread_id: str) -> Steps[builtins.list[str]]:
        keys = yield from all_sessions(self._core, self._thread_prefix(thread_id))
        return keys

    def _listed(
        self,
        threads: builtins.list[tuple[str, builtins.list[Line]]],
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Iterator[CheckpointTuple]:
        only = get_checkpoint_id(config) if config else None
        until = get_checkpoint_id(before) if before else None
        found = []
        for key, lines in threads:
            by_checkpoint = _writes_by_checkpoint(lines)
            for id, line in _checkpoints(lines).items():
                if (only is None or id == only) and (until is None or id < until):
                    found.append((id, key, line, by_checkpoint.get(id, [])))
        found.sort(key=lambda entry: entry[0], reverse=True)
        left = len(found) if limit is None else limit
        for _, key, line, writes in found:
            if left <= 0:
                return
            if filter:
                metadata = self._load(line[CHECKPOINT]["metadata"])
                if any(metadata.get(name) != value for name, value in filter.items()):
                    continue
            left -= 1
            yield self._tuple(key, line, writes)

    def _delete(self, thread_id: str) -> Steps[None]:
        keys = yield from self._keys(str(thread_id))
        for key in keys:
            yield from self._delete_session(key)

    def _delete_session(self, key: str) -> Steps[None]:
        with self._lock:
            self._newest.pop(key, None)
            _forget(self._early, key)
            _forget(self._let_go, key)
        yield self._core.delete(key)

    def _delete_for_runs(self, run_ids: Sequence[str]) -> Steps[None]:
        gone = set(run_ids)
        if not gone:
            return
        keys = yield from all_sessions(self._core, self._prefix)

        def of_others(checkpoints: dict[str, Line]) -> set[str]:
            return {
                id
                for id, line in checkpoints.items()
                if self._load(line[CHECKPOINT]["metadata"]).get("run_id") not in gone
            }

        for key in keys:
            yield from self._leave(key, of_others)

    def _leave(self, key: str, which: Callable[[dict[str, Line]], set[str]]) -> Steps[None]:
        """Leaves of a session's checkpoints some, with their writes, in one commit. Decides
        anew if others wrote meanwhile."""
        while True:
            snapshot = yield self._core.snapshot(key)
            lines = yield snapshot.history(False)
            checkpoints = _checkpoints(lines)
            kept = which(checkpoints)
            if len(kept) == len(checkpoints):
                return
            with self._lock:
                self._newest.pop(key, None)
            try:
                left = texts_of(_left(lines, kept))
                yield self._core.set_history_at(key, snapshot.version, left)
            except VersionConflict:
                continue
            return

    def _copy(self, source: str, target: str) -> Steps[None]:
        keys = yield from self._keys(str(source))
        for key in keys:
            namespace = key[len(self._thread_prefix(source)) :]
            yield self._core.fork(key, self._key_of(target, namespace), None, None)

    def _prune(self, thread_ids: Sequence[str], strategy: str) -> Steps[None]:
        if strategy not in ("keep_latest", "delete"):
            raise InvalidInput(f"no strategy is called {strategy!r}")
        for thread_id in thread_ids:
            keys = yield from self._keys(str(thread_id))
            for key in keys:
                if strategy == "delete":
                    yield from self._delete_session(key)
                    continue
                yield from self._leave(key, self._needed)

    def _needed(self, checkpoints: dict[str, Line]) -> set[str]:
        """The newest checkpoint, and those that its delta channels are made of."""
        if not checkpoints:
            return set()
        id: str | None = max(checkpoints)
        newest = checkpoints[cast(str, id)][CHECKPOINT]
        deltas = set(self._load(newest["metadata"]).get("counters_since_delta_snapshot") or ())
        needed: set[str] = set()
        while id in checkpoints:
            needed.add(id)
            line = checkpoints[id][CHECKPOINT]
            if deltas:
                deltas -= self._load(line["data"])["channel_values"].keys()
            if not deltas:
                break
            id = line["parent"]
        return needed

    def _deltas(self, config: RunnableConfig, channels: Sequence[str]) -> Steps[dict[str, Any]]:
        if not channels:
            return {}
        key = self._key(config)
        lines = yield self._core.history(key, False)
        checkpoints, by_checkpoint = _checkpoints(lines), _writes_by_checkpoint(lines)
        target = get_checkpoint_id(config) or max(checkpoints, default="")
        found: dict[str, Any] = {channel: {"writes": []} for channel in channels}
        open_channels = set(channels)
        id = checkpoints[target][CHECKPOINT]["parent"] if target in checkpoints else None
        while id in checkpoints and open_channels:
            line = checkpoints[id]
            # Newest first, until all are turned round at the end.
            for write in reversed(self._writes(line, by_checkpoint.get(id, []))):
                if write[1] in open_channels:
                    found[write[1]]["writes"].append(write)
            values = self._load(line[CHECKPOINT]["data"])["channel_values"]
            for channel in open_channels & values.keys():
                found[channel]["seed"] = values[channel]
            open_channels -= values.keys()
            id = line[CHECKPOINT]["parent"]
        for entry in found.values():
            entry["writes"].reverse()
        return found

    def _tuple(self, key: str, line: Line, lines: Sequence[Line]) -> CheckpointTuple:
        checkpoint = line[CHECKPOINT]
        parent = checkpoint["parent"]
        return CheckpointTuple(
            config=self._config(key, checkpoint["id"]),
            checkpoint=self._load(checkpoint["data"]),
            metadata=self._load(checkpoint["metadata"]),
            parent_config=self._config(key, parent) if parent else None,
            pending_writes=self._writes(line, lines),
        )

    def _writes(self, line: Line, lines: Sequence[Line]) -> builtins.list[tuple[str, str, Any]]:
        """The writes after a checkpoint, in the order in which a step applies them."""
        id = line[CHECKPOINT]["id"]
        later = (
            other[WRITES]
            for other in lines
            if other["role"] == WRITES and other[WRITES]["checkpoint"] == id
        )
        found: dict[tuple[str, str, int], tuple[str, Any]] = {}
        tasks: dict[tuple[str, int], tuple[str, str, int]] = {}
        for told in [*line.get("early", ()), *later]:
            for index, channel, value in told["items"]:
                name = (told["task"], index)
                # A task's write is stored once; what is special replaces what it was.
                if index >= 0 and name in tasks:
                    continue
                found.pop(tasks.get(name, ("", "", 0)), None)
                tasks[name] = (told["path"], told["task"], index)
                found[tasks[name]] = (channel, value)
        return [
            (task, channel, self._load(value))
            for (_, task, _), (channel, value) in sorted(found.items(), key=lambda item: item[0])
        ]

    def _release(self, which: Sequence[tuple[str, str]]) -> None:
        """Lets go of writes that came early. If their checkpoint does come, it looks for them
        in the log."""
        for of in which:
            del self._early[of]
            self._let_go[of] = None
        _bound(self._let_go)

    def _remember(self, key: str, id: str, *, is_newest: bool) -> None:
        if is_newest:
            self._newest[key] = id
            _bound(self._newest)
        self._seen[(key, id)] = None
        _bound(self._seen)

    def _dump(self, value: Any) -> builtins.list[str]:
        kind, data = self.serde.dumps_typed(value)
        return [kind, b64encode(data).decode("ascii")]

    def _load(self, dumped: builtins.list[str]) -> Any:
        return self.serde.loads_typed((dumped[0], b64decode(dumped[1])))


def _thread(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])


def _newest(lines: Sequence[Line], is_all: bool) -> str | None:
    """The id of the newest checkpoint, as the last one says it. One that is not there, though
    these are all lines, could not be stored: the newest of those that are."""
    ids = [line[CHECKPOINT]["id"] for line in lines if line["role"] == CHECKPOINT]
    for line in reversed(lines):
        if line["role"] == CHECKPOINT:
            newest = cast(str, line.get("newest") or line[CHECKPOINT]["id"])
            return max(ids) if is_all and newest not in ids else newest
    return None


def _left(lines: Sequence[Line], kept: set[str]) -> list[Line]:
    """The lines of some checkpoints and of their writes."""
    left = []
    for line in lines:
        if line["role"] == CHECKPOINT and line[CHECKPOINT]["id"] in kept:
            if line.get("newest") not in kept:
                line.pop("newest", None)
            left.append(line)
        elif line["role"] == WRITES and line[WRITES]["checkpoint"] in kept:
            left.append(line)
    for line in reversed(left):
        if line["role"] == CHECKPOINT:
            newest = max(kept)
            if line[CHECKPOINT]["id"] != newest:
                line["newest"] = newest
            break
    return left


def _checkpoints(lines: Sequence[Line]) -> dict[str, Line]:
    """By id; of two, the one stored last."""
    return {line[CHECKPOINT]["id"]: line for line in lines if line["role"] == CHECKPOINT}


def _writes_by_checkpoint(lines: Sequence[Line]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for line in lines:
        if line["role"] == WRITES:
            found.setdefault(line[WRITES]["checkpoint"], []).append(line)
    return found


def _forget(remembered: OrderedDict[tuple[str, str], Any], key: str) -> None:
    for of in [of for of in remembered if of[0] == key]:
        del remembered[of]


def _bound(remembered: OrderedDict[Any, Any]) -> None:
    while len(remembered) > REMEMBERED:
        remembered.popitem(last=False)
