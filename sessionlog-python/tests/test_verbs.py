"""Every verb does the same for threads, for asyncio and under uvloop."""

import asyncio
import inspect
import json
import pydoc
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import sessionlog
from conftest import Face, assistant, run, texts, user
from sessionlog import Keep, errors


def test_what_is_appended_is_read_in_its_order(face: Face) -> None:
    face.append("chat", user("one"))
    face.append("chat", [assistant("two"), user("three")])
    assert texts(face.history("chat")) == ["one", "two", "three"]
    assert face.count("chat") == 3


def test_a_session_that_does_not_exist_is_empty(face: Face) -> None:
    assert face.history("nobody") == []
    assert face.tail("nobody", 5) == []
    assert face.count("nobody") == 0
    assert face.summary("nobody") == ""
    assert face.exists("nobody") is False


@pytest.mark.parametrize(
    "extra",
    [
        {"number": 12345678901234567890123},
        {"deep": {"list": [1, 2.5, None, True, {"x": "y"}]}},
        {"text": "Grüße, 世界, \u2028 <&> \U0001f600"},
        {"empty": "", "none": None, "false": False},
    ],
)
def test_fields_that_the_store_does_not_know_come_back(face: Face, extra: dict[str, Any]) -> None:
    face.append("chat", {**user("hi"), **extra})
    (message,) = face.history("chat")
    assert {name: message[name] for name in extra} == extra
    assert message["role"] == "user"


def test_tool_calls_come_back(face: Face) -> None:
    function = {"name": "add", "arguments": '{"a":1}'}
    calls = [{"id": "c1", "type": "function", "function": function}]
    face.append("chat", {**assistant(""), "tool_calls": calls})
    face.append("chat", {"role": "tool", "content": "2", "tool_call_id": "c1"})
    call, result = face.history("chat")
    assert call["tool_calls"] == calls
    assert result["tool_call_id"] == "c1"


def test_content_may_be_a_list_of_parts(face: Face) -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "u"}}]
    face.append("chat", {"role": "user", "content": parts})
    assert face.history("chat")[0]["content"] == parts


def test_bytes_are_taken_and_given_as_json_text(face: Face) -> None:
    text = b'{"role":"user","content":"hi","created_at":"2026-01-02T03:04:05Z","big":1e3}'
    face.append("chat", text)
    assert face.history_bytes("chat") == [text]
    assert face.tail_bytes("chat", 1) == [text]


def test_a_batch_may_mix_dicts_and_bytes(face: Face) -> None:
    face.append("chat", [user("one"), b'{"role":"user","content":"two"}'])
    assert texts(face.history("chat")) == ["one", "two"]


@pytest.mark.parametrize("count", [1, 64, 65, 1_000])
def test_any_number_of_messages_is_read(face: Face, count: int) -> None:
    face.append("chat", [user(str(index)) for index in range(count)])
    assert texts(face.history("chat")) == [str(index) for index in range(count)]
    assert len(face.history_bytes("chat")) == count


@pytest.mark.parametrize("n", [0, 1, 3, 100])
def test_a_tail_is_the_end_of_the_history(face: Face, n: int) -> None:
    face.append("chat", [user(str(index)) for index in range(5)])
    assert texts(face.tail("chat", n)) == [str(index) for index in range(5)][max(0, 5 - n) :]


@pytest.mark.parametrize("key", ["", "a\0b", "x" * 1_025])
def test_a_key_that_is_none_is_refused(face: Face, key: str) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        face.append(key, user("hi"))
    assert not refused.value.retryable
    assert isinstance(refused.value, ValueError)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": object()},
        {"role": "user", "content": "x", "n": float("nan")},
        {"role": "_checkpoint", "content": ""},
        {"role": "user", "content": 7},
        b"no json",
        b"[1]",
    ],
)
def test_a_message_that_is_none_is_refused_and_nothing_written(face: Face, message: Any) -> None:
    with pytest.raises(errors.InvalidInput):
        face.append("chat", [user("before"), message])
    assert face.exists("chat") is False


