"""The histories of LangChain and Pydantic AI, and the persistence of python-telegram-bot."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sessionlog
from conftest import run, user


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Calls a method, or the async one of it."""
    if request.param == "sync":
        yield lambda target, name, *args: getattr(target, name)(*args)
        return
    loop = asyncio.new_event_loop()
    yield lambda target, name, *args: loop.run_until_complete(getattr(target, f"a{name}")(*args))
    loop.close()


class TestLangChain:
    @pytest.fixture(autouse=True)
    def _needs(self) -> None:
        pytest.importorskip("langchain_core")

    def history(self, store: Any, **named: Any) -> Any:
        from sessionlog.langchain import ChatMessageHistory

        return ChatMessageHistory("chat", store, **named)

    def messages(self) -> list[Any]:
        from langchain_core import messages

        call = {"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}
        return [
            messages.HumanMessage("hi", id="1", name="ann"),
            messages.AIMessage("hello", usage_metadata=None, response_metadata={"model": "m"}),
            messages.AIMessage("", tool_calls=[call]),
            messages.ToolMessage("2", tool_call_id="c1", artifact={"raw": [1, 2]}),
            messages.SystemMessage("be kind"),
            messages.HumanMessage([{"type": "text", "text": "see"}, {"type": "image", "url": "u"}]),
            messages.ChatMessage("odd", role="_weird"),
            messages.AIMessage("x", additional_kwargs={"deep": {"n": 1.5}}),
        ]

    @pytest.mark.parametrize("index", range(8))
    def test_every_message_comes_back_as_it_is(
        self, call: Any, store: sessionlog.Store, index: int
    ) -> None:
        message = self.messages()[index]
        history = self.history(store)
        call(history, "add_messages", [message])
        assert self.read(call, history) == [message]

    def read(self, call: Any, history: Any) -> Any:
        assert history.messages == run(history.aget_messages())
        return history.messages

    def test_it_does_what_the_one_in_memory_does(self, call: Any, store: sessionlog.Store) -> None:
        from langchain_core.chat_history import InMemoryChatMessageHistory

        ours, theirs = self.history(store), InMemoryChatMessageHistory()
        for history in (ours, theirs):
            call(history, "add_messages", self.messages())
            history.add_user_message("user")
            history.add_ai_message("ai")
            history.add_message(self.messages()[0])
        assert ours.messages == theirs.messages
        assert str(ours) == str(theirs)
        for history in (ours, theirs):
            call(history, "clear")
        assert ours.messages == theirs.messages == []

    def test_a_limit_reads_the_newest(self, call: Any, store: sessionlog.Store) -> None:
        call(self.history(store), "add_messages", self.messages())
        assert self.history(store, limit=3).messages == self.messages()[-3:]

    def test_adding_nothing_makes_no_session(self, call: Any, store: sessionlog.Store) -> None:
        call(self.history(store), "add_messages", [])
        assert not store.exists("chat")

    def test_messages_of_other_tools_are_read(self, store: sessionlog.Store) -> None:
        function = {"name": "add", "arguments": '{"a": 1}'}
        calls = [{"id": "c1", "type": "function", "function": function}]
        store.append("chat", [user("hi"), {"role": "assistant", "content": "", "tool_calls": calls}])
        store.append("chat", {"role": "tool", "content": "2", "tool_call_id": "c1"})
        human, ai, tool = self.history(store).messages
        assert (human.type, ai.type, tool.type) == ("human", "ai", "tool")
        assert ai.tool_calls[0]["args"] == {"a": 1}

    def test_other_tools_read_its_messages(self, store: sessionlog.Store) -> None:
        self.history(store).add_messages(self.messages())
        roles = [message["role"] for message in store.history("chat")]
        assert roles[:5] == ["user", "assistant", "assistant", "tool", "system"]
        assert "add" in store.export("chat", "openai").text

    def test_a_runnable_remembers(self, directory: Path) -> None:
        from langchain_core.language_models.fake_chat_models import FakeListChatModel
        from langchain_core.runnables.history import RunnableWithMessageHistory
        from sessionlog.langchain import ChatMessageHistory

        config: Any = {"configurable": {"session_id": "chat"}}
        for turn in range(1, 4):
            with sessionlog.open(directory) as store:
                chain = RunnableWithMessageHistory(
                    FakeListChatModel(responses=["well"]), lambda id: ChatMessageHistory(id, store)
                )
                chain.invoke("hi", config)
                assert store.count("chat") == 2 * turn


class TestPydanticAI:
    @pytest.fixture(autouse=True)
    def _needs(self) -> None:
        pytest.importorskip("pydantic_ai")

    def history(self, store: Any) -> Any:
        from sessionlog.pydantic_ai import MessageHistory

        return MessageHistory("chat", store)

    def agent(self) -> Any:
        from pydantic_ai import Agent
        from pydantic_ai.models.test import TestModel

        agent = Agent(TestModel(), instructions="be kind", system_prompt="You are a test.")

        @agent.tool_plain
        def add(a: int) -> int:
            """Adds one."""
            return a + 1

        return agent

    def test_messages_come_back_as_they_are(self, call: Any, store: sessionlog.Store) -> None:
        new = run(self.agent().run("hi")).new_messages()
        assert len(new) == 4
        history = self.history(store)
        call(history, "add", new)
        assert call(history, "get") == new

    def test_an_agent_remembers_across_processes(self, directory: Path) -> None:
        async def turn() -> tuple[int, int]:
            async with sessionlog.open(directory) as store:
                history = self.history(store)
                before = await history.aget()
                result = await self.agent().run("hi", message_history=before)
                await history.aadd(result.new_messages())
                assert await history.aget() == result.all_messages()
                return len(before), len(result.all_messages())

        known = 0
        for _ in range(3):
            before, after = run(turn())
            assert before == known < after
            known = after

    @pytest.mark.parametrize(("limit", "left"), [(0, 0), (1, 4), (4, 4), (5, 4), (7, 4), (8, 8), (99, 8)])
    def test_a_limit_begins_with_a_prompt(
        self, call: Any, store: sessionlog.Store, limit: int, left: int
    ) -> None:
        history = self.history(store)
        for _ in range(2):
            history.add(run(self.agent().run("hi")).new_messages())
        found = call(history, "get", limit)
        assert len(found) == left

    def test_a_cleared_history_is_empty(self, call: Any, store: sessionlog.Store) -> None:
        history = self.history(store)
        history.add(run(self.agent().run("hi")).new_messages())
        call(history, "clear")
        assert call(history, "get") == []

    def test_messages_of_other_tools_are_read_as_their_texts(self, store: sessionlog.Store) -> None:
        store.append("chat", [{"role": "system", "content": "s"}, user("hi")])
        store.append("chat", {"role": "assistant", "content": "hello"})
        kinds = [message.parts[0].part_kind for message in self.history(store).get()]
        assert kinds == ["system-prompt", "user-prompt", "text"]


class TestTelegram:
    @pytest.fixture(autouse=True)
    def _needs(self) -> None:
        pytest.importorskip("telegram.ext")

    def persistence(self, store: Any) -> Any:
        from sessionlog.telegram import Persistence

        return Persistence(store)

    @pytest.mark.parametrize("kind", ["user", "chat"])
    def test_data_comes_back_by_number(self, directory: Path, kind: str) -> None:
        async def main() -> None:
            async with sessionlog.open(directory) as store:
                first = self.persistence(store)
                for number in (1, -100, 7):
                    await getattr(first, f"update_{kind}_data")(number, {"n": {number}})
                await getattr(first, f"update_{kind}_data")(7, {"n": "new"})
                await getattr(first, f"drop_{kind}_data")(1)
                again = self.persistence(store)
                data = await getattr(again, f"get_{kind}_data")()
                assert data == {-100: {"n": {-100}}, 7: {"n": "new"}}

        run(main())

    @pytest.mark.parametrize("kind", ["bot", "callback"])
    def test_single_data_comes_back(self, directory: Path, kind: str) -> None:
        data: Any = {"x": 1} if kind == "bot" else ([("id", 1.0, {"k": "v"})], {"q": "k"})

        async def main() -> None:
            async with sessionlog.open(directory) as store:
                first = self.persistence(store)
                empty = {} if kind == "bot" else None
                assert await getattr(first, f"get_{kind}_data")() == empty
                await getattr(first, f"update_{kind}_data")(data)
                assert await getattr(self.persistence(store), f"get_{kind}_data")() == data

        run(main())

    def test_conversations_come_back_and_end(self, directory: Path) -> None:
        async def main() -> None:
            async with sessionlog.open(directory) as store:
                first = self.persistence(store)
                await first.update_conversation("order", (1, 2), "asked")
                await first.update_conversation("order", (1, 2), "paid")
                await first.update_conversation("order", (3, "inline"), 7)
                await first.update_conversation("other", (1, 2), "x")
                again = self.persistence(store)
                assert await again.get_conversations("order") == {(1, 2): "paid", (3, "inline"): 7}
                await again.update_conversation("order", (1, 2), None)
                assert await again.get_conversations("order") == {(3, "inline"): 7}
                assert await again.get_conversations("none") == {}

        run(main())

    def test_an_update_that_changes_nothing_writes_nothing(self, store: sessionlog.Store) -> None:
        async def main() -> None:
            persistence = self.persistence(store)
            await persistence.update_user_data(1, {"a": 1})
            before = store.snapshot("telegram-bot/user_data/1").version
            await persistence.update_user_data(1, {"a": 1})
            assert store.snapshot("telegram-bot/user_data/1").version == before

        run(main())

    def test_an_update_leaves_one_line(self, store: sessionlog.Store) -> None:
        async def main() -> None:
            persistence = self.persistence(store)
            for n in range(10):
                await persistence.update_user_data(1, {"n": n})
            assert store.count("telegram-bot/user_data/1") == 1

        run(main())

    def test_objects_of_telegrams_come_back_with_the_bot(self, directory: Path) -> None:
        from telegram import Chat, Message, User
        from telegram.ext import ExtBot

        async def main() -> None:
            bot = ExtBot("123:abc")
            person = User(1, "Ann", is_bot=False)
            message = Message(5, None, Chat(2, "private"), from_user=person)  # type: ignore[arg-type]
            for one in (person, message):
                one.set_bot(bot)
            data = {"message": message, "bot": bot, "people": [person]}
            async with sessionlog.open(directory) as store:
                first = self.persistence(store)
                first.set_bot(bot)
                await first.update_user_data(1, data)
            new_bot = ExtBot("123:abc")
            async with sessionlog.open(directory) as store:
                again = self.persistence(store)
                again.set_bot(new_bot)
                found = (await again.get_user_data())[1]
            assert found["bot"] is new_bot
            assert found["message"] == message
            assert found["message"].get_bot() is new_bot
            assert found["people"][0].first_name == "Ann"

        run(main())

    def test_an_application_remembers(self, directory: Path) -> None:
        from telegram.ext import ApplicationBuilder

        async def turn() -> Any:
            async with sessionlog.open(directory) as store:
                persistence = self.persistence(store)
                builder = ApplicationBuilder().token("123:abc").updater(None)
                application = builder.persistence(persistence).build()
                await application._initialize_persistence()
                count = application.bot_data.get("count", 0) + 1
                application.bot_data["count"] = count
                application.user_data[7]["count"] = count
                application.mark_data_for_update_persistence(user_ids=7)
                await application.update_persistence()
                return count, application.user_data[7]["count"]

        assert [run(turn()) for _ in range(3)] == [(1, 1), (2, 2), (3, 3)]


class TestWhatAdaptersTake:
    def test_a_path_in_the_place_of_a_store_is_refused_in_words(self) -> None:
        pytest.importorskip("langchain_core")
        from sessionlog.langchain import ChatMessageHistory

        with pytest.raises(TypeError, match="an open store"):
            ChatMessageHistory("chat", "conversations.db")  # type: ignore[arg-type]

    def test_a_newest_turn_longer_than_the_limit_is_read_whole(
        self, store: sessionlog.Store
    ) -> None:
        pytest.importorskip("pydantic_ai")
        from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
        from sessionlog.pydantic_ai import MessageHistory

        history = MessageHistory("chat", store)
        history.add([ModelRequest(parts=[UserPromptPart("old")])])
        history.add([ModelRequest(parts=[UserPromptPart("new")])])
        history.add([ModelResponse(parts=[TextPart(str(n))]) for n in range(20)])
        assert len(history.get(3)) == 21
        assert len(history.get(21)) == 21
        assert len(history.get(22)) == 22
        assert history.get(0) == []

    def test_conversations_of_telegram_do_not_mix(self, store: sessionlog.Store) -> None:
        pytest.importorskip("telegram")
        from sessionlog.telegram import Persistence

        async def main() -> None:
            persistence = Persistence(store)
            await persistence.update_conversation("order", (1, 1), "A")
            await persistence.update_conversation("order/pay", (2, 2), "B")
            await persistence.update_conversation("order", ("1", 1), "C")
            found = await persistence.get_conversations("order")
            assert found == {(1, 1): "A", ("1", 1): "C"}

        run(main())

    def test_an_update_of_telegram_beside_another_is_not_passed_over(
        self, store: sessionlog.Store
    ) -> None:
        pytest.importorskip("telegram")
        from sessionlog.telegram import Persistence

        async def main() -> None:
            persistence = Persistence(store)
            await persistence.update_user_data(1, {"v": 0})
            first = asyncio.create_task(persistence.update_user_data(1, {"v": 1}))
            await asyncio.sleep(0)
            await persistence.update_user_data(1, {"v": 0})
            await first
            assert await Persistence(store).get_user_data() == {1: {"v": 0}}

        run(main())
