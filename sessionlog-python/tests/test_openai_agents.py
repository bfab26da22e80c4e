"""Session does what SQLiteSession does, run beside it, and what a log can do besides."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents")

from agents import Agent, Runner, SQLiteSession
from agents.items import ModelResponse
from agents.memory import Session as SessionProtocol
from agents.memory import SessionSettings
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

import sessionlog
from conftest import run
from sessionlog import errors
from sessionlog.openai_agents import Session

MESSAGE = {"role": "user", "content": "hi"}
ITEMS: list[dict[str, Any]] = [
    MESSAGE,
    {"role": "assistant", "content": "hello", "id": "m1", "status": "completed"},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "see"}]},
    {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}', "id": "f"},
    {"type": "function_call_output", "call_id": "c1", "output": "2"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text"}]},
    {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "x"},
    {"type": "item_reference", "id": "i1"},
    {"role": "developer", "content": "be kind"},
    {"role": "system", "content": ""},
    {"role": "pop", "content": "an item, not a mark"},
    {"role": "_checkpoint", "content": "an item, not a record"},
    {"role": "user", "content": "Grüße, 世界 \U0001f600 \u2028"},
    {"type": "computer_call_output", "output": {"type": "x", "n": [1, 2.5, None, True]}},
]


def with_session(directory: Path, work: Any) -> Any:
    async def main() -> Any:
        async with sessionlog.open(directory) as store:
            return await work(Session("s", store))

    return run(main())


def test_it_is_a_session(store: sessionlog.Store) -> None:
    session = Session("s", store)
    assert isinstance(session, SessionProtocol)
    assert session.session_id == "s"


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.get("type", item.get("role")))
def test_every_item_comes_back_as_it_is(directory: Path, item: dict[str, Any]) -> None:
    async def work(session: Any) -> None:
        await session.add_items([item])
        assert await session.get_items() == [item]
        assert await session.pop_item() == item
        assert await session.get_items() == []

    with_session(directory, work)


SCRIPTS: list[list[tuple[str, Any]]] = [
    [("get", None), ("pop", None), ("get", 3), ("clear", None), ("get", None)],
    [("add", 1), ("get", None), ("pop", None), ("get", None), ("pop", None)],
    [("add", 5), ("get", 2), ("get", 0), ("get", 5), ("get", 100), ("get", -1)],
    [("add", 5), ("pop", None), ("pop", None), ("get", None), ("get", 2), ("add", 2), ("get", 3)],
    [("add", 3), ("pop", None), ("add", 1), ("pop", None), ("pop", None), ("get", None)],
    [("add", 3), ("clear", None), ("get", None), ("add", 2), ("get", None)],
    [("add", 0), ("get", None), ("add", 40), *[("pop", None)] * 39, ("get", 5), ("get", None)],
    [("add", 14), ("get", 10), ("pop", None), ("get", 10)],
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_it_answers_as_sqlite_session_does(directory: Path, script: list[Any]) -> None:
    async def answers(session: Any) -> list[Any]:
        said: list[Any] = []
        added = 0
        for verb, value in script:
            if verb == "add":
                items = [ITEMS[(added + n) % len(ITEMS)] for n in range(value)]
                added += value
                said.append(await session.add_items(items))
            elif verb == "get":
                said.append(await session.get_items(value))
            elif verb == "pop":
                said.append(await session.pop_item())
            else:
                said.append(await session.clear_session())
        return said

    expected = run(answers(SQLiteSession("s", ":memory:")))
    assert with_session(directory, answers) == expected


def test_the_settings_limit_what_is_read(store: sessionlog.Store) -> None:
    session = Session("s", store, session_settings=SessionSettings(limit=2))

    async def work() -> None:
        await session.add_items([{"role": "user", "content": str(n)} for n in range(5)])
        assert len(await session.get_items()) == 2
        assert len(await session.get_items(4)) == 4

    run(work())


def test_sessions_are_kept_apart(store: sessionlog.Store) -> None:
    async def work() -> None:
        await Session("a", store).add_items([MESSAGE])
        assert await Session("b", store).get_items() == []
        assert await Session("a", store.aio).get_items() == [MESSAGE]

    run(work())


def test_all_that_pop_at_once_get_items_of_their_own(directory: Path) -> None:
    async def work(session: Any) -> None:
        await session.add_items([{"role": "user", "content": str(n)} for n in range(20)])
        popped = await asyncio.gather(*(session.pop_item() for _ in range(25)))
        texts = [item["content"] for item in popped if item]
        assert sorted(texts, key=int) == [str(n) for n in range(20)]
        assert await session.get_items() == []

    with_session(directory, work)


def test_what_one_adds_stays_together_among_many(directory: Path) -> None:
    async def work(session: Any) -> None:
        await asyncio.gather(
            *(
                session.add_items([{"role": "user", "content": f"{n}-{m}"} for m in range(3)])
                for n in range(100)
            )
        )
        items = [item["content"] for item in await session.get_items()]
        assert len(items) == 300
        for at in range(0, 300, 3):
            number = items[at].split("-")[0]
            assert items[at : at + 3] == [f"{number}-{m}" for m in range(3)]

    with_session(directory, work)


def test_a_fork_goes_its_own_way(directory: Path) -> None:
    async def work(session: Any) -> None:
        items = []
        for n in range(3):
            items += [
                {"role": "user", "content": f"q{n}"},
                {"role": "assistant", "content": f"a{n}"},
            ]
        await session.add_items(items)
        everything = await session.fork("all")
        first = await session.fork(turn=2)
        await first.add_items([MESSAGE])
        assert await everything.get_items() == items == await session.get_items()
        assert await first.get_items() == [*items[:2], MESSAGE]
        assert first.session_id != session.session_id
        with pytest.raises(errors.NotFound):
            await session.fork(turn=4)
        with pytest.raises(errors.SessionExists):
            await session.fork("all")

    with_session(directory, work)


def test_a_fork_after_a_pop_counts_what_is_left(directory: Path) -> None:
    async def work(session: Any) -> None:
        await session.add_items([{"role": "user", "content": str(n)} for n in range(3)])
        await session.pop_item()
        await session.add_items([{"role": "user", "content": "again"}])
        forked = await session.fork(turn=3)
        assert [item["content"] for item in await forked.get_items()] == ["0", "1"]

    with_session(directory, work)


def test_people_and_other_tools_can_read_it(store: sessionlog.Store) -> None:
    run(Session("s", store).add_items(ITEMS[:5]))  # type: ignore[arg-type]
    window = store.window("s")
    assert [m["role"] for m in window.messages] == ["user", "assistant", "user", "assistant", "tool"]
    assert window.messages[2]["content"] == "see"
    assert "add" in store.export("s", "openai").text
    store.append("s", {"role": "user", "content": "from elsewhere"})
    items = run(Session("s", store).get_items(1))
    assert items == [{"role": "user", "content": "from elsewhere"}]


class Echo(Model):
    """Says how many items it was given."""

    async def get_response(self, system_instructions: Any, input: Any, *a: Any, **k: Any) -> Any:
        count = 1 if isinstance(input, str) else len(input)
        text = ResponseOutputText(type="output_text", text=str(count), annotations=[])
        message = ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[text]
        )
        usage = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
        return ModelResponse(output=[message], usage=usage, response_id=None)

    def stream_response(self, *a: Any, **k: Any) -> Any:
        raise NotImplementedError


def test_an_agent_remembers_across_processes(directory: Path) -> None:
    agent = Agent(name="echo", model=Echo())

    async def ask(session: Any) -> str:
        result = await Runner.run(agent, "hi", session=session)
        await session.store_run_usage(result)
        return str(result.final_output)

    assert [with_session(directory, ask) for _ in range(3)] == ["1", "3", "5"]

    async def usage(session: Any) -> Any:
        return await session.get_session_usage(), await session.get_items()

    used, items = with_session(directory, usage)
    assert used == {
        "requests": 3,
        "input_tokens": 30,
        "output_tokens": 15,
        "total_tokens": 45,
    }
    assert len(items) == 6


def test_concurrent_runs_share_a_session(directory: Path) -> None:
    agent = Agent(name="echo", model=Echo())

    async def work(session: Any) -> None:
        await asyncio.gather(*(Runner.run(agent, "hi", session=session) for _ in range(20)))
        assert len(await session.get_items()) == 40

    with_session(directory, work)