def test_a_message_that_is_too_large_is_refused(directory: Path) -> None:
    with sessionlog.open(directory, max_line_bytes=2_000) as store:
        with pytest.raises(errors.InvalidInput, match="limit of 2000"):
            store.append("chat", user("x" * 3_000))


def test_an_id_is_taken_once(face: Face) -> None:
    first = face.append_once("chat", "update-1", user("hi"))
    second = face.append_once("chat", "update-1", user("hi"))
    assert (first.is_new, second.is_new) == (True, False)
    assert texts(face.history("chat")) == ["hi"]


@pytest.mark.parametrize("id", ["", "x" * 257])
def test_an_id_that_is_none_is_refused(face: Face, id: str) -> None:
    with pytest.raises(errors.InvalidInput):
        face.append_once("chat", id, user("hi"))


def test_an_update_changes_several_things_at_once(face: Face) -> None:
    face.append("chat", [user(str(index)) for index in range(4)])
    version = face.update(
        "chat", append=user("new"), keep=Keep.last(2), summary="so far", tokens=99
    )
    assert texts(face.history("chat")) == ["2", "3", "new"]
    assert face.summary("chat") == "so far"
    assert face.context("chat").token_count() == 99
    assert face.snapshot("chat").version == version


def test_an_update_at_another_version_changes_nothing(face: Face) -> None:
    face.append("chat", user("one"))
    before = face.snapshot("chat").version
    face.append("chat", user("two"))
    with pytest.raises(errors.VersionConflict) as conflict:
        face.update("chat", append=user("three"), expect=before)
    assert not conflict.value.retryable
    assert texts(face.history("chat")) == ["one", "two"]
    face.update("chat", append=user("three"), expect=face.snapshot("chat").version)
    assert face.count("chat") == 3


@pytest.mark.parametrize("bad", ["", "nonsense", "12-"])
def test_a_version_that_is_none_is_refused(face: Face, bad: str) -> None:
    with pytest.raises(errors.InvalidInput):
        face.update("chat", append=user("x"), expect=bad)


def test_truncations_hide_what_came_before(face: Face) -> None:
    face.append("chat", [user("q1"), assistant("a1"), user("q2"), assistant("a2")])
    face.truncate("chat", Keep.turns(1))
    assert texts(face.history("chat")) == ["q2", "a2"]
    face.truncate("chat", Keep.last(1))
    assert texts(face.history("chat")) == ["a2"]


def test_a_window_keeps_whole_turns_and_tells_what_it_left_out(face: Face) -> None:
    turns = [[user(f"q{n}"), assistant("x" * 400)] for n in range(10)]
    face.append("chat", [message for turn in turns for message in turn])
    window = face.window("chat", tokens=350)
    assert window.messages[0]["role"] == "user"
    assert 0 < len(window.messages) < 20
    assert window.omitted == 20 - len(window.messages)
    assert not window.is_partial
    face.update("chat", keep=Keep.since(window.start))
    assert face.count("chat") == len(window.messages)


@pytest.mark.parametrize("messages", [2, 4, 100])
def test_a_window_may_be_counted_in_messages(face: Face, messages: int) -> None:
    face.append("chat", [user("q1"), assistant("a1"), user("q2"), assistant("a2")])
    assert len(face.window("chat", messages=messages).messages) == min(messages, 4)


def test_a_window_drops_a_result_without_its_call(face: Face) -> None:
    face.append("chat", [user("q"), {"role": "tool", "content": "r", "tool_call_id": "lost"}])
    assert [m["role"] for m in face.window("chat").messages] == ["user"]
    assert len(face.window("chat", unpaired="keep").messages) == 2
    with pytest.raises(errors.Conflict):
        face.window("chat", unpaired="error")


