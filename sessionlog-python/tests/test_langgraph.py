"""SessionlogSaver passes LangGraph's own suite, and does what that leaves out."""

import asyncio
import operator
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph.checkpoint.base")

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver

import sessionlog
from conftest import run
from sessionlog import errors
from sessionlog.langgraph import SessionlogSaver


@pytest.fixture
def saver(store: sessionlog.Store) -> SessionlogSaver:
    return SessionlogSaver(store)


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Calls a saver's method, or the async one of it."""
    if request.param == "sync":
        yield lambda saver, name, *args, **named: getattr(saver, name)(*args, **named)
        return
    loop = asyncio.new_event_loop()

    async def listed(found: Any) -> Any:
        return [one async for one in found]

    def called(saver: Any, name: str, *args: Any, **named: Any) -> Any:
        found = getattr(saver, f"a{name}")(*args, **named)
        return loop.run_until_complete(listed(found) if name == "list" else found)

    yield called
    loop.close()


def config(thread: str, checkpoint: str | None = None, namespace: str = "") -> dict[str, Any]:
    configurable: dict[str, Any] = {"thread_id": thread, "checkpoint_ns": namespace}
    if checkpoint:
        configurable["checkpoint_id"] = checkpoint
    return {"configurable": configurable}


def checkpoint(**values: Any) -> Any:
    return {
        **empty_checkpoint(),
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, "1"),
    }


def chain(call: Any, saver: Any, thread: str, count: int) -> list[Any]:
    """Checkpoints, each the parent of the next."""
    configs = [config(thread)]
    for step in range(count):
        metadata = {"source": "loop", "step": step, "run_id": f"run-{step % 2}"}
        configs.append(call(saver, "put", configs[-1], checkpoint(n=step), metadata, {}))
    return configs[1:]


def test_the_conformance_suite_passes_with_every_capability(store: sessionlog.Store) -> None:
    conformance = pytest.importorskip("langgraph.checkpoint.conformance")

    @conformance.checkpointer_test(name="SessionlogSaver")  # type: ignore[untyped-decorator]
    async def saver() -> Any:
        yield SessionlogSaver(store, prefix=f"{uuid.uuid4()}/")

    report = run(conformance.validate(saver))
    failures = [
        failure for result in report.results.values() for failure in (result.failures or [])
    ]
    assert failures == []
    assert len(report.results) == 8
    assert report.passed_all()


@pytest.mark.parametrize("thread", ["t", "a/b", "Grüße", "%2F", "telegram:1 ", "7"])
def test_threads_of_any_name_are_kept_apart(call: Any, saver: Any, thread: str) -> None:
    stored = call(saver, "put", config(thread), checkpoint(x=thread), {"step": 0}, {})
    call(saver, "put", config(f"{thread}/x"), checkpoint(x="other"), {"step": 0}, {})
    found = call(saver, "get_tuple", config(thread))
    assert found.checkpoint["channel_values"] == {"x": thread}
    assert found.config == stored
    assert len(list(call(saver, "list", config(thread)))) == 1
    call(saver, "delete_thread", thread)
    assert call(saver, "get_tuple", config(thread)) is None
    assert call(saver, "get_tuple", config(f"{thread}/x")) is not None


def test_a_number_may_name_a_thread(call: Any, saver: Any) -> None:
    call(saver, "put", config(7), checkpoint(x=1), {"step": 0}, {})  # type: ignore[arg-type]
    assert call(saver, "get_tuple", config(7)) is not None  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1, 7, 8, 9, 100])
def test_every_checkpoint_of_a_thread_is_found(call: Any, saver: Any, count: int) -> None:
    configs = chain(call, saver, "t", count)
    newest = call(saver, "get_tuple", config("t"))
    assert newest.checkpoint["channel_values"] == {"n": count - 1}
    for step, one in enumerate(configs):
        found = call(saver, "get_tuple", one)
        assert found.checkpoint["channel_values"] == {"n": step}
        assert found.parent_config == (configs[step - 1] if step else None)
    assert call(saver, "get_tuple", config("t", "none")) is None


