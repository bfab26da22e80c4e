"""The OpenAI Agents SDK over a store, with a model that needs no key.

    pip install 'sessionlog[openai-agents]'
    python examples/openai_agents_session.py sessions
"""

import asyncio
import sys
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

import sessionlog
from sessionlog.openai_agents import Session


class Stub(Model):
    """Says how many items of the conversation it was given."""

    async def get_response(self, system_instructions: Any, input: Any, *a: Any, **k: Any) -> Any:
        text = f"I know {1 if isinstance(input, str) else len(input)} items."
        part = ResponseOutputText(type="output_text", text=text, annotations=[])
        message = ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[part]
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *a: Any, **k: Any) -> Any:
        raise NotImplementedError


async def main(directory: str) -> None:
    agent = Agent(name="stub", model=Stub())
    async with sessionlog.open(directory) as store:
        session = Session("user-1", store)
        result = await Runner.run(agent, "hi", session=session)
        print(result.final_output)
        # Another way to go on from before that turn.
        other = await session.fork(turn=1)
        print(f"{session.session_id} was forked as {other.session_id}")


asyncio.run(main(sys.argv[1]))