def test_a_snapshot_stays_what_it_was(face: Face) -> None:
    face.append("chat", [user(str(index)) for index in range(5)])
    face.set_summary("chat", "before")
    then = face.snapshot("chat")
    face.set_summary("chat", "after")
    face.append("chat", user("later"))
    assert then.summary == "before"
    assert then.count() == 5
    assert texts(then.history()) == ["0", "1", "2", "3", "4"]
    assert texts(then.tail(2)) == ["3", "4"]
    assert then.meta["key"] == "chat"


def test_pages_lead_back_to_the_beginning(face: Face) -> None:
    face.append("chat", [user(str(index)) for index in range(10)])
    snapshot = face.snapshot("chat")
    position, found = snapshot.end, []
    while True:
        page = snapshot.before(position, 3)
        assert len(page.positions) == len(page.messages)
        found = page.messages + found
        position = page.start
        if page.is_first:
            break
    assert texts(found) == [str(index) for index in range(10)]


def test_a_history_is_replaced(face: Face) -> None:
    face.append("chat", user("old"))
    face.set_history("chat", [user("new"), assistant("newer")])
    assert texts(face.history("chat")) == ["new", "newer"]


def test_a_deleted_session_is_gone(face: Face) -> None:
    face.append("chat", user("hi"))
    face.delete("chat")
    face.delete("chat")
    assert face.exists("chat") is False
    assert [info.key for info in face.sessions()] == []


def test_sessions_are_listed_by_change_and_by_name(face: Face) -> None:
    for key in ["b", "a", "c"]:
        face.append(key, user(f"in {key}"))
    assert [info.key for info in face.sessions()] == ["c", "a", "b"]
    assert sorted(info.key for info in face.sessions(order="name")) == ["a", "b", "c"]
    info = next(iter(face.sessions(prefix="a")))
    assert (info.first_text, info.last_text, info.lines) == ("in a", "in a", 1)


def test_more_sessions_than_a_page_are_listed(face: Face) -> None:
    fast = face.with_durability("buffered")
    for index in range(1_100):
        fast.append(f"chat:{index}", user("x"))
    assert len({info.key for info in face.sessions()}) == 1_100


def test_sessions_changed_since_are_found(face: Face) -> None:
    face.append("chat", user("x"))
    now = datetime.now(timezone.utc)
    assert len(list(face.sessions(updated_since=now - timedelta(hours=1)))) == 1
    assert list(face.sessions(updated_since=now + timedelta(hours=1))) == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"text": "needle"}, 2),
        ({"text": "NEEDLE"}, 0),
        ({"text": "NEEDLE", "ignore_case": True}, 2),
        ({"regex": "n.{4}e"}, 2),
        ({"text": "needle", "role": "user"}, 1),
        ({"text": "needle", "role": ["user", "assistant"]}, 2),
        ({"text": "needle", "prefix": "x"}, 0),
        ({"text": "needle", "since": datetime(2100, 1, 1, tzinfo=timezone.utc)}, 0),
        ({"text": "needle", "until": datetime(2100, 1, 1, tzinfo=timezone.utc)}, 2),
        ({}, 4),
    ],
)
def test_messages_are_found(face: Face, query: dict[str, Any], found: int) -> None:
    face.append("a", [user("a needle in hay"), assistant("hay")])
    face.append("b", [user("hay"), assistant("the needle")])
    hits = list(face.search(**query))
    assert len(hits) == found
    assert all(hit.message["content"] in hit.excerpt for hit in hits)


def test_more_hits_than_come_at_once_are_found(face: Face) -> None:
    face.append("chat", [user(f"needle {index}") for index in range(1_000)])
    assert len(list(face.search("needle"))) == 1_000


@pytest.mark.parametrize("query", [{"regex": "("}, {"text": "a", "regex": "b"}])
def test_a_pattern_that_is_none_is_refused(face: Face, query: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidInput):
        list(face.search(**query))


