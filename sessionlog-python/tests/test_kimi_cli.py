"""The drop-in does to a file, byte for byte, what kimi-cli's own class does.

kimi-cli's tests are not in what it publishes. So each script here runs on its class and on
ours, beside each other, and what both say and leave on the disk is compared."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kimi_cli.soul.context")

from kimi_cli.soul.compaction import should_auto_compact
from kimi_cli.soul.context import Context as Theirs
from kosong.message import Message, TextPart, ToolCall

from conftest import run
from sessionlog import errors
from sessionlog.kimi_cli import Context as Ours
from sessionlog.kimi_cli import install


def message(role: Any, text: str, **named: Any) -> Message:
    return Message(role=role, content=[TextPart(text=text)], **named)


def line(role: str, text: str) -> bytes:
    return message(role, text).model_dump_json(exclude_none=True).encode() + b"\n"


def record(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


PROMPT = record(role="_system_prompt", content="Be kind.")
USAGE = record(role="_usage", token_count=42)
ZERO, ONE = record(role="_checkpoint", id=0), record(role="_checkpoint", id=1)
HI, HELLO = line("user", "Hi"), line("assistant", "Hello")
CALL = ToolCall(id="c1", function=ToolCall.FunctionBody(name="add", arguments="{}"))

FILES: dict[str, bytes | None] = {
    "none": None,
    "empty": b"",
    "blank": b"\n  \n",
    "messages": HI + HELLO,
    "prompt": PROMPT + HI,
    "everything": PROMPT + HI + USAGE + ZERO + HELLO + ONE,
    "usage last": HI + HELLO + USAGE,
    "no usage": HI + line("tool", "x" * 800),
    "two usages": HI + USAGE + HELLO + record(role="_usage", token_count=99) + line("tool", "y" * 99),
    "torn": PROMPT + HI + b'{"role":"assistant","content":"unt\n' + ZERO,
    "torn utf-8": PROMPT + HI + b'{"role":"assistant","content":"\xe4\xb8\n' + ZERO,
    "no role": PROMPT + HI + record(oops=1) + ZERO,
    "no object": HI + b"[1]\n7\n" + ZERO,
    "odd records": HI
    + record(role="_usage", token_count="x")
    + record(role="_checkpoint")
    + record(role="_system_prompt", content=7),
    "odd role": HI + record(role="narrator", content="x") + HELLO,
    "checkpoints": ZERO + HI + ONE + HELLO + record(role="_checkpoint", id=2),
    "unicode": line("user", "Grüße, 世界 \U0001f600 <&>\u2028"),
}

Step = tuple[str, Any]

SCRIPTS: dict[str, list[Step]] = {
    "restore": [("restore", None)],
    "restore twice": [("restore", None), ("restore", None)],
    "append": [("restore", None), ("append", message("user", "a" * 400))],
    "batch": [
        ("restore", None),
        ("append", [message("user", "x" * 100), message("assistant", "y" * 203)]),
    ],
    "tools": [
        ("restore", None),
        ("append", message("assistant", "", tool_calls=[CALL])),
        ("append", message("tool", "2", tool_call_id="c1")),
    ],
    "usage": [
        ("restore", None),
        ("append", message("user", "a" * 400)),
        ("usage", 5_000),
        ("append", message("tool", "b" * 801)),
        ("usage", 6_000),
    ],
    "checkpoints": [
        ("restore", None),
        ("checkpoint", False),
        ("append", message("user", "one")),
        ("checkpoint", True),
        ("append", message("user", "two")),
        ("revert", 1),
        ("append", message("user", "three")),
        ("checkpoint", False),
        ("revert", 0),
    ],
    "clear": [
        ("restore", None),
        ("append", message("user", "one")),
        ("clear", None),
        ("append", message("user", "two")),
        ("checkpoint", False),
        ("clear", None),
    ],
    "no such checkpoint": [("restore", None), ("revert", 9)],
    "revert to zero": [("restore", None), ("checkpoint", False), ("revert", 0)],
    "unicode": [("restore", None), ("append", message("user", "Grüße, 世界 \U0001f600 <&>\u2028"))],
}


async def played(kind: Any, path: Path, script: list[Step]) -> list[Any]:
    """What a context says of itself after each step, and the files at the end."""
    context = kind(file_backend=path)
    said: list[Any] = []
    for verb, given in script:
        try:
            if verb == "restore":
                said.append(await context.restore())
            elif verb == "append":
                said.append(await context.append_message(given))
            elif verb == "usage":
                said.append(await context.update_token_count(given))
            elif verb == "checkpoint":
                said.append(await context.checkpoint(given))
            elif verb == "revert":
                said.append(await context.revert_to(given))
            elif verb == "prompt":
                said.append(await context.write_system_prompt(given))
            else:
                said.append(await context.clear())
        except (ValueError, RuntimeError) as error:
            said.append(type(error))
        said.append(
            (
                list(context.history),
                context.token_count,
                context.token_count_with_pending,
                context.n_checkpoints,
                context.system_prompt,
                context.file_backend == path,
            )
        )
    return said


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.stat().st_size}




@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("file", FILES)
def test_a_script_leaves_what_kimi_clis_own_class_leaves(
    tmp_path: Path, file: str, script: str
) -> None:
    said = []
    left = []
    for kind in (Theirs, Ours):
        directory = tmp_path / kind.__module__
        directory.mkdir()
        path = directory / "context.jsonl"
        content = FILES[file]
        if content is not None:
            path.write_bytes(content)
        said.append(run(played(kind, path, SCRIPTS[script])))
        left.append(files(directory))
    assert said[1] == said[0]
    assert left[1] == left[0]


@pytest.mark.parametrize("file", ["none", "empty", "messages", "unicode"])
def test_a_prompt_becomes_the_first_line(tmp_path: Path, file: str) -> None:
    script: list[Step] = [("prompt", "Grüße"), ("append", message("user", "x"))]
    left = []
    for kind in (Theirs, Ours):
        directory = tmp_path / kind.__module__
        directory.mkdir()
        content = FILES[file]
        if content is not None:
            (directory / "context.jsonl").write_bytes(content)
        run(played(kind, directory / "context.jsonl", script))
        left.append(files(directory))
    assert left[1] == left[0]


def test_the_estimate_starts_compaction_where_kimi_clis_does(tmp_path: Path) -> None:
    async def main() -> None:
        context = Ours(tmp_path / "context.jsonl")
        await context.update_token_count(840_000)
        await context.append_message(message("tool", "x" * 60_000))
        limits = {"trigger_ratio": 0.85, "reserved_context_size": 50_000}
        assert not should_auto_compact(context.token_count, 1_000_000, **limits)  # type: ignore[arg-type]
        assert should_auto_compact(context.token_count_with_pending, 1_000_000, **limits)  # type: ignore[arg-type]

    run(main())


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        first, second = Ours(tmp_path / "c.jsonl"), Ours(tmp_path / "c.jsonl")
        await first.append_message(message("user", "x"))
        assert await second.restore() is True
        with pytest.raises(errors.Locked):
            await second.append_message(message("user", "y"))

    run(main())


def test_what_one_wrote_the_other_reads(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "context.jsonl"
        script = [step for step in SCRIPTS["checkpoints"] if step[0] != "restore"]
        await played(Ours, path, script)
        shutil.copy(path, tmp_path / "copy.jsonl")
        theirs, ours = Theirs(tmp_path / "copy.jsonl"), Ours(path)
        assert await theirs.restore() == await ours.restore()
        assert list(theirs.history) == list(ours.history)
        assert theirs.token_count_with_pending == ours.token_count_with_pending

    run(main())


def test_it_takes_the_place_of_kimi_clis() -> None:
    import kimi_cli.soul.context as module

    install()
    try:
        assert module.Context is Ours  # type: ignore[comparison-overlap]
    finally:
        module.Context = Theirs
