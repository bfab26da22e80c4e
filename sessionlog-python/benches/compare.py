"""The store beside what each framework ships, in one process and on one disk.

    python benches/compare.py            # all of it, a few minutes
    python benches/compare.py --quick    # that it runs

It needs the extras ``openai-agents``, ``langgraph`` and ``langchain``, and besides
``langgraph-checkpoint-sqlite`` and ``langchain-community``. Rounds are interleaved; the ratio is
that of the medians.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import sessionlog

TEXT = "x" * 300


def item(number: int) -> Any:
    return {"role": "user", "content": f"{number} {TEXT}"}


async def appends(sessions: list[Any], seconds: float) -> float:
    """Appends a second, when each task awaits one before it makes the next."""
    end = time.perf_counter() + seconds
    count = 0

    async def work(session: Any) -> None:
        nonlocal count
        while time.perf_counter() < end:
            await session.add_items([item(count)])
            count += 1

    begin = time.perf_counter()
    await asyncio.gather(*map(work, sessions))
    return count / (time.perf_counter() - begin)


async def timed(work: Callable[[], Awaitable[Any]], times: int) -> float:
    """Seconds that one call takes, the median."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        await work()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


class Table:
    """Rounds of a question for each who answers it."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, list[float]]] = {}

    def add(self, question: str, who: str, figure: float) -> None:
        self.rows.setdefault(question, {}).setdefault(who, []).append(figure)

    def show(self) -> None:
        print("\n| question | sessionlog | what the framework ships | ratio |\n|---|---:|---:|---:|")
        for question, figures in self.rows.items():
            medians = {who: statistics.median(rounds) for who, rounds in figures.items()}
            ours = medians.pop("sessionlog")
            for who, theirs in medians.items():
                ratio = ours / theirs if "a second" in question else theirs / ours
                print(f"| {question} | {shown(ours)} | {who} {shown(theirs)} | {ratio:.1f} |")


def shown(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 10 else f"{figure * 1e3:.2f} ms"


async def openai(scratch: Path, quick: bool, table: Table) -> None:
    from agents import SQLiteSession
    from sessionlog.openai_agents import Session

    seconds = 0.2 if quick else 3.0
    for round in range(1 if quick else 3):
        for tasks in (1, 64, 1_024):
            question = f"durable `add_items` a second, {tasks:,} tasks"
            async with sessionlog.open(scratch / f"agents-{round}-{tasks}") as store:
                ours = [Session(f"chat:{n}", store) for n in range(tasks)]
                table.add(question, "sessionlog", await appends(ours, seconds))
            path = scratch / f"agents-{round}-{tasks}.db"
            # The sessions of one file share it, as its documentation shows.
            theirs = [SQLiteSession(f"chat:{n}", path) for n in range(min(tasks, 64))]
            table.add(
                question,
                "SQLiteSession",
                await appends([theirs[n % len(theirs)] for n in range(tasks)], seconds),
            )
            for one in theirs:
                one.close()

    count = 2_000 if quick else 100_000
    items = [item(number) for number in range(count)]
    async with sessionlog.open(scratch / "long") as store:
        session = Session("long", store)
        for at in range(0, count, 10_000):
            await session.add_items(items[at : at + 10_000])
        await store.flush()
        sqlite = SQLiteSession("long", scratch / "long.db")
        await sqlite.add_items(items)
        for _ in range(1 if quick else 3):
            question = f"`get_items(limit=50)` of {count:,}"
            table.add(question, "sessionlog", await timed(lambda: session.get_items(50), 200))
            table.add(question, "SQLiteSession", await timed(lambda: sqlite.get_items(50), 200))
        sqlite.close()


async def langgraph(scratch: Path, quick: bool, table: Table) -> None:
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from sessionlog.langgraph import SessionlogSaver

    count = 100 if quick else 1_000
    thread: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}

    def checkpoint(number: int) -> Any:
        values = {"messages": [item(n) for n in range(20)], "step": number}
        return {**empty_checkpoint(), "channel_values": values}

    def found(saver: Any) -> Any:
        return saver.get_tuple(thread)

    def metadata(step: int) -> Any:
        return {"source": "loop", "step": step}

    for round in range(1 if quick else 3):
        directory, path = scratch / f"graph-{round}", str(scratch / f"graph-{round}.db")
        with sessionlog.open(directory) as store, SqliteSaver.from_conn_string(path) as sqlite:
            savers: dict[str, Any] = {"sessionlog": SessionlogSaver(store), "SqliteSaver": sqlite}
            for who, saver in savers.items():
                config = thread
                begin = time.perf_counter()
                for step in range(count):
                    config = saver.put(config, checkpoint(step), metadata(step), {})
                    saver.put_writes(config, [("messages", item(step))], f"task-{step}")
                taken = time.perf_counter() - begin
                table.add("checkpoints with writes a second, one thread", who, count / taken)
        for _ in range(3):
            begin = time.perf_counter()
            with sessionlog.open(directory) as store:
                opened = time.perf_counter()
                assert found(SessionlogSaver(store)).metadata["step"] == count - 1
                now = time.perf_counter()
            question = f"resume of a thread of {count:,} checkpoints"
            table.add(question, "sessionlog", now - opened)
            table.add(f"{question}, opening included", "sessionlog", now - begin)
            begin = time.perf_counter()
            with SqliteSaver.from_conn_string(path) as sqlite:
                sqlite.setup()
                opened = time.perf_counter()
                assert found(sqlite).metadata["step"] == count - 1
                now = time.perf_counter()
            table.add(question, "SqliteSaver", now - opened)
            table.add(f"{question}, opening included", "SqliteSaver", now - begin)

    async def puts(saver: Any, number: int) -> None:
        config: Any = {"configurable": {"thread_id": str(number), "checkpoint_ns": ""}}
        for step in range(2 if quick else 20):
            config = await saver.aput(config, checkpoint(step), metadata(step), {})

    for round in range(1 if quick else 3):
        question = "checkpoints a second, 64 tasks"
        total = 64 * (2 if quick else 20)
        async with sessionlog.open(scratch / f"graphs-{round}") as aio:
            saver = SessionlogSaver(aio)
            begin = time.perf_counter()
            await asyncio.gather(*(puts(saver, number) for number in range(64)))
            table.add(question, "sessionlog", total / (time.perf_counter() - begin))
        path = str(scratch / f"graphs-{round}.db")
        async with AsyncSqliteSaver.from_conn_string(path) as other:
            begin = time.perf_counter()
            await asyncio.gather(*(puts(other, number) for number in range(64)))
            table.add(question, "AsyncSqliteSaver", total / (time.perf_counter() - begin))


def langchain(scratch: Path, quick: bool, table: Table) -> None:
    from langchain_community.chat_message_histories import FileChatMessageHistory
    from langchain_core.messages import HumanMessage
    from sessionlog.langchain import ChatMessageHistory

    count = 20 if quick else 500
    question = f"`add_message` a second, one after the other to {count}"
    with sessionlog.open(scratch / "chain") as store:
        histories: dict[str, Any] = {
            "sessionlog": ChatMessageHistory("chat", store),
            "FileChatMessageHistory (not synced)": FileChatMessageHistory(
                str(scratch / "chain.json")
            ),
        }
        for who, history in histories.items():
            begin = time.perf_counter()
            for number in range(count):
                history.add_message(HumanMessage(f"{number} {TEXT}"))
            table.add(question, who, count / (time.perf_counter() - begin))


async def memory(scratch: Path, quick: bool) -> None:
    """What the process has after so many appends, MiB."""
    from sessionlog.openai_agents import Session

    print("\n| appends | memory of the process at most, MiB |\n|---:|---:|")
    async with sessionlog.open(scratch / "memory") as store:
        total = 0
        for _ in range(1 if quick else 4):
            sessions = [Session(f"chat:{n}", store) for n in range(64)]
            for round in range(10 if quick else 1_500):
                await asyncio.gather(*(session.add_items([item(round)]) for session in sessions))
                total += 64
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"| {total:,} | {most:,.0f} |")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--dir", type=Path, default=None, help="on the disk to measure")
    given = arguments.parse_args()
    table = Table()
    with tempfile.TemporaryDirectory(dir=given.dir) as name:
        scratch = Path(name)
        asyncio.run(memory(scratch, given.quick))
        asyncio.run(openai(scratch, given.quick, table))
        asyncio.run(langgraph(scratch, given.quick, table))
        langchain(scratch, given.quick, table)
    table.show()


if __name__ == "__main__":
    main()