def test_a_conversation_goes_back_to_a_checkpoint(face: Face) -> None:
    chat = face.context("chat")
    chat.write_system_prompt("Be kind.")
    chat.append([user("hi"), assistant("hello")])
    chat.update_token_count(12)
    id = chat.checkpoint(tell_model=True)
    chat.append(user("12345678"))
    assert face.checkpoints("chat") == [id] == [0]
    assert chat.n_checkpoints() == 1
    assert chat.token_count_with_pending() > chat.token_count() == 12
    chat.revert_to(id)
    assert texts(chat.history()) == ["hi", "hello"]
    assert chat.system_prompt() == "Be kind."
    assert chat.usage_history() == [12]
    with pytest.raises(errors.CheckpointNotFound) as missing:
        chat.revert_to(7)
    assert isinstance(missing.value, LookupError)


def test_a_cleared_conversation_can_be_had_back(face: Face) -> None:
    chat = face.context("chat")
    chat.append(user("hi"))
    chat.clear()
    assert chat.history() == []
    (backup,) = face.backups("chat")
    face.restore_backup("chat", backup.number)
    assert texts(chat.history()) == ["hi"]
    with pytest.raises(errors.NotFound):
        face.restore_backup("chat", 99)


@pytest.mark.parametrize(
    ("at", "expected"), [({}, 3), ({"messages": 2}, 2), ({"checkpoint": 0}, 1)]
)
def test_a_fork_is_the_beginning_of_its_session(
    face: Face, at: dict[str, int], expected: int
) -> None:
    chat = face.context("chat")
    chat.append(user("0"))
    chat.checkpoint()
    chat.append([user("1"), user("2")])
    face.fork("chat", "forked", **at)
    assert face.count("forked") == expected
    face.append("forked", user("elsewhere"))
    assert face.count("chat") == 3
    with pytest.raises(errors.SessionExists):
        face.fork("chat", "forked")
    with pytest.raises(errors.SessionNotFound):
        face.fork("nobody", "other")


def test_a_fork_ends_at_one_place(face: Face) -> None:
    face.append("chat", user("x"))
    with pytest.raises(errors.InvalidInput):
        face.fork("chat", "forked", checkpoint=0, messages=1)


def test_an_erased_session_leaves_no_byte(face: Face, directory: Path) -> None:
    face.append("chat", user("a very rare secret"))
    face.flush()
    receipt = face.erase(key="chat")
    assert receipt.sessions == ["chat"]
    assert receipt.is_complete
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files
    assert all(b"very rare secret" not in path.read_bytes() for path in files)


@pytest.mark.parametrize("what", [{}, {"key": "a", "person": "b"}])
def test_an_erasure_names_one_thing(face: Face, what: dict[str, str]) -> None:
    with pytest.raises(errors.InvalidInput):
        face.erase(**what)


def test_a_backup_is_a_store(face: Face, tmp_path: Path) -> None:
    face.append("chat", user("hi"))
    report = face.backup(tmp_path / "copy")
    assert (report.sessions, report.failed) == (1, [])
    with sessionlog.open(tmp_path / "copy") as copy:
        assert texts(copy.history("chat")) == ["hi"]


@pytest.mark.parametrize(
    "format", ["jsonl", "markdown", "openai", "openai-responses", "anthropic", "gemini"]
)
def test_a_session_is_exported(face: Face, format: str) -> None:
    face.append("chat", [user("hi there"), assistant("hello")])
    export = face.export("chat", format)
    assert "hi there" in export.text
    if format in ("openai", "anthropic", "gemini"):
        json.loads(export.text)


def test_an_unknown_format_is_refused(face: Face) -> None:
    with pytest.raises(errors.InvalidInput, match="papyrus"):
        face.export("chat", "papyrus")


def test_the_status_tells_that_all_is_well(face: Face) -> None:
    status = face.status()
    assert (status.health, status.reason, status.queued) == ("healthy", None, 0)
    assert status.journal_limit > 0


