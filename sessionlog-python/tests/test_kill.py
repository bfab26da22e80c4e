"""A process killed under load: what it was told is stored is there, and nothing is half there.

``SESSIONLOG_LONG=1`` kills a hundred times instead of ten for each kind of load."""

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import sessionlog

KILLS = 100 if os.environ.get("SESSIONLOG_LONG") else 10

APPENDS = """
import asyncio, os, sys, sessionlog

async def work(store, key):
    number = await store.count(key)
    while True:
        batch = [{"role": "user", "content": str(number + n)} for n in range(3)]
        await store.append(key, batch)
        number += 3
        os.write(1, f"{key} {number}\\n".encode())

async def main():
    async with sessionlog.open(sys.argv[1]) as store:
        await asyncio.gather(*(work(store, f"chat:{n}") for n in range(64)))

asyncio.run(main())
"""

THREADS = """
import os, sys, threading, sessionlog

def work(store, key):
    number = store.count(key)
    while True:
        batch = [{"role": "user", "content": str(number + n)} for n in range(3)]
        store.append(key, batch)
        number += 3
        os.write(1, f"{key} {number}\\n".encode())

store = sessionlog.open(sys.argv[1])
for n in range(8):
    threading.Thread(target=work, args=(store, f"chat:{n}")).start()
"""

AGENTS = """
import asyncio, os, sys, sessionlog
from sessionlog.openai_agents import Session

async def work(store, key):
    session = Session(key, store)
    number = len(await session.get_items())
    while True:
        await session.add_items([{"role": "user", "content": str(number + n)} for n in range(3)])
        number += 3
        os.write(1, f"{key} {number}\\n".encode())

async def main():
    async with sessionlog.open(sys.argv[1]) as store:
        await asyncio.gather(*(work(store, f"chat:{n}") for n in range(16)))

asyncio.run(main())
"""

GRAPH = """
import os, sys, sessionlog
from langgraph.checkpoint.base import empty_checkpoint
from sessionlog.langgraph import SessionlogSaver

with sessionlog.open(sys.argv[1]) as store:
    saver = SessionlogSaver(store)
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    found = saver.get_tuple(config)
    step = found.metadata["step"] + 1 if found else 0
    config = found.config if found else config
    while True:
        values = {"step": step, "bulk": "x" * 50_000}
        checkpoint = {**empty_checkpoint(), "channel_values": values}
        config = saver.put(config, checkpoint, {"step": step, "source": "loop"}, {})
        saver.put_writes(config, [("bulk", step), ("other", step)], "task")
        os.write(1, f"t {step}\\n".encode())
        step += 1
"""


def killed(program: str, directory: Path, wait: float) -> dict[str, int]:
    """The last number that a program acknowledged for each key, killed after a while."""
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None and child.stderr is not None
    first = child.stdout.readline()
    if not first:
        raise AssertionError(child.stderr.read().decode())
    killer = kill_after(wait, child)
    rest = child.stdout.read()
    killer.join()
    child.wait()
    assert child.returncode == -signal.SIGKILL, child.stderr.read().decode()
    child.stdout.close()
    child.stderr.close()
    lines = (first + rest).decode().splitlines()
    acknowledged: dict[str, int] = {}
    for line in lines:
        key, number = line.split()
        acknowledged[key] = max(int(number), acknowledged.get(key, 0))
    return acknowledged


def kill_after(wait: float, child: subprocess.Popen[bytes]) -> threading.Timer:
    timer = threading.Timer(wait, child.kill)
    timer.start()
    return timer


@pytest.mark.parametrize("load", ["tasks", "threads", "agents"])
def test_what_was_acknowledged_is_there_after_a_kill(directory: Path, load: str) -> None:
    if load == "agents":
        pytest.importorskip("agents")
    program = {"tasks": APPENDS, "threads": THREADS, "agents": AGENTS}[load]
    chance = random.Random(51)
    total = 0
    for _ in range(KILLS):
        acknowledged = killed(program, directory, chance.uniform(0.0, 0.25))
        total += len(acknowledged)
        with sessionlog.open(directory) as store:
            for key, number in acknowledged.items():
                stored = [message["content"] for message in store.history(key)]
                assert len(stored) >= number
                assert len(stored) % 3 == 0
                assert stored == [str(n) for n in range(len(stored))]
    print(f"{KILLS} kills, {total} sessions looked at")
    assert total >= KILLS


def test_a_killed_thread_goes_on_from_a_whole_checkpoint(directory: Path) -> None:
    pytest.importorskip("langgraph.checkpoint.base")
    from sessionlog.langgraph import SessionlogSaver

    chance = random.Random(52)
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    for _ in range(KILLS):
        (step,) = killed(GRAPH, directory, chance.uniform(0.0, 0.25)).values()
        with sessionlog.open(directory) as store:
            found = SessionlogSaver(store).get_tuple(config)
            assert found is not None
            newest = found.metadata["step"]
            # The one under way is there entirely, with all of its writes or none, or not.
            assert newest in (step, step + 1)
            assert found.checkpoint["channel_values"] == {"step": newest, "bulk": "x" * 50_000}
            writes = [("task", "bulk", newest), ("task", "other", newest)]
            assert found.pending_writes in (writes, [] if newest > step else writes)
            assert found.parent_config is not None or newest == 0