@pytest.mark.parametrize(
    ("query", "steps"),
    [
        ({}, [4, 3, 2, 1, 0]),
        ({"limit": 2}, [4, 3]),
        ({"limit": 0}, []),
        ({"filter": {"step": 3}}, [3]),
        ({"filter": {"run_id": "run-0"}, "limit": 2}, [4, 2]),
        ({"filter": {"missing": 1}}, []),
    ],
)
def test_a_list_has_what_matches_newest_first(
    call: Any, saver: Any, query: dict[str, Any], steps: list[int]
) -> None:
    chain(call, saver, "t", 5)
    found = call(saver, "list", config("t"), **query)
    assert [one.metadata["step"] for one in found] == steps


def test_a_list_without_a_thread_has_all(call: Any, saver: Any) -> None:
    chain(call, saver, "a", 2)
    chain(call, saver, "b", 3)
    assert len(list(call(saver, "list", None))) == 5


def test_a_checkpoint_with_an_older_id_is_not_the_newest(call: Any, saver: Any) -> None:
    older, newer = checkpoint(x="older"), checkpoint(x="newer")
    call(saver, "put", config("t"), newer, {"step": 1}, {})
    call(saver, "put", config("t"), older, {"step": 0}, {})
    assert call(saver, "get_tuple", config("t")).checkpoint["id"] == newer["id"]
    assert call(SessionlogSaver(saver_store(saver)), "get_tuple", config("t")).checkpoint[
        "id"
    ] == newer["id"]


def saver_store(saver: SessionlogSaver) -> sessionlog.Store:
    return sessionlog.Store(saver._core)


def test_a_new_saver_knows_what_an_older_id_is(call: Any, saver: Any) -> None:
    older, newer = checkpoint(x="older"), checkpoint(x="newer")
    call(saver, "put", config("t"), newer, {"step": 1}, {})
    again = SessionlogSaver(saver_store(saver))
    call(again, "put", config("t"), older, {"step": 0}, {})
    assert call(again, "get_tuple", config("t")).checkpoint["id"] == newer["id"]


def test_writes_that_come_before_their_checkpoint_are_found(call: Any, saver: Any) -> None:
    first = call(saver, "put", config("t"), checkpoint(x=0), {"step": 0}, {})
    second = checkpoint(x=1)
    early = config("t", second["id"])
    call(saver, "put_writes", early, [("x", "early"), ("y", 2)], "task")
    call(saver, "put", first, second, {"step": 1}, {})
    call(saver, "put_writes", early, [("x", "late")], "other")
    for one in (saver, SessionlogSaver(saver_store(saver))):
        found = call(one, "get_tuple", config("t"))
        assert sorted(found.pending_writes) == [
            ("other", "x", "late"),
            ("task", "x", "early"),
            ("task", "y", 2),
        ]
        (listed, _) = call(one, "list", config("t"))
        assert listed.pending_writes == found.pending_writes


def values_of(found: Any) -> list[Any]:
    return sorted(value for _, _, value in found.pending_writes)


def test_writes_of_a_checkpoint_that_never_comes_are_not_held(call: Any, saver: Any) -> None:
    for step in range(3):
        failed = checkpoint(x=step)
        call(saver, "put_writes", config("t", failed["id"]), [("x", step)], "task")
        call(saver, "put", config("t"), checkpoint(x=step), {"step": step}, {})
    assert not saver._early
    call(saver, "put_writes", config("gone", failed["id"]), [("x", 1)], "task")
    call(saver, "delete_thread", "gone")
    assert not saver._early