def test_a_buffered_append_is_read_at_once(face: Face) -> None:
    face.with_durability("buffered").append("chat", user("hi"))
    assert texts(face.history("chat")) == ["hi"]


def test_exact_keys_are_taken_literally(face: Face) -> None:
    face.exact_keys().append("chat", user("hi"))
    assert face.exists("chat") is True


def test_compaction_changes_nothing_that_is_read(face: Face) -> None:
    face.append("chat", [user(str(index)) for index in range(100)])
    face.truncate("chat", Keep.last(3))
    face.compact("chat")
    assert texts(face.history("chat")) == ["97", "98", "99"]


def test_a_closed_store_says_so(face: Face) -> None:
    face.close()
    face.close()
    with pytest.raises(errors.Closed):
        face.append("chat", user("hi"))
    with pytest.raises(errors.Closed):
        face.history("chat")


def _positions(face: Face, key: str) -> list[str]:
    snapshot = face.snapshot(key)
    return snapshot.before(snapshot.end, 100).positions  # type: ignore[no-any-return]


def test_one_message_is_edited_and_one_is_removed(face: Face) -> None:
    face.append("chat", [user("Olso?"), assistant("No idea."), user("Thanks")])
    version = face.edit("chat", _positions(face, "chat")[0], user("Oslo?"))
    assert face.snapshot("chat").version == version
    face.remove("chat", _positions(face, "chat")[1])
    assert texts(face.history("chat")) == ["Oslo?", "Thanks"]


def test_what_changed_since_it_was_looked_at_is_not_edited(face: Face) -> None:
    face.append("chat", [user("one"), user("two")])
    first, second = _positions(face, "chat")
    face.remove("chat", first)
    with pytest.raises(errors.NotFound):
        face.edit("chat", second, user("other"))
    with pytest.raises(errors.InvalidInput):
        face.remove("chat", "no position")
    assert texts(face.history("chat")) == ["two"]


def test_a_history_is_replaced_at_the_version_that_was_read(face: Face) -> None:
    face.append("chat", user("one"))
    read = face.snapshot("chat").version
    version = face.set_history_at("chat", read, [user("replaced")])
    with pytest.raises(errors.VersionConflict):
        face.set_history_at("chat", read, [user("too late")])
    assert texts(face.history("chat")) == ["replaced"]
    assert face.snapshot("chat").version == version


def test_a_late_answer_does_not_bring_a_deleted_session_back(face: Face) -> None:
    face.append("chat", user("question"))
    end = face.snapshot("chat").end
    face.append("chat", user("and another"))
    face.update("chat", append=assistant("answer"), after=end)
    face.delete("chat")
    with pytest.raises(errors.NotFound):
        face.update("chat", append=assistant("late answer"), after=end)
    assert face.exists("chat") is False


def test_titles_labels_and_pins_are_found(face: Face) -> None:
    face.append("a", user("x"))
    face.append("b", user("x"))
    face.update("a", title="Holidays", labels=["family", "2026"], pinned=True)
    face.update("b", labels=["family"])
    assert {info.key for info in face.sessions(label="family")} == {"a", "b"}
    assert [info.key for info in face.sessions(label=["family", "2026"])] == ["a"]
    (info,) = face.sessions(pinned=True)
    assert (info.key, info.title, info.pinned) == ("a", "Holidays", True)
    assert sorted(info.labels) == ["2026", "family"]
    face.update("a", title="", labels=[], pinned=False)
    assert list(face.sessions(pinned=True)) == []
    assert [info.key for info in face.sessions(label="family")] == ["b"]


