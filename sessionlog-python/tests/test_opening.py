"""How a store is opened, shared and left."""

import asyncio
import contextlib
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import sessionlog
from conftest import run, texts, user
from sessionlog import errors


def test_what_was_written_is_there_when_it_is_opened_again(directory: Path) -> None:
    with sessionlog.open(directory) as store:
        store.append("chat", user("hi"))
    with sessionlog.open(str(directory)) as store:
        assert store.recovery.clean
        assert store.recovery.sessions == 1
        assert texts(store.history("chat")) == ["hi"]


def test_an_async_context_manager_gives_the_async_face(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:
            assert isinstance(store, sessionlog.AsyncStore)
            await store.append("chat", user("hi"))
            assert texts(store.sync.history("chat")) == ["hi"]
        with pytest.raises(errors.Closed):
            await store.append("chat", user("hi"))
        async with sessionlog.open(directory).aio as store:
            assert await store.count("chat") == 1

    run(main())


def test_a_second_writer_is_refused_and_may_try_again(
    store: sessionlog.Store, directory: Path
) -> None:
    with pytest.raises(errors.Locked) as locked:
        sessionlog.open(directory)
    assert locked.value.retryable
    assert isinstance(locked.value, errors.Busy)


def test_a_reader_sees_what_a_writer_wrote_and_writes_nothing(
    store: sessionlog.Store, directory: Path
) -> None:
    store.append("chat", user("hi"))
    with sessionlog.open(directory, read_only=True) as reader:
        assert texts(reader.history("chat")) == ["hi"]
        with pytest.raises(errors.ReadOnly):
            reader.append("chat", user("no"))


@pytest.mark.parametrize(
    "options",
    [
        {"durability": "buffered"},
        {"auto_compact": False},
        {"archive": True},
        {"sync_in_poll": True},
        {"publish_stats": True},
        {"allow_other_owner": True},
        {"allow_missing_lock": True},
        {"max_open_files": 64},
        {"max_line_bytes": 1 << 20},
        {"max_batch_bytes": 1 << 20},
        {"journal_budget": 2 << 20},
        {"checkpoint_every": timedelta(seconds=1)},
        {"once_ids": 100},
        {"open_timeout": 0.5},
    ],
)
def test_every_option_is_taken(directory: Path, options: dict[str, Any]) -> None:
    async def main() -> None:
        async with sessionlog.open(directory, **options) as store:
            await asyncio.gather(*(store.append("chat", user("hi")) for _ in range(10)))
            assert await store.count("chat") == 10

    run(main())


def test_a_journal_takes_no_more_than_its_budget(directory: Path) -> None:
    with sessionlog.open(directory, journal_budget=2 << 20) as store:
        assert store.status().journal_limit <= 2 << 20


@pytest.mark.parametrize(
    "options",
    [{"durability": "maybe"}, {"open_timeout": -1.0}, {"checkpoint_every": 5.0}],
)
def test_an_option_that_is_none_is_refused(directory: Path, options: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidInput):
        sessionlog.open(directory, **options)


def test_a_directory_that_cannot_be_made_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.SessionlogError):
        sessionlog.open(tmp_path / "file" / "store")


