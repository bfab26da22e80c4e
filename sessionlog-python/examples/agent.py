"""An agent that survives a kill: it talks, is killed at any moment, and goes on.

    python examples/agent.py sessions          # kill it with Ctrl-C or kill -9, start it again

Its model is a stub that counts what it was told. Put a real one in its place.
"""

import asyncio
import sys
from typing import Any

import sessionlog


async def model(messages: list[dict[str, Any]]) -> str:
    await asyncio.sleep(0.05)
    said = sum(message["role"] == "user" for message in messages)
    return f"You told me {said} things."


async def main(directory: str, turns: int) -> None:
    async with sessionlog.open(directory) as store:
        for number in range(turns):
            window = await store.window("chat:1", tokens=8_000)
            if not window.messages or window.messages[-1]["role"] == "assistant":
                # A platform may deliver it twice; its id is taken once.
                told = {"role": "user", "content": f"thing {await store.count('chat:1')}"}
                await store.append_once("chat:1", f"update-{await store.count('chat:1')}", told)
                window = await store.window("chat:1", tokens=8_000)
            # Killed before this, it answers after its next start.
            answer = await model(window.messages)
            await store.append("chat:1", {"role": "assistant", "content": answer})
            print(answer, flush=True)


asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000))