def test_searches_look_into_tool_calls_and_summaries_if_asked(face: Face) -> None:
    function = {"name": "weather", "arguments": '{"city":"Oslo"}'}
    calls = [{"id": "c1", "type": "function", "function": function}]
    face.append("chat", {**assistant(""), "tool_calls": calls})
    face.update("chat", summary="They asked about Bergen.", title="Rain in Norway")

    def found(text: str, **options: bool) -> list[str]:
        return [hit.found_in for hit in face.search(text, **options)]

    assert found("Oslo") == []
    assert found("Oslo", tool_calls=True) == ["tool_arguments"]
    assert found("weather", tool_calls=True) == ["tool_name"]
    assert found("Bergen", summaries=True) == ["summary"]
    assert found("Norway", summaries=True) == ["title"]


def test_a_session_that_cannot_be_read_is_told_after_all_others(directory: Path) -> None:
    (directory / "b.jsonl").mkdir(parents=True)
    with sessionlog.open(directory) as store:
        for key in ["a", "c"]:
            store.append(key, user("needle"))
        listed, found = [], []
        with pytest.raises(errors.Unreadable) as lost:
            for info in store.sessions():
                listed.append(info.key)
        assert (listed, lost.value.keys) == (["c", "a"], ["b"])
        with pytest.raises(errors.Io, match=r"b\.jsonl"):
            for hit in store.search("needle"):
                found.append(hit.key)
        assert sorted(found) == ["a", "c"]

        async def asked() -> None:
            listed, found = [], []
            with pytest.raises(errors.Unreadable):
                async for info in store.aio.sessions():
                    listed.append(info.key)
            with pytest.raises(errors.Io, match=r"b\.jsonl"):
                async for hit in store.aio.search("needle"):
                    found.append(hit.key)
            assert (listed, sorted(found)) == (["c", "a"], ["a", "c"])

        run(asked())


def test_a_scope_says_who_talks_and_aliases_lead_to_the_session(face: Face) -> None:
    face.append("telegram:7", user("from before"))
    scope = {
        "version": 1,
        "agent_id": "main",
        "channel": "telegram",
        "account": "bot",
        "dimensions": ["sender"],
        "values": {"sender": "telegram:ann"},
    }
    assert face.ensure_metadata("sk_1", scope, ["telegram:7"]) is True
    assert face.ensure_metadata("sk_1", scope, ["telegram:7"]) is False
    assert texts(face.history("telegram:7")) == ["from before"]
    assert face.resolve("telegram:7") == "sk_1"
    assert face.resolve("nobody") is None
    assert face.meta("sk_1")["scope"] == scope
    assert [info.key for info in face.sessions(agent="main", channel="telegram")] == ["sk_1"]


def test_a_window_says_what_its_tokens_went_to(face: Face) -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    face.append("chat", {"role": "user", "content": [{"type": "text", "text": "see " * 9}, picture]})
    window = face.window("chat")
    assert window.took["images"] > window.took["text"] > 0
    assert sum(window.took.values()) == window.tokens


def test_numbers_of_any_size_come_back(face: Face) -> None:
    face.append("chat", {**user("x"), "usage": {"a": 1, "big": 10**309}})
    face.append("chat", b'{"role":"user","content":"y","weight":1e400}')
    first, second = face.history("chat")
    assert first["usage"] == {"a": 1, "big": 10**309}
    assert second["weight"] == float("inf")
    assert b'"weight":1e400' in face.history_bytes("chat")[1]
    assert face.window("chat").messages[0]["usage"]["big"] == 10**309


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"content": "x"},
        {"role": None, "content": "x"},
        {"role": "user", "text": "a typo"},
        "a text",
        7,
        None,
        [["nested"]],
    ],
)
def test_what_is_no_message_is_refused_in_words(face: Face, message: Any) -> None:
    with pytest.raises(errors.InvalidInput, match="a message"):
        face.append("chat", message)
    assert face.exists("chat") is False


def test_json_text_may_be_any_kind_of_bytes(face: Face) -> None:
    text = b'{"role":"user","content":"x"}'
    face.append("chat", [bytearray(text), memoryview(text), text])
    face.append("chat", memoryview(text))
    assert face.count("chat") == 4