def test_threads_share_a_store(store: sessionlog.Store) -> None:
    def work(number: int) -> None:
        for index in range(50):
            store.append(f"chat:{number}", user(str(index)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(8):
        assert texts(store.history(f"chat:{number}")) == [str(index) for index in range(50)]


def test_a_waiting_thread_lets_others_run(store: sessionlog.Store) -> None:
    changes = store.changes()
    seen: list[sessionlog.Change] = []
    thread = threading.Thread(target=lambda: seen.append(changes.next(30)))
    thread.start()
    store.append("chat", user("hi"))
    thread.join()
    assert (seen[0].key, seen[0].kind) == ("chat", "appended")


def test_ctrl_c_ends_a_wait_for_changes(directory: Path) -> None:
    program = """
import signal, sys, sessionlog
# A program begun in the background ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
store = sessionlog.open(sys.argv[1])
print("ready", flush=True)
try:
    next(store.changes())
except KeyboardInterrupt:
    print("ended", flush=True)
store.close()
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(directory)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    # Again and again: the first may come before it waits.
    while child.poll() is None:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(1)
        except subprocess.TimeoutExpired:
            pass
    assert child.returncode in (0, 1, -signal.SIGINT)


def in_child(work: Any) -> str:
    """What a forked process says."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = "nothing"
        try:
            said = str(work())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        said = file.read()
    os.waitpid(pid, 0)
    return said


@pytest.mark.parametrize(
    "verb",
    [
        lambda store: store.append("chat", user("x")),
        lambda store: store.history("chat"),
        lambda store: list(store.sessions()),
        lambda store: store.snapshot("chat"),
        lambda store: store.context("chat").history(),
        lambda store: store.close(),
    ],
)
def test_a_forked_process_is_told_and_does_not_hang(store: sessionlog.Store, verb: Any) -> None:
    store.append("chat", user("hi"))
    said = in_child(lambda: verb(store))
    assert said.startswith("Forked: ")
    assert f"process {os.getpid()} opened this store" in said
    assert texts(store.history("chat")) == ["hi"]


def test_a_forked_process_leaves_what_it_inherited_alone(directory: Path) -> None:
    store = sessionlog.open(directory)
    store.append("chat", user("hi"))
    snapshot, context, changes = store.snapshot("chat"), store.context("chat"), store.changes()

    def drop() -> str:
        nonlocal store, snapshot, context, changes
        del store, snapshot, context, changes
        gc.collect()
        return "dropped"

    assert in_child(drop) == "dropped"
    store.append("chat", user("still open"))
    store.close()


def test_a_loop_in_a_forked_process_is_told(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:
            await store.append("chat", user("hi"))

            def child() -> str:
                try:
                    store.append("chat", user("x"))
                except errors.Forked as error:
                    return f"told: {error}"
                return "not told"

            assert in_child(child).startswith("told: ")

    run(main())


def test_a_forked_process_opens_a_store_of_its_own(store: sessionlog.Store, tmp_path: Path) -> None:
    async def other() -> int:
        async with sessionlog.open(tmp_path / "other") as own:
            await own.append("chat", user("hi"))
            return len(await own.history("chat"))

    assert in_child(lambda: asyncio.run(other())) == "1"


def test_a_spawned_process_opens_what_this_one_closed(directory: Path) -> None:
    with sessionlog.open(directory) as store:
        store.append("chat", user("hi"))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(count, (directory, "chat")) == 1


def count(directory: Path, key: str) -> int:
    with sessionlog.open(directory) as store:
        return store.count(key)


def test_errors_have_one_base_and_say_whether_to_try_again() -> None:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    ]
    assert len(kinds) > 15
    for kind in kinds:
        assert issubclass(kind, sessionlog.SessionlogError)
        assert kind("x", retryable=True).retryable
        assert str(kind("x")) == "x"
        assert not kind("x").retryable


def test_what_a_signals_handler_raises_is_not_lost(directory: Path) -> None:
    class Alarm(Exception):
        pass

    def handler(*_: Any) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with sessionlog.open(directory):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            begun = time.monotonic()
            with pytest.raises(Alarm):
                sessionlog.open(directory, open_timeout=60)
            assert time.monotonic() - begun < 30
        with sessionlog.open(directory) as store:
            for _ in range(200):
                until = time.monotonic() + 30
                with pytest.raises(Alarm):
                    signal.setitimer(signal.ITIMER_REAL, 0.0005)
                    while time.monotonic() < until:
                        with contextlib.suppress(errors.InvalidInput):
                            store.append("", {"role": "user", "content": "x"})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_store_is_not_pickled(directory: Path) -> None:
    with sessionlog.open(directory) as store:
        for face in (store, store.aio):
            with pytest.raises(TypeError, match="open it in each"):
                pickle.dumps(face)


def test_a_wait_without_end_is_one(directory: Path) -> None:
    with sessionlog.open(directory) as store:
        changes = store.changes()
        store.append("chat", {"role": "user", "content": "x"})
        assert changes.next(1e19).key == "chat"
