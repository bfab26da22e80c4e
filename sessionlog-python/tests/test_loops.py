"""What holds on an event loop: nothing blocks it, nothing is lost by a cancellation."""

import asyncio
import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

import sessionlog
from conftest import run, texts, user
from sessionlog import errors


@pytest.mark.parametrize("tasks", [1, 64, 1_024, 5_000])
def test_any_number_of_tasks_append_at_once(directory: Path, tasks: int) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:
            await asyncio.gather(
                *(store.append(f"chat:{n % 50}", user(str(n))) for n in range(tasks))
            )
            counts = [await store.count(f"chat:{n}") for n in range(50)]
            assert sum(counts) == tasks

    run(main())


def test_calls_take_effect_in_their_order(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:
            pending = [store.append("chat", user(str(n))) for n in range(500)]
            await asyncio.gather(*pending)
            assert texts(await store.history("chat")) == [str(n) for n in range(500)]

    run(main())


def test_no_call_takes_a_thread(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:
            await store.append("chat", [user(str(n)) for n in range(100)])
            await asyncio.gather(*(store.history("chat") for _ in range(8)))
            before = native_threads()
            work = [store.append(f"chat:{n}", user("x")) for n in range(2_000)]
            reads = [store.history("chat") for _ in range(200)]
            most = native_threads()
            await asyncio.gather(*work, *reads)
            assert max(most, native_threads()) <= before + 4

    run(main())
    assert threading.active_count() == 1


def native_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_a_cancelled_append_is_done_and_breaks_nothing(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:
            pending = [store.append("chat", user(str(n))) for n in range(300)]
            for one in pending[::2]:
                one.cancel()
            done = await asyncio.gather(*pending, return_exceptions=True)
            assert sum(isinstance(one, asyncio.CancelledError) for one in done) <= 150
            assert texts(await store.history("chat")) == [str(n) for n in range(300)]

    run(main())


def test_a_cancelled_task_takes_nothing_back(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:

            async def work() -> None:
                await store.append("chat", user("one"))
                await store.append("chat", user("never"))

            task = asyncio.ensure_future(work())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await store.append("chat", user("two"))
            assert texts(await store.history("chat")) == ["one", "two"]

    run(main())


def test_cancelled_reads_leave_the_store_as_it_is(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:
            await store.append("chat", [user("x" * 1_000) for _ in range(500)])
            for _ in range(20):
                reads = [store.history("chat") for _ in range(5)]
                await asyncio.sleep(0)
                for read in reads:
                    read.cancel()
            assert len(await store.history("chat")) == 500

    run(main())


def test_a_change_is_not_lost_by_a_timeout(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:
            changes = store.changes()
            for _ in range(3):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(changes.next(), 0.01)
            await store.append("a", user("x"))
            await store.append("b", user("x"))
            assert (await changes.next()).key == "a"
            assert (await changes.next()).key == "b"

    run(main())


def test_changes_are_an_async_iterator(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:
            changes = store.changes(prefix="chat:")
            await store.append("other", user("x"))
            await store.append("chat:1", user("x"))
            await store.delete("chat:1")
            seen = []
            async for change in changes:
                seen.append((change.key, change.kind))
                if change.kind == "deleted":
                    break
            assert seen == [("chat:1", "appended"), ("chat:1", "deleted")]

    run(main())


def test_changes_go_on_after_a_version(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:
            changes = store.changes()
            await store.append("a", user("x"))
            await store.append("b", user("x"))
            first = await changes.next()
            assert (await store.changes(after=first.version).next()).key == "b"

    run(main())


def test_missed_changes_are_told(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory, durability="buffered") as store:
            changes = store.changes()
            for _ in range(40):
                await asyncio.gather(*(store.append("a", user("x")) for _ in range(1_000)))
            with pytest.raises(errors.ChangesMissed):
                for _ in range(50_000):
                    await asyncio.wait_for(changes.next(), 5)

    run(main())


def test_changes_end_with_the_store(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:
            changes = store.changes()
            pending = asyncio.ensure_future(changes.next())
            await asyncio.sleep(0)
        with pytest.raises(errors.SessionlogError):
            await pending

    run(main())


def test_loops_of_several_threads_share_a_store(directory: Path) -> None:
    store = sessionlog.open(directory)
    failures: list[BaseException] = []

    async def work(number: int) -> None:
        for _ in range(20):
            await asyncio.gather(*(store.aio.append(f"c:{number}", user("x")) for _ in range(20)))

    def thread(number: int) -> None:
        try:
            asyncio.run(work(number))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=thread, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failures == []
    assert [store.count(f"c:{number}") for number in range(4)] == [400] * 4
    store.close()


def test_many_loops_one_after_the_other_share_a_store(store: sessionlog.Store) -> None:
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        run(work_once(store))
    gc.collect()
    assert store.count("chat") == 50
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors + 10


async def work_once(store: sessionlog.Store) -> None:
    await store.aio.append("chat", user("x"))


def test_a_loop_that_ends_with_calls_under_way_is_freed(store: sessionlog.Store) -> None:
    loop = asyncio.new_event_loop()

    async def leave() -> None:
        store.aio.changes()._core.next().submit()

    loop.run_until_complete(leave())
    loop.close()
    freed = weakref.ref(loop)
    del loop
    gc.collect()
    assert freed() is None


def test_answers_that_come_after_their_loop_was_closed_do_no_harm(store: sessionlog.Store) -> None:
    for _ in range(20):
        loop = asyncio.new_event_loop()

        async def leave() -> None:
            for n in range(50):
                store.aio.append("chat", user(str(n)))

        loop.run_until_complete(leave())
        loop.close()
    store.append("chat", user("end"))
    assert store.count("chat") == 20 * 50 + 1


def test_without_a_loop_the_async_face_says_so(store: sessionlog.Store) -> None:
    with pytest.raises(RuntimeError, match="no event loop of asyncio"):
        store.aio.append("chat", user("x"))
    assert not store.exists("chat")


def test_it_works_under_anyio(directory: Path) -> None:
    anyio = pytest.importorskip("anyio")

    async def main() -> None:
        async with sessionlog.open(directory) as store:
            async with anyio.create_task_group() as group:
                for n in range(100):
                    group.start_soon(append, store, f"chat:{n % 3}")
            counts = [await store.count(f"chat:{n}") for n in range(3)]
            assert sum(counts) == 100
            changes = store.changes()
            with anyio.move_on_after(0.01):
                await changes.next()
            await store.append("late", user("x"))
            with anyio.fail_after(10):
                assert (await changes.next()).key == "late"

    anyio.run(main)


async def append(store: sessionlog.AsyncStore, key: str) -> None:
    await store.append(key, user("x"))


def test_the_loop_goes_on_while_files_are_read(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory, durability="buffered") as store:
            await store.append("chat", [user("x" * 500) for _ in range(20_000)])
            await store.flush()
            ticks = 0
            read = store.count("chat")
            while not read.done():
                ticks += 1
                await asyncio.sleep(0)
            assert await read == 20_000
            assert ticks > 10

    run(main())


def test_an_error_of_one_call_is_that_calls_alone(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:
            work: list[Any] = [store.append("chat", user("x")) for _ in range(10)]
            work.append(store.restore_backup("chat", 99))
            done = await asyncio.gather(*work, return_exceptions=True)
            assert done[:10] == [None] * 10
            assert isinstance(done[10], errors.NotFound)

    run(main())


def test_tasks_take_what_a_verb_returns(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:
            one = asyncio.create_task(store.append("chat", user("1")))  # type: ignore[arg-type]
            two = asyncio.create_task(store.append_once("chat", "id", user("2")))
            await asyncio.gather(one, two)
            assert (await two).is_new
            assert texts(await store.history("chat")) == ["1", "2"]
            refused = asyncio.create_task(store.append("", user("3")))  # type: ignore[arg-type]
            with pytest.raises(errors.InvalidInput):
                await refused

    run(main())


def test_verbs_of_every_kind_are_submitted_when_they_are_called(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:
            first = store.append_once("chat", "id", user("first"))
            second = store.append("chat", user("second"))
            await second
            assert texts(await store.history("chat")) == ["first", "second"]
            assert (await first).is_new

    run(main())


def test_a_search_goes_on_after_a_wait_that_was_given_up(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:
            for n in range(30):
                await store.append(f"chat:{n}", [user("needle")] * 100)
            search = store.search("needle")
            found = 0
            while True:
                try:
                    await asyncio.wait_for(search.__anext__(), 0.0001)
                except asyncio.TimeoutError:
                    continue
                except StopAsyncIteration:
                    break
                found += 1
            assert found == 3_000

    run(main())


def test_followers_that_went_away_leave_nothing(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:
            gone = []
            for _ in range(50):
                changes = store.changes(prefix="quiet")
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(changes.next(), 0.0001)
                gone.append(weakref.ref(changes._pending))  # type: ignore[arg-type]
                del changes
            for _ in range(100):
                gc.collect()
                await asyncio.sleep(0)
            assert [one() for one in gone if one() is not None] == []

    run(main())


def test_a_follower_that_was_given_up_says_nothing_when_the_store_closes(directory: Path) -> None:
    said: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
        async with sessionlog.open(directory) as store:
            changes = store.changes()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(changes.next(), 0.0001)
        await asyncio.sleep(0.01)
        del changes
        gc.collect()

    run(main())
    gc.collect()
    assert said == []


def test_one_task_at_a_time_follows(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:
            changes = store.changes()
            first = asyncio.create_task(changes.next())
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="one at a time"):
                await changes.next()
            await store.append("chat", user("x"))
            assert (await first).key == "chat"

    run(main())


def test_without_a_loop_of_asyncio_the_store_is_not_left_locked(directory: Path) -> None:
    block = sessionlog.open(directory).__aenter__()
    with pytest.raises(RuntimeError, match="asyncio"):
        block.send(None)  # type: ignore[attr-defined]
    with sessionlog.open(directory) as store:
        with pytest.raises(RuntimeError, match="no event loop of asyncio"):
            store.aio.append("chat", user("x"))