def test_an_id_may_be_a_number_and_is_not_taken_for_nothing(face: Face) -> None:
    assert face.append_once("chat", 7, user("x")).is_new
    assert not face.append_once("chat", "7", user("x")).is_new
    with pytest.raises(errors.InvalidInput):
        face.append_once("chat", "8", [])
    assert face.append_once("chat", "8", user("y")).is_new
    with pytest.raises(errors.InvalidInput):
        face.append_once("chat", None, user("y"))


def test_arguments_of_a_wrong_kind_are_refused_in_words(face: Face) -> None:
    with pytest.raises(errors.InvalidInput, match="Keep"):
        face.update("chat", keep=5)
    with pytest.raises(errors.InvalidInput, match="since is a datetime"):
        list(face.search("x", since="2026-01-01"))
    with pytest.raises(errors.InvalidInput, match="a scope"):
        face.ensure_metadata("chat", {"values": object()})


def test_a_deleted_session_comes_back(directory: Path) -> None:
    with (
        closing(asyncio.new_event_loop()) as loop,
        sessionlog.open(directory / "kept", trash=timedelta(days=30)) as store,
    ):
        for face in (Face(store, None), Face(store.aio, loop)):
            face.append_once("chat:1", 7, user("older"))
            face.delete("chat:1")
            assert not face.exists("chat:1")
            assert list(face.sessions()) == []
            (kept,) = face.sessions(deleted=True)
            assert kept.deleted.key == "chat:1"
            assert texts(face.history(kept.key)) == ["older"]
            assert face.undelete("chat:1") == "chat:1"
            assert not face.append_once("chat:1", 7, user("older")).is_new
            with pytest.raises(errors.NotFound):
                face.undelete("chat:1")
            face.delete("chat:1")
            assert face.empty_trash() == []
            assert face.empty_trash(timedelta()) == ["chat:1"]
            assert list(face.sessions(deleted=True)) == []
        with pytest.raises(errors.InvalidInput, match="timedelta"):
            store.empty_trash(5)


def test_a_session_goes_on_under_another_key(face: Face) -> None:
    face.append_once("group:1", 7, user("older"))
    face.rename("group:1", "group:2")
    assert texts(face.history("group:1")) == ["older"]
    assert face.resolve("group:1") == "group:2"
    face.append("super:1", user("newer"))
    with pytest.raises(errors.Conflict):
        face.rename("group:2", "super:1")
    assert face.merge("group:2", "super:1") is True
    assert texts(face.history("group:2")) == ["older", "newer"]
    assert not face.append_once("super:1", 7, user("older")).is_new
    assert face.merge("super:1", "alone:1") is False
    with pytest.raises(errors.NotFound):
        face.rename("nobody", "alone:2")


def test_the_reference_says_of_every_verb_what_it_takes_and_what_it_does() -> None:
    reference = pydoc.plaintext.document(sessionlog)
    for name in sessionlog.__all__:
        thing = getattr(sessionlog, name)
        if inspect.isclass(thing):
            assert f"class {name}" in reference
            of_it = pydoc.plaintext.document(thing)
            verbs = [verb for verb in vars(thing) if not verb.startswith("_")]
        else:
            of_it, verbs = reference, [name] if inspect.isfunction(thing) else []
        for verb in verbs:
            function = inspect.getattr_static(thing, verb, thing)
            function = getattr(function, "__func__", function)
            if not inspect.isfunction(function):
                continue
            assert f"{verb}(" in of_it, f"{name}.{verb}"
            assert function.__doc__, f"{name}.{verb}"
            signature = inspect.signature(function)
            told = [signature.return_annotation]
            told += [
                one.annotation
                for one in signature.parameters.values()
                if one.name not in ("self", "cls")
            ]
            assert inspect.Signature.empty not in told, f"{name}.{verb}"