def test_writes_that_are_not_held_are_found_if_their_checkpoint_comes_after_all(
    call: Any, saver: Any
) -> None:
    late, newer = checkpoint(x="late"), checkpoint(x="newer")
    call(saver, "put_writes", config("t", late["id"]), [("x", 1), ("y", 2)], "task")
    call(saver, "put", config("t"), newer, {"step": 1}, {})
    call(saver, "put_writes", config("t", late["id"]), [("x", 3)], "other")
    call(saver, "put", config("t"), late, {"step": 0}, {})
    call(saver, "put_writes", config("t", late["id"]), [("x", 4)], "last")
    for one in (saver, SessionlogSaver(saver_store(saver))):
        assert values_of(call(one, "get_tuple", config("t", late["id"]))) == [1, 2, 3, 4]
        assert values_of(call(one, "get_tuple", config("t"))) == []


def test_however_many_threads_begin_at_once_none_loses_what_came_early(
    call: Any, saver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a saver lets go of, at a size that a test reaches.
    for limit in ("EARLY", "REMEMBERED"):
        monkeypatch.setattr(f"sessionlog.langgraph.{limit}", 40, raising=False)
    first = [checkpoint(x=n) for n in range(60)]
    for n, one in enumerate(first):
        call(saver, "put_writes", config(f"t{n}", one["id"]), [("x", n)], "task")
    for n, one in enumerate(first):
        call(saver, "put", config(f"t{n}"), one, {"step": 0}, {})
    for n in range(60):
        assert values_of(call(saver, "get_tuple", config(f"t{n}"))) == [n]


def test_a_write_is_stored_once_and_what_is_special_replaces_itself(call: Any, saver: Any) -> None:
    stored = call(saver, "put", config("t"), checkpoint(x=0), {"step": 0}, {})
    for value in ("first", "second"):
        call(saver, "put_writes", stored, [("x", value)], "task")
        call(saver, "put_writes", stored, [("__error__", value)], "task")
    found = call(saver, "get_tuple", config("t")).pending_writes
    assert sorted(found) == [("task", "__error__", "second"), ("task", "x", "first")]


def test_writes_come_in_the_order_of_their_paths(call: Any, saver: Any) -> None:
    stored = call(saver, "put", config("t"), checkpoint(x=0), {"step": 0}, {})
    call(saver, "put_writes", stored, [("x", 2), ("x", 3)], "a", "path~2")
    call(saver, "put_writes", stored, [("x", 1)], "b", "path~1")
    found = call(saver, "get_tuple", config("t")).pending_writes
    assert [value for _, _, value in found] == [1, 2, 3]


def test_a_deltas_history_is_that_of_the_base_class(call: Any, saver: Any) -> None:
    memory = InMemorySaver()
    if not hasattr(memory, "get_delta_channel_history"):
        pytest.skip("this version of LangGraph has no delta channels")
    parents: list[Any] = [config("t"), config("t")]
    made = [checkpoint(x="seed"), checkpoint(), checkpoint(), checkpoint()]
    for step, one in enumerate(made):
        for index, other in enumerate((saver, memory)):
            versions = dict.fromkeys(one["channel_values"], "1")
            parents[index] = other.put(parents[index], one, {"step": step}, versions)
            other.put_writes(parents[index], [("x", step), ("y", step)], f"task-{step}")
    for channels in (["x"], ["y"], ["x", "y"], []):
        ours = call(saver, "get_delta_channel_history", config=config("t"), channels=channels)
        theirs = memory.get_delta_channel_history(config=config("t"), channels=channels)
        assert dict(ours) == dict(theirs)


def test_pruning_leaves_what_delta_channels_are_made_of(call: Any, saver: Any) -> None:
    parent = config("t")
    for step in range(5):
        values = {"x": "snapshot"} if step in (0, 2) else {}
        metadata = {"step": step, "counters_since_delta_snapshot": {"x": (1, 1)}}
        parent = call(saver, "put", parent, checkpoint(**values), metadata, {})
    call(saver, "prune", ["t"])
    assert [one.metadata["step"] for one in call(saver, "list", config("t"))] == [4, 3, 2]
    assert call(saver, "get_tuple", config("t")).metadata["step"] == 4


def test_a_strategy_that_is_none_is_refused(call: Any, saver: Any) -> None:
    with pytest.raises(errors.InvalidInput):
        call(saver, "prune", ["t"], strategy="some")


def test_a_copy_does_not_overwrite(call: Any, saver: Any) -> None:
    chain(call, saver, "a", 2)
    chain(call, saver, "b", 1)
    with pytest.raises(errors.SessionExists):
        call(saver, "copy_thread", "a", "b")
    assert len(list(call(saver, "list", config("b")))) == 1


def test_deleting_runs_leaves_the_newest_that_is_left(call: Any, saver: Any) -> None:
    chain(call, saver, "t", 5)
    call(saver, "delete_for_runs", ["run-0"])
    assert call(saver, "get_tuple", config("t")).metadata["step"] == 3
    call(saver, "put", config("t"), checkpoint(x=9), {"step": 9}, {})
    assert call(saver, "get_tuple", config("t")).metadata["step"] == 9


def test_of_what_is_left_the_newest_is_found_wherever_it_stands(call: Any, saver: Any) -> None:
    oldest, kept, gone = checkpoint(), checkpoint(), checkpoint()
    for one, run_id in ((kept, "kept"), (gone, "gone"), (oldest, "kept")):
        call(saver, "put", config("t"), one, {"run_id": run_id}, {})
    call(saver, "delete_for_runs", ["gone"])
    for one in (saver, SessionlogSaver(saver_store(saver))):
        assert call(one, "get_tuple", config("t")).checkpoint["id"] == kept["id"]


class State(TypedDict):
    steps: Annotated[list[str], operator.add]


def graph(saver: Any, fails: list[bool]) -> Any:
    from langgraph.graph import END, START, StateGraph

    def first(state: State) -> State:
        return {"steps": ["first"]}

    def second(state: State) -> State:
        if fails and fails.pop():
            raise RuntimeError("no")
        return {"steps": ["second"]}

    builder = StateGraph(State)
    builder.add_node("first", first)
    builder.add_node("second", second)
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    builder.add_edge("second", END)
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_graph_remembers_its_thread(
    saver: SessionlogSaver, durability: str, is_async: bool
) -> None:
    pytest.importorskip("langgraph.graph")
    thread: Any = {"configurable": {"thread_id": "t"}}

    async def invoke(given: Any) -> Any:
        return await graph(saver, []).ainvoke(given, thread, durability=durability)

    for turn in range(1, 4):
        if is_async:
            result = run(invoke({"steps": ["in"]}))
        else:
            result = graph(saver, []).invoke({"steps": ["in"]}, thread, durability=durability)
        assert result["steps"] == ["in", "first", "second"] * turn


def test_a_graph_goes_on_after_a_failure_in_a_new_process(directory: Path) -> None:
    pytest.importorskip("langgraph.graph")
    thread: Any = {"configurable": {"thread_id": "t"}}
    with sessionlog.open(directory) as store:
        with pytest.raises(RuntimeError):
            graph(SessionlogSaver(store), [True]).invoke({"steps": ["in"]}, thread)
    with sessionlog.open(directory) as store:
        resumed = graph(SessionlogSaver(store), [])
        assert resumed.get_state(thread).next == ("second",)
        assert resumed.invoke(None, thread)["steps"] == ["in", "first", "second"]


def test_a_graph_goes_back_in_time(saver: SessionlogSaver) -> None:
    pytest.importorskip("langgraph.graph")
    app = graph(saver, [])
    thread: Any = {"configurable": {"thread_id": "t"}}
    app.invoke({"steps": ["in"]}, thread)
    states = list(app.get_state_history(thread))
    before = next(state for state in states if state.next == ("second",))
    forked = app.update_state(before.config, {"steps": ["edited"]})
    assert app.invoke(None, forked)["steps"] == ["in", "first", "edited", "second"]
    assert app.get_state(thread).values["steps"] == ["in", "first", "edited", "second"]


def test_a_graph_waits_for_people(saver: SessionlogSaver) -> None:
    pytest.importorskip("langgraph.graph")
    from langgraph.graph import START, StateGraph
    from langgraph.types import Command, interrupt

    def ask(state: State) -> State:
        return {"steps": [interrupt("well?")]}

    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    app: Any = builder.compile(checkpointer=saver)
    thread: Any = {"configurable": {"thread_id": "t"}}
    assert "__interrupt__" in app.invoke({"steps": ["in"]}, thread)
    again: Any = builder.compile(checkpointer=SessionlogSaver(saver_store(saver)))
    assert again.invoke(Command(resume="yes"), thread)["steps"] == ["in", "yes"]


def test_writes_stored_beside_their_checkpoint_are_not_lost(store: sessionlog.Store) -> None:
    saver = SessionlogSaver(store)
    with ThreadPoolExecutor(4) as pool:
        for number in range(150):
            thread, point = f"t{number}", checkpoint(n=number)
            of = config(thread, point["id"])
            puts = [
                pool.submit(saver.put, config(thread), point, {"source": "loop", "step": 0}, {})
            ]
            puts += [
                pool.submit(saver.put_writes, of, [("out", task)], f"task-{task}")
                for task in range(3)
            ]
            for put in puts:
                put.result()
            for reader in (saver, SessionlogSaver(store)):
                found = reader.get_tuple(config(thread))
                assert found is not None and found.pending_writes is not None
                assert sorted(value for _, _, value in found.pending_writes) == [0, 1, 2]


def test_a_checkpoint_that_could_not_be_stored_hides_no_other(store: sessionlog.Store) -> None:
    saver = SessionlogSaver(store)
    (first,) = chain(call_now, saver, "t", 1)
    older, newer = checkpoint(n=1), checkpoint(n="x" * 20_000_000)
    assert older["id"] < newer["id"]
    with pytest.raises(errors.InvalidInput):
        saver.put(first, newer, {"source": "loop", "step": 1}, {})
    saver.put(first, older, {"source": "loop", "step": 1}, {})
    for reader in (saver, SessionlogSaver(store)):
        found = reader.get_tuple(config("t"))
        assert found is not None and found.checkpoint["id"] == older["id"]


def test_a_newest_checkpoint_that_is_not_there_hides_no_other(store: sessionlog.Store) -> None:
    saver = SessionlogSaver(store)
    (stored,) = chain(call_now, saver, "t", 1)
    key = next(iter(store.sessions())).key
    (line,) = store.history(key)
    store.set_history(key, [{**line, "newest": "zzz"}])
    found = SessionlogSaver(store).get_tuple(config("t"))
    assert found is not None and found.config["configurable"] == stored["configurable"]


def test_what_is_stored_while_a_thread_is_pruned_stays(directory: Path) -> None:
    async def main() -> None:
        async with sessionlog.open(directory) as store:
            saver = SessionlogSaver(store)
            for number in range(60):
                thread = f"t{number}"
                last = config(thread)
                for step in range(3):
                    last = await saver.aput(
                        last, checkpoint(n=step), {"source": "loop", "step": step}, {}
                    )
                new = checkpoint(n=9)

                async def put(wait: float) -> None:
                    await asyncio.sleep(wait)
                    await saver.aput(last, new, {"source": "loop", "step": 9}, {})

                await asyncio.gather(saver.aprune([thread]), put(0.0004 * (number % 10)))
                found = await saver.aget_tuple(config(thread))
                assert found is not None and found.checkpoint["id"] == new["id"]

    run(main())


def call_now(saver: SessionlogSaver, name: str, *args: Any, **named: Any) -> Any:
    return getattr(saver, name)(*args, **named)
